// Ranges of __device__ and __constant__ variables, for copies and graph nodes.
#pragma once
#include "tools/simgpu/cudart/driver.h"

namespace simgpu::cudart {

// The bytes [offset, offset + count) of the symbol, checked against its size.
cudaError_t symbol_range(const void* symbol, size_t offset, size_t count, void** address);
// Whether a kind makes sense with the symbol, which is device memory, as destination or source.
bool kind_to_symbol(cudaMemcpyKind kind);
bool kind_from_symbol(cudaMemcpyKind kind);

}  // namespace simgpu::cudart
