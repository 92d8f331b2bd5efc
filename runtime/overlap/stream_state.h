// What the engine knows of one stream of the program: its companion, the collectives pending on it, and what
// it has done since the oldest place a collective may start from. One instance per live stream that has met
// NCCL or inherited something pending; reused after the stream's end, never freed.
//
// Everything but the atomics is under `gate` (docs/adr/0002: kept while shunt's own waits and records are
// submitted, never during a call of NCCL). A call that finds the stream idle doesn't take it: it counts
// itself in `in_flight`, and whoever wants to move a collective first waits until those are through.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/model/gate.h"
#include "runtime/model/objects.h"
#include "runtime/overlap/join_rules.h"
#include "runtime/overlap/pending.h"
#include "runtime/overlap/profit.h"
#include "runtime/overlap/touched.h"
#include "runtime/overlap/trials.h"

namespace shunt::overlap {

// Shared by all streams.
struct Shared {
  explicit Shared(bool assume) : code(assume) {}
  Events events;
  PendingPool pending{events};
  Code code;
  Profit profit;
  Trials trials;
  std::atomic<uint32_t> pending_legacy{0},
      pending_blocking{0};  // streams of these kinds with something pending
  std::atomic<bool> off{false};
  exec::Link* owner = nullptr;  // own ops go to owner->next
  struct Counts {
    std::atomic<uint64_t> moved{0}, passed{0}, joins{0};
  } counts;
};

class StreamState {
 public:
  static constexpr size_t kMostPending = 64, kMostLogged = 512, kMostLoggedSpans = 4096;
  explicit StreamState(Shared& shared) : shared_(shared) {}

  void begin(model::StreamInfo& info);  // while nobody else can know the state
  void end(bool context_gone);          // the program's stream is gone
  bool is(const model::StreamInfo& info) const { return info_ == &info && id_ == info.id; }
  CUstream handle() const { return handle_; }
  CUcontext context() const { return context_; }
  uint64_t id() const { return id_; }
  bool legacy() const { return role_ == model::StreamRole::legacy_default; }
  bool thread_default() const { return role_ == model::StreamRole::thread_default; }
  bool blocking() const { return blocking_; }
  const model::StreamInfo* info() const { return info_; }

  std::atomic<bool> live{false}, excluded{false};
  std::atomic<uint32_t> in_flight{0};
  // Something is pending, logged or being moved: calls go the slow way.
  std::atomic<uint32_t> busy{0};
  std::atomic<uint32_t> pending_count{0};
  model::Gate gate;

  // All below: under the gate.
  bool prepare();  // makes the companion; false when the driver refuses
  bool prepared() const { return companion_ != nullptr; }
  Companion* companion() const { return companion_; }
  const std::vector<Pending*>& pending() const { return pending_; }

  // Before a call of the program. Returns a pending collective that must be issued first (with a reference;
  // leave the gate, wait, come again), null when the stream has waited for all it must.
  Pending* before(model::Op& op, const JoinRule& rule, LogAs log);
  // Waits for whatever conflicts (null: all). Unissued ones: as before(), or left out when the call only
  // looks at the stream.
  Pending* join(const Footprint* with, Reason reason, bool skip_unissued = false);
  // Takes over what another stream has pending.
  void inherit(const std::vector<Pending*>& from);
  std::vector<Pending*> snapshot(bool issued_only);  // with references

  // Where a collective with this footprint may start: an event behind the last conflicting call. Null: no
  // event could be had.
  CUevent fork_point(const Footprint& footprint, CUresult& result, bool& early);
  void log(const Footprint& footprint);
  void log_barrier();
  void publish(Pending* p, uint64_t kind, bool early);
  void retract(Pending* p);
  void update_busy(bool moving = false);
  void forget_pending();
  // Waits until calls that found the stream idle are through; `busy` keeps new ones from coming.
  void settle_in_flight();

 private:
  struct Logged {
    uint32_t first, count;
  };
  struct Mark {
    size_t position;  // calls logged before it
    OwnEvent event;
  };
  struct Joined {
    Companion* companion;
    uint64_t sequence;
  };
  bool already_joined(const Pending& p) const;
  void note_joined(Companion* companion, uint64_t sequence);
  void drop_joined(Companion* companion, uint64_t sequence, Reason why);
  void clear_log();
  void count_changed(size_t before);

  Shared& shared_;
  model::StreamInfo* info_ = nullptr;
  uint64_t id_ = 0;
  CUstream handle_ = nullptr;
  CUcontext context_ = nullptr;
  model::StreamRole role_ = model::StreamRole::created;
  bool blocking_ = false;
  Companion* companion_ = nullptr;
  std::vector<Pending*> pending_;
  std::vector<Joined> joined_;
  std::vector<Logged> logged_;
  std::vector<Span> spans_;
  std::vector<Mark> marks_;
  bool logging_ = false;
  uint64_t calls_ = 0;   // that did some work while something was pending
  OwnEvent fork_event_;  // of streams whose collectives never start early
  Touched touched_;
  Footprint scratch_;
};

}  // namespace shunt::overlap
