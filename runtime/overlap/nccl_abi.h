// The part of NCCL's documented interface the engine uses: own minimal declarations, since the header is
// often absent where shunt is built. Numbers are those of every NCCL 2 release. Constant.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace shunt::overlap::nccl {

using Result = int;
using Comm = void*;
using Type = int;
using Operator = int;

constexpr Result kSuccess = 0, kInProgress = 7;
constexpr Operator kBuiltInOperators = 5;  // sum, prod, max, min, avg; from here on made by the program
constexpr int kScalarDevice = 0;           // ncclScalarResidence_t

// Passed by value: 128 bytes of memory class, as ncclUniqueId.
struct UniqueId {
  char internal[128];
};

// The members in front of ncclConfig_t, in every version of it.
struct ConfigHead {
  size_t size;
  unsigned magic, version;
  int blocking;
};

// 0: a type this build does not know.
constexpr uint32_t type_bytes(Type type) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(sizeof kBytes) ? kBytes[type] : 0;
}

enum class Function : uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
};

}  // namespace shunt::overlap::nccl
