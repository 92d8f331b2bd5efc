// The public CUDA headers, included one way everywhere: with both default-stream forms declared (so that the
// compiler checks each definition against NVIDIA's declaration) and with default visibility, since these are
// what we export.
#pragma once
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
// Needs the line above.
#include <cuda_profiler_api.h>
#pragma GCC visibility pop
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
