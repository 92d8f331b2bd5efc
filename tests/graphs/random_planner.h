// How a plan is made: random intents, filled in with buffers and with the waits that make the order of every
// pair of conflicting accesses certain. One thread.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tests/graphs/random_plan.h"

namespace random_program {

struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u) {
    for (int i = 0; i < 4; ++i) next();
  }
  uint32_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<uint32_t>(state >> 24);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint32_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
};

using Clock = std::vector<uint32_t>;  // by stream: how many of its ops are known to be done

inline void join(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// What a call of the loop's body is before buffers and needed waits are filled in.
struct Intent {
  Call call = Call::launch;
  int thread = 0, stream = 0, kernel = 0;
  int write = 0, read[2] = {};
  bool dirty = false, ping_pong = false;
  int branch = 0;  // 0: always, n: only in iterations picked with probability 1/(n+1)
};

class Planner {
 public:
  Planner(uint64_t seed, const Options& options) : random_(seed), options_(options) { plan_.seed = seed; }
  Plan make();

 private:
  struct Use {
    int stream = -1;  // -1: the host
    uint32_t number = 0;
  };
  struct Buffer {
    bool live = true;
    Use wrote;
    std::vector<Use> read;
  };

  void loop();
  std::vector<Intent> body(int length);
  void emit_intent(const Intent& intent, int iteration);
  void odd_call(int thread, int iteration);
  void end_of_iteration(int style, int thread, int stream, int iteration);

  Op& put(Op op);
  void reach(const std::string& what) { plan_.reached[what]++; }
  int pick_buffer(int thread) {  // device
    const int each = plan_.device_buffers / owners_;
    return (owners_ > 1 ? thread * each : 0) + random_.below(each);
  }
  int pinned_of(int thread) {
    const int each = plan_.pinned_buffers / owners_;
    return plan_.device_buffers + (owners_ > 1 ? thread * each : 0) + random_.below(each);
  }
  int pick_stream(int thread) {
    return own_streams_[static_cast<size_t>(owners_ > 1 ? thread : 0)][static_cast<size_t>(
        random_.below(static_cast<int>(own_streams_[static_cast<size_t>(owners_ > 1 ? thread : 0)].size())))];
  }
  bool events_allowed(int stream) const {
    return plan_.streams[static_cast<size_t>(stream)] != Stream::legacy;
  }

  // The partial order.
  Clock& host(int thread) { return host_[static_cast<size_t>(plan_.strict ? 0 : thread)]; }
  Clock before(int thread, int stream) const;
  bool ordered(const Use& use, const Clock& clock) const {
    return use.stream < 0 || clock[static_cast<size_t>(use.stream)] >= use.number;
  }
  void need(int thread, int stream, const Use& use);
  void need_host(int thread, const Use& use);
  void access(int thread, int stream, const std::vector<int>& reads, const std::vector<int>& writes);
  void device_op(Op op, const std::vector<int>& reads, const std::vector<int>& writes);
  void host_access(int thread, int buffer, bool write);
  // Events are used at once after their record, so a few serve all.
  int new_event(int thread) {
    const int owner = owners_ > 1 ? thread : 0;
    return owner * kEvents + next_event_++ % kEvents;
  }
  int legacy_of(int thread) const {
    for (int s : own_streams_[static_cast<size_t>(owners_ > 1 ? thread : 0)])
      if (plan_.streams[static_cast<size_t>(s)] == Stream::legacy) return s;
    return -1;
  }
  int record(int thread, int stream);
  int new_loose(int thread, int stream, bool async);
  void end_loose(int thread, int stream, int buffer, bool async);

  Random random_;
  const Options options_;
  Plan plan_;
  int owners_ = 1;  // groups that share nothing: threads of a free plan
  int64_t turn_ = 0;
  std::vector<std::vector<int>> own_streams_;
  std::vector<Clock> known_;  // by stream: what its next op follows
  std::vector<Clock> host_;
  std::vector<Buffer> buffers_;
  static constexpr int kEvents = 4;
  std::vector<Clock> events_;
  int next_event_ = 0;
  bool quiet_ = false;  // free plan with captures: no calls that another thread's capture forbids
  uint32_t salt_ = 1;
};

}  // namespace random_program
