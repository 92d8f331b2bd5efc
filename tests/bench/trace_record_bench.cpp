// record_ns, record_bytes: a decision into the trace, beside reading the clock alone (which is most of it).
// Chunk changes, page faults and disk allocation are included: the loop writes far more than one chunk per
// run.
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/trace/reader.h"
#include "runtime/trace/writer.h"
#include "tests/bench/bench_rows.h"

int main(int argc, char** argv) {
  using namespace shunt;
  bench::Rows rows(argc, argv);
  char folder[] = "/tmp/shunt-bench-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  trace::FileOptions options;
  options.directory = std::string(folder) + "/run.shunt";
  options.ring_bytes = 64ull << 20;  // steady state of a long run without filling the disk
  if (!trace::start(options)) return 1;
  constexpr uint64_t kCalls = 400'000;
  uint64_t sum = 0;
  auto write = [&] {
    trace::decide({.feature = trace::Feature::graph, .action = trace::Action::graph_replay, .bytes = sum++});
  };
  for (uint64_t i = 0; i < 1'500'000; i++) write();  // once around the ring: every chunk is mapped
  auto p = rows.alternate(
      [&] { return bench::ns_per_call(kCalls, write); },
      [&] { return bench::ns_per_call(kCalls, [&] { bench::keep(sum += clock::now_ns()); }); });
  rows.emit({"record_ns", "ns", "clock read alone", 35}, p.subject, p.baseline);

  // Without the ring each chunk is new: allocated on disk, mapped, faulted in.
  trace::stop();
  options.ring_bytes = 0;
  options.directory = std::string(folder) + "/fresh.shunt";
  if (!trace::start(options)) return 1;
  auto fresh = rows.alternate(
      [&] { return bench::ns_per_call(kCalls, write); },
      [&] { return bench::ns_per_call(kCalls, [&] { bench::keep(sum += clock::now_ns()); }); });
  rows.emit({"record_fresh_disk_ns", "ns", "clock read alone"}, fresh.subject, fresh.baseline);
  trace::stop();

  uint64_t records = 0, bytes = 0;
  for (const auto& file : trace::trace_files(options.directory)) {
    auto reader = trace::Reader::open(file);
    if (!reader) return 1;
    reader->for_each([&](const trace::RecordHeader& r, uint32_t) {
      if (r.type == static_cast<uint16_t>(trace::RecordType::decision)) records++, bytes += r.size;
    });
  }
  rows.emit({"record_bytes", "bytes", "", 64},
            std::vector<double>(5, static_cast<double>(bytes) / static_cast<double>(records)));
  nftw(
      folder, [](const char* path, const struct stat*, int, struct FTW*) { return remove(path); }, 16,
      FTW_DEPTH | FTW_PHYS);
  return rows.finish();
}
