// cuGraphDebugDotPrint: one cluster per graph, child graphs nested.
#include <cerrno>
#include <cstdio>

#include "tools/simgpu/driver/core/graph.h"
#include "tools/simgpu/driver/core/log.h"

namespace simgpu::driver {
namespace {
bool asked(unsigned flags, unsigned flag) { return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0; }
std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
  return text;
}
std::string number(uint64_t value) { return std::to_string(value); }
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\' || c == '{' || c == '}' || c == '|' || c == '<' || c == '>') out += '\\';
    out += c;
  }
  return out;
}

std::string label(const GraphNode& node, unsigned flags) {
  const NodeSpec& spec = *node.spec;
  std::string text = std::string(type_name(spec.type)) + "\\nID " + number(node.serial);
  if (spec.type == CU_GRAPH_NODE_TYPE_KERNEL || spec.type == CU_GRAPH_NODE_TYPE_MEMCPY)
    text += "\\n" + escaped(spec.body->name());
  if (asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)) text += "\\nhandle " + hex(node.handle);
  if (const KernelLaunch* l = spec.launch(); l && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
    text += "\\ngrid " + number(l->grid.x) + "," + number(l->grid.y) + "," + number(l->grid.z);
    text += "\\nblock " + number(l->block.x) + "," + number(l->block.y) + "," + number(l->block.z);
    text += "\\nshared " + number(l->dynamic_shared);
  }
  if (const KernelLaunch* l = spec.launch();
      l && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)) {
    text += "\\ncooperative " + number(l->cooperative) + "\\npriority " + std::to_string(l->priority);
  }
  if (spec.type == CU_GRAPH_NODE_TYPE_MEMCPY && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
    const CopyShape& s = static_cast<const CopyBody&>(*spec.body).shape;
    text += "\\nfrom " + hex(s.src.address) + " to " + hex(s.dst.address) + "\\nextent " + number(s.width) +
            "," + number(s.height) + "," + number(s.depth);
  }
  if (spec.type == CU_GRAPH_NODE_TYPE_MEMSET && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) {
    const auto& m = static_cast<const MemsetBody&>(*spec.body);
    text += "\\ndst " + hex(m.dst.address) + "\\nvalue " + number(m.value) + "\\nelement " +
            number(m.element_bytes) + "\\nextent " + number(m.width) + "," + number(m.height);
  }
  if (spec.type == CU_GRAPH_NODE_TYPE_HOST && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS)) {
    const auto& p = spec.as<CUDA_HOST_NODE_PARAMS>();
    text += "\\nfn " + hex(reinterpret_cast<uint64_t>(p.fn)) + "\\ndata " +
            hex(reinterpret_cast<uint64_t>(p.userData));
  }
  if ((spec.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || spec.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) &&
      asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
    text += "\\nevent " + hex(spec.as<EventPart>().event->handle);
  if (spec.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
      asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
    text += "\\ndptr " + hex(spec.as<AllocPart>().params.dptr) + "\\nbytes " +
            number(spec.as<AllocPart>().params.bytesize);
  if (spec.type == CU_GRAPH_NODE_TYPE_MEM_FREE && asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
    text += "\\ndptr " + hex(spec.as<FreePart>().address);
  if (spec.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
      asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
    text += "\\noperations " + number(spec.as<BatchPart>().ops.size());
  return text;
}

void print(FILE* file, const Graph& graph, unsigned flags) {
  fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\";\n", (unsigned long long)graph.id,
          (unsigned long long)graph.id);
  for (const auto& node : graph.nodes) {
    fprintf(file, "\"graph_%llu_node_%llu\" [shape=\"record\" label=\"%s\"];\n", (unsigned long long)graph.id,
            (unsigned long long)node->serial, label(*node, flags).c_str());
    if (node->type() == CU_GRAPH_NODE_TYPE_GRAPH) print(file, *node->spec->as<ChildPart>().graph, flags);
  }
  for (const auto& node : graph.nodes) {
    for (size_t i = 0; i < node->dependents.size(); ++i) {
      const Edge& edge = node->dependents[i];
      fprintf(file, "\"graph_%llu_node_%llu\" -> \"graph_%llu_node_%llu\"", (unsigned long long)graph.id,
              (unsigned long long)node->serial, (unsigned long long)graph.id,
              (unsigned long long)edge.node->serial);
      if (asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO)) fprintf(file, " [label=\"%zu\"]", i);
      fprintf(file, ";\n");
    }
  }
  fprintf(file, "}\n");
}
}  // namespace

CUresult print_dot(const Graph& graph, const char* path, unsigned flags) {
  FILE* file = fopen(path, "we");
  if (!file) {
    log_line(LogLevel::warn, "cuGraphDebugDotPrint: %s cannot be written", path);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  fprintf(file, "digraph dot {\n");
  print(file, graph, flags);
  fprintf(file, "}\n");
  const bool failed = ferror(file) != 0;
  return fclose(file) != 0 || failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
}  // namespace simgpu::driver
