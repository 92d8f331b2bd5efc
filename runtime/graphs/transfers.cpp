#include "runtime/graphs/transfers.h"

#include <string.h>

#include "runtime/exec/driver.h"
#include "runtime/model/model.h"

namespace shunt::graphs {
namespace {

using model::MemoryKind;
using model::Op;
using model::OpKind;

constexpr uint64_t kLargest = 1ull << 30;  // beyond it a node's width may not be representable

bool in_device_memory(uint64_t address, uint64_t bytes, CUcontext context, int device) {
  const auto found = model::Model::get().allocations().find(address);
  if (!found || bytes > found->bytes || address - found->base > found->bytes - bytes) return false;
  switch (found->kind) {
    case MemoryKind::device:
    case MemoryKind::pitched:
      return found->context == context;
    case MemoryKind::async:
    case MemoryKind::pool:
      return found->device >= 0 && found->device == device;
    default:
      return false;
  }
}

uint64_t element_bytes(Transfer t) { return t == Transfer::fill32 ? 4 : t == Transfer::fill16 ? 2 : 1; }

CUDA_MEMSET_NODE_PARAMS fill_node(Transfer t, const TransferParams& p) {
  CUDA_MEMSET_NODE_PARAMS n{};
  n.dst = p.to;
  n.value = static_cast<unsigned>(p.from);
  n.elementSize = static_cast<unsigned>(element_bytes(t));
  n.width = p.bytes / element_bytes(t);
  n.height = 1;
  return n;
}

CUDA_MEMCPY3D copy_node(const TransferParams& p) {
  CUDA_MEMCPY3D n{};
  n.srcMemoryType = n.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  n.srcDevice = p.from, n.dstDevice = p.to;
  n.WidthInBytes = p.bytes, n.Height = n.Depth = 1;
  return n;
}

}  // namespace

Transfer transfer_of(const Op& op, TransferParams& out) {
  Transfer t = Transfer::none;
  if (op.kind == OpKind::memset) {
    if (op.slot == SHUNT_SLOT_cuMemsetD8Async) t = Transfer::fill8;
    if (op.slot == SHUNT_SLOT_cuMemsetD16Async) t = Transfer::fill16;
    if (op.slot == SHUNT_SLOT_cuMemsetD32Async) t = Transfer::fill32;
  } else if (op.kind == OpKind::copy_linear) {
    if (op.slot == SHUNT_SLOT_cuMemcpyDtoDAsync_v2 || op.slot == SHUNT_SLOT_cuMemcpyAsync) t = Transfer::copy;
  }
  if (t == Transfer::none || op.bytes == 0 || op.bytes > kLargest || op.range_count == 0)
    return Transfer::none;
  out.to = op.ranges[0].base, out.bytes = op.bytes;
  out.from = t == Transfer::copy ? op.ranges[1].base : op.aux;
  if (out.to % element_bytes(t) != 0) return Transfer::none;
  const int device = model::Model::get().device_of(op.context);
  if (!in_device_memory(out.to, out.bytes, op.context, device)) return Transfer::none;
  if (t == Transfer::copy && !in_device_memory(out.from, out.bytes, op.context, device))
    return Transfer::none;
  return t;
}

model::FunctionInfo& transfer_function(Transfer t) {
  struct Functions {
    ParamLayout layout;
    model::FunctionInfo of[kTransfers];
    Functions() {
      layout.params = {{0, 8}, {16, 8}, {32, 8}};
      layout.bytes = 48;
      layout.known = true;
      for (uint64_t i = 0; i < kTransfers; ++i) {
        strcpy(of[i].name, i == static_cast<uint64_t>(Transfer::copy) ? "memcpy" : "memset");
        of[i].param_layout.store(&layout);
      }
    }
  };
  static auto* functions = new Functions();
  return functions->of[static_cast<size_t>(t)];
}

TransferParams transfer_params(void* const* params) {
  TransferParams p;
  memcpy(&p.to, params[0], 8);
  memcpy(&p.from, params[1], 8);
  memcpy(&p.bytes, params[2], 8);
  return p;
}

bool add_transfer_node(Transfer t, const TransferParams& p, CUcontext context, CUgraph graph,
                       CUgraphNode after, CUgraphNode* out) {
  const exec::Driver& driver = exec::Driver::get();
  const CUgraphNode* list = after ? &after : nullptr;
  const size_t count = after ? 1 : 0;
  if (t == Transfer::copy) {
    const CUDA_MEMCPY3D n = copy_node(p);
    return driver.graph_add_memcpy_node(out, graph, list, count, &n, context) == CUDA_SUCCESS;
  }
  const CUDA_MEMSET_NODE_PARAMS n = fill_node(t, p);
  return driver.graph_add_memset_node(out, graph, list, count, &n, context) == CUDA_SUCCESS;
}

bool patch_transfer_node(Transfer t, const TransferParams& p, CUcontext context, CUgraphExec exec,
                         CUgraphNode node) {
  const exec::Driver& driver = exec::Driver::get();
  if (t == Transfer::copy) {
    const CUDA_MEMCPY3D n = copy_node(p);
    return driver.graph_exec_memcpy_node_set_params(exec, node, &n, context) == CUDA_SUCCESS;
  }
  const CUDA_MEMSET_NODE_PARAMS n = fill_node(t, p);
  return driver.graph_exec_memset_node_set_params(exec, node, &n, context) == CUDA_SUCCESS;
}

void describe_transfer(Op& op, Transfer t, const TransferParams& p) {
  op.op_class = model::OpClass::copy;
  op.bytes = p.bytes;
  op.aux = p.from;
  op.object = p.to;
  op.add_range(p.to, p.bytes, model::Access::write);
  if (t == Transfer::copy) {
    op.kind = OpKind::copy_linear, op.slot = SHUNT_SLOT_cuMemcpyDtoDAsync_v2;
    op.add_range(p.from, p.bytes, model::Access::read);
    op.invoke = [](Op& o) {
      return o.result = exec::Driver::get().memcpy_dtod_async(o.object, o.aux, o.bytes, o.stream);
    };
    return;
  }
  op.kind = OpKind::memset;
  switch (t) {
    case Transfer::fill32:
      op.slot = SHUNT_SLOT_cuMemsetD32Async;
      op.invoke = [](Op& o) {
        return o.result = exec::Driver::get().memset_d32_async(o.object, static_cast<unsigned>(o.aux),
                                                               o.bytes / 4, o.stream);
      };
      return;
    case Transfer::fill16:
      op.slot = SHUNT_SLOT_cuMemsetD16Async;
      op.invoke = [](Op& o) {
        return o.result = exec::Driver::get().memset_d16_async(o.object, static_cast<unsigned short>(o.aux),
                                                               o.bytes / 2, o.stream);
      };
      return;
    default:
      op.slot = SHUNT_SLOT_cuMemsetD8Async;
      op.invoke = [](Op& o) {
        return o.result = exec::Driver::get().memset_d8_async(o.object, static_cast<unsigned char>(o.aux),
                                                              o.bytes, o.stream);
      };
  }
}

bool transfers_supported() {
  const exec::Driver& d = exec::Driver::get();
  return d.graph_add_memcpy_node && d.graph_add_memset_node && d.graph_exec_memcpy_node_set_params &&
         d.graph_exec_memset_node_set_params && d.memcpy_dtod_async && d.memset_d8_async &&
         d.memset_d16_async && d.memset_d32_async;
}

}  // namespace shunt::graphs
