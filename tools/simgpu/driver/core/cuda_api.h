// The one include of cuda.h in simgpu's driver. With the internal-version switch the header declares every
// exported symbol under its own name (cuMemAlloc and cuMemAlloc_v2 are different functions), so nothing is
// renamed by macros.
#pragma once
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaProfiler.h>

// Definition of an exported driver function. Everything else in the library is hidden.
#define SIMGPU_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
