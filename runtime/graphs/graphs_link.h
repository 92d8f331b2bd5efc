// The graphs link: repeated launches become CUDA graphs by prediction and proof (ENGINES.md section 1,
// README.md here). Link rules: runtime/exec/README.md.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "runtime/config/config.h"
#include "runtime/exec/bypass.h"
#include "runtime/exec/link.h"
#include "runtime/graphs/builder.h"
#include "runtime/graphs/drain_rules.h"
#include "runtime/graphs/flusher.h"
#include "runtime/graphs/stream_state.h"

namespace shunt::graphs {

class GraphsLink final : public exec::Link {
 public:
  struct Settings {
    bool shadow = false;
    bool flusher = true;  // tests switch it off
    SegmentLimits limits;
  };
  explicit GraphsLink(const Settings& settings);
  const char* name() const override { return "graphs"; }
  CUresult on_op(model::Op& op) override;
  void drain(const exec::Scope& scope, Reason reason) override;
  uint64_t release_memory(uint64_t bytes) override;
  void forget(exec::HandleKind kind, uint64_t handle) override;
  bool sees_launches() const override { return false; }  // it says itself which (back-off)
  bool delays() const override { return !settings_.shadow; }
  void disable() override { shared_.off.store(true); }
  void fork_child() override;

  // For the flusher: submits buffers that an earlier call of it has already seen. True when any stream holds
  // something.
  bool flush_old();
  bool holds_anything() const { return exec::anything_held(); }
  const Shared& shared() const { return shared_; }

 private:
  static constexpr size_t kStreams = 4096;
  StreamState* state(model::StreamInfo& info);
  CUresult launch(StreamState& s, model::Op& op);
  CUresult transfer(StreamState& s, model::Op& op);
  bool offer(StreamState& s, model::Op& op, CUresult& result);
  CUresult pass_on(StreamState& s, model::Op& op);
  CUresult other(model::Op& op, const DrainRule& rule);
  // What the default stream's rules submit before a call on this stream (null: unknown stream, everything).
  void order(const model::StreamInfo* info);
  void drain_all();
  void retire_all(Reason reason);
  template <class F>
  void each(F&& visit);

  const Settings settings_;
  Shared shared_;
  Builder* builder_;
  Flusher* flusher_;
  std::atomic<uint32_t> count_{0}, growing_{0};
  std::atomic<StreamState*> states_[kStreams] = {};
  uint64_t last_batch_[kStreams] = {};  // the flusher's
};

// For engines.cpp. `mode`: shadow, on, aggressive.
exec::Link* create_graphs(const std::string& mode, const config::Config& config);

}  // namespace shunt::graphs
