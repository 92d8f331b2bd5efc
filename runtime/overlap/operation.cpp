#include "runtime/overlap/operation.h"

namespace shunt::overlap {

using nccl::Function;

bool operation_bytes(const Operation& o, int ranks, int rank, Bytes& out) {
  const uint64_t element = nccl::type_bytes(o.type);
  uint64_t part = 0, all = 0;
  if (element == 0 || ranks < 1 || __builtin_mul_overflow(o.count, element, &part) ||
      __builtin_mul_overflow(part, static_cast<uint64_t>(ranks), &all) || all > UINT64_C(1) << 46)
    return false;
  const bool root = o.root == rank;
  switch (o.function) {
    case Function::all_reduce:
      out = {part, part};
      return true;
    case Function::broadcast:
      out = {root ? part : 0, part};
      return true;
    case Function::reduce:
      out = {part, root ? part : 0};
      return true;
    case Function::all_gather:
      out = {part, all};
      return true;
    case Function::reduce_scatter:
      out = {all, part};
      return true;
    case Function::all_to_all:
      out = {all, all};
      return true;
    case Function::gather:
      out = {part, root ? all : 0};
      return true;
    case Function::scatter:
      out = {root ? all : 0, part};
      return true;
    case Function::send:
      out = {part, 0};
      return true;
    case Function::recv:
      out = {0, part};
      return true;
  }
  return false;
}

}  // namespace shunt::overlap
