// What the engine knows of one stream and what it holds back for it: the state machine
//
//   observe -> learn -> follow (synced: eager, or buffering once the executables are there) -> back-off ->
//   observe
//
// One instance per live stream, reused after the stream's end, never freed. Everything but the atomics is
// under `gate`.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/reasons.h"
#include "runtime/exec/link.h"
#include "runtime/graphs/pattern.h"
#include "runtime/graphs/period.h"
#include "runtime/model/gate.h"

namespace shunt::graphs {

class Builder;

// Shared by all streams.
struct Shared {
  std::atomic<bool> off{false};  // nothing is held back any more; asked again under each gate
  std::atomic<uint32_t> pending_legacy{0}, pending_blocking{0};
  std::atomic<uint64_t> executable_bytes{0};
  std::atomic<uint64_t> replayed_launches{0}, seen_launches{0};
  uint64_t budget_bytes = 256 << 20;
  bool shadow = false;
  bool transfers = false;  // the driver has all that memsets and copies as nodes need
  SegmentLimits limits;
  Builder* builder = nullptr;
  exec::Link* owner = nullptr;  // own ops go to owner->next
};

class alignas(64) StreamState {
 public:
  enum class Mode : uint8_t { observe, align, learn, follow, back_off };

  explicit StreamState(Shared& shared) : shared_(shared) {}

  // Identity; set while nobody else can know the state.
  void begin(model::StreamInfo& info);
  void end();  // the stream is gone: nothing buffered, nothing learned
  bool is(const model::StreamInfo& info) const { return info_ == &info && id_ == info.id; }
  CUstream handle() const { return handle_; }
  CUcontext context() const { return context_; }
  bool legacy() const { return legacy_; }
  bool blocking() const { return blocking_; }
  std::atomic<bool> live{false};
  std::atomic<int> last_thread{-1};

  // A launch that may be buffered. True: it is, or went out with its segment, and `result` is the program's
  // answer. False: the caller makes it.
  bool launch(model::Op& op, CUresult& result);
  // Any other call of the stream's sequence, before it is made.
  void mark(const model::Op& op);
  // Submits what is held back.
  void drain();
  bool holds() const { return pending_.load(std::memory_order_acquire) != 0; }
  // Forgets the pattern and its executables; held-back work goes out first.
  void retire(Reason reason);
  // The stream has attributes of its own, which a graph's nodes would not inherit: eager for good.
  void exclude();
  // A launch of the stream failed: what was learned from it is void.
  void launch_failed();
  // An error of buffered work that no call has reported yet.
  CUresult take_deferred() {
    return __builtin_expect(deferred_.load(std::memory_order_relaxed) == CUDA_SUCCESS, 1)
               ? CUDA_SUCCESS
               : deferred_.exchange(CUDA_SUCCESS);
  }
  // For the flusher: changes whenever a new buffer is begun.
  uint64_t batch() const { return batch_.load(std::memory_order_acquire); }
  uint64_t executable_bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kFirstLook = 32;
  static constexpr uint64_t kFirstBackOff = 4096;  // calls
  static constexpr uint64_t kBypassed = 256;       // launches that a grant lets past the engine
  bool step_launch(model::Op& op, const Shape& shape, const ParamLayout& layout);
  void step_other(const Shape& shape);
  void observe(const Shape& shape, uint32_t params);
  void look_for_period();
  void learn(const Shape& shape, model::Op* op, const ParamLayout* layout);
  void start_build();
  bool same(const Step& step, const model::Op& op) const;
  void seek(uint64_t shape_hash);
  void diverged();
  void advance();
  void end_of_period();
  CUresult submit_segment();
  CUresult flush();  // eagerly, in order
  CUresult launch_step(const Step& step);
  bool patch(Segment& s);
  void pending_changed(bool now);
  void back_off();
  bool backed_off() const { return back_off_ops_ > kFirstBackOff; }
  void start_over(size_t next_look);
  void unstable(bool at_other_call);
  void forget_pattern(Reason reason);
  void note(uint8_t action, Reason reason, bool applied, uint64_t count, uint64_t id = 0);

  Shared& shared_;
  model::Gate gate_;
  model::StreamInfo* info_ = nullptr;
  uint64_t id_ = 0;
  CUstream handle_ = nullptr;
  CUcontext context_ = nullptr;
  bool legacy_ = false, blocking_ = false, excluded_ = false;

  std::atomic<uint32_t> pending_{0};  // launches held back: steps [position_ - pending_, position_)
  std::atomic<uint64_t> batch_{0}, bytes_{0};
  std::atomic<CUresult> deferred_{CUDA_SUCCESS};

  Mode mode_ = Mode::observe;
  std::vector<uint32_t> symbols_, params_;  // the past, newest last
  size_t since_look_ = 0, next_look_ = kFirstLook;
  size_t observed_ = 0;             // calls since the last pattern or back-off
  uint32_t unstable_ = 0;           // patterns in a row that turned out to be part of something longer
  bool crosses_calls_ = false;      // a pattern without other calls broke at one: look for one with them
  std::vector<uint32_t> expected_;  // align, learn: one pattern's symbols
  size_t expected_at_ = 0, align_left_ = 0;

  std::shared_ptr<Pattern> pattern_;
  size_t launches_since_other_ = 0;
  bool has_others_ = false;  // the pattern has steps that are not launches
  bool ready_ = false, synced_ = false, buffering_ = false, eager_window_ = false;
  uint32_t position_ = 0;
  int score_ = 0;
  uint64_t recent_[2] = {};  // hashes of the last two steps while seeking
  FlatMap<int32_t> grams_;   // three steps in a row -> position after them, -1 ambiguous
  uint32_t ambiguous_ = 0;

  uint64_t back_off_left_ = 0, back_off_ops_ = kFirstBackOff;

  // The A/B guard: how long a period takes, eagerly and replayed.
  uint64_t period_start_ns_ = 0;
  std::vector<uint32_t> eager_ns_, replay_ns_;
  uint32_t losses_ = 0, periods_until_check_ = 0;
  // Costs of driver calls, moving averages; 0: not known yet.
  float cost_launch_ns_ = 0, cost_graph_ns_ = 0, cost_patch_ns_ = 0;
  uint32_t sample_ = 0;
};

}  // namespace shunt::graphs
