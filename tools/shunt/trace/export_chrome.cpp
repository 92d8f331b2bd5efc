// Chrome trace JSON with Kineto's fields, so that tools for PyTorch traces read it: times in microseconds
// relative to baseTimeNanoseconds, device rows as pid = device and tid = stream, flows of category ac2g from
// decision to device work.
#include <map>

#include "tools/shunt/trace/exports.h"
#include "tools/shunt/trace/text_sink.h"

namespace shunt::tool {

namespace {

class Chrome {
 public:
  Chrome(const TraceRun& run, TextSink& out) : run_(run), out_(out) {}

  void header() {
    uint64_t base = 0;
    const auto& first = *run_.processes.front();
    if (!first.clocks.empty()) {
      const auto& c = first.clocks.front();
      base = c.realtime - c.engine + run_.first_ns;  // wall time of ts 0
    }
    const int32_t rank = std::max(0, first.rank());
    out_.put(
            "{\"schemaVersion\": 1, \"deviceProperties\": [], \"distributedInfo\": {\"backend\": \"nccl\", "
            "\"rank\": ")
        .signed_number(rank);
    out_.put(", \"world_size\": ")
        .number(std::max<size_t>(1, run_.processes.size()))
        .put("}, \"displayTimeUnit\": \"ns\", \"baseTimeNanoseconds\": ")
        .number(base);
    out_.put(",\n\"traceEvents\": [\n");
    for (const auto& p : run_.processes) {
      metadata("process_name", p->pid(), 0, std::string("shunt: ") + p->reader.header().executable);
      for (const auto& [tid, name] : p->thread_names)
        if (!name.empty()) metadata("thread_name", p->pid(), tid, name);
    }
  }

  void operator()(const RecordContext& c, const trace::RecordHeader& r) {
    if (const auto* d = as_decision(r))
      decision(c, r, *d);
    else if (const auto* call = as_call(r))
      this->call(c, r, *call);
    else if (const auto* counter = as_counter(r))
      this->counter(c, r, *counter);
    else if (const auto* a = as_api(r))
      api(c, r, *a);
    else if (const auto* g = as_gpu(r))
      gpu(c, r, *g);
  }

  void footer() {
    for (const auto& [device, streams] : gpu_rows_) {
      metadata("process_name", device, 0, "GPU " + std::to_string(device));
      for (const auto& [stream, name] : streams) metadata("thread_name", device, stream, name);
    }
    out_.put("\n]}\n");
  }

 private:
  void next() {
    if (!first_) out_.put(",\n");
    first_ = false;
  }
  void metadata(std::string_view what, uint64_t pid, uint64_t tid, std::string_view name) {
    next();
    out_.put("{\"ph\": \"M\", \"name\": \"")
        .put(what)
        .put("\", \"ts\": 0, \"pid\": ")
        .number(pid)
        .put(", \"tid\": ")
        .number(tid)
        .put(", \"args\": {\"name\": ")
        .json(name)
        .put("}}");
  }
  void begin(const char* phase, std::string_view category, uint64_t pid, uint64_t tid, uint64_t t_ns) {
    next();
    out_.put("{\"ph\": \"")
        .put(phase)
        .put("\", \"cat\": \"")
        .put(category)
        .put("\", \"pid\": ")
        .number(pid)
        .put(", \"tid\": ")
        .number(tid)
        .put(", \"ts\": ")
        .micros(t_ns > run_.first_ns ? t_ns - run_.first_ns : 0);
  }

  void decision(const RecordContext& c, const trace::RecordHeader& r, const trace::DecisionRecord& d) {
    const auto type = static_cast<trace::RecordType>(r.type);
    const char* phase = type == trace::RecordType::decision         ? "X"
                        : type == trace::RecordType::decision_begin ? "B"
                                                                    : "E";
    begin(phase, "user_annotation", c.process.pid(), c.tid, r.t_ns);
    if (*phase == 'X') out_.put(", \"dur\": 0");
    out_.put(", \"name\": \"shunt ")
        .put(trace::feature_name(static_cast<trace::Feature>(d.feature)))
        .put(": ")
        .put(trace::action_name(static_cast<trace::Action>(d.action)));
    out_.put("\", \"args\": {\"External id\": ")
        .number(r.id)
        .put(", \"outcome\": \"")
        .put(trace::outcome_name(static_cast<trace::Outcome>(d.outcome)));
    out_.put("\", \"reason\": \"")
        .put(reason_name(static_cast<Reason>(d.reason)))
        .put("\", \"device\": ")
        .signed_number(d.device)
        .put(", \"stream handle\": ")
        .number(d.stream);
    out_.put(", \"bytes\": ").number(d.bytes).put(", \"correlation\": ").number(d.correlation).put("}}");
    if (d.correlation && *phase != 'E') flow("s", c.process.pid(), c.tid, r.t_ns, d.correlation);
  }

  void call(const RecordContext& c, const trace::RecordHeader& r, const trace::CallRecord& call) {
    // Instants: `stream` and a length are what readers of Kineto's files know device rows and calls by, and
    // only CUPTI has those.
    begin("i", "cuda_driver", c.process.pid(), c.tid, r.t_ns);
    out_.put(", \"s\": \"t\", \"name\": \"")
        .put(slot_name(call.slot))
        .put("\", \"args\": {\"result\": ")
        .signed_number(call.result)
        .put(", \"stream handle\": ")
        .number(call.stream)
        .put(", \"object\": ")
        .number(r.id)
        .put("}}");
  }

  void counter(const RecordContext& c, const trace::RecordHeader& r, const trace::CounterRecord& counter) {
    begin("C", "counter", c.process.pid(), c.tid, r.t_ns);
    out_.put(", \"name\": ")
        .json(c.process.reader.string(r.id))
        .put(", \"args\": {\"value\": ")
        .number(counter.value)
        .put("}}");
  }

  // The call that started the device rows of its correlation, with the times CUPTI saw.
  void api(const RecordContext& c, const trace::RecordHeader& r, const trace::ApiRecord& a) {
    const uint64_t start = c.process.engine_from_realtime(a.start);
    if (start == 0 || a.end < a.start) return;
    begin("X", "cuda_driver", c.process.pid(), a.thread, start);
    out_.put(", \"dur\": ").micros(a.end - a.start).put(", \"name\": ").json(c.process.reader.string(a.name));
    out_.put(", \"args\": {\"External id\": ").number(r.id).put(", \"correlation\": ").number(a.correlation);
    out_.put(", \"result\": ").number(a.result).put("}}");
    flow("s", c.process.pid(), a.thread, start, a.correlation);
  }

  void gpu(const RecordContext& c, const trace::RecordHeader& r, const trace::GpuRecord& g) {
    const uint64_t start = c.process.engine_from_realtime(g.start);
    if (start == 0 || g.end < g.start) return;  // stamps lost; the summary counts them
    static constexpr const char* kCategory[] = {"kernel", "gpu_memcpy", "gpu_memset", "kernel", "cuda_sync"};
    std::string& name = gpu_rows_[g.device][g.stream];
    if (name.empty()) name = stream_name(c.process, g.stream);
    begin("X", kCategory[r.type - 32], g.device, g.stream, start);
    out_.put(", \"dur\": ").micros(g.end - g.start).put(", \"name\": ").json(gpu_name(c.process, g));
    out_.put(", \"args\": {\"External id\": ")
        .number(r.id)
        .put(", \"process\": ")
        .number(c.process.pid())
        .put(", \"device\": ")
        .number(g.device)
        .put(", \"context\": ")
        .number(g.context)
        .put(", \"stream\": ")
        .number(g.stream)
        .put(", \"correlation\": ")
        .number(g.correlation);
    if (static_cast<trace::RecordType>(r.type) == trace::RecordType::cupti_kernel) {
      out_.put(", \"registers per thread\": ")
          .number(g.registers)
          .put(", \"shared memory\": ")
          .number(uint64_t{g.static_shared} + g.dynamic_shared);
      out_.put(", \"grid\": [")
          .number(g.grid[0])
          .put(", ")
          .number(g.grid[1])
          .put(", ")
          .number(g.grid[2])
          .put("], \"block\": [")
          .number(g.block[0])
          .put(", ")
          .number(g.block[1])
          .put(", ")
          .number(g.block[2])
          .put("]");
    } else if (g.bytes) {
      out_.put(", \"bytes\": ").number(g.bytes);
    }
    if (g.graph_id)
      out_.put(", \"graph id\": ").number(g.graph_id).put(", \"graph node id\": ").number(g.graph_node);
    out_.put("}}");
    if (g.correlation) flow("f", g.device, g.stream, start, g.correlation);
  }

  void flow(const char* phase, uint64_t pid, uint64_t tid, uint64_t t_ns, uint32_t id) {
    begin(phase, "ac2g", pid, tid, t_ns);
    out_.put(", \"name\": \"ac2g\", \"id\": ").number(id).put(*phase == 'f' ? ", \"bp\": \"e\"}" : "}");
  }

  const TraceRun& run_;
  TextSink& out_;
  bool first_ = true;
  std::map<uint32_t, std::map<uint32_t, std::string>> gpu_rows_;  // device, stream -> name
};

}  // namespace

bool export_chrome(const TraceRun& run, const std::string& path, const Progress& progress,
                   std::string& error) {
  TextSink out(path);
  Chrome chrome(run, out);
  chrome.header();
  visit_records(run, chrome, progress);
  chrome.footer();
  return out.close(error);
}

}  // namespace shunt::tool
