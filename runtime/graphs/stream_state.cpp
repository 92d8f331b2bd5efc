// Identity, entry points and the life of a pattern. Learning is in stream_learn.cpp, submission in
// stream_replay.cpp.
#include "runtime/graphs/stream_state.h"

#include "runtime/base/log.h"
#include "runtime/exec/bypass.h"
#include "runtime/graphs/builder.h"
#include "runtime/model/model.h"
#include "runtime/trace/writer.h"

namespace shunt::graphs {

void StreamState::begin(model::StreamInfo& info) {
  info_ = &info;
  id_ = info.id;
  handle_ = info.role == model::StreamRole::legacy_default ? CU_STREAM_LEGACY : info.handle;
  context_ = info.context;
  legacy_ = info.role == model::StreamRole::legacy_default;
  blocking_ = !legacy_ && !info.non_blocking;
  excluded_ = false;
  last_thread.store(-1, std::memory_order_relaxed);
  live.store(true, std::memory_order_release);
}

void StreamState::end() {
  model::GateGuard guard(gate_);
  if (!guard.held()) return;
  flush();
  forget_pattern(Reason::graph_handle_gone);
  start_over(kFirstLook);
  unstable_ = 0;
  crosses_calls_ = false;
  back_off_left_ = 0, back_off_ops_ = kFirstBackOff;
  eager_ns_.clear(), replay_ns_.clear();
  deferred_ = CUDA_SUCCESS;
  mode_ = Mode::observe;
  info_ = nullptr;
  id_ = 0;
  live.store(false, std::memory_order_release);
}

bool StreamState::launch(model::Op& op, CUresult& result) {
  model::GateGuard guard(gate_);
  if (!guard.held()) return false;
  if (shared_.off.load(std::memory_order_relaxed) || excluded_) return flush(), false;
  if (mode_ == Mode::back_off) {
    if (--back_off_left_ > 0) {
      const auto batch = static_cast<uint32_t>(std::min<uint64_t>(back_off_left_, kBypassed));
      if (back_off_left_ > 1 && deferred_.load() == CUDA_SUCCESS &&
          exec::grant_bypass(reinterpret_cast<uint64_t>(op.stream), batch - 1))
        back_off_left_ -= batch - 1;
      return false;
    }
    start_over(kFirstLook);
  }
  if (mode_ == Mode::follow && synced_) {
    const Step& step = pattern_->steps[position_];
    if (__builtin_expect(same(step, op) && op.context == context_, 1)) {
      if (!buffering_ && step.segment >= 0 && ready_ && !eager_window_ && !shared_.shadow &&
          pattern_->segments[static_cast<size_t>(step.segment)].begin == position_) {
        buffering_ = true;
        // Written under the gate only: no locked addition on this path.
        batch_.store(batch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      }
      if (!buffering_) {
        advance();
        return false;
      }
      Segment& segment = pattern_->segments[static_cast<size_t>(step.segment)];
      Step& mine = pattern_->steps[position_];
      if (copy_params(*mine.layout, pattern_->bytes.data() + mine.params, op.launch.params) && !mine.dirty) {
        mine.dirty = true;
        segment.dirty++;
      }
      const uint32_t held = pending_.load(std::memory_order_relaxed);
      pending_.store(held + 1, std::memory_order_release);
      if (held == 0) pending_changed(true);
      const bool last = position_ + 1 == segment.end;
      result = last ? submit_segment() : CUDA_SUCCESS;
      advance();
      return true;
    }
    diverged();
  }
  Shape shape;
  shape.function = op.object;
  shape.function_id = op.function_info->id;
  for (int i = 0; i < 3; ++i) shape.grid[i] = op.launch.grid[i], shape.block[i] = op.launch.block[i];
  shape.shared_bytes = op.launch.shared_bytes;
  shape.kind = static_cast<uint32_t>(op.kind);
  const ParamLayout& layout = param_layout(*op.function_info, reinterpret_cast<CUfunction>(op.object));
  if (layout.known && (layout.params.empty() || op.launch.params))
    step_launch(op, shape, layout);
  else
    step_other({.kind = shape.kind});
  return false;
}

void StreamState::mark(const model::Op& op) {
  model::GateGuard guard(gate_);
  if (!guard.held()) return;
  flush();
  if (mode_ == Mode::back_off) return;
  step_other({.kind = static_cast<uint32_t>(op.kind) | (static_cast<uint32_t>(op.slot) << 16)});
}

void StreamState::drain() {
  model::GateGuard guard(gate_);
  if (guard.held()) flush();
}

void StreamState::retire(Reason reason) {
  model::GateGuard guard(gate_);
  if (!guard.held()) return;
  flush();
  forget_pattern(reason);
  if (mode_ != Mode::back_off) start_over(kFirstLook);
}

void StreamState::exclude() {
  retire(Reason::graph_attribute_changed);
  model::GateGuard guard(gate_);
  excluded_ = guard.held();
}

void StreamState::launch_failed() { retire(Reason::graph_launch_failed); }

void StreamState::forget_pattern(Reason reason) {
  if (!pattern_) return;
  if (ready_) note(static_cast<uint8_t>(trace::Action::graph_retire), reason, true, pattern_->steps.size());
  if (const uint64_t bytes = bytes_.exchange(0)) shared_.executable_bytes.fetch_sub(bytes);
  auto waiting = Pattern::Build::waiting;
  pattern_->build_state.compare_exchange_strong(waiting, Pattern::Build::cancelled);
  pattern_.reset();
  grams_ = {};
  ready_ = synced_ = buffering_ = eager_window_ = false;
  position_ = 0;
  score_ = 0;
  losses_ = 0, periods_until_check_ = 0;
  period_start_ns_ = 0;
  eager_ns_.clear(), replay_ns_.clear();
}

void StreamState::start_over(size_t next_look) {
  mode_ = Mode::observe;
  symbols_.clear(), params_.clear();
  since_look_ = observed_ = 0;
  next_look_ = next_look;
}

// What was followed is part of something longer, most likely an inner loop: look again, over more of the past
// each time.
void StreamState::unstable(bool at_other_call) {
  forget_pattern(Reason::graph_unstable);
  crosses_calls_ |= at_other_call;
  if (++unstable_ > 3) {
    unstable_ = 0;
    return back_off();
  }
  start_over(size_t{64} << (2 * unstable_));
}

// Nothing was gained here: leave the stream alone for a while, longer each time. It recovers.
void StreamState::back_off() {
  mode_ = Mode::back_off;
  back_off_left_ = back_off_ops_;
  if (back_off_ops_ < (1u << 20)) back_off_ops_ *= 4;
}

void StreamState::note(uint8_t action, Reason reason, bool applied, uint64_t count, uint64_t id) {
  trace::decide({.feature = trace::Feature::graph,
                 .action = static_cast<trace::Action>(action),
                 .reason = reason,
                 .outcome = applied ? trace::Outcome::applied : trace::Outcome::declined,
                 .device = static_cast<int16_t>(model::Model::get().device_of(context_)),
                 .stream = reinterpret_cast<uint64_t>(handle_),
                 .context = reinterpret_cast<uint64_t>(context_),
                 .bytes = count},
                trace::RecordType::decision, id);
}

void StreamState::pending_changed(bool now) {
  const auto add = [now](std::atomic<uint32_t>& a) {
    now ? a.fetch_add(1, std::memory_order_acq_rel) : a.fetch_sub(1, std::memory_order_acq_rel);
  };
  exec::holding(now);
  if (legacy_) add(shared_.pending_legacy);
  if (blocking_) add(shared_.pending_blocking);
}

}  // namespace shunt::graphs
