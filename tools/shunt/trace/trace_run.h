// A recorded run as the trace verbs see it: the processes of a NAME.shunt directory, their clocks, and one
// pass over all records in bounded memory. Read-only; one thread.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/trace/format_gpu.h"
#include "runtime/trace/reader.h"

namespace shunt::tool {

struct TraceProcess {
  trace::Reader reader;
  // Clock snapshots: engine time, monotonic (middle of the bracket), realtime, boottime; in time order.
  struct Clock {
    uint64_t engine, monotonic, realtime, boottime;
  };
  std::vector<Clock> clocks, gpu_clocks;         // gpu: realtime is CUPTI's own stamp
  std::map<uint32_t, std::string> thread_names;  // every thread that wrote; "" without a name
  std::map<uint32_t, std::string> stream_names;  // shunt's own, by CUPTI's number
  uint32_t pid() const { return reader.header().pid; }
  int32_t rank() const { return reader.header().rank; }
  // CUPTI's stamps (realtime) in the file's engine time, by the nearest snapshot before, CUPTI's own where
  // there is one; 0 stays 0.
  uint64_t engine_from_realtime(uint64_t realtime_ns) const;
};

struct TraceRun {
  std::string path;
  std::vector<std::unique_ptr<TraceProcess>> processes;
  std::vector<std::string> unreadable;              // one line a file that could not be opened
  uint64_t records = 0, first_ns = 0, last_ns = 0;  // engine time over all processes
  trace::Losses losses() const;
};

// False with one line when nothing could be read; single bad files are listed in `unreadable` instead.
bool open_run(const std::string& path, TraceRun& run, std::string& error);

// Called about every half second with records done of all; set by the tool on a terminal.
using Progress = std::function<void(uint64_t done, uint64_t all)>;

struct RecordContext {
  const TraceProcess& process;
  uint32_t process_index, tid;
};

// Visitor: void operator()(const RecordContext&, const trace::RecordHeader&). Pages are given back after each
// chunk, so that the resident size does not grow with the file.
template <class Visitor>
void visit_records(const TraceRun& run, Visitor&& visitor, const Progress& progress = {}) {
  uint64_t done = 0, last_report = 0;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    const TraceProcess& process = *run.processes[p];
    for (const trace::Reader::Chunk& chunk : process.reader.chunks()) {
      const RecordContext context{process, p, chunk.tid};
      for (uint32_t at = 0; at < chunk.bytes;) {
        const auto& record = *reinterpret_cast<const trace::RecordHeader*>(chunk.records + at);
        visitor(context, record);
        at += record.size;
        ++done;
      }
      if (chunk.kind == trace::ChunkKind::data) {
        const uintptr_t start = (reinterpret_cast<uintptr_t>(chunk.records) + 4095) & ~uintptr_t{4095};
        const uintptr_t end = (reinterpret_cast<uintptr_t>(chunk.records) + chunk.bytes) & ~uintptr_t{4095};
        if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
      }
      if (progress && done - last_report > 500'000) progress(done, run.records), last_report = done;
    }
  }
  if (progress) progress(run.records, run.records);
}

inline const trace::DecisionRecord* as_decision(const trace::RecordHeader& r) {
  const auto type = static_cast<trace::RecordType>(r.type);
  const bool is = type == trace::RecordType::decision || type == trace::RecordType::decision_begin ||
                  type == trace::RecordType::decision_end;
  return is && r.size >= sizeof(trace::DecisionRecord) ? reinterpret_cast<const trace::DecisionRecord*>(&r)
                                                       : nullptr;
}
inline const trace::CallRecord* as_call(const trace::RecordHeader& r) {
  return static_cast<trace::RecordType>(r.type) == trace::RecordType::call &&
                 r.size >= sizeof(trace::CallRecord)
             ? reinterpret_cast<const trace::CallRecord*>(&r)
             : nullptr;
}
inline const trace::CounterRecord* as_counter(const trace::RecordHeader& r) {
  return static_cast<trace::RecordType>(r.type) == trace::RecordType::counter &&
                 r.size >= sizeof(trace::CounterRecord)
             ? reinterpret_cast<const trace::CounterRecord*>(&r)
             : nullptr;
}
inline const trace::GpuRecord* as_gpu(const trace::RecordHeader& r) {
  return r.type >= 32 && r.type <= 36 && r.size >= sizeof(trace::GpuRecord)
             ? reinterpret_cast<const trace::GpuRecord*>(&r)
             : nullptr;
}

inline const trace::ApiRecord* as_api(const trace::RecordHeader& r) {
  return static_cast<trace::RecordType>(r.type) == trace::RecordType::cupti_api &&
                 r.size >= sizeof(trace::ApiRecord)
             ? reinterpret_cast<const trace::ApiRecord*>(&r)
             : nullptr;
}
inline const trace::CounterRecord* as_external(const trace::RecordHeader& r) {
  return static_cast<trace::RecordType>(r.type) == trace::RecordType::cupti_external &&
                 r.size >= sizeof(trace::CounterRecord)
             ? reinterpret_cast<const trace::CounterRecord*>(&r)
             : nullptr;
}

// "stream 11", with the name of one of shunt's own: "stream 11 (shunt comm)".
std::string stream_name(const TraceProcess& process, uint32_t stream);
std::string_view slot_name(uint16_t slot);  // "cuLaunchKernel"; "?" outside the table
// "kernel name", "Memcpy HtoD", "Memset", "graph 7"; names as the vendor's tools print them.
std::string gpu_name(const TraceProcess& process, const trace::GpuRecord& record);

}  // namespace shunt::tool
