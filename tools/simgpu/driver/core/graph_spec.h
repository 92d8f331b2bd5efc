// Node specs: from API parameters (explicit graphs), from the body of a captured call, back to API
// parameters, and the rules of what an executable may change. Engine mutex held.
#pragma once
#include "tools/simgpu/driver/core/graph.h"

namespace simgpu::driver {

// From API parameters. `before`: the spec of the node being changed, whose attributes stay; null for new
// nodes.
CUresult kernel_spec(const CUDA_KERNEL_NODE_PARAMS_v2& params, const NodeSpec* before, SpecRef& out);
CUresult memcpy_spec(const CUDA_MEMCPY3D& params, CUcontext context, SpecRef& out);
CUresult memset_spec(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context, SpecRef& out);
CUresult host_spec(const CUDA_HOST_NODE_PARAMS& params, SpecRef& out);
CUresult batch_spec(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, SpecRef& out);
CUresult event_spec(CUgraphNodeType type, CUevent event, SpecRef& out);
SpecRef empty_spec();
// A child graph node over `graph`, which the node owns from now on.
SpecRef child_spec(std::shared_ptr<Graph> graph, CUgraphChildGraphNodeOwnership ownership);
// Allocates the address and stores it in params.dptr.
CUresult alloc_spec(Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS& params, SpecRef& out);
CUresult free_spec(Graph& graph, CUdeviceptr address, SpecRef& out);
// Parameters of any node type that cuGraphAddNode knows, except child graphs and memory nodes.
CUresult generic_spec(const CUgraphNodeParams& params, const NodeSpec* before, SpecRef& out);
// The context a node call names: the handle, or the current one for NULL.
CUresult node_context(CUcontext handle, std::shared_ptr<Context>& out);

// What a captured call becomes; STREAM_CAPTURE_UNSUPPORTED for work that graphs cannot hold.
CUresult captured_spec(const Stream& stream, std::shared_ptr<const OpBody> body, SpecRef& out);

// Back to API parameters. Pointers in the results belong to the node.
void kernel_params_of(const NodeSpec& spec, CUDA_KERNEL_NODE_PARAMS_v2& out);
// One attribute changed.
CUresult with_attribute(const NodeSpec& spec, int attribute, const CUlaunchAttributeValue& value,
                        SpecRef& out);
CUresult attribute_of(const NodeSpec& spec, int attribute, CUlaunchAttributeValue& out);

// Whether a node of an executable may become `next`. `whole`: cuGraphExecUpdate's rules, otherwise those of
// the call for one node.
CUgraphExecUpdateResult check_change(const NodeSpec& now, const NodeSpec& next, bool node_priority,
                                     bool whole);

// The operations of one batch node, one after another.
class BatchBody : public OpBody {
 public:
  explicit BatchBody(std::vector<std::shared_ptr<OpBody>> steps)
      : OpBody(OpKind::memory_wait), steps(std::move(steps)) {}
  std::string name() const override { return "batch memory operations"; }
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op& op) const override;
  bool waits_outside() const override;
  const std::vector<std::shared_ptr<OpBody>> steps;
};
}  // namespace simgpu::driver
