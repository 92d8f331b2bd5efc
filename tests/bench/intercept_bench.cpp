// Rows of BENCH.md `intercept` that belong to libshunt.so: one child process per sample, with and without the
// preload in turn. hooked_off_added_ns: a hook that finds no engine on (one load) and calls the real
// function.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench_rows.h"

using namespace shunt;

namespace {

// Nanoseconds a call, or NaN when the child failed (which fails the row).
double sample(const char* way, bool preloaded, bool quick) {
  std::vector<const char*> environment = {"LC_ALL=C"};
  if (preloaded)
    environment = {"LC_ALL=C", "LD_PRELOAD=" SHUNT_PRELOAD, "SHUNT_RT_PATH=" SHUNT_STUB_RT,
                   "STUB_RT_FORWARD=1"};
  environment.push_back(nullptr);
  const char* arguments[] = {SHUNT_CHILD, way, quick ? "200000" : "2000000", nullptr};
  int ends[2];
  if (pipe(ends)) return NAN;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t pid = 0;
  int failed = posix_spawn(&pid, SHUNT_CHILD, &actions, nullptr, const_cast<char**>(arguments),
                           const_cast<char**>(environment.data()));
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char text[64] = "";
  ssize_t got = failed ? 0 : read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  int status = 1;
  if (!failed) waitpid(pid, &status, 0);
  return got > 0 && status == 0 ? atof(text) : NAN;
}

void measure(bench::Rows& rows, const char* way, const bench::Row& row) {
  auto pair = rows.alternate([&] { return sample(way, true, rows.quick()); },
                             [&] { return sample(way, false, rows.quick()); });
  rows.emit(row, pair.added(), pair.baseline);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Rows rows(argc, argv);
  measure(rows, "harmless", {"harmless_added_ns", "ns", "same call without the preload, looked up", 0.5});
  measure(rows, "linked", {"harmless_linked_added_ns", "ns", "same call without the preload, linked", 2});
  measure(rows, "hooked", {"hooked_off_added_ns", "ns", "same call without the preload, looked up", 10});
  measure(rows, "dlsym",
          {"dlsym_added_ns", "ns", "dlsym of another library's symbol without the preload", 20});
  measure(rows, "dlsym_listed",
          {"dlsym_listed_added_ns", "ns", "dlsym of a driver function without the preload", {}});
  measure(rows, "proc_address",
          {"proc_address_added_ns", "ns", "cuGetProcAddress of a driver that does nothing", {}});
  return rows.finish();
}
