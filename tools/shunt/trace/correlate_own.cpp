#include "tools/shunt/trace/correlate_own.h"

#include <fmt/format.h>

namespace shunt::tool {

OwnRecords::OwnRecords(const TraceRun& run) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> decision_of;  // (pid, correlation)
  std::map<std::pair<uint32_t, uint32_t>, Work> unnamed;          // work that came before its id did
  for (const auto& p : run.processes)
    processes_[p->pid()].closed |= p->reader.state() == trace::FileState::closed;
  visit_records(run, [&](const RecordContext& c, const trace::RecordHeader& r) {
    const uint32_t pid = c.process.pid();
    if (const auto* d = as_decision(r)) {
      const auto action = static_cast<trace::Action>(d->action);
      if (action == trace::Action::gpu_trace) {
        if (d->outcome == 0)
          processes_[pid].recording = true;
        else
          processes_[pid].refused = reason_name(static_cast<Reason>(d->reason));
      }
      if (static_cast<trace::RecordType>(r.type) == trace::RecordType::decision_begin || d->outcome != 0)
        return;
      wanted[{pid, r.id}] = {std::string(trace::feature_name(static_cast<trace::Feature>(d->feature))),
                             action};
    } else if (const auto* g = as_gpu(r)) {
      Work& w = r.id ? work_[{pid, r.id}] : unnamed[{pid, g->correlation}];
      ++w.records;
      if (g->start == 0 || g->end < g->start)
        ++w.unstamped;
      else
        w.ns += g->end - g->start;
    } else if (const auto* external = as_external(r)) {
      if (r.flags & trace::kExternalLeader) {
        leaders_[{pid, r.id}] = external->value;
      } else {
        calls_[{pid, r.id}] = static_cast<uint32_t>(external->value);
        decision_of[{pid, static_cast<uint32_t>(external->value)}] = r.id;
      }
    } else if (const auto* counter = as_counter(r)) {
      if (c.process.reader.string(r.id) == "cupti records lost") processes_[pid].lost += counter->value;
    }
  });
  for (const auto& [call, work] : unnamed) {
    const auto decision = decision_of.find(call);
    if (decision == decision_of.end()) continue;
    Work& w = work_[{call.first, decision->second}];
    w.ns += work.ns, w.records += work.records, w.unstamped += work.unstamped;
  }
}

void OwnRecords::match(Correlation& out) {
  for (auto at = wanted.begin(); at != wanted.end();) {
    const DecisionKey& key = at->first;
    auto work = work_.find(key);
    const char* tier = "external-id";
    bool counts = true;
    if (work == work_.end()) {
      // Several decisions, one call: the time is counted once, with the first.
      if (const auto leader = leaders_.find(key); leader != leaders_.end())
        work = work_.find({key.first, leader->second}), tier = "external-id of its group", counts = false;
    }
    if (work == work_.end() || work->second.unstamped == work->second.records) {
      ++at;
      continue;
    }
    ++out.matched[tier];
    if (counts) out.gpu_ns[at->second.feature] += work->second.ns;
    at = wanted.erase(at);
  }
}

std::string OwnRecords::cause(const DecisionKey& key, const Wanted& what,
                              const std::string& elsewhere) const {
  if (!trace::has_device_work(what.action))
    return fmt::format("{} puts no work on a device", trace::action_name(what.action));
  const auto at = processes_.find(key.first);
  const Process process = at == processes_.end() ? Process{} : at->second;
  if (!process.refused.empty()) return "CUPTI did not record: " + process.refused;
  if (!process.recording)
    return elsewhere.empty() ? "no device times in the trace: run with --gpu-trace=graph|node" : elsewhere;
  if (const auto work = work_.find(key); work != work_.end())
    return process.closed ? "its work had no stamps: unfinished at exit, or lost by CUPTI"
                          : "its work had no stamps";
  if (!process.closed) return "the process ended before CUPTI gave its records back";
  if (process.lost) return "CUPTI lost records";
  return calls_.count(key) ? "its call is known to CUPTI, no device record came"
                           : "CUPTI reported no driver call made for it";
}

void OwnRecords::name_causes(const std::string& elsewhere, Correlation& out) const {
  for (const auto& [key, what] : wanted) {
    out.without_work += !trace::has_device_work(what.action);
    ++out.unmatched[cause(key, what, elsewhere)];
  }
}

}  // namespace shunt::tool
