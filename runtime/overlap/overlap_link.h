// The overlap link: collectives leave the program's stream and are joined before what depends on them
// (ENGINES.md section 2, README.md here). Link rules: runtime/exec/README.md. The NCCL hooks (nccl_hooks.cpp)
// call move() and its neighbours.
#pragma once
#include <atomic>
#include <string>

#include "runtime/config/config.h"
#include "runtime/exec/link.h"
#include "runtime/overlap/collectives.h"
#include "runtime/overlap/join_rules.h"
#include "runtime/overlap/snapshots.h"
#include "runtime/overlap/stream_state.h"

namespace shunt::overlap {

class OverlapLink final : public exec::Link {
 public:
  struct Settings {
    bool shadow = false, assume = false;
    bool one_connection = false;  // CUDA_DEVICE_MAX_CONNECTIONS=1
    uint32_t first_uses = 2;      // of a kind of call, which stay where they are
  };
  explicit OverlapLink(const Settings& settings);
  const char* name() const override { return "overlap"; }
  CUresult on_op(model::Op& op) override;
  void drain(const exec::Scope& scope, Reason reason) override;
  void forget(exec::HandleKind kind, uint64_t handle) override;
  // Nothing is ever held back, but what is pending must be joined before a call nobody knows.
  // Before any stream has met NCCL a launch means nothing here; from then on `holding` keeps them coming.
  bool sees_launches() const override { return false; }
  bool delays() const override { return !settings_.shadow; }
  void disable() override { shared_.off.store(true); }
  void fork_child() override;

  const Settings& settings() const { return settings_; }
  Shared& shared() { return shared_; }
  Collectives& collectives() { return collectives_; }

  // The state of a stream; null when there is none and none was asked for.
  StreamState* known(const model::StreamInfo& info) const;
  StreamState* state(model::StreamInfo& info);
  // Takes over what the default stream's rules put in front of this stream's next work.
  void default_stream_order(model::StreamInfo& info, StreamState*& s);
  // Makes the stream wait for everything pending on it.
  void join_all(StreamState& s, Reason reason);
  void join_everywhere(const Footprint* with, Reason reason);
  template <class F>
  void each(F&& visit);

 private:
  static constexpr size_t kStreams = 4096;
  CUresult ordered(model::Op& op, const JoinRule& rule, model::StreamInfo& info);
  CUresult record_event(model::Op& op, model::StreamInfo& info, StreamState& s);
  CUresult wait_event(model::Op& op, model::StreamInfo& info);
  void before_end_of(model::Op& op, const JoinRule& rule);

  const Settings settings_;
  Shared shared_;
  Snapshots snapshots_{shared_.events, shared_.pending};
  Collectives collectives_{*this};
  std::atomic<uint32_t> count_{0}, growing_{0};
  std::atomic<StreamState*> states_[kStreams] = {};
};

// For engines.cpp. `mode`: shadow, on, assume.
exec::Link* create_overlap(const std::string& mode, const config::Config& config);

}  // namespace shunt::overlap
