// One call of NCCL that moves data: what it reads and writes on this rank. Lives on the caller's stack, or in
// the thread's group until its end.
#pragma once
#include "runtime/overlap/footprint.h"
#include "runtime/overlap/nccl_abi.h"

namespace shunt::overlap {

struct CommInfo;

struct Operation {
  nccl::Function function = nccl::Function::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // as the function counts
  nccl::Type type = 0;
  nccl::Operator op = 0;
  int root = 0;  // or peer
  nccl::Comm comm = nullptr;
  CUstream stream = nullptr;
};

struct Bytes {
  uint64_t read = 0, write = 0;
};
// Bytes behind `send` and `receive` on this rank; nullopt-like {0, 0} with false when the type is unknown or
// the size overflows.
bool operation_bytes(const Operation& o, int ranks, int rank, Bytes& out);

}  // namespace shunt::overlap
