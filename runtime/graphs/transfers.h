// Memsets and copies within device memory as steps of a pattern: each poses as a launch of a function of its
// own with three parameters (destination, source or value, bytes), so that learning, comparing and patching
// are those of launches. Held back only when both ends lie in device memory the program owns now, in the
// stream's context and on its device: then the driver has nothing to refuse at the call. Any thread.
#pragma once
#include <cuda.h>

#include "runtime/graphs/params.h"
#include "runtime/model/op.h"

namespace shunt::graphs {

enum class Transfer : uint8_t { none, fill8, fill16, fill32, copy };
inline constexpr uint64_t kTransfers = 5;  // posed functions are small numbers, which no handle is

struct TransferParams {
  uint64_t to = 0, from = 0, bytes = 0;  // from: a copy's source, a memset's value
};

// What the call is, if it may be held back.
Transfer transfer_of(const model::Op& op, TransferParams& out);
inline Transfer transfer_of(uint64_t function) {
  return function < kTransfers ? static_cast<Transfer>(function) : Transfer::none;
}
model::FunctionInfo& transfer_function(Transfer t);
// A step's parameters, as TransferParams, from its kernelParams array.
TransferParams transfer_params(void* const* params);

bool add_transfer_node(Transfer t, const TransferParams& p, CUcontext context, CUgraph graph,
                       CUgraphNode after, CUgraphNode* out);
bool patch_transfer_node(Transfer t, const TransferParams& p, CUcontext context, CUgraphExec exec,
                         CUgraphNode node);
// An op of the engine's own that makes the call; `params` must stay valid until it has been made.
void describe_transfer(model::Op& op, Transfer t, const TransferParams& p);
bool transfers_supported();

}  // namespace shunt::graphs
