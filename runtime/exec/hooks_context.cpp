// Contexts: creation, destruction, and what is current on the calling thread. op.object is the device
// (physical: the rim has translated it) for creations, the context for the rest.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::OpKind;

namespace {
template <class T>
uint64_t u(T* handle) {
  return reinterpret_cast<uint64_t>(handle);
}
inline void creates(model::Op& op, unsigned int flags, CUdevice device) {
  op.kind = OpKind::context_create, op.aux = flags,
  op.object = static_cast<uint64_t>(static_cast<int64_t>(device));
}
}  // namespace

SHUNT_BEFORE(cuCtxCreate_v2, CUcontext*& out, unsigned int& flags, CUdevice& device) {
  creates(op, flags, device);
}
SHUNT_AFTER(cuCtxCreate_v2, CUcontext*& out, unsigned int& flags, CUdevice& device) { op.out = u(*out); }
SHUNT_SAME(cuCtxCreate, cuCtxCreate_v2)
SHUNT_BEFORE(cuCtxCreate_v3, CUcontext*& out, CUexecAffinityParam*& a, int& n, unsigned int& flags,
             CUdevice& device) {
  creates(op, flags, device);
}
SHUNT_AFTER(cuCtxCreate_v3, CUcontext*& out, CUexecAffinityParam*& a, int& n, unsigned int& flags,
            CUdevice& device) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuCtxCreate_v4, CUcontext*& out, CUctxCreateParams*& p, unsigned int& flags, CUdevice& device) {
  creates(op, flags, device);
}
SHUNT_AFTER(cuCtxCreate_v4, CUcontext*& out, CUctxCreateParams*& p, unsigned int& flags, CUdevice& device) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuCtxDestroy_v2, CUcontext& c) { op.kind = OpKind::context_destroy, op.object = u(c); }
SHUNT_SAME(cuCtxDestroy, cuCtxDestroy_v2)

SHUNT_BEFORE(cuDevicePrimaryCtxRetain, CUcontext*& out, CUdevice& device) {
  op.kind = OpKind::primary_retain, op.object = static_cast<uint64_t>(static_cast<int64_t>(device));
}
SHUNT_AFTER(cuDevicePrimaryCtxRetain, CUcontext*& out, CUdevice& device) { op.out = u(*out); }
SHUNT_BEFORE(cuDevicePrimaryCtxRelease_v2, CUdevice& device) {
  op.kind = OpKind::primary_release, op.object = static_cast<uint64_t>(static_cast<int64_t>(device));
}
SHUNT_SAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)
SHUNT_BEFORE(cuDevicePrimaryCtxReset_v2, CUdevice& device) {
  op.kind = OpKind::primary_reset, op.object = static_cast<uint64_t>(static_cast<int64_t>(device));
}
SHUNT_SAME(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2)

// aux 1: the call names the new current context; 0: what is current afterwards must be asked.
SHUNT_BEFORE(cuCtxSetCurrent, CUcontext& c) {
  op.kind = OpKind::context_current, op.object = u(c), op.aux = 1;
}
SHUNT_BEFORE(cuCtxPushCurrent_v2, CUcontext& c) {
  op.kind = OpKind::context_current, op.object = u(c), op.aux = 1;
}
SHUNT_SAME(cuCtxPushCurrent, cuCtxPushCurrent_v2)
SHUNT_BEFORE(cuCtxPopCurrent_v2, CUcontext*& out) { op.kind = OpKind::context_current; }
SHUNT_SAME(cuCtxPopCurrent, cuCtxPopCurrent_v2)
SHUNT_BEFORE(cuCtxAttach, CUcontext*& out, unsigned int& flags) { op.kind = OpKind::context_current; }
SHUNT_BEFORE(cuCtxDetach, CUcontext& c) { op.kind = OpKind::context_destroy, op.object = u(c); }

SHUNT_BEFORE(cuGreenCtxCreate, CUgreenCtx*& out, CUdevResourceDesc& what, CUdevice& device,
             unsigned int& flags) {
  op.kind = OpKind::green_context;
}

void append_context_hooks(std::vector<HookEntry>& t) {
  for (const HookEntry& e :
       {SHUNT_HOOK(cuCtxCreate), SHUNT_HOOK(cuCtxCreate_v2), SHUNT_HOOK(cuCtxCreate_v3),
        SHUNT_HOOK(cuCtxCreate_v4), SHUNT_HOOK(cuCtxDestroy), SHUNT_HOOK(cuCtxDestroy_v2),
        SHUNT_HOOK(cuDevicePrimaryCtxRetain), SHUNT_HOOK(cuDevicePrimaryCtxRelease),
        SHUNT_HOOK(cuDevicePrimaryCtxRelease_v2), SHUNT_HOOK(cuDevicePrimaryCtxReset),
        SHUNT_HOOK(cuDevicePrimaryCtxReset_v2), SHUNT_HOOK(cuCtxSetCurrent), SHUNT_HOOK(cuCtxPushCurrent),
        SHUNT_HOOK(cuCtxPushCurrent_v2), SHUNT_HOOK(cuCtxPopCurrent), SHUNT_HOOK(cuCtxPopCurrent_v2),
        SHUNT_HOOK(cuCtxAttach), SHUNT_HOOK(cuCtxDetach), SHUNT_HOOK(cuGreenCtxCreate)})
    t.push_back(e);
}

}  // namespace shunt::exec
