// Context-wide event record and wait, atomic capabilities, the error log.
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/ops.h"

using namespace simgpu::driver;
using simgpu::LinkKind;

// All work of the context so far, as one event.
SIMGPU_API cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  return api_call("cuCtxRecordEvent", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context = lookup<Context>(hCtx);
    SIMGPU_REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(event->context.lock().get() == context, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_TRY(context->sticky.load());
    for (const auto& stream : context->streams)
      SIMGPU_REQUIRE(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    Engine& engine = Engine::get();
    OpRef op = engine.make_op(std::make_shared<MarkerBody>(OpKind::event_record, "context event record"),
                              shared(context), nullptr);
    for (const OpRef& earlier : context_targets(*context)) engine.depend(*op, earlier);
    engine.link(op);
    event->record = op;
    event->recorded = true;
    return CUDA_SUCCESS;
  });
}

// All later work of the context runs after the event.
SIMGPU_API cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  return api_call("cuCtxWaitEvent", kNeedsInit, [&](Lock& lock) -> CUresult {
    Context* context = lookup<Context>(hCtx);
    SIMGPU_REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_TRY(context->sticky.load());
    for (const auto& stream : context->streams)
      SIMGPU_REQUIRE(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!event->record) return CUDA_SUCCESS;
    auto body = std::make_shared<MarkerBody>(OpKind::event_wait, "context event wait");
    std::vector<std::shared_ptr<Stream>> all(context->streams.begin(), context->streams.end());
    for (const auto& [thread, stream] : context->per_thread) all.push_back(stream);
    all.push_back(context->legacy);
    for (const auto& stream : all) SIMGPU_TRY(submit(lock, stream, body, nullptr, {event->record}));
    return CUDA_SUCCESS;
  });
}

namespace {
// 32- and 64-bit integer and bitwise atomics; 32-bit floating addition.
unsigned atomic_capability(CUatomicOperation operation) {
  switch (int(operation)) {
    case CU_ATOMIC_OPERATION_FLOAT_ADD:
      return CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64 | CU_ATOMIC_CAPABILITY_REDUCTION;
    case CU_ATOMIC_OPERATION_FLOAT_MIN:
    case CU_ATOMIC_OPERATION_FLOAT_MAX:
      return 0;
    default:
      return CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_REDUCTION |
             CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;
  }
}
CUresult capabilities_of(bool native, unsigned* out, const CUatomicOperation* operations, unsigned count) {
  SIMGPU_REQUIRE(out && operations && count, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i) {
    SIMGPU_REQUIRE(unsigned(operations[i]) < CU_ATOMIC_OPERATION_MAX, CUDA_ERROR_INVALID_VALUE);
    out[i] = native ? atomic_capability(operations[i]) : 0;
  }
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                             unsigned int count, CUdevice dev) {
  return api_call("cuDeviceGetHostAtomicCapabilities", kNeedsInit, [&](Lock&) -> CUresult {
    Device* device = device_at(dev);
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_DEVICE);
    return capabilities_of(device->profile->addressing == "ats", capabilities, operations, count);
  });
}
SIMGPU_API cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                            unsigned int count, CUdevice srcDevice, CUdevice dstDevice) {
  return api_call("cuDeviceGetP2PAtomicCapabilities", kNeedsInit, [&](Lock&) -> CUresult {
    Device *src = device_at(srcDevice), *dst = device_at(dstDevice);
    SIMGPU_REQUIRE(src && dst && src != dst, CUDA_ERROR_INVALID_DEVICE);
    const LinkKind link = platform()->box->spec().link[size_t(src->box_index)][size_t(dst->box_index)];
    return capabilities_of(link == LinkKind::nvlink || link == LinkKind::c2c, capabilities, operations,
                           count);
  });
}
