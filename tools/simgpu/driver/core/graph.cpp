#include "tools/simgpu/driver/core/graph.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_set>

#include "tools/simgpu/driver/core/call.h"

namespace simgpu::driver {
namespace {
uint64_t next_node_serial() {
  static uint64_t next = 1;
  return next++;
}
uint64_t next_graph_id() {
  static uint64_t next = 1;
  return next++;
}
}  // namespace

const KernelLaunch* NodeSpec::launch() const {
  if (type != CU_GRAPH_NODE_TYPE_KERNEL || !body || body->kind != OpKind::kernel) return nullptr;
  return &static_cast<const KernelBody&>(*body).launch;
}

bool same(const CUgraphEdgeData& a, const CUgraphEdgeData& b) { return memcmp(&a, &b, sizeof a) == 0; }
bool is_default(const CUgraphEdgeData& data) { return same(data, CUgraphEdgeData{}); }

void release_user_object(UserObject& object, uint64_t count) {
  if (!object.references) return;
  object.references -= std::min(count, object.references);
  if (object.references) return;
  OpRef op = Engine::get().make_op(std::make_shared<HostFunctionBody>(object.destroy, object.pointer),
                                   nullptr, nullptr);
  const_cast<OpBody&>(*op->body).execute(*op, 0);  // hands it to the callback thread
  drop_handle(object);
}

Graph::~Graph() {
  for (auto& [object, count] : user_objects) release_user_object(*object, count);
}

bool Graph::has_memory_nodes() const {
  for (const auto& node : nodes) {
    if (node->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type() == CU_GRAPH_NODE_TYPE_MEM_FREE)
      return true;
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH && node->spec->as<ChildPart>().graph->has_memory_nodes())
      return true;
  }
  return false;
}

std::shared_ptr<Graph> create_graph() {
  auto graph = std::make_shared<Graph>();
  graph->id = next_graph_id();
  make_handle(graph);
  return graph;
}

void destroy_graph(Graph& graph) {
  auto keep = shared(&graph);
  for (const auto& node : graph.nodes) {
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) destroy_graph(*node->spec->as<ChildPart>().graph);
    node->graph = nullptr;
    node->dependencies.clear();
    node->dependents.clear();
    drop_handle(*node);
  }
  graph.nodes.clear();
  drop_handle(graph);
}

void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
  to.dependencies.push_back({&from, data});
  from.dependents.push_back({&to, data});
}

const Edge* find_edge(const GraphNode& from, const GraphNode& to) {
  // The shorter list answers.
  if (to.dependencies.size() <= from.dependents.size()) {
    for (const Edge& edge : to.dependencies)
      if (edge.node == &from) return &edge;
  } else {
    for (const Edge& edge : from.dependents)
      if (edge.node == &to) return &edge;
  }
  return nullptr;
}

void disconnect(GraphNode& from, GraphNode& to) {
  auto drop = [](std::vector<Edge>& edges, const GraphNode* node) {
    auto place = std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.node == node; });
    if (place != edges.end()) edges.erase(place);
  };
  drop(to.dependencies, &from);
  drop(from.dependents, &to);
}

GraphNode* add_node(Graph& graph, SpecRef spec, const std::vector<Edge>& dependencies, bool hidden) {
  auto node = std::make_shared<GraphNode>();
  node->graph = &graph;
  node->serial = next_node_serial();
  node->spec = std::move(spec);
  if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) node->spec->as<ChildPart>().graph->parent_node = node.get();
  node->dependencies.reserve(dependencies.size());
  for (const Edge& edge : dependencies) connect(*edge.node, *node, edge.data);
  if (!hidden) make_handle(node);
  graph.nodes.push_back(node);
  return node.get();
}

void remove_node(GraphNode& node) {
  auto keep = shared(&node);
  Graph& graph = *node.graph;
  while (!node.dependencies.empty()) disconnect(*node.dependencies.back().node, node);
  while (!node.dependents.empty()) disconnect(node, *node.dependents.back().node);
  if (node.type() == CU_GRAPH_NODE_TYPE_GRAPH) destroy_graph(*node.spec->as<ChildPart>().graph);
  graph.nodes.erase(std::find(graph.nodes.begin(), graph.nodes.end(), keep));
  node.graph = nullptr;
  drop_handle(node);
}

std::shared_ptr<Graph> clone_graph(const Graph& graph, bool hidden) {
  std::shared_ptr<Graph> copy;
  if (hidden) {
    copy = std::make_shared<Graph>();
    copy->id = graph.id;  // what records of the executable name
  } else {
    copy = create_graph();
  }
  copy->original = graph.id;
  for (const auto& [object, count] : graph.user_objects) {
    object->references += count;
    copy->user_objects[object] += count;
  }
  copy->nodes.reserve(graph.nodes.size());
  std::unordered_map<const GraphNode*, GraphNode*> of;
  of.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    SpecRef spec = node->spec;
    if (spec->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      auto child = std::make_shared<NodeSpec>(*spec);
      child->part =
          ChildPart{clone_graph(*spec->as<ChildPart>().graph, hidden), spec->as<ChildPart>().ownership};
      spec = child;
    }
    GraphNode* twin = add_node(*copy, spec, {}, hidden);
    twin->original = node->serial;
    of[node.get()] = twin;
  }
  for (const auto& node : graph.nodes) {
    GraphNode* twin = of[node.get()];
    twin->dependencies.reserve(node->dependencies.size());
    for (const Edge& edge : node->dependencies) twin->dependencies.push_back({of[edge.node], edge.data});
    twin->dependents.reserve(node->dependents.size());
    for (const Edge& edge : node->dependents) twin->dependents.push_back({of[edge.node], edge.data});
  }
  return copy;
}

bool topological_order(const Graph& graph, std::vector<GraphNode*>& order, GraphNode** culprit) {
  std::unordered_map<const GraphNode*, size_t> open;
  open.reserve(graph.nodes.size());
  order.clear();
  order.reserve(graph.nodes.size());
  using Entry = std::pair<uint64_t, GraphNode*>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (const auto& node : graph.nodes) {
    open[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.push({node->serial, node.get()});
  }
  while (!ready.empty()) {
    GraphNode* node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (const Edge& edge : node->dependents) {
      if (--open[edge.node] == 0) ready.push({edge.node->serial, edge.node});
    }
  }
  if (order.size() == graph.nodes.size()) return true;
  if (culprit) {
    for (const auto& node : graph.nodes) {
      if (open[node.get()]) {
        *culprit = node.get();
        break;
      }
    }
  }
  return false;
}

CUresult check_edge_data(const GraphNode& from, const CUgraphEdgeData& data) {
  SIMGPU_REQUIRE(data.to_port == 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned char byte : data.reserved) SIMGPU_REQUIRE(byte == 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(data.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(data.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, CUDA_ERROR_INVALID_VALUE);
  const bool kernel = from.type() == CU_GRAPH_NODE_TYPE_KERNEL;
  SIMGPU_REQUIRE(kernel || (data.from_port == 0 && data.type == 0), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(data.type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || data.from_port != 0,
                 CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult read_dependencies(Graph& graph, const CUgraphNode* handles, const CUgraphEdgeData* data,
                           size_t count, std::vector<Edge>& out) {
  out.clear();
  SIMGPU_REQUIRE(handles || !count, CUDA_ERROR_INVALID_VALUE);
  std::unordered_set<const GraphNode*> seen;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = lookup<GraphNode>(handles[i]);
    SIMGPU_REQUIRE(node && node->graph == &graph, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(seen.insert(node).second, CUDA_ERROR_INVALID_VALUE);
    Edge edge{node, data ? data[i] : CUgraphEdgeData{}};
    SIMGPU_TRY(check_edge_data(*node, edge.data));
    out.push_back(edge);
  }
  return CUDA_SUCCESS;
}

const char* type_name(CUgraphNodeType type) {
  static const char* const names[] = {"KERNEL",    "MEMCPY",     "MEMSET",       "HOST",         "GRAPH",
                                      "EMPTY",     "WAIT_EVENT", "EVENT_RECORD", "SEMAS_SIGNAL", "SEMAS_WAIT",
                                      "MEM_ALLOC", "MEM_FREE",   "BATCH_MEM_OP", "CONDITIONAL"};
  return size_t(type) < std::size(names) ? names[type] : "UNKNOWN";
}
}  // namespace simgpu::driver
