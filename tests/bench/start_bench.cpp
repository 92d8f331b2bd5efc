// process_start_added_ms: what the preload adds to the start and end of a program that has nothing to do with
// CUDA.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/bench/bench_rows.h"

using namespace shunt;

namespace {

// Median milliseconds from spawn to reaped over a few starts, with and without the preload in turn; NaN if
// one fails.
double starts(bool preloaded, int count) {
  const char* arguments[] = {"/bin/true", nullptr};
  const char* plain[] = {"LC_ALL=C", nullptr};
  const char* preload[] = {"LC_ALL=C", "LD_PRELOAD=" SHUNT_PRELOAD, nullptr};
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const uint64_t begin = bench::now_ns();
    pid_t pid = 0;
    int status = 0;
    if (posix_spawn(&pid, arguments[0], nullptr, nullptr, const_cast<char**>(arguments),
                    const_cast<char**>(preloaded ? preload : plain)) ||
        waitpid(pid, &status, 0) != pid || status)
      return NAN;
    times.push_back(static_cast<double>(bench::now_ns() - begin) * 1e-6);
  }
  return bench::median(times);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Rows rows(argc, argv);
  const int count = rows.quick() ? 60 : 400;
  auto pair = rows.alternate([&] { return starts(true, count); }, [&] { return starts(false, count); });
  rows.emit({"process_start_added_ms", "ms", "/bin/true without the preload", 0.1}, pair.added(),
            pair.baseline);
  return rows.finish();
}
