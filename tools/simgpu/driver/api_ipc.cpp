// Memory and events of other processes. The rules: core/ipc.cpp.
#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/ipc.h"

using namespace simgpu::driver;

SIMGPU_API cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return api_call("cuIpcGetMemHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pHandle && dptr, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return ipc_export_memory(dptr, *pHandle);
  });
}

SIMGPU_API cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return api_call("cuIpcOpenMemHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pdptr && Flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return ipc_open_memory(*context, handle, *pdptr);
  });
}
SIMGPU_API cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

SIMGPU_API cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return api_call("cuIpcCloseMemHandle", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(dptr, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return ipc_close_memory(lock, *context, dptr);
  });
}

SIMGPU_API cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  return api_call("cuIpcGetEventHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(pHandle, CUDA_ERROR_INVALID_VALUE);
    Event* e = lookup<Event>(event);
    SIMGPU_REQUIRE(e, CUDA_ERROR_INVALID_HANDLE);
    return ipc_export_event(*e, *pHandle);
  });
}

SIMGPU_API cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  return api_call("cuIpcOpenEventHandle", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(phEvent, CUDA_ERROR_INVALID_VALUE);
    Context* context;
    SIMGPU_TRY(require_context(context));
    return ipc_open_event(*context, handle, *phEvent);
  });
}
