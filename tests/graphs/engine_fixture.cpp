#include "tests/graphs/engine_fixture.h"

#include <functional>

namespace shunt::graphs::test {

FakeDevice& FakeDevice::get() {
  static auto* d = new FakeDevice();
  return *d;
}

namespace {

constexpr uint64_t kFill = 0xF1115E7, kCopy = 0xC0B1E5;
uint64_t mixed(uint64_t to, uint64_t from, uint64_t bytes) { return to * 31 + from * 7 + bytes; }
FakeDevice& d() { return FakeDevice::get(); }
template <class T>
uint64_t u(T* p) {
  return reinterpret_cast<uint64_t>(p);
}
uint64_t argument_of(void** params) {
  uint64_t v = 0;
  memcpy(&v, params[0], 8);
  return v;
}

CUresult launch_kernel(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       CUstream s, void** params, void**) {
  std::lock_guard lock(d().mutex);
  if (d().launch_answer != CUDA_SUCCESS) return d().launch_answer;
  d().log.push_back({u(s), u(f), argument_of(params)});
  return CUDA_SUCCESS;
}
CUresult param_info(CUfunction, size_t i, size_t* offset, size_t* size) {
  if (i > 0) return CUDA_ERROR_INVALID_VALUE;
  return *offset = 0, *size = 8, CUDA_SUCCESS;
}
CUresult graph_create(CUgraph* out, unsigned) {
  std::lock_guard lock(d().mutex);
  d().graphs[d().next += 0x10] = {};
  return *out = reinterpret_cast<CUgraph>(d().next), CUDA_SUCCESS;
}
CUresult graph_destroy(CUgraph g) {
  std::lock_guard lock(d().mutex);
  return d().graphs.erase(u(g)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// A node's handle is its number, counted from 1.
CUresult add_kernel_node(CUgraphNode* out, CUgraph g, const CUgraphNode*, size_t,
                         const CUDA_KERNEL_NODE_PARAMS* p) {
  std::lock_guard lock(d().mutex);
  auto& nodes = d().graphs[u(g)].nodes;
  nodes.push_back({u(p->func), argument_of(p->kernelParams)});
  return *out = reinterpret_cast<CUgraphNode>(nodes.size()), CUDA_SUCCESS;
}
CUresult instantiate(CUgraphExec* out, CUgraph g, unsigned long long) {
  std::lock_guard lock(d().mutex);
  if (d().instantiate_answer != CUDA_SUCCESS) return d().instantiate_answer;
  d().execs[d().next += 0x10] = d().graphs[u(g)];
  d().live_execs++;
  return *out = reinterpret_cast<CUgraphExec>(d().next), CUDA_SUCCESS;
}
CUresult exec_destroy(CUgraphExec e) {
  std::lock_guard lock(d().mutex);
  if (!d().execs.erase(u(e))) return CUDA_ERROR_INVALID_VALUE;
  d().live_execs--;
  return CUDA_SUCCESS;
}
CUresult add_fill_node(CUgraphNode* out, CUgraph g, const CUgraphNode*, size_t,
                       const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  std::lock_guard lock(d().mutex);
  auto& nodes = d().graphs[u(g)].nodes;
  nodes.push_back({kFill, mixed(p->dst, p->value, p->width * p->elementSize)});
  return *out = reinterpret_cast<CUgraphNode>(nodes.size()), CUDA_SUCCESS;
}
CUresult add_copy_node(CUgraphNode* out, CUgraph g, const CUgraphNode*, size_t, const CUDA_MEMCPY3D* p,
                       CUcontext) {
  std::lock_guard lock(d().mutex);
  auto& nodes = d().graphs[u(g)].nodes;
  nodes.push_back({kCopy, mixed(p->dstDevice, p->srcDevice, p->WidthInBytes)});
  return *out = reinterpret_cast<CUgraphNode>(nodes.size()), CUDA_SUCCESS;
}
CUresult set_fill(CUgraphExec e, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  std::lock_guard lock(d().mutex);
  d().patches++;
  d().execs[u(e)].nodes[u(node) - 1] = {kFill, mixed(p->dst, p->value, p->width * p->elementSize)};
  return CUDA_SUCCESS;
}
CUresult set_copy(CUgraphExec e, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
  std::lock_guard lock(d().mutex);
  d().patches++;
  d().execs[u(e)].nodes[u(node) - 1] = {kCopy, mixed(p->dstDevice, p->srcDevice, p->WidthInBytes)};
  return CUDA_SUCCESS;
}
template <class T>
CUresult fill_async(CUdeviceptr to, T value, size_t n, CUstream s) {
  std::lock_guard lock(d().mutex);
  if (d().launch_answer != CUDA_SUCCESS) return d().launch_answer;
  d().log.push_back({u(s), kFill, mixed(to, value, n * sizeof(T))});
  return CUDA_SUCCESS;
}
CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  std::lock_guard lock(d().mutex);
  if (d().launch_answer != CUDA_SUCCESS) return d().launch_answer;
  d().log.push_back({u(s), kCopy, mixed(to, from, n)});
  return CUDA_SUCCESS;
}
CUresult set_params(CUgraphExec e, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  std::lock_guard lock(d().mutex);
  d().patches++;
  d().execs[u(e)].nodes[u(node) - 1] = {u(p->func), argument_of(p->kernelParams)};
  return CUDA_SUCCESS;
}
CUresult graph_launch(CUgraphExec e, CUstream s) {
  std::lock_guard lock(d().mutex);
  if (d().graph_answer != CUDA_SUCCESS) return d().graph_answer;
  d().graph_launches++;
  for (const auto& [function, argument] : d().execs[u(e)].nodes)
    d().log.push_back({u(s), function, argument}),
        d().transfer_nodes += function == kFill || function == kCopy;
  return CUDA_SUCCESS;
}
CUresult get_current(CUcontext* out) { return *out = reinterpret_cast<CUcontext>(0xC0), CUDA_SUCCESS; }
CUresult set_current(CUcontext) { return CUDA_SUCCESS; }
CUresult exchange_mode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }

void* find(uint32_t slot) {
  switch (slot) {
#define SHUNT_FAKE(symbol, function) \
  case SHUNT_SLOT_##symbol:          \
    return reinterpret_cast<void*>(static_cast<exec::Fn<SHUNT_SLOT_##symbol>>(function));
    SHUNT_FAKE(cuLaunchKernel, launch_kernel)
    SHUNT_FAKE(cuFuncGetParamInfo, param_info)
    SHUNT_FAKE(cuGraphCreate, graph_create)
    SHUNT_FAKE(cuGraphDestroy, graph_destroy)
    SHUNT_FAKE(cuGraphAddKernelNode_v2, add_kernel_node)
    SHUNT_FAKE(cuGraphAddMemsetNode, add_fill_node)
    SHUNT_FAKE(cuGraphAddMemcpyNode, add_copy_node)
    SHUNT_FAKE(cuGraphExecMemsetNodeSetParams, set_fill)
    SHUNT_FAKE(cuGraphExecMemcpyNodeSetParams, set_copy)
    SHUNT_FAKE(cuMemsetD8Async, fill_async<unsigned char>)
    SHUNT_FAKE(cuMemsetD16Async, fill_async<unsigned short>)
    SHUNT_FAKE(cuMemsetD32Async, fill_async<unsigned>)
    SHUNT_FAKE(cuMemcpyDtoDAsync_v2, copy_async)
    SHUNT_FAKE(cuGraphInstantiateWithFlags, instantiate)
    SHUNT_FAKE(cuGraphExecDestroy, exec_destroy)
    SHUNT_FAKE(cuGraphExecKernelNodeSetParams_v2, set_params)
    SHUNT_FAKE(cuGraphLaunch, graph_launch)
    SHUNT_FAKE(cuCtxGetCurrent, get_current)
    SHUNT_FAKE(cuCtxSetCurrent, set_current)
    SHUNT_FAKE(cuThreadExchangeStreamCaptureMode, exchange_mode)
#undef SHUNT_FAKE
    default:
      return nullptr;
  }
}
void set_hook(uint32_t, void*) {}
void* find_loaded(const char*, const char*) { return nullptr; }
void set_drain_unknown(int) {}

}  // namespace

const ShuntHost* graphs_host() {
  static const ShuntHost host = {sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, "libshunt.so", find,
                                 set_hook,          find_loaded,        set_drain_unknown};
  return &host;
}

void EngineTest::SetUp() {
  if (link_) link_->drain(exec::Scope::everything(), Reason::none);  // its builder comes to rest
  exec::g_host = graphs_host();
  model::Model::fork_child();
  model::Questions q;
  q.ctx_get_current = get_current;
  q.ctx_get_device = [](CUdevice* out) { return *out = 0, CUDA_SUCCESS; };
  model::Model::get().set_questions(q);
  {
    std::lock_guard lock(d().mutex);
    d().log.clear();
    d().graph_launches = d().patches = d().live_execs = d().transfer_nodes = 0;
    d().graphs.clear(), d().execs.clear();
    d().graph_answer = d().launch_answer = d().instantiate_answer = CUDA_SUCCESS;
  }
  called_.clear();
  link_ = std::make_unique<GraphsLink>(GraphsLink::Settings{.flusher = false});
  link_->next = &recorder_;
  recorder_.on_other = nullptr;
}

model::StreamInfo* EngineTest::stream(uint64_t handle, bool non_blocking) {
  model::StreamInfo* info = model::Model::get().stream(reinterpret_cast<CUstream>(handle), false, context_);
  info->context = context_;
  info->non_blocking = non_blocking;
  return info;
}

CUresult EngineTest::launch(uint64_t s, uint64_t function, uint64_t argument) {
  void* params[] = {&argument};
  model::Op op;
  op.op_class = model::OpClass::launch;
  op.kind = model::OpKind::kernel;
  op.asynchronous = true;
  op.object = function;
  op.context = context_;
  op.stream_info = stream(s);
  op.stream = op.stream_info->handle;
  op.function_info = model::Model::get().function(reinterpret_cast<CUfunction>(function));
  op.launch = {{1, 1, 1}, {32, 1, 1}, 0, 0, nullptr, params, nullptr};
  op.invoke = [](model::Op& o) {
    return o.result = launch_kernel(reinterpret_cast<CUfunction>(o.object), 1, 1, 1, 32, 1, 1, 0, o.stream,
                                    o.launch.params, nullptr);
  };
  const CUresult r = link_->on_op(op);
  if (r == CUDA_SUCCESS) called_[s].push_back({u(op.stream), function, argument});
  return r;
}

void EngineTest::own_memory(uint64_t base, uint64_t bytes, model::MemoryKind kind) {
  model::Allocation a;
  a.base = base, a.bytes = bytes, a.kind = kind, a.context = context_, a.device = 0;
  model::Model::get().allocations().insert(a);
}

CUresult EngineTest::fill(uint64_t s, uint64_t to, uint32_t value, uint64_t bytes) {
  model::Op op;
  op.op_class = model::OpClass::copy, op.kind = model::OpKind::memset, op.slot = SHUNT_SLOT_cuMemsetD32Async;
  op.asynchronous = true, op.context = context_, op.stream_info = stream(s),
  op.stream = op.stream_info->handle;
  op.bytes = bytes, op.aux = value;
  op.add_range(to, bytes, model::Access::write);
  op.invoke = [](model::Op& o) {
    return o.result =
               fill_async<unsigned>(o.ranges[0].base, static_cast<unsigned>(o.aux), o.bytes / 4, o.stream);
  };
  const CUresult r = link_->on_op(op);
  if (r == CUDA_SUCCESS) called_[s].push_back({u(op.stream), kFill, mixed(to, value, bytes)});
  return r;
}

CUresult EngineTest::copy(uint64_t s, uint64_t to, uint64_t from, uint64_t bytes) {
  model::Op op;
  op.op_class = model::OpClass::copy, op.kind = model::OpKind::copy_linear,
  op.slot = SHUNT_SLOT_cuMemcpyAsync;
  op.asynchronous = true, op.context = context_, op.stream_info = stream(s),
  op.stream = op.stream_info->handle;
  op.bytes = bytes;
  op.add_range(to, bytes, model::Access::write), op.add_range(from, bytes, model::Access::read);
  op.invoke = [](model::Op& o) {
    return o.result = copy_async(o.ranges[0].base, o.ranges[1].base, o.bytes, o.stream);
  };
  const CUresult r = link_->on_op(op);
  if (r == CUDA_SUCCESS) called_[s].push_back({u(op.stream), kCopy, mixed(to, from, bytes)});
  return r;
}

CUresult EngineTest::other(model::OpKind kind, model::OpClass op_class, uint64_t s, bool asynchronous) {
  model::Op op;
  op.op_class = op_class;
  op.kind = kind;
  op.asynchronous = asynchronous;
  op.context = context_;
  op.stream_info = s ? stream(s) : nullptr;
  op.stream = s ? op.stream_info->handle : nullptr;
  op.launch = {};
  return link_->on_op(op);
}

std::vector<Submitted> EngineTest::submitted(uint64_t s) {
  const uint64_t handle = u(stream(s)->handle);
  std::lock_guard lock(d().mutex);
  std::vector<Submitted> of;
  for (const Submitted& x : d().log)
    if (x.stream == handle) of.push_back(x);
  return of;
}

void EngineTest::train(uint64_t s, uint32_t period) {
  const uint64_t before = link_->shared().replayed_launches.load();
  for (uint32_t k = 0; k < 4000; ++k) {
    for (uint32_t i = 0; i < period; ++i) ASSERT_EQ(launch(s, 0x100 + i, i), CUDA_SUCCESS);
    if (link_->shared().replayed_launches.load() > before + 4 * period) break;
    if (k > 100) usleep(200);
  }
  ASSERT_GT(link_->shared().replayed_launches.load(), before) << "never replayed";
  for (uint32_t i = 0; i < 3; ++i) ASSERT_EQ(launch(s, 0x100 + i, i), CUDA_SUCCESS);
  ASSERT_FALSE(all_submitted(s)) << "nothing is held back";
}

}  // namespace shunt::graphs::test
