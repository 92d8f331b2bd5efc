#include "tools/simgpu/driver/core/race.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/host_pages.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memory.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/vmm.h"

namespace simgpu::driver {
namespace {
enum class Mode { off, report, error };
Mode mode() {
  static const Mode value = [] {
    const char* text = getenv("SIMGPU_RACES");
    if (!text || !*text || !strcmp(text, "off")) return Mode::off;
    if (!strcmp(text, "report")) return Mode::report;
    if (!strcmp(text, "error")) return Mode::error;
    log_line(LogLevel::error, "SIMGPU_RACES=%s is not report, error or off: using report", text);
    return Mode::report;
  }();
  return value;
}

using Clock = std::vector<uint32_t>;
uint32_t at(const Clock& clock, uint32_t chain) { return chain < clock.size() ? clock[chain] : 0; }
void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Site {  // where an access came from, for the report
  std::string name;
  uint64_t seq = 0, stream = 0;
  int device = 0;
};
struct Mark {
  uint32_t chain = 0, epoch = 0;
  std::shared_ptr<const Site> site;
};
struct Segment {
  uint64_t end = 0;
  Mark write;                        // epoch 0: none
  std::vector<Mark> reads, atomics;  // since that write, none ordered before another of the same list
};
struct Chain {
  uint32_t epoch = 0;
  uint64_t tail_seq = 0;
};

struct Detector {
  Clock host;
  std::vector<Chain> chains;
  std::map<uint64_t, Segment> shadow;
  std::map<uint64_t, Clock> released;  // by address of stream memory writes
  Clock told_outside;                  // of interprocess event records
  size_t collect_at = 4096;
  std::set<std::string> reported;
  uint64_t reports = 0;
};
Detector& detector() {
  static Detector* instance = new Detector;
  return *instance;
}

bool before(const Mark& mark, const RaceState& state) {
  return mark.epoch == 0 || at(state.clock, mark.chain) >= mark.epoch;
}

const char* verb(exec::Access::Kind kind) {
  return kind == exec::Access::read ? "reads" : kind == exec::Access::write ? "writes" : "updates atomically";
}

void report(Op& op, const Site& mine, exec::Access::Kind kind, const Mark& other,
            exec::Access::Kind other_kind, uint64_t base, uint64_t end) {
  Detector& d = detector();
  ++d.reports;
  const std::string key = mine.name + verb(kind) + std::to_string(mine.stream) + "|" + other.site->name +
                          verb(other_kind) + std::to_string(other.site->stream);
  if (!d.reported.insert(key).second) return;
  const uint64_t mapped = vmm_mapped_address(base);
  end += mapped - base;
  base = mapped;
  const AllocationRef a = MemoryMap::get().find(base);
  char place[160];
  if (a) {
    snprintf(place, sizeof place, "bytes %llu to %llu of the %llu-byte allocation at 0x%llx",
             (unsigned long long)(base - a->base), (unsigned long long)(end - a->base),
             (unsigned long long)a->size, (unsigned long long)a->base);
  } else {
    snprintf(place, sizeof place, "0x%llx to 0x%llx", (unsigned long long)base, (unsigned long long)end);
  }
  log_line(LogLevel::error,
           "race: '%s' (#%llu, stream %llu, device %d) %s %s; '%s' (#%llu, stream %llu, device %d) %s them, "
           "and nothing orders the "
           "two: record an event after the first and make the second's stream wait for it",
           mine.name.c_str(), (unsigned long long)mine.seq, (unsigned long long)mine.stream, mine.device,
           verb(kind), place, other.site->name.c_str(), (unsigned long long)other.site->seq,
           (unsigned long long)other.site->stream, other.site->device, verb(other_kind));
  if (mode() == Mode::error && op.context)
    poison(*op.context, CUDA_ERROR_LAUNCH_FAILED, "stopped at a race (SIMGPU_RACES=error)");
}

// Makes a segment boundary at `address`.
void split(std::map<uint64_t, Segment>& shadow, uint64_t address) {
  auto it = shadow.upper_bound(address);
  if (it == shadow.begin()) return;
  --it;
  if (it->first == address || it->second.end <= address) return;
  Segment upper = it->second;
  it->second.end = address;
  shadow.emplace(address, std::move(upper));
}

void add(std::vector<Mark>& list, const Mark& mark, const RaceState& state) {
  list.erase(std::remove_if(list.begin(), list.end(), [&](const Mark& m) { return before(m, state); }),
             list.end());
  list.push_back(mark);
}

void judge(Op& op, const exec::Access& access, const Mark& mark) {
  Detector& d = detector();
  const RaceState& state = *op.race;
  split(d.shadow, access.base);
  split(d.shadow, access.end);
  uint64_t position = access.base;
  auto it = d.shadow.lower_bound(access.base);
  auto check = [&](const Mark& other, exec::Access::Kind kind, uint64_t base, uint64_t end) {
    if (other.chain == mark.chain && other.epoch == mark.epoch) return;
    if (!before(other, state)) report(op, *mark.site, access.kind, other, kind, base, end);
  };
  while (position < access.end) {
    if (it == d.shadow.end() || it->first > position) {  // a gap: never touched
      const uint64_t end = it == d.shadow.end() ? access.end : std::min(access.end, it->first);
      Segment fresh;
      fresh.end = end;
      it = d.shadow.emplace_hint(it, position, std::move(fresh));
    }
    Segment& segment = it->second;
    check(segment.write, exec::Access::write, it->first, segment.end);
    if (access.kind != exec::Access::read) {
      for (const Mark& other : segment.reads) check(other, exec::Access::read, it->first, segment.end);
    }
    if (access.kind != exec::Access::atomic) {
      for (const Mark& other : segment.atomics) check(other, exec::Access::atomic, it->first, segment.end);
    }
    switch (access.kind) {
      case exec::Access::read:
        add(segment.reads, mark, state);
        break;
      case exec::Access::atomic:
        add(segment.atomics, mark, state);
        break;
      case exec::Access::write:
        segment.write = mark;
        segment.reads.clear();
        segment.atomics.clear();
        break;
    }
    position = segment.end;
    ++it;
  }
}

// What every later op is ordered after can never race again.
void collect() {
  Detector& d = detector();
  RaceState host;
  host.clock = d.host;
  for (auto it = d.shadow.begin(); it != d.shadow.end();) {
    Segment& s = it->second;
    auto old = [&](const Mark& m) { return before(m, host); };
    if (old(s.write)) s.write = {};
    s.reads.erase(std::remove_if(s.reads.begin(), s.reads.end(), old), s.reads.end());
    s.atomics.erase(std::remove_if(s.atomics.begin(), s.atomics.end(), old), s.atomics.end());
    const bool empty = s.write.epoch == 0 && s.reads.empty() && s.atomics.empty();
    it = empty ? d.shadow.erase(it) : std::next(it);
  }
  d.collect_at = std::max<size_t>(4096, d.shadow.size() * 2);
}
}  // namespace

bool races_watched() {
  static const bool on = mode() != Mode::off;
  return on;
}

void race_order(Op& later, const Op& earlier) {
  if (!later.race) later.race = std::make_shared<RaceState>();
  if (earlier.race) join(later.race->clock, earlier.race->clock);
}

void race_linked(Op& op) {
  Detector& d = detector();
  if (!op.race) op.race = std::make_shared<RaceState>();
  RaceState& state = *op.race;
  join(state.clock, d.host);
  // Continue the chain of a dependency that nobody has continued, else one whose last op is ordered before
  // this one.
  int chain = -1;
  for (const auto& weak : op.dependencies) {
    const OpRef on = weak.lock();
    if (on && on->race && on->race->epoch && d.chains[on->race->chain].tail_seq == on->seq)
      chain = int(on->race->chain);
  }
  for (size_t i = 0; chain < 0 && i < d.chains.size(); ++i) {
    if (at(state.clock, uint32_t(i)) >= d.chains[i].epoch) chain = int(i);
  }
  if (chain < 0) {
    chain = int(d.chains.size());
    d.chains.emplace_back();
  }
  state.chain = uint32_t(chain);
  state.epoch = ++d.chains[size_t(chain)].epoch;
  d.chains[size_t(chain)].tail_seq = op.seq;
  if (state.clock.size() <= state.chain) state.clock.resize(state.chain + 1);
  state.clock[state.chain] = state.epoch;
  if (host_pages_watched()) host_pages_guard(op);
}

void race_executed(Op& op) {
  if (!op.race || op.abandoned) return;
  // A memory wait is released by whoever wrote the value: device work through the location, or the host,
  // which then also knows all that it has waited for.
  if (op.body->kind == OpKind::memory_write) {
    join(detector().released[static_cast<const MemoryWriteBody&>(*op.body).address], op.race->clock);
  } else if (op.body->kind == OpKind::memory_wait) {
    auto it = detector().released.find(static_cast<const MemoryWaitBody&>(*op.body).address);
    if (it != detector().released.end()) join(op.race->clock, it->second);
    join(op.race->clock, detector().host);
  }
  // Through another process: what this one has told others may be behind whatever they answer.
  if (op.body->kind == OpKind::ipc_record) join(detector().told_outside, op.race->clock);
  if (op.body->kind == OpKind::ipc_wait) join(op.race->clock, detector().told_outside);
  std::vector<exec::Access> list = std::move(op.extra_accesses);
  if (op.execution) list.insert(list.end(), op.execution->accesses().begin(), op.execution->accesses().end());
  op.body->accesses(op, list);
  // A kernel that found its memory gone: against whoever freed it.
  if (op.execution && op.execution->fault().fault == exec::Fault::illegal_address) {
    const uint64_t address = op.execution->fault().address;
    if (!MemoryMap::get().find(address)) list.push_back({address, address + 1, exec::Access::read});
  }
  vmm_to_first_view(list);
  if (!list.empty()) {
    auto site = std::make_shared<Site>();
    site->name = op.body->name();
    site->seq = op.seq;
    site->stream = op.stream ? op.stream->id : 0;
    site->device = op.device;
    const Mark mark{op.race->chain, op.race->epoch, std::move(site)};
    for (const exec::Access& access : list) judge(op, access, mark);
    if (op.body->kind == OpKind::kernel && host_pages_watched()) host_pages_executed(op, list);
  }
  // A meeting orders what comes after; what the parties themselves touch meanwhile stays unordered.
  join(op.race->clock, op.race->met);
  for (const OpRef& next : op.dependents) race_order(*next, op);
}

void race_meet(Op& a, Op& b) {
  if (!a.race || !b.race) return;
  join(a.race->met, b.race->clock);
  join(a.race->met, b.race->met);
  join(b.race->met, a.race->clock);
  join(b.race->met, a.race->met);
}

void race_host_waited(const Op& op) {
  if (!op.race) return;
  Detector& d = detector();
  join(d.host, op.race->clock);
  host_pages_settle(d.host);
  if (d.shadow.size() > d.collect_at) collect();
}

void race_host_synced(const Stream& stream) {
  if (!stream.race_tail) return;
  join(detector().host, stream.race_tail->clock);
  host_pages_settle(detector().host);
}
void race_host_synced(const Context& context) {
  if (context.race_done) join(detector().host, context.race_done->clock);
  host_pages_settle(detector().host);
  if (detector().shadow.size() > detector().collect_at) collect();
}
void race_completed(Op& op, bool last_of_stream) {
  if (!op.race) return;
  if (op.stream && last_of_stream) op.stream->race_tail = op.race;
  if (!op.context) return;
  if (!op.context->race_done) op.context->race_done = std::make_shared<RaceState>();
  join(op.context->race_done->clock, op.race->clock);
}
void race_after_stream(Op& later, const Stream& stream) {
  if (!later.race) later.race = std::make_shared<RaceState>();
  if (stream.race_tail) join(later.race->clock, stream.race_tail->clock);
}

void race_forget(uint64_t base, uint64_t bytes) {
  Detector& d = detector();
  split(d.shadow, base);
  split(d.shadow, base + bytes);
  d.shadow.erase(d.shadow.lower_bound(base), d.shadow.lower_bound(base + bytes));
}

std::vector<uint32_t> race_host_clock() { return detector().host; }

void race_unmapped(uint64_t base, uint64_t bytes, const std::vector<uint32_t>& known) {
  Detector& d = detector();
  RaceState host;
  host.clock = known;
  split(d.shadow, base);
  split(d.shadow, base + bytes);
  for (auto it = d.shadow.lower_bound(base); it != d.shadow.end() && it->first < base + bytes; ++it) {
    auto check = [&](const Mark& m, exec::Access::Kind kind) {
      if (before(m, host)) return;
      ++d.reports;
      const std::string key = "unmap|" + m.site->name + verb(kind) + std::to_string(m.site->stream);
      if (!d.reported.insert(key).second) return;
      log_line(
          LogLevel::error,
          "race: cuMemUnmap takes 0x%llx to 0x%llx away; '%s' (#%llu, stream %llu, device %d) %s 0x%llx, "
          "and the host has not waited for it: synchronise with its stream before unmapping",
          (unsigned long long)vmm_mapped_address(base),
          (unsigned long long)(vmm_mapped_address(base) + bytes), m.site->name.c_str(),
          (unsigned long long)m.site->seq, (unsigned long long)m.site->stream, m.site->device, verb(kind),
          (unsigned long long)vmm_mapped_address(it->first));
    };
    check(it->second.write, exec::Access::write);
    for (const Mark& m : it->second.reads) check(m, exec::Access::read);
    for (const Mark& m : it->second.atomics) check(m, exec::Access::atomic);
  }
}

RaceCounts race_counts() { return {detector().reports, detector().shadow.size()}; }
}  // namespace simgpu::driver
