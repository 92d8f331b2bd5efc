// Writes a trace through the real writer, for the tests and benches of the trace verbs.
//   make_trace DIRECTORY COUNT [hostile] [gpu] [threads=N]
// COUNT decisions spread over the threads, with calls, counters and (gpu) device records tied to every tenth
// decision.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/link/generated/slots.h"
#include "runtime/trace/format_gpu.h"
#include "runtime/trace/writer.h"

using namespace shunt;

namespace {

uint64_t realtime() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void device_record(trace::Feature feature, uint64_t decision, uint64_t i, uint64_t name, uint64_t base) {
  auto* g = static_cast<trace::GpuRecord*>(trace::detail::reserve(sizeof(trace::GpuRecord)));
  if (!g) return;
  const trace::RecordType types[] = {trace::RecordType::cupti_kernel, trace::RecordType::cupti_memcpy,
                                     trace::RecordType::cupti_memset, trace::RecordType::cupti_graph};
  *g = {};
  g->header = {static_cast<uint16_t>(types[i % 4]), sizeof(trace::GpuRecord),
               static_cast<uint32_t>(feature) + 1, clock::now_ns(), decision};
  if (i % 50 != 0) {  // every fiftieth lost its stamps
    g->start = base + i * 1000;
    g->end = g->start + 1700;  // longer than the distance: neighbours on a stream overlap
  }
  g->correlation = static_cast<uint32_t>(i + 1);
  g->device = static_cast<uint32_t>(i / 4 % 2);
  g->context = 1;
  g->stream = static_cast<uint32_t>(7 + i % 3);
  g->name = static_cast<uint32_t>(name);
  g->bytes = i % 4 == 1 || i % 4 == 2 ? 4096 : 0;
  g->copy_kind = 1;
  g->graph_id = i % 4 == 3 ? 5 : 0;
  g->grid[0] = g->grid[1] = g->grid[2] = 1;
  g->block[0] = 128;
  g->block[1] = g->block[2] = 1;
  g->registers = 32;
  trace::detail::commit(sizeof(trace::GpuRecord));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  bool hostile = false, gpu = false;
  unsigned threads = 2;
  for (int i = 3; i < argc; ++i) {
    hostile |= !std::strcmp(argv[i], "hostile");
    gpu |= !std::strcmp(argv[i], "gpu");
    if (!std::strncmp(argv[i], "threads=", 8)) threads = static_cast<unsigned>(std::atoi(argv[i] + 8));
  }
  trace::FileOptions options;
  options.directory = argv[1];
  options.run_id = "test";
  options.max_bytes = 8ull << 30;
  if (!trace::start(options)) return 1;
  const std::string evil =
      std::string("k<a & b>(\"x\\y\")\n\t") + '\x01' + "\xff\xfe\xc0\xaf \xed\xa0\x80 end";
  const uint64_t name = trace::string_id(hostile ? evil : "void kernel<float>(float*, int)");
  const uint64_t counter = trace::string_id(hostile ? "bytes \"used\"\n" : "device bytes used");
  trace::setting("graphs", hostile ? "<script>alert(1)</script>" : "on", "default");
  const uint64_t base = realtime();
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (uint64_t i = t; i < count; i += threads) {
        trace::Decision d;
        d.feature = static_cast<trace::Feature>(1 + i % 4);
        d.action = i % 4 == 1   ? trace::Action::graph_replay
                   : i % 4 == 3 ? trace::Action::oom_retry
                                : trace::Action::choose_device;
        d.outcome = i % 5 == 4 ? trace::Outcome::declined : trace::Outcome::applied;
        d.reason = i % 5 == 4 ? Reason::application_capture : Reason::none;
        d.device = static_cast<int16_t>(i % 2);
        d.stream = 0x7f0000001000 + i % 3;
        d.bytes = i % 4 == 3 ? i * 512 : 0;
        d.correlation = gpu && i % 10 == 0 ? static_cast<uint32_t>(i + 1) : 0;
        uint64_t id;
        if (i % 16 == 0) {
          id = trace::decide(d, trace::RecordType::decision_begin);
          trace::decide(d, trace::RecordType::decision_end, id);
        } else {
          id = trace::decide(d);
        }
        if (gpu && i % 10 == 0) device_record(d.feature, id, i, name, base);
        if (i % 100 == 0) trace::call(SHUNT_SLOT_cuLaunchKernel, 0, 0, 0x1234, 7, 128);
        if (i % 1000 == 0) trace::counter(counter, i * 1000);
      }
    });
  }
  for (auto& w : workers) w.join();
  trace::stop();
  std::printf("%s\n", trace::file_path());
  return 0;
}
