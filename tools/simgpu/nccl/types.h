// NCCL's data types and reductions on the CPU, element by element in the type's own precision: each partial
// sum is rounded to the type, as when it travels a ring, so that another order of ranks shows as other bits.
#pragma once
#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace simgpu::nccl {

size_t type_bytes(ncclDataType_t type);  // 0: no such type
const char* type_name(ncclDataType_t type);

enum class Reduction : uint8_t { sum, prod, max, min };

// accumulator[i] = accumulator[i] op value[i]
void reduce(ncclDataType_t type, Reduction op, void* accumulator, const void* value, size_t count);
// data[i] *= scalar, both of the type (PreMulSum, and ncclAvg on floating types with 1/ranks).
void multiply(ncclDataType_t type, void* data, const void* scalar, size_t count);
// data[i] /= ranks (ncclAvg on integers: after the sum, towards zero).
void divide(ncclDataType_t type, void* data, int ranks, size_t count);
// The scalar 1/ranks in the type.
void reciprocal(ncclDataType_t type, int ranks, void* scalar);
bool is_integer(ncclDataType_t type);

}  // namespace simgpu::nccl
