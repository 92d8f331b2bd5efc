// Initialisation, version, error strings, symbol look-up, profiler switches.
#include <cstring>

#include "tools/simgpu/driver/core/call.h"

using namespace simgpu::driver;

namespace {
struct Entry {
  const char* name;
  int version;
  int flags;  // 1: NULL is the legacy stream, 2: NULL is the per-thread stream
  void* symbol;
};
#define SIMGPU_ENTRY(name, version, flags, symbol) {#name, version, flags, reinterpret_cast<void*>(&symbol)},
const Entry kEntries[] = {
#include "tools/simgpu/driver/generated/entries.inc"
};
#undef SIMGPU_ENTRY

// The newest form that is not newer than the version asked for, of the kind asked for; per-thread forms fall
// back to plain ones for functions that have no stream.
CUresult find_entry(const char* symbol, void** out, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult* status) {
  if (out) *out = nullptr;
  if (status) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (!symbol || !out) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_GET_PROC_ADDRESS_DEFAULT && flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
      flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  if (version < 0) return CUDA_ERROR_INVALID_VALUE;
  if (fault_point("driver_missing", CUDA_ERROR_NOT_FOUND, symbol) != CUDA_SUCCESS)
    return CUDA_ERROR_NOT_FOUND;
  const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const Entry* plain = nullptr;
  const Entry* threaded = nullptr;
  bool name_exists = false;
  for (const Entry& entry : kEntries) {
    if (strcmp(entry.name, symbol) != 0) continue;
    name_exists = true;
    if (entry.version > version) continue;
    const Entry*& best = entry.flags == 2 ? threaded : plain;
    if (!best || entry.version > best->version) best = &entry;
  }
  const Entry* found = per_thread && threaded ? threaded : plain;
  if (!found) {
    if (status && name_exists) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return CUDA_ERROR_NOT_FOUND;
  }
  *out = found->symbol;
  if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
#define E(code, text) {code, #code, text},
const ErrorText kErrors[] = {
#include "tools/simgpu/driver/core/error_table.inc"
};
#undef E
}  // namespace

SIMGPU_API cuInit(unsigned int Flags) {
  return api_call("cuInit", kAnyTime, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(Flags == 0, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(fault_point("init", CUDA_ERROR_UNKNOWN));
    return initialise_platform();
  });
}

SIMGPU_API cuDriverGetVersion(int* driverVersion) {
  return api_call("cuDriverGetVersion", kAnyTime | kNoTime, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(driverVersion, CUDA_ERROR_INVALID_VALUE);
    *driverVersion = simgpu::kCudaDriverVersion;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API cuGetErrorString(CUresult error, const char** pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = nullptr;
  for (const ErrorText& e : kErrors) {
    if (e.code == error) *pStr = e.text;
  }
  return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API cuGetErrorName(CUresult error, const char** pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = nullptr;
  for (const ErrorText& e : kErrors) {
    if (e.code == error) *pStr = e.name;
  }
  return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                               CUdriverProcAddressQueryResult* symbolStatus) {
  return find_entry(symbol, pfn, cudaVersion, flags, symbolStatus);
}
SIMGPU_API cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return find_entry(symbol, pfn, cudaVersion, flags, nullptr);
}

// The private tables behind this call are not imitated.
SIMGPU_API cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (!ppExportTable || !pExportTableId) return CUDA_ERROR_INVALID_VALUE;
  *ppExportTable = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

SIMGPU_API cuProfilerStart(void) {
  return api_call("cuProfilerStart", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    return require_context(context);
  });
}
SIMGPU_API cuProfilerStop(void) {
  return api_call("cuProfilerStop", kNeedsInit, [&](Lock&) -> CUresult {
    Context* context;
    return require_context(context);
  });
}
SIMGPU_API cuProfilerInitialize(const char*, const char*, CUoutput_mode) { return CUDA_ERROR_NOT_SUPPORTED; }
