// What goes to the driver: whole segments as graphs, everything else launch by launch.
#include <optional>

#include "runtime/base/clock.h"
#include "runtime/exec/driver.h"
#include "runtime/graphs/stream_state.h"
#include "runtime/graphs/transfers.h"
#include "runtime/model/model.h"
#include "runtime/trace/gpu_trace.h"
#include "runtime/trace/nvtx.h"
#include "runtime/trace/writer.h"

namespace shunt::graphs {
namespace {

constexpr uint32_t kSampleEvery = 16;

// Another thread than the program's may submit: the stream's context has to be current meanwhile.
class Current {
 public:
  explicit Current(CUcontext wanted) {
    const exec::Driver& driver = exec::Driver::get();
    if (driver.ctx_get_current(&before_) != CUDA_SUCCESS || before_ == wanted) return;
    changed_ = driver.ctx_set_current(wanted) == CUDA_SUCCESS;
  }
  ~Current() {
    if (changed_) exec::Driver::get().ctx_set_current(before_);
  }
  Current(const Current&) = delete;

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

void average(float& a, uint64_t ns) {
  a = a > 0 ? a + (static_cast<float>(ns) - a) / 8 : static_cast<float>(ns);
}

model::Op own_op(model::OpKind kind, CUstream stream, CUcontext context) {
  model::Op op;
  op.op_class = model::OpClass::launch;
  op.kind = kind;
  op.asynchronous = true;
  op.from_engine = true;
  op.stream = stream;
  op.context = context;
  op.launch = {};
  return op;
}

}  // namespace

CUresult StreamState::launch_step(const Step& step) {
  model::Op op = own_op(model::OpKind::kernel, handle_, context_);
  if (const Transfer t = transfer_of(step.shape.function); t != Transfer::none) {
    describe_transfer(op, t, transfer_params(pattern_->pointers.data() + step.pointers));
    return shared_.owner->next->on_op(op);
  }
  op.object = step.shape.function;
  for (int i = 0; i < 3; ++i)
    op.launch.grid[i] = step.shape.grid[i], op.launch.block[i] = step.shape.block[i];
  op.launch.shared_bytes = step.shape.shared_bytes;
  op.launch.params = pattern_->pointers.data() + step.pointers;
  op.invoke = [](model::Op& o) {
    const model::LaunchShape& l = o.launch;
    return o.result = exec::Driver::get().launch_kernel(
               reinterpret_cast<CUfunction>(o.object), l.grid[0], l.grid[1], l.grid[2], l.block[0],
               l.block[1], l.block[2], l.shared_bytes, o.stream, l.params, nullptr);
  };
  return shared_.owner->next->on_op(op);
}

// In order, as the program made them. The first error counts; later launches are still made, as the program
// would have.
CUresult StreamState::flush() {
  const uint32_t held = pending_.load(std::memory_order_relaxed);
  if (held == 0) return CUDA_SUCCESS;
  Current current(context_);
  CUresult first = CUDA_SUCCESS;
  const bool sampled = ++sample_ % kSampleEvery == 0;
  const uint64_t start = sampled ? clock::now_ns() : 0;
  for (uint32_t i = position_ - held; i < position_; ++i) {
    const CUresult r = launch_step(pattern_->steps[i]);
    if (first == CUDA_SUCCESS) first = r;
  }
  if (sampled) average(cost_launch_ns_, (clock::now_ns() - start) / held);
  pending_.store(0, std::memory_order_release);
  pending_changed(false);
  buffering_ = false;  // the rest of the segment goes eagerly too
  if (first != CUDA_SUCCESS && deferred_.load() == CUDA_SUCCESS) deferred_.store(first);
  return first;
}

bool StreamState::patch(Segment& s) {
  const exec::Driver& driver = exec::Driver::get();
  const bool sampled = sample_ % kSampleEvery == 0;
  const uint64_t start = sampled ? clock::now_ns() : 0;
  const uint32_t count = s.dirty;
  for (uint32_t i = s.begin; i < s.end && s.dirty; ++i) {
    Step& step = pattern_->steps[i];
    if (!step.dirty) continue;
    if (const Transfer t = transfer_of(step.shape.function); t != Transfer::none) {
      if (!patch_transfer_node(t, transfer_params(pattern_->pointers.data() + step.pointers), context_,
                               s.exec, step.node))
        return false;
      step.dirty = false;
      s.dirty--;
      continue;
    }
    CUDA_KERNEL_NODE_PARAMS p{};
    if (step.kernel_handle)
      p.kern = reinterpret_cast<CUkernel>(step.shape.function), p.ctx = context_;
    else
      p.func = reinterpret_cast<CUfunction>(step.shape.function);
    p.gridDimX = step.shape.grid[0], p.gridDimY = step.shape.grid[1], p.gridDimZ = step.shape.grid[2];
    p.blockDimX = step.shape.block[0], p.blockDimY = step.shape.block[1], p.blockDimZ = step.shape.block[2];
    p.sharedMemBytes = step.shape.shared_bytes;
    p.kernelParams = pattern_->pointers.data() + step.pointers;
    if (driver.graph_exec_kernel_node_set_params(s.exec, step.node, &p) != CUDA_SUCCESS) return false;
    step.dirty = false;
    s.dirty--;
  }
  if (sampled && count) average(cost_patch_ns_, (clock::now_ns() - start) / count);
  return true;
}

// The segment's last launch has come: all of it goes out.
CUresult StreamState::submit_segment() {
  Segment& s = pattern_->segments[static_cast<size_t>(pattern_->steps[position_].segment)];
  const uint32_t held = pending_.load(std::memory_order_relaxed);
  position_ += 1;  // flush() counts backwards from here
  const auto eager = [&] {
    const CUresult r = flush();
    deferred_ = CUDA_SUCCESS;  // reported by this very call
    position_ -= 1;
    return r;
  };
  ++sample_;
  // Patching costs; past some share of the nodes launching is cheaper.
  if (s.dirty && cost_launch_ns_ > 0 && cost_patch_ns_ > 0 && cost_graph_ns_ > 0 &&
      static_cast<float>(s.dirty) * cost_patch_ns_ + cost_graph_ns_ >
          static_cast<float>(held) * cost_launch_ns_)
    return eager();
  Current current(context_);
  if (s.dirty && !patch(s)) {
    const CUresult r = eager();
    score_ -= 8;
    return r;
  }
  model::Op op = own_op(model::OpKind::graph_launch, handle_, context_);
  op.object = reinterpret_cast<uint64_t>(s.exec);
  op.invoke = [](model::Op& o) {
    return o.result = exec::Driver::get().graph_launch(reinterpret_cast<CUgraphExec>(o.object), o.stream);
  };
  const bool sampled = sample_ % kSampleEvery == 0;
  const uint64_t start = sampled ? clock::now_ns() : 0;
  const uint64_t decision = trace::new_id();
  CUresult r;
  {
    std::optional<trace::nvtx::Range> range;
    if (__builtin_expect(s.text != 0, 0)) range.emplace(trace::Feature::graph, s.text, decision);
    const trace::gpu::Around around(trace::Feature::graph, decision);
    r = shared_.owner->next->on_op(op);
  }
  // A launch the driver refused ran nothing: the same work again, launch by launch, gives the program its own
  // codes.
  if (r != CUDA_SUCCESS) return eager();
  if (sampled) average(cost_graph_ns_, clock::now_ns() - start);
  pending_.store(0, std::memory_order_release);
  pending_changed(false);
  buffering_ = false;
  position_ -= 1;  // the caller advances
  if (score_ < 16) score_++;
  shared_.replayed_launches.fetch_add(held, std::memory_order_relaxed);
  note(static_cast<uint8_t>(trace::Action::graph_replay), Reason::graph_periodic, true, held, decision);
  return CUDA_SUCCESS;
}

}  // namespace shunt::graphs
