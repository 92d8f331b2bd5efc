// CUDA graphs as programs build them: nodes, edges, clones, user objects. What a node does is its NodeSpec,
// immutable and shared by the node, its clones and every launch; changing a node gives it a new spec, so
// launches in flight never see the change. Engine mutex held everywhere. Graphs live until the program
// destroys them; nothing happens at exit.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {

struct Graph;
struct GraphAllocation;  // graph_memory.h

// What programs said about a node beyond the body that runs, for queries and update rules.
struct KernelPart {
  CUfunction function = nullptr;  // as given, or the handle of the captured kernel's function
  CUkernel kernel = nullptr;
  CUcontext context = nullptr;
  bool packed = false;                  // parameters came through `extra`
  mutable std::vector<void*> pointers;  // what queries return: into the body's parameter bytes
  mutable size_t packed_size = 0;
};
struct BatchPart {
  CUcontext context = nullptr;
  unsigned flags = 0;
  std::vector<CUstreamBatchMemOpParams> ops;
};
struct ChildPart {
  std::shared_ptr<Graph> graph;
  CUgraphChildGraphNodeOwnership ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
};
struct EventPart {
  std::shared_ptr<Event> event;
};
struct AllocPart {
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphAllocation> memory;
};
struct FreePart {
  CUdeviceptr address = 0;
  std::shared_ptr<GraphAllocation> memory;
};

struct NodeSpec {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const OpBody> body;  // null: the node only orders (empty, child, events, memory)
  std::weak_ptr<Context> context;      // where it runs; empty: the context of the launch stream
  bool has_context = false;
  std::variant<std::monostate, KernelPart, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS,
               BatchPart, ChildPart, EventPart, AllocPart, FreePart>
      part;
  template <class T>
  const T& as() const {
    return std::get<T>(part);
  }
  const KernelLaunch* launch() const;  // null for nodes without a kernel of ours
};
using SpecRef = std::shared_ptr<const NodeSpec>;

struct GraphNode;
struct Edge {
  GraphNode* node = nullptr;  // the other end
  CUgraphEdgeData data = {};
};
bool same(const CUgraphEdgeData& a, const CUgraphEdgeData& b);
bool is_default(const CUgraphEdgeData& data);

struct GraphNode : Object {
  static constexpr Kind kKind = Kind::graph_node;
  GraphNode() : Object(Kind::graph_node) {}
  Graph* graph = nullptr;
  uint64_t serial = 0;    // unique in the process
  uint64_t original = 0;  // serial of the node this one was cloned from; 0 for none
  SpecRef spec;
  std::vector<Edge> dependencies, dependents;  // in the order they were added
  bool enabled = true;                         // of executables only
  CUgraphNodeType type() const { return spec->type; }
};

struct UserObject : Object {
  static constexpr Kind kKind = Kind::user_object;
  UserObject() : Object(Kind::user_object) {}
  CUhostFn destroy = nullptr;
  void* pointer = nullptr;
  uint64_t references = 0;
};
// The last reference queues the destructor on the driver's callback thread.
void release_user_object(UserObject& object, uint64_t count);

struct Graph : Object {
  static constexpr Kind kKind = Kind::graph;
  Graph() : Object(Kind::graph) {}
  ~Graph() override;
  uint64_t id = 0;
  uint64_t original = 0;                          // id of the graph this one was cloned from
  std::vector<std::shared_ptr<GraphNode>> nodes;  // in insertion order
  GraphNode* parent_node = nullptr;               // of child graphs
  int captures = 0;                               // captures that now add nodes here
  int executables = 0;                            // live ones, counted for graphs with memory nodes
  std::map<std::shared_ptr<UserObject>, uint64_t> user_objects;
  bool has_memory_nodes() const;
};

std::shared_ptr<Graph> create_graph();
// Handles of a graph and of all its nodes and child graphs die.
void destroy_graph(Graph& graph);
// Adds a node behind `dependencies` (already checked). Gives it a handle unless `hidden` (executables).
GraphNode* add_node(Graph& graph, SpecRef spec, const std::vector<Edge>& dependencies, bool hidden = false);
void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
const Edge* find_edge(const GraphNode& from, const GraphNode& to);
void disconnect(GraphNode& from, GraphNode& to);
void remove_node(GraphNode& node);
// Deep copy. `hidden`: for executables, without handles; clones share specs except for child graphs.
std::shared_ptr<Graph> clone_graph(const Graph& graph, bool hidden);
// Nodes in an order that respects all edges and, among equals, insertion; false when there is a cycle
// (`culprit` is one of its nodes).
bool topological_order(const Graph& graph, std::vector<GraphNode*>& order, GraphNode** culprit = nullptr);
// Handles of an API array as edges of `graph`: unknown handles, foreign nodes, duplicates and bad edge data
// give INVALID_VALUE.
CUresult read_dependencies(Graph& graph, const CUgraphNode* handles, const CUgraphEdgeData* data,
                           size_t count, std::vector<Edge>& out);
CUresult check_edge_data(const GraphNode& from, const CUgraphEdgeData& data);
const char* type_name(CUgraphNodeType type);
// cuGraphDebugDotPrint; OPERATING_SYSTEM when the file cannot be written.
CUresult print_dot(const Graph& graph, const char* path, unsigned flags);
}  // namespace simgpu::driver
