// Kernels, graphs, host functions, stream memory operations. The launch's shape and parameter pointers are
// described in place; the bytes behind params are valid until the hook returns.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::OpKind;

namespace {
inline void shape(model::Op& op, OpKind kind, CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                  unsigned bx, unsigned by, unsigned bz, unsigned shared, void** params, void** extra) {
  op.kind = kind;
  op.object = reinterpret_cast<uint64_t>(f);
  op.launch = {{gx, gy, gz}, {bx, by, bz}, shared, 0, nullptr, params, extra};
}
}  // namespace

SHUNT_BEFORE(cuLaunchKernel, CUfunction& f, unsigned& gx, unsigned& gy, unsigned& gz, unsigned& bx,
             unsigned& by, unsigned& bz, unsigned& shared, CUstream& s, void**& params, void**& extra) {
  shape(op, OpKind::kernel, f, gx, gy, gz, bx, by, bz, shared, params, extra);
}
SHUNT_SAME(cuLaunchKernel_ptsz, cuLaunchKernel)
SHUNT_BEFORE(cuLaunchCooperativeKernel, CUfunction& f, unsigned& gx, unsigned& gy, unsigned& gz, unsigned& bx,
             unsigned& by, unsigned& bz, unsigned& shared, CUstream& s, void**& params) {
  shape(op, OpKind::kernel_cooperative, f, gx, gy, gz, bx, by, bz, shared, params, nullptr);
}
SHUNT_SAME(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel)
SHUNT_BEFORE(cuLaunchKernelEx, const CUlaunchConfig*& c, CUfunction& f, void**& params, void**& extra) {
  if (!c) {
    op.kind = OpKind::other;
    return;
  }
  shape(op, OpKind::kernel_ex, f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
        c->blockDimZ, c->sharedMemBytes, params, extra);
  op.stream = c->hStream;
  op.launch.attribute_count = c->numAttrs;
  op.launch.attributes = c->attrs;
}
SHUNT_SAME(cuLaunchKernelEx_ptsz, cuLaunchKernelEx)

SHUNT_BEFORE(cuGraphLaunch, CUgraphExec& exec, CUstream& s) {
  op.kind = OpKind::graph_launch, op.object = reinterpret_cast<uint64_t>(exec);
}
SHUNT_SAME(cuGraphLaunch_ptsz, cuGraphLaunch)
SHUNT_BEFORE(cuLaunchHostFunc, CUstream& s, CUhostFn& fn, void*& data) {
  op.kind = OpKind::host_function, op.object = reinterpret_cast<uint64_t>(fn);
}
SHUNT_SAME(cuLaunchHostFunc_ptsz, cuLaunchHostFunc)
SHUNT_BEFORE(cuStreamAddCallback, CUstream& s, CUstreamCallback& fn, void*& data, unsigned int& flags) {
  op.kind = OpKind::host_function, op.object = reinterpret_cast<uint64_t>(fn);
}
SHUNT_SAME(cuStreamAddCallback_ptsz, cuStreamAddCallback)

#define SHUNT_VALUE_OP(symbol, T)                                                          \
  SHUNT_BEFORE(symbol, CUstream& s, CUdeviceptr& address, T& value, unsigned int& flags) { \
    op.kind = OpKind::stream_memop, op.object = address, op.bytes = sizeof(T);             \
  }
SHUNT_VALUE_OP(cuStreamWaitValue32_v2, cuuint32_t)
SHUNT_SAME(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32_v2)
SHUNT_VALUE_OP(cuStreamWaitValue64_v2, cuuint64_t)
SHUNT_SAME(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64_v2)
SHUNT_VALUE_OP(cuStreamWriteValue32_v2, cuuint32_t)
SHUNT_SAME(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32_v2)
SHUNT_VALUE_OP(cuStreamWriteValue64_v2, cuuint64_t)
SHUNT_SAME(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64_v2)

void append_launch_hooks(std::vector<HookEntry>& t) {
  for (const HookEntry& e : {SHUNT_HOOK(cuLaunchKernel),
                             SHUNT_HOOK(cuLaunchKernel_ptsz),
                             SHUNT_HOOK(cuLaunchCooperativeKernel),
                             SHUNT_HOOK(cuLaunchCooperativeKernel_ptsz),
                             SHUNT_HOOK(cuLaunchKernelEx),
                             SHUNT_HOOK(cuLaunchKernelEx_ptsz),
                             SHUNT_HOOK(cuGraphLaunch),
                             SHUNT_HOOK(cuGraphLaunch_ptsz),
                             SHUNT_HOOK(cuLaunchHostFunc),
                             SHUNT_HOOK(cuLaunchHostFunc_ptsz),
                             SHUNT_HOOK(cuStreamAddCallback),
                             SHUNT_HOOK(cuStreamAddCallback_ptsz),
                             SHUNT_HOOK(cuStreamWaitValue32_v2),
                             SHUNT_HOOK(cuStreamWaitValue32_v2_ptsz),
                             SHUNT_HOOK(cuStreamWaitValue64_v2),
                             SHUNT_HOOK(cuStreamWaitValue64_v2_ptsz),
                             SHUNT_HOOK(cuStreamWriteValue32_v2),
                             SHUNT_HOOK(cuStreamWriteValue32_v2_ptsz),
                             SHUNT_HOOK(cuStreamWriteValue64_v2),
                             SHUNT_HOOK(cuStreamWriteValue64_v2_ptsz)})
    t.push_back(e);
}

}  // namespace shunt::exec
