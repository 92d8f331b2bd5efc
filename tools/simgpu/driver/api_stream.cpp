// Streams: creation, queries, waits, host functions, attributes, memory operations.
#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/capture.h"
#include "tools/simgpu/driver/core/ipc.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"

using namespace simgpu::driver;

namespace {
struct Target {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
};
CUresult resolve(CUstream handle, Target& out) { return resolve_stream(handle, out.stream, out.context); }

CUresult create(CUstream* out, unsigned flags, int priority) {
  SIMGPU_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
  Context* context;
  SIMGPU_TRY(require_context(context));
  SIMGPU_REQUIRE(!(flags & ~CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("stream", CUDA_ERROR_OUT_OF_MEMORY));
  auto stream = create_stream(*context, flags, priority);
  make_handle(stream);
  context->streams.insert(stream);
  *out = handle_of<CUstream>(*stream);
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return api_call("cuStreamCreate", kNeedsInit,
                  [&](Lock&) -> CUresult { return create(phStream, Flags, 0); });
}
SIMGPU_API cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return api_call("cuStreamCreateWithPriority", kNeedsInit,
                  [&](Lock&) -> CUresult { return create(phStream, flags, priority); });
}

// Returns at once; work already in the stream finishes.
SIMGPU_API cuStreamDestroy_v2(CUstream hStream) {
  return api_call("cuStreamDestroy", kNeedsInit, [&](Lock&) -> CUresult {
    Stream* stream = lookup<Stream>(hStream);
    SIMGPU_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
    auto keep = shared(stream);
    auto context = stream->context.lock();
    capture_stream_destroyed(*stream);
    stream->destroyed = true;
    drop_handle(*stream);
    // Work still pending keeps ordering the legacy stream: submit() drops the stream from the context once it
    // is idle.
    if (context && !stream->tail) context->streams.erase(keep);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamDestroy(CUstream hStream) { return cuStreamDestroy_v2(hStream); }

SIMGPU_API cuStreamQuery(CUstream hStream) {
  return api_call("cuStreamQuery", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    SIMGPU_TRY(capture_check(CaptureQuestion::stream_sync, t.context.get(), t.stream.get()));
    SIMGPU_TRY(fault_point("stream_query", CUDA_ERROR_LAUNCH_FAILED));
    bool all = true;
    for (const OpRef& op : stream_targets(*t.stream)) all &= Engine::get().query(lock, op);
    if (t.context->sticky.load() != CUDA_SUCCESS) return t.context->sticky.load();
    if (all && races_watched()) race_host_synced(*t.stream);
    return all ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

SIMGPU_API cuStreamSynchronize(CUstream hStream) {
  return api_call("cuStreamSynchronize", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    SIMGPU_TRY(fault_point("stream_sync", CUDA_ERROR_LAUNCH_FAILED));
    return synchronize_stream(lock, *t.stream);
  });
}

SIMGPU_API cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return api_call("cuStreamWaitEvent", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    Event* event = lookup<Event>(hEvent);
    SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    SIMGPU_REQUIRE(!(Flags & ~CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(fault_point("event_wait", CUDA_ERROR_LAUNCH_FAILED));
    if (g_wait_event_hook) {
      bool handled = false;
      const CUresult result = g_wait_event_hook(lock, t.stream, *event, Flags, handled);
      if (handled) return result;
    }
    if (event->ipc) return ipc_wait_event(lock, t.stream, *event);
    if (!event->record) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    return submit(lock, t.stream, std::make_shared<MarkerBody>(OpKind::event_wait, "event wait"), nullptr,
                  {event->record});
  });
}

SIMGPU_API cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  return api_call("cuLaunchHostFunc", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(fn, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    return submit(lock, t.stream, std::make_shared<HostFunctionBody>(fn, userData));
  });
}

SIMGPU_API cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                               unsigned int flags) {
  return api_call("cuStreamAddCallback", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(callback && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    if (t.stream->capture)  // not a node: breaks the capture
      return capture_check(CaptureQuestion::stream_sync, t.context.get(), t.stream.get());
    return submit(lock, t.stream, std::make_shared<HostFunctionBody>(callback, hStream, userData));
  });
}

SIMGPU_API cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  return api_call("cuStreamAttachMemAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    const AllocationRef a = MemoryMap::get().find(dptr);
    SIMGPU_REQUIRE(a && a->kind == MemoryKind::managed, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(length == 0 || length == a->size, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(
        flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
        CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(flags != CU_MEM_ATTACH_SINGLE || (!t.stream->legacy && !t.stream->per_thread),
                   CUDA_ERROR_INVALID_VALUE);
    return submit(lock, t.stream, std::make_shared<MarkerBody>(OpKind::empty, "attach memory"));
  });
}

SIMGPU_API cuStreamGetPriority(CUstream hStream, int* priority) {
  return api_call("cuStreamGetPriority", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(priority, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *priority = t.stream->priority;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  return api_call("cuStreamGetFlags", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *flags = t.stream->flags;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  return api_call("cuStreamGetId", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(streamId, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *streamId = t.stream->id;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return api_call("cuStreamGetDevice", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *device = t.stream->device;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return api_call("cuStreamGetCtx", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *pctx = handle_of<CUcontext>(*t.context);
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  return api_call("cuStreamGetCtx_v2", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pCtx && pGreenCtx, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    *pCtx = handle_of<CUcontext>(*t.context);
    *pGreenCtx = nullptr;
    return CUDA_SUCCESS;
  });
}

namespace {
bool stream_attribute_known(CUstreamAttrID attr) {
  return attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || attr == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}
}  // namespace

SIMGPU_API cuStreamCopyAttributes(CUstream dst, CUstream src) {
  return api_call("cuStreamCopyAttributes", kNeedsInit, [&](Lock&) -> CUresult {
    Target to, from;
    SIMGPU_TRY(resolve(dst, to));
    SIMGPU_TRY(resolve(src, from));
    SIMGPU_REQUIRE(to.context == from.context, CUDA_ERROR_INVALID_VALUE);
    to.stream->attributes = from.stream->attributes;
    to.stream->priority = from.stream->priority;
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  return api_call("cuStreamGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(value_out && stream_attribute_known(attr), CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    memset(value_out, 0, sizeof *value_out);
    auto it = t.stream->attributes.find(attr);
    if (it != t.stream->attributes.end()) {
      *value_out = it->second;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
      value_out->syncPolicy = CU_SYNC_POLICY_AUTO;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
      value_out->priority = t.stream->priority;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) {
      value_out->memSyncDomainMap.remote = 1;
    }
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  return api_call("cuStreamSetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(value && stream_attribute_known(attr), CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(hStream, t));
    t.stream->attributes[attr] = *value;
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) t.stream->priority = std::clamp(value->priority, -5, 0);
    return CUDA_SUCCESS;
  });
}

// --- memory operations ---
namespace {
CUresult memory_place(uint64_t address, bool wide) {
  SIMGPU_REQUIRE(address && address % (wide ? 8 : 4) == 0, CUDA_ERROR_INVALID_VALUE);
  Location where;
  SIMGPU_TRY(locate(address, wide ? 8 : 4, where));
  SIMGPU_REQUIRE(where.allocation, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}
CUresult submit_wait(Lock& lock, const Target& t, uint64_t address, uint64_t value, bool wide,
                     unsigned flags) {
  SIMGPU_REQUIRE(!(flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!(flags & CU_STREAM_WAIT_VALUE_FLUSH),
                 CUDA_ERROR_NOT_SUPPORTED);  // attribute CAN_FLUSH_REMOTE_WRITES is 0
  SIMGPU_TRY(memory_place(address, wide));
  return submit(lock, t.stream, std::make_shared<MemoryWaitBody>(address, value, wide, flags));
}
CUresult submit_write(Lock& lock, const Target& t, uint64_t address, uint64_t value, bool wide,
                      unsigned flags) {
  SIMGPU_REQUIRE(!(flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(memory_place(address, wide));
  return submit(lock, t.stream, std::make_shared<MemoryWriteBody>(address, value, wide));
}
}  // namespace

SIMGPU_API cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return api_call("cuStreamWaitValue32", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(stream, t));
    return submit_wait(lock, t, addr, value, false, flags);
  });
}
SIMGPU_API cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return api_call("cuStreamWaitValue64", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(stream, t));
    return submit_wait(lock, t, addr, value, true, flags);
  });
}
SIMGPU_API cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return api_call("cuStreamWriteValue32", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(stream, t));
    return submit_write(lock, t, addr, value, false, flags);
  });
}
SIMGPU_API cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return api_call("cuStreamWriteValue64", kNeedsInit, [&](Lock& lock) -> CUresult {
    Target t;
    SIMGPU_TRY(resolve(stream, t));
    return submit_write(lock, t, addr, value, true, flags);
  });
}

SIMGPU_API cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                                 unsigned int flags) {
  return api_call("cuStreamBatchMemOp", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(count && count <= 256 && paramArray && flags == 0, CUDA_ERROR_INVALID_VALUE);
    Target t;
    SIMGPU_TRY(resolve(stream, t));
    if (t.stream->capture)
      return capture_batch(t.stream, {handle_of<CUcontext>(*t.context), count, paramArray, flags});
    for (unsigned i = 0; i < count; ++i) {
      const CUstreamBatchMemOpParams& p = paramArray[i];
      switch (p.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
          SIMGPU_TRY(submit_wait(lock, t, p.waitValue.address, p.waitValue.value, false, p.waitValue.flags));
          break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
          SIMGPU_TRY(submit_wait(lock, t, p.waitValue.address, p.waitValue.value64, true, p.waitValue.flags));
          break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
          SIMGPU_TRY(
              submit_write(lock, t, p.writeValue.address, p.writeValue.value, false, p.writeValue.flags));
          break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
          SIMGPU_TRY(
              submit_write(lock, t, p.writeValue.address, p.writeValue.value64, true, p.writeValue.flags));
          break;
        case CU_STREAM_MEM_OP_BARRIER:
          SIMGPU_TRY(submit(lock, t.stream, std::make_shared<MarkerBody>(OpKind::empty, "memory barrier")));
          break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
          return CUDA_ERROR_NOT_SUPPORTED;
        default:
          return CUDA_ERROR_INVALID_VALUE;
      }
    }
    return CUDA_SUCCESS;
  });
}
