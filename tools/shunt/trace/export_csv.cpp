// One row a record, every record that carries meaning on its own; empty cells where a column does not apply.
#include "tools/shunt/trace/exports.h"
#include "tools/shunt/trace/text_sink.h"

namespace shunt::tool {

namespace {
const char* kind_name(trace::RecordType type) {
  switch (type) {
    case trace::RecordType::decision:
      return "decision";
    case trace::RecordType::decision_begin:
      return "decision_begin";
    case trace::RecordType::decision_end:
      return "decision_end";
    case trace::RecordType::cupti_kernel:
      return "kernel";
    case trace::RecordType::cupti_memcpy:
      return "memcpy";
    case trace::RecordType::cupti_memset:
      return "memset";
    case trace::RecordType::cupti_graph:
      return "graph";
    default:
      return "sync";
  }
}
}  // namespace

bool export_csv(const TraceRun& run, const std::string& path, const Progress& progress, std::string& error) {
  TextSink out(path);
  out.put(
      "time_ns,duration_ns,kind,pid,tid,name,outcome,reason,id,device,context,stream,bytes,correlation,"
      "result\n");
  visit_records(
      run,
      [&](const RecordContext& c, const trace::RecordHeader& r) {
        const auto place = [&] { out.put(",").number(c.process.pid()).put(",").number(c.tid).put(","); };
        if (const auto* d = as_decision(r)) {
          out.number(r.t_ns).put(",,").put(kind_name(static_cast<trace::RecordType>(r.type)));
          place();
          out.put(trace::feature_name(static_cast<trace::Feature>(d->feature)))
              .put(":")
              .put(trace::action_name(static_cast<trace::Action>(d->action)));
          out.put(",")
              .put(trace::outcome_name(static_cast<trace::Outcome>(d->outcome)))
              .put(",")
              .put(reason_name(static_cast<Reason>(d->reason)));
          out.put(",")
              .number(r.id)
              .put(",")
              .signed_number(d->device)
              .put(",")
              .number(d->context)
              .put(",")
              .number(d->stream);
          out.put(",").number(d->bytes).put(",").number(d->correlation).put(",\n");
        } else if (const auto* call = as_call(r)) {
          out.number(r.t_ns).put(",,call");
          place();
          out.put(slot_name(call->slot))
              .put(",,,")
              .number(r.id)
              .put(",,,")
              .number(call->stream)
              .put(",")
              .number(call->value)
              .put(",,")
              .signed_number(call->result)
              .put("\n");
        } else if (const auto* api = as_api(r)) {
          out.number(c.process.engine_from_realtime(api->start))
              .put(",")
              .number(api->end > api->start ? api->end - api->start : 0)
              .put(",api,")
              .number(c.process.pid())
              .put(",")
              .number(api->thread)
              .put(",");
          out.csv(c.process.reader.string(api->name))
              .put(",,,")
              .number(r.id)
              .put(",,,,,")
              .number(api->correlation)
              .put(",")
              .number(api->result)
              .put("\n");
        } else if (const auto* counter = as_counter(r)) {
          out.number(r.t_ns).put(",,counter");
          place();
          out.csv(c.process.reader.string(r.id)).put(",,,,,,,").number(counter->value).put(",,\n");
        } else if (const auto* g = as_gpu(r)) {
          const uint64_t start = c.process.engine_from_realtime(g->start);
          out.number(start)
              .put(",")
              .number(g->end > g->start ? g->end - g->start : 0)
              .put(",")
              .put(kind_name(static_cast<trace::RecordType>(r.type)));
          place();
          out.csv(gpu_name(c.process, *g))
              .put(",,,")
              .number(r.id)
              .put(",")
              .number(g->device)
              .put(",")
              .number(g->context)
              .put(",")
              .number(g->stream);
          out.put(",").number(g->bytes).put(",").number(g->correlation).put(",\n");
        }
      },
      progress);
  return out.close(error);
}

}  // namespace shunt::tool
