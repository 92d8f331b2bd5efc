// The siblings' door; see private_api.h.
#include "tools/simgpu/driver/private_api.h"

#include <map>
#include <mutex>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph_exec.h"
#include "tools/simgpu/driver/core/memcheck.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"

using namespace simgpu::driver;

struct simgpu_op {
  Op op;  // never constructed: the pointer is an Op*
};

namespace {
Op* real(simgpu_op* op) { return reinterpret_cast<Op*>(op); }
const Op* real(const simgpu_op* op) { return reinterpret_cast<const Op*>(op); }

struct CustomState {
  void* state = nullptr;
  const simgpu_work* work = nullptr;
  simgpu_op* op = nullptr;
  ~CustomState() {
    if (work && work->finished) work->finished(work->user, op, state);
  }
};

class CustomBody : public OpBody {
 public:
  explicit CustomBody(const simgpu_work& given)
      : OpBody(OpKind::custom), work_(given), name_(given.name ? given.name : "custom") {}
  ~CustomBody() override {
    if (work_.release) work_.release(work_.user);
  }
  std::string name() const override { return name_; }
  Demand demand(const Op&) const override {
    Demand demand;
    demand.sm_fraction = work_.sm_fraction;
    demand.all_at_once = work_.sm_fraction > 0;
    return demand;
  }
  Step execute(Op& op, uint64_t) override {
    if (!op.scratch) {
      auto state = std::make_shared<CustomState>();
      state->work = &work_;
      state->op = reinterpret_cast<simgpu_op*>(&op);
      op.scratch = state;
    }
    auto& state = *static_cast<CustomState*>(op.scratch.get());
    switch (work_.execute(work_.user, state.op, &state.state)) {
      case SIMGPU_STEP_DONE:
        return Step::done;
      case SIMGPU_STEP_AGAIN:
        return Step::again;
      default:
        return Step::waiting;
    }
  }
  Cost cost(const Op& op) const override {
    Cost cost;
    auto* state = static_cast<CustomState*>(op.scratch.get());
    if (!work_.end_ns || !state) return cost;
    simgpu_use uses[16];
    int count = 16;
    const uint64_t end = work_.end_ns(work_.user, state->op, state->state, op.start_ns, uses, &count);
    cost.duration_ns = end > op.start_ns ? end - op.start_ns : 0;
    for (int i = 0; i < count && i < 16; ++i)
      cost.uses.push_back({uses[i].device, Resource(uses[i].resource), uses[i].share});
    return cost;
  }
  bool waits_outside() const override { return work_.waits_outside != 0; }

 private:
  simgpu_work work_;
  const std::string name_;
};

struct Subscription {
  void (*callback)(void*, const simgpu_record*);
  void* user;
};
void forward(void* user, const Record& r) {
  const auto* s = static_cast<const Subscription*>(user);
  simgpu_record out{sizeof out,
                    r.kind,
                    r.name.c_str(),
                    r.start_ns,
                    r.end_ns,
                    r.device,
                    r.context_id,
                    r.stream_id,
                    r.correlation,
                    r.thread,
                    r.bytes,
                    {r.grid[0], r.grid[1], r.grid[2]},
                    {r.block[0], r.block[1], r.block[2]},
                    r.dynamic_shared,
                    r.static_shared,
                    r.registers,
                    r.copy_kind,
                    r.result,
                    r.graph_id,
                    r.graph_node_id,
                    r.serial,
                    {r.cluster[0], r.cluster[1], r.cluster[2]},
                    r.local_bytes,
                    r.value,
                    r.src_memory,
                    r.dst_memory,
                    r.src_device,
                    r.dst_device,
                    r.handle};
  s->callback(s->user, &out);
}
}  // namespace

#define SIMGPU_PRIVATE extern "C" __attribute__((visibility("default")))

SIMGPU_PRIVATE int simgpu_submit(void* stream, const simgpu_work* work) {
  if (!work || work->size < sizeof(simgpu_work) || !work->execute) return CUDA_ERROR_INVALID_VALUE;
  return api_call("simgpu_submit", kNeedsInit | kNoTime, [&](Lock& lock) -> CUresult {
    std::shared_ptr<Stream> target;
    std::shared_ptr<Context> context;
    SIMGPU_TRY(resolve_stream(static_cast<CUstream>(stream), target, context));
    return submit(lock, target, std::make_shared<CustomBody>(*work));
  });
}
SIMGPU_PRIVATE void simgpu_resume(simgpu_op* op) {
  Lock lock(Engine::get().mutex());
  Engine::get().resume(real(op)->shared_from_this());
}
SIMGPU_PRIVATE void simgpu_poke(void) { Engine::get().poke(); }
SIMGPU_PRIVATE uint64_t simgpu_op_start_ns(const simgpu_op* op) { return real(op)->start_ns; }
SIMGPU_PRIVATE int simgpu_op_device(const simgpu_op* op) { return real(op)->device; }
SIMGPU_PRIVATE void simgpu_op_fail(simgpu_op* op, int error, const char* text) {
  real(op)->error = CUresult(error);
  real(op)->error_text = text ? text : "";
}
SIMGPU_PRIVATE void simgpu_op_access(simgpu_op* op, uint64_t address, size_t bytes, int kind) {
  if (!(races_watched() || memcheck_on()) || !op || !bytes) return;
  Lock lock(Engine::get().mutex());
  real(op)->extra_accesses.push_back({address, address + bytes, simgpu::exec::Access::Kind(kind)});
}
SIMGPU_PRIVATE void simgpu_op_meet(simgpu_op* a, simgpu_op* b) {
  if (!races_watched() || !a || !b || a == b) return;
  Lock lock(Engine::get().mutex());
  // The other may have been abandoned and dropped since the caller learned of it.
  Op* other = nullptr;
  Engine::get().for_unfinished([&](Op& op) {
    if (&op == real(b)) other = &op;
  });
  if (other) race_meet(*real(a), *other);
}
SIMGPU_PRIVATE uint64_t simgpu_host_ns(void) { return host_now(); }
SIMGPU_PRIVATE uint64_t simgpu_device_ns(void) {
  Lock lock(Engine::get().mutex());
  return Engine::get().now();
}
SIMGPU_PRIVATE void simgpu_raise_host_ns(uint64_t to_ns) { raise_host_clock(to_ns); }
SIMGPU_PRIVATE void simgpu_charge_host_ns(uint64_t ns) { charge_host(ns); }
SIMGPU_PRIVATE int simgpu_wait_stream(void* stream) {
  return api_call("simgpu_wait_stream", kNeedsInit | kNoTime, [&](Lock& lock) -> CUresult {
    std::shared_ptr<Stream> target;
    std::shared_ptr<Context> context;
    SIMGPU_TRY(resolve_stream(static_cast<CUstream>(stream), target, context));
    return synchronize_stream(lock, *target);
  });
}
SIMGPU_PRIVATE void* simgpu_host_pointer(uint64_t address, size_t bytes) {
  Location where;
  if (!platform() || locate(address, bytes, where) != CUDA_SUCCESS || !where.allocation) return nullptr;
  return where.allocation->host + (address - where.allocation->base);
}
SIMGPU_PRIVATE int simgpu_device_of_pointer(uint64_t address) {
  const AllocationRef a = MemoryMap::get().find(address);
  return a && !a->host_visible() ? a->device : -1;
}
SIMGPU_PRIVATE int simgpu_export_memory(uint64_t address, int* fd, uint64_t* offset, uint64_t* bytes) {
  const AllocationRef a = MemoryMap::get().find(address);
  const Device* device = a ? device_at(a->device) : nullptr;
  if (!device || !device->heap->contains(a->base)) return CUDA_ERROR_INVALID_VALUE;
  if (fd) *fd = device->heap->fd();
  if (offset) *offset = address - device->heap->window();
  if (bytes) *bytes = a->end() - address;
  return CUDA_SUCCESS;
}
SIMGPU_PRIVATE int simgpu_box_index(int device) {
  const Device* d = device_at(device);
  return d ? d->box_index : -1;
}
SIMGPU_PRIVATE double simgpu_link_bytes_per_s(int a, int b) {
  return platform() ? link_bytes_per_s(a, b) : 0;
}
SIMGPU_PRIVATE int simgpu_null_clock(void) { return clock_mode() == ClockMode::null; }

SIMGPU_PRIVATE int simgpu_subscribe(void (*callback)(void*, const simgpu_record*), void* user) {
  if (!callback) return 0;
  return timeline_subscribe(
      forward, new Subscription{callback, user});  // small, and may be in use while being removed
}
SIMGPU_PRIVATE void simgpu_unsubscribe(int id) { timeline_unsubscribe(id); }
SIMGPU_PRIVATE void simgpu_set_api_callback(void (*callback)(void*, const char*, int, int, uint64_t),
                                            void* user) {
  set_api_callback(callback, user);
}
SIMGPU_PRIVATE void simgpu_set_runtime_callback(void (*callback)(void*, const char*, int, int, uint64_t),
                                                void* user) {
  set_runtime_callback(callback, user);
}
SIMGPU_PRIVATE void simgpu_runtime_enter(const char* function) { runtime_enter(function); }
SIMGPU_PRIVATE void simgpu_runtime_exit(const char* function, int result) { runtime_exit(function, result); }
SIMGPU_PRIVATE void simgpu_unfinished(void (*callback)(void*, const simgpu_record*), void* user) {
  Subscription to{callback, user};
  Lock lock(Engine::get().mutex());
  Engine::get().for_unfinished([&](const Op& op) {
    Record r;
    if (!describe_op(op, r)) return;
    r.start_ns = r.end_ns = 0;
    forward(&to, r);
  });
}
SIMGPU_PRIVATE void simgpu_quiet(int change) { thread_state().api_depth += change; }
SIMGPU_PRIVATE uint64_t simgpu_correlation(void) { return current_correlation(); }

SIMGPU_PRIVATE uint64_t simgpu_graph_id(void* handle) {
  Lock lock(Engine::get().mutex());
  const Graph* graph = lookup<Graph>(handle);
  return graph ? graph->id : 0;
}
SIMGPU_PRIVATE uint64_t simgpu_graph_exec_id(void* handle) {
  Lock lock(Engine::get().mutex());
  const GraphExec* exec = lookup<GraphExec>(handle);
  return exec ? exec->graph->id : 0;
}
SIMGPU_PRIVATE uint64_t simgpu_graph_node_id(void* handle) {
  Lock lock(Engine::get().mutex());
  const GraphNode* node = lookup<GraphNode>(handle);
  return node ? node->serial : 0;
}

#define SIMGPU_MEMBER(name) simgpu_##name,
SIMGPU_PRIVATE const simgpu_private_table simgpu_private;
const simgpu_private_table simgpu_private = {sizeof(simgpu_private_table),
                                             SIMGPU_PRIVATE_MEMBERS(SIMGPU_MEMBER)};
#undef SIMGPU_MEMBER
