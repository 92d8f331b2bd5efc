// Executable graphs: a private copy of the graph, flattened into a plan, launched as one group of ops. Each
// launch runs after earlier work of its stream and after the executable's previous launch; nodes start as
// soon as their dependencies allow, overlapping like streams. Engine mutex held. An executable destroyed
// while launches are pending lives on until they end.
#pragma once
#include "tools/simgpu/driver/core/graph.h"
#include "tools/simgpu/driver/core/graph_memory.h"

namespace simgpu::driver {

struct GraphExec : Object {
  static constexpr Kind kKind = Kind::graph_exec;
  GraphExec() : Object(Kind::graph_exec) {}
  ~GraphExec() override;
  uint64_t id = 0;
  unsigned long long flags = 0;  // as given at instantiation, without UPLOAD
  std::shared_ptr<Graph> graph;  // private copy
  std::weak_ptr<Graph> source;   // the graph it came from
  // From serials of the source's nodes (child graphs included) to nodes of the copy.
  std::unordered_map<uint64_t, GraphNode*> by_source;

  // One op of a launch. Child graphs are spliced in between two markers.
  struct Step {
    GraphNode* node = nullptr;           // null for the markers around child graphs
    std::vector<uint32_t> dependencies;  // earlier steps
    bool last = false;                   // nothing depends on it
  };
  std::vector<Step> plan;
  std::vector<GraphAllocationRef> allocations;  // of allocation nodes
  std::vector<GraphAllocationRef> frees;        // of free nodes
  OpRef previous;                               // end of the latest launch or upload
  size_t node_count = 0;                        // without markers
};

// Checks and instantiates. On failure `culprit` may name a node of the source, `why` the result code.
CUresult instantiate_graph(Graph& graph, unsigned long long flags, std::shared_ptr<GraphExec>& out,
                           GraphNode*& culprit, CUgraphInstantiateResult& why);
CUresult launch_graph(Lock& lock, GraphExec& exec, const std::shared_ptr<Stream>& stream);
CUresult upload_graph(Lock& lock, GraphExec& exec, const std::shared_ptr<Stream>& stream);
// All or nothing. The error nodes are nodes of `graph`.
CUgraphExecUpdateResult update_graph(GraphExec& exec, Graph& graph, GraphNode*& error_node,
                                     GraphNode*& error_from);
// The same for the graph of a child node of the executable.
CUgraphExecUpdateResult update_child(GraphExec& exec, GraphNode& child_node, Graph& graph);
// The executable's copy of a node of its source; null when there is none.
GraphNode* node_in_exec(GraphExec& exec, CUgraphNode handle);
}  // namespace simgpu::driver
