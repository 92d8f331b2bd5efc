#include "tools/simgpu/driver/core/graph_exec.h"

#include <algorithm>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/graph_spec.h"

namespace simgpu::driver {
namespace {
const std::shared_ptr<const OpBody>& marker(int which) {
  static const std::shared_ptr<const OpBody>* bodies = [] {
    auto* b = new std::shared_ptr<const OpBody>[6];
    b[0] = std::make_shared<MarkerBody>(OpKind::graph_begin, "graph begin");
    b[1] = std::make_shared<MarkerBody>(OpKind::graph_end, "graph");
    b[2] = std::make_shared<MarkerBody>(OpKind::empty, "empty");
    b[3] = std::make_shared<MarkerBody>(OpKind::event_record, "event record");
    b[4] = std::make_shared<MarkerBody>(OpKind::event_wait, "event wait");
    b[5] = std::make_shared<MarkerBody>(OpKind::empty, "graph upload");
    return b;
  }();
  return bodies[which];
}
enum Marker { kBegin, kEnd, kEmpty, kRecord, kWait, kUpload };

// Appends the steps of a graph that starts after `entry` (step indices); returns the steps that end it.
bool splice(GraphExec& exec, const Graph& graph, const std::vector<uint32_t>& entry,
            std::vector<uint32_t>& exits, GraphNode*& culprit) {
  std::vector<GraphNode*> order;
  if (!topological_order(graph, order, &culprit)) return false;
  std::unordered_map<const GraphNode*, uint32_t> step_of;
  step_of.reserve(order.size());
  for (GraphNode* node : order) {
    GraphExec::Step step;
    step.node = node;
    step.dependencies.reserve(node->dependencies.size());
    for (const Edge& edge : node->dependencies) step.dependencies.push_back(step_of[edge.node]);
    if (node->dependencies.empty()) step.dependencies = entry;
    ++exec.node_count;
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) {
      step.node = nullptr;
      exec.plan.push_back(std::move(step));
      std::vector<uint32_t> inner;
      if (!splice(exec, *node->spec->as<ChildPart>().graph, {uint32_t(exec.plan.size() - 1)}, inner, culprit))
        return false;
      step = {};
      step.dependencies = std::move(inner);
    } else if (node->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      exec.allocations.push_back(node->spec->as<AllocPart>().memory);
    } else if (node->type() == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      exec.frees.push_back(node->spec->as<FreePart>().memory);
    }
    exec.plan.push_back(std::move(step));
    step_of[node] = uint32_t(exec.plan.size() - 1);
    if (node->dependents.empty()) exits.push_back(step_of[node]);
  }
  if (order.empty()) exits = entry;
  return true;
}

void index_nodes(GraphExec& exec, const Graph& copy) {
  for (const auto& node : copy.nodes) {
    exec.by_source[node->original] = node.get();
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) index_nodes(exec, *node->spec->as<ChildPart>().graph);
  }
}

GraphNode* source_of(const Graph& graph, uint64_t serial) {
  for (const auto& node : graph.nodes) {
    if (node->serial == serial) return node.get();
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) {
      if (GraphNode* inner = source_of(*node->spec->as<ChildPart>().graph, serial)) return inner;
    }
  }
  return nullptr;
}
}  // namespace

GraphExec::~GraphExec() {
  // Cached memory serves other graphs from now on.
  for (const GraphAllocationRef& memory : allocations) {
    if (!memory->live && !memory->in_flight) unback(*memory);
  }
}

CUresult instantiate_graph(Graph& graph, unsigned long long flags, std::shared_ptr<GraphExec>& out,
                           GraphNode*& culprit, CUgraphInstantiateResult& why) {
  culprit = nullptr;
  why = CUDA_GRAPH_INSTANTIATE_ERROR;
  constexpr unsigned long long kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  SIMGPU_REQUIRE(!(flags & ~kKnown), CUDA_ERROR_INVALID_VALUE);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    SIMGPU_REQUIRE(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), CUDA_ERROR_INVALID_VALUE);
    log_once(LogLevel::warn, "graph device launch",
             "graphs: instantiation for device launch is not supported");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  SIMGPU_REQUIRE(!graph.parent_node, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!graph.captures, CUDA_ERROR_INVALID_VALUE);
  const bool memory_nodes = graph.has_memory_nodes();
  SIMGPU_REQUIRE(!memory_nodes || graph.executables == 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("instantiate", CUDA_ERROR_OUT_OF_MEMORY));

  auto exec = std::make_shared<GraphExec>();
  exec->id = next_object_id();
  exec->flags = flags & ~CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  exec->graph = clone_graph(graph, true);
  exec->source = shared(&graph);
  std::vector<uint32_t> exits;
  GraphNode* inner = nullptr;
  if (!splice(*exec, *exec->graph, {}, exits, inner)) {
    why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (inner) culprit = source_of(graph, inner->original);
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (uint32_t step : exits) exec->plan[step].last = true;
  index_nodes(*exec, *exec->graph);
  if (memory_nodes) ++graph.executables;
  make_handle(exec);
  out = std::move(exec);
  why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

namespace {
// Memory rules of a launch, and device memory for its allocations. Nothing changes when it fails.
CUresult prepare_memory(GraphExec& exec) {
  const bool auto_free = exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  auto freed_here = [&](const GraphAllocationRef& memory) {
    return std::find(exec.frees.begin(), exec.frees.end(), memory) != exec.frees.end();
  };
  auto made_here = [&](const GraphAllocationRef& memory) {
    return std::find(exec.allocations.begin(), exec.allocations.end(), memory) != exec.allocations.end();
  };
  for (const auto& memory : exec.allocations)
    SIMGPU_REQUIRE(!memory->live || auto_free, CUDA_ERROR_INVALID_VALUE);
  for (const auto& memory : exec.frees)
    SIMGPU_REQUIRE(memory->live || made_here(memory), CUDA_ERROR_INVALID_VALUE);
  for (const auto& memory : exec.allocations) SIMGPU_TRY(back(*memory));
  for (const auto& memory : exec.allocations) {
    ++memory->in_flight;
    if (freed_here(memory)) continue;
    set_live(memory, true);
    show(*memory);  // calls after the launch may name it
  }
  for (const auto& memory : exec.frees) {
    if (!made_here(memory)) {
      set_live(memory, false);
      ++memory->in_flight;
    }
  }
  for (const auto& memory : exec.allocations) note_graph_memory_use(memory->device);
  return CUDA_SUCCESS;
}

void finish_memory(GraphExec& exec) {
  for (const auto& memory : exec.allocations) --memory->in_flight;
  for (const auto& memory : exec.frees) {
    if (std::find(exec.allocations.begin(), exec.allocations.end(), memory) != exec.allocations.end())
      continue;
    --memory->in_flight;
    freed(*memory);
  }
}

const std::shared_ptr<const OpBody>& body_of(const GraphNode* node) {
  if (!node || !node->enabled) return marker(kEmpty);
  switch (node->type()) {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return marker(kRecord);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return marker(kWait);
    default:
      return node->spec->body ? node->spec->body : marker(kEmpty);
  }
}
}  // namespace

CUresult launch_graph(Lock& lock, GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  auto context = stream->context.lock();
  SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  const shunt::profiles::Profile& profile = *context->device->profile;
  const double host_ns =
      profile.graph_launch_ns.value + profile.graph_node_host_ns.value * double(exec.node_count);
  if (host_ns > double(context->device->host_call_ns))
    charge_host(uint64_t(host_ns) - context->device->host_call_ns);
  // Contexts may have failed or gone since the instantiation.
  std::shared_ptr<Context> last_context;
  for (const GraphExec::Step& step : exec.plan) {
    if (!step.node || !step.node->spec->has_context) continue;
    auto own = step.node->spec->context.lock();
    if (own == last_context && own) continue;
    SIMGPU_REQUIRE(own && !own->destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    SIMGPU_TRY(own->sticky.load());
    last_context = std::move(own);
  }
  auto keep = shared(&exec);
  SIMGPU_TRY(prepare_memory(exec));

  Engine& engine = Engine::get();
  OpRef begin;
  const CUresult submitted = submit(lock, stream, marker(kBegin), &begin, {exec.previous});
  if (submitted != CUDA_SUCCESS) {
    finish_memory(exec);
    return submitted;
  }
  begin->graph_id = exec.graph->id;
  begin->correlation = current_correlation();
  const bool own_priority = exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

  std::vector<OpRef> ops(exec.plan.size());
  std::vector<OpRef> ends;
  for (size_t i = 0; i < exec.plan.size(); ++i) {
    const GraphExec::Step& step = exec.plan[i];
    const NodeSpec* spec = step.node ? step.node->spec.get() : nullptr;
    OpRef op = engine.make_op(body_of(step.node), spec && spec->has_context ? spec->context.lock() : context,
                              stream);
    op->correlation = begin->correlation;
    op->in_graph = true;
    op->graph_id = exec.graph->id;
    op->graph_node_id = step.node ? step.node->original : 0;
    if (own_priority && spec && spec->launch() && spec->launch()->has_priority)
      op->priority = spec->launch()->priority;
    op->dependencies.reserve(std::max<size_t>(1, step.dependencies.size()));
    for (uint32_t before : step.dependencies) engine.depend(*op, ops[before]);
    if (step.dependencies.empty()) engine.depend(*op, begin);
    if (step.node && step.node->enabled) {
      if (step.node->type() == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
        engine.depend(*op, spec->as<EventPart>().event->record);
      } else if (step.node->type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
        Event& event = *spec->as<EventPart>().event;
        event.record = op;
        event.recorded = true;
        event.capture.reset();
      }
    }
    if (step.last) ends.push_back(op);
    ops[i] = std::move(op);
  }
  OpRef end = engine.make_op(marker(kEnd), context, stream);
  end->correlation = begin->correlation;
  end->graph_id = exec.graph->id;
  engine.depend(*end, begin);
  for (const OpRef& op : ends) engine.depend(*end, op);
  end->on_completed.push_back([keep, begin](Op& op) {
    op.start_ns = begin->start_ns;  // the graph's own record spans the whole launch
    finish_memory(*keep);
  });
  // Linked only now: a dependency that is already complete needs no second look.
  for (const OpRef& op : ops) engine.link(op);
  stream->tail = end;
  ++stream->pending;
  engine.link(end);
  exec.previous = std::move(end);
  return CUDA_SUCCESS;
}

CUresult upload_graph(Lock& lock, GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  SIMGPU_TRY(fault_point("upload", CUDA_ERROR_OUT_OF_MEMORY));
  for (const auto& memory : exec.allocations) SIMGPU_TRY(back(*memory));
  OpRef op;
  SIMGPU_TRY(submit(lock, stream, marker(kUpload), &op, {exec.previous}));
  exec.previous = std::move(op);
  return CUDA_SUCCESS;
}

GraphNode* node_in_exec(GraphExec& exec, CUgraphNode handle) {
  GraphNode* node = lookup<GraphNode>(handle);
  if (!node || !node->graph) return nullptr;
  auto place = exec.by_source.find(node->serial);
  return place == exec.by_source.end() ? nullptr : place->second;
}

namespace {
using Change = std::pair<GraphNode*, SpecRef>;

// Pairs nodes in insertion order and collects what would change.
CUgraphExecUpdateResult compare(GraphExec& exec, Graph& now, Graph& next, std::vector<Change>& changes,
                                GraphNode*& error_node, GraphNode*& error_from) {
  error_node = error_from = nullptr;
  if (now.nodes.size() != next.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::unordered_map<const GraphNode*, const GraphNode*> pair_of;  // node of next -> node of now
  pair_of.reserve(next.nodes.size());
  for (size_t i = 0; i < next.nodes.size(); ++i) pair_of[next.nodes[i].get()] = now.nodes[i].get();
  const bool node_priority = exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  for (size_t i = 0; i < next.nodes.size(); ++i) {
    GraphNode &a = *now.nodes[i], &b = *next.nodes[i];
    if (a.dependencies.size() != b.dependencies.size()) {
      error_node = &b;
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (size_t k = 0; k < b.dependencies.size(); ++k) {
      // Edge order may differ between graphs; the set may not.
      const GraphNode* wanted = pair_of[b.dependencies[k].node];
      const Edge* edge = a.dependencies[k].node == wanted ? &a.dependencies[k] : find_edge(*wanted, a);
      if (!edge || !same(edge->data, b.dependencies[k].data)) {
        error_node = &b;
        error_from = b.dependencies[k].node;
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      }
    }
    const CUgraphExecUpdateResult result = check_change(*a.spec, *b.spec, node_priority, true);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
      error_node = &b;
      return result;
    }
    if (a.type() == CU_GRAPH_NODE_TYPE_GRAPH) {
      GraphNode *inner_node = nullptr, *inner_from = nullptr;
      const CUgraphExecUpdateResult inner =
          compare(exec, *a.spec->as<ChildPart>().graph, *b.spec->as<ChildPart>().graph, changes, inner_node,
                  inner_from);
      if (inner != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        error_node = inner_node ? inner_node : &b;
        error_from = inner_from;
        return inner;
      }
    } else if (a.spec != b.spec) {
      changes.emplace_back(&a, b.spec);
    }
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void apply(const std::vector<Change>& changes) {
  for (const auto& [node, spec] : changes) node->spec = spec;
  if (const Context* context = current_context())
    charge_host(uint64_t(context->device->profile->graph_patch_node_ns.value) * changes.size());
}
}  // namespace

CUgraphExecUpdateResult update_graph(GraphExec& exec, Graph& graph, GraphNode*& error_node,
                                     GraphNode*& error_from) {
  std::vector<Change> changes;
  const CUgraphExecUpdateResult result = compare(exec, *exec.graph, graph, changes, error_node, error_from);
  if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  // The executable now holds the user objects of the graph that gave it its parameters.
  for (const auto& [object, count] : graph.user_objects) {
    if (exec.graph->user_objects.count(object)) continue;
    object->references += count;
    exec.graph->user_objects[object] = count;
  }
  apply(changes);
  return result;
}

CUgraphExecUpdateResult update_child(GraphExec& exec, GraphNode& child_node, Graph& graph) {
  std::vector<Change> changes;
  GraphNode *error_node, *error_from;
  const CUgraphExecUpdateResult result =
      compare(exec, *child_node.spec->as<ChildPart>().graph, graph, changes, error_node, error_from);
  if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS) apply(changes);
  return result;
}
}  // namespace simgpu::driver
