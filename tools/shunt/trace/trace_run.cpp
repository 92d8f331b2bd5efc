#include "tools/shunt/trace/trace_run.h"

#include <algorithm>
#include <unordered_map>

#include "tools/shunt/trace/symbols.h"

namespace shunt::tool {

namespace {
constexpr const char* kSlotNames[] = {
#define SHUNT_SLOT_INFO(entry, base, version, flag, cls, library) #base,
#include "runtime/link/generated/slot_info.inc"
#undef SHUNT_SLOT_INFO
};

// The chunk walk of visit_records needs no clocks, so they are collected before, from the few clock and
// thread records.
void collect(TraceProcess& process, TraceRun& run) {
  for (const auto& chunk : process.reader.chunks()) {
    for (uint32_t at = 0; at < chunk.bytes;) {
      const auto& r = *reinterpret_cast<const trace::RecordHeader*>(chunk.records + at);
      at += r.size;
      const auto type = static_cast<trace::RecordType>(r.type);
      if (type == trace::RecordType::string || type == trace::RecordType::module) continue;
      if (r.t_ns) {
        run.first_ns = run.first_ns ? std::min(run.first_ns, r.t_ns) : r.t_ns;
        run.last_ns = std::max(run.last_ns, r.t_ns);
      }
      if (type == trace::RecordType::clock && r.size >= sizeof(trace::ClockRecord)) {
        const auto& c = reinterpret_cast<const trace::ClockRecord&>(r);
        auto& clocks = r.flags & trace::kClockOfGpu ? process.gpu_clocks : process.clocks;
        clocks.push_back({r.t_ns, c.monotonic_before + (c.monotonic_after - c.monotonic_before) / 2,
                          c.realtime, c.boottime});
      }
      const auto* named = reinterpret_cast<const trace::CounterRecord*>(&r);
      const bool has_name = r.size >= sizeof(trace::CounterRecord) && named->value != 0;
      if (type == trace::RecordType::thread) {
        std::string& name = process.thread_names[static_cast<uint32_t>(r.id)];
        if (has_name) name = process.reader.string(named->value);
      }
      if (type == trace::RecordType::stream && has_name && r.flags)
        process.stream_names[r.flags] = process.reader.string(named->value);
    }
    if (chunk.kind == trace::ChunkKind::data) {
      const uintptr_t start = (reinterpret_cast<uintptr_t>(chunk.records) + 4095) & ~uintptr_t{4095};
      const uintptr_t end = (reinterpret_cast<uintptr_t>(chunk.records) + chunk.bytes) & ~uintptr_t{4095};
      if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
    }
  }
  for (auto* clocks : {&process.clocks, &process.gpu_clocks})
    std::sort(clocks->begin(), clocks->end(),
              [](const auto& a, const auto& b) { return a.realtime < b.realtime; });
}
}  // namespace

uint64_t TraceProcess::engine_from_realtime(uint64_t realtime_ns) const {
  const std::vector<Clock>& known = gpu_clocks.empty() ? clocks : gpu_clocks;
  if (realtime_ns == 0 || known.empty()) return 0;
  auto at = std::upper_bound(known.begin(), known.end(), realtime_ns,
                             [](uint64_t t, const Clock& c) { return t < c.realtime; });
  if (at != known.begin()) --at;
  return at->engine + (realtime_ns - at->realtime);
}

trace::Losses TraceRun::losses() const {
  trace::Losses all;
  for (const auto& p : processes) {
    const auto& l = p->reader.losses();
    all.dropped += l.dropped;
    all.overwritten += l.overwritten;
    all.bad_chunks += l.bad_chunks;
    all.torn_chunks += l.torn_chunks;
    all.truncated |= l.truncated;
  }
  return all;
}

bool open_run(const std::string& path, TraceRun& run, std::string& error) {
  run.path = path;
  const std::vector<std::string> files = trace::trace_files(path);
  if (files.empty())
    return error = "'" + path +
                   "' holds no trace (.shnt files): give the NAME.shunt folder that shunt run -o wrote",
           false;
  for (const std::string& file : files) {
    auto reader = trace::Reader::open(file);
    if (!reader.ok()) {
      run.unreadable.push_back(reader.error().message);
      continue;
    }
    auto process = std::make_unique<TraceProcess>(TraceProcess{std::move(*reader), {}, {}, {}, {}});
    run.records += process->reader.record_count();
    collect(*process, run);
    run.processes.push_back(std::move(process));
  }
  if (run.processes.empty()) return error = run.unreadable.front(), false;
  return true;
}

std::string stream_name(const TraceProcess& process, uint32_t stream) {
  const auto name = process.stream_names.find(stream);
  return "stream " + std::to_string(stream) +
         (name == process.stream_names.end() ? "" : " (" + name->second + ")");
}

std::string_view slot_name(uint16_t slot) { return slot < std::size(kSlotNames) ? kSlotNames[slot] : "?"; }

namespace {
// Kept: a kernel's name comes with each of its records.
const std::string& kernel_name(std::string_view name) {
  static std::unordered_map<std::string_view, std::string> known;  // the file stays mapped
  auto [at, fresh] = known.emplace(name, std::string());
  if (fresh) at->second = demangled(std::string(name));
  return at->second;
}
}  // namespace

std::string gpu_name(const TraceProcess& process, const trace::GpuRecord& r) {
  static constexpr const char* kCopies[] = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                            "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  switch (static_cast<trace::RecordType>(r.header.type)) {
    case trace::RecordType::cupti_kernel: {
      const auto name = process.reader.string(r.name);
      return name.empty() ? "kernel" : kernel_name(name);
    }
    case trace::RecordType::cupti_memcpy:
      return std::string("Memcpy ") + (r.copy_kind < std::size(kCopies) ? kCopies[r.copy_kind] : "?");
    case trace::RecordType::cupti_memset:
      return "Memset";
    case trace::RecordType::cupti_graph:
      return "graph " + std::to_string(r.graph_id);
    default:
      return "sync";
  }
}

}  // namespace shunt::tool
