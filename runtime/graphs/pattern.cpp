#include "runtime/graphs/pattern.h"

#include <string.h>

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/flat_map.h"
#include "runtime/exec/driver.h"
#include "runtime/graphs/transfers.h"
#include "runtime/model/model.h"
#include "runtime/trace/nvtx.h"

namespace shunt::graphs {
namespace {

constexpr size_t kBytesPerNode = 10 * 1024;  // research/graphs.md section 1

// Does any pointer-sized word of the parameters lie in memory the host may read while kernels run?
bool host_may_watch(const ParamLayout& layout, const uint8_t* bytes) {
  model::Allocations& allocations = model::Model::get().allocations();
  for (const auto [offset, size] : layout.params) {
    for (uint32_t k = 0; k + 8 <= size; k += 8) {
      uint64_t word;
      memcpy(&word, bytes + offset + k, 8);
      if (word < 4096) continue;
      const auto found = allocations.find(word);
      if (!found) continue;
      using model::MemoryKind;
      if (found->kind == MemoryKind::host || found->kind == MemoryKind::registered ||
          found->kind == MemoryKind::managed)
        return true;
    }
  }
  return false;
}

}  // namespace

uint64_t Shape::hash() const {
  uint64_t h = mix64(function ^ kind);
  h = mix64(h ^ function_id ^ (uint64_t{shared_bytes} << 32));
  h = mix64(h ^ grid[0] ^ (uint64_t{grid[1]} << 32));
  h = mix64(h ^ grid[2] ^ (uint64_t{block[0]} << 32));
  return mix64(h ^ block[1] ^ (uint64_t{block[2]} << 32));
}

Pattern::~Pattern() {
  const exec::Driver& driver = exec::Driver::get();
  for (Segment& s : segments) {
    if (s.exec) driver.graph_exec_destroy(s.exec);
    if (s.graph) driver.graph_destroy(s.graph);
  }
}

bool Pattern::add_launch(const Shape& shape, model::Op& op, const ParamLayout& layout) {
  if (!layout.known || (!layout.params.empty() && !op.launch.params)) return false;
  Step step;
  step.shape = shape;
  step.layout = &layout;
  step.kernel_handle = op.function_info && op.function_info->kernel;
  step.params = static_cast<uint32_t>(bytes.size());
  bytes.resize(bytes.size() + layout.bytes, 0);
  copy_params(layout, bytes.data() + step.params, op.launch.params);
  step.host_visible = host_may_watch(layout, bytes.data() + step.params);
  if (trace::nvtx::active()) {
    names.resize(steps.size());
    names.push_back(op.function_info && op.function_info->name[0] ? op.function_info->name : "kernel");
  }
  steps.push_back(step);
  return true;
}

void Pattern::add_other(const Shape& shape) {
  Step step;
  step.shape = shape;
  steps.push_back(step);
}

uint32_t Pattern::close(const SegmentLimits& limits) {
  size_t count = 0;
  for (Step& s : steps)
    if (s.layout) s.pointers = static_cast<uint32_t>(count), count += s.layout->params.size();
  pointers.resize(count + 1);
  for (const Step& s : steps)
    if (s.layout)
      for (size_t i = 0; i < s.layout->params.size(); ++i)
        pointers[s.pointers + i] = bytes.data() + s.params + s.layout->params[i].offset;
  uint32_t covered = 0;
  const auto n = static_cast<uint32_t>(steps.size());
  for (uint32_t i = 0; i < n;) {
    if (!steps[i].layout) {
      ++i;
      continue;
    }
    uint32_t cap = limits.first;
    uint32_t run = i;
    while (run < n && steps[run].layout) ++run;
    while (i < run) {
      uint32_t end = i;
      while (end < run && end - i < cap) {
        if (steps[end++].host_visible) break;
      }
      if (run - end < limits.least && !steps[end - 1].host_visible) end = std::min(run, end + limits.least);
      if (end - i >= limits.least) {
        for (uint32_t k = i; k < end; ++k) steps[k].segment = static_cast<int32_t>(segments.size());
        segments.push_back({.begin = i, .end = end});
        covered += end - i;
      }
      cap = std::min(cap * 2, limits.most);
      i = end;
    }
  }
  return covered;
}

// "graph of 12 launches: scan, add x3, ...": equal neighbours are counted.
void Pattern::name_segments() {
  constexpr size_t kLongest = 480;
  for (Segment& s : segments) {
    std::string text = "graph of " + std::to_string(s.end - s.begin) + " launches:";
    for (uint32_t i = s.begin; i < s.end;) {
      uint32_t same = i + 1;
      while (same < s.end && names[same] == names[i]) ++same;
      text += (i == s.begin ? " " : ", ") + names[i];
      if (same - i > 1) text += " x" + std::to_string(same - i);
      i = same;
      if (text.size() <= kLongest) continue;
      text.resize(kLongest);
      text += "...";
      break;
    }
    s.text = trace::nvtx::text(text);
  }
}

bool Pattern::build_segment(Segment& s) {
  const exec::Driver& driver = exec::Driver::get();
  if (driver.graph_create(&s.graph, 0) != CUDA_SUCCESS) return false;
  CUgraphNode last = nullptr;
  for (uint32_t i = s.begin; i < s.end; ++i) {
    Step& step = steps[i];
    if (const Transfer t = transfer_of(step.shape.function); t != Transfer::none) {
      if (!add_transfer_node(t, transfer_params(pointers.data() + step.pointers), context, s.graph, last,
                             &step.node))
        return false;
      last = step.node;
      continue;
    }
    CUDA_KERNEL_NODE_PARAMS p{};
    if (step.kernel_handle)
      p.kern = reinterpret_cast<CUkernel>(step.shape.function);
    else
      p.func = reinterpret_cast<CUfunction>(step.shape.function);
    p.gridDimX = step.shape.grid[0], p.gridDimY = step.shape.grid[1], p.gridDimZ = step.shape.grid[2];
    p.blockDimX = step.shape.block[0], p.blockDimY = step.shape.block[1], p.blockDimZ = step.shape.block[2];
    p.sharedMemBytes = step.shape.shared_bytes;
    p.kernelParams = pointers.data() + step.pointers;
    if (step.kernel_handle) p.ctx = context;
    if (driver.graph_add_kernel_node(&step.node, s.graph, last ? &last : nullptr, last ? 1 : 0, &p) !=
        CUDA_SUCCESS)
      return false;
    last = step.node;
  }
  return driver.graph_instantiate(&s.exec, s.graph, 0) == CUDA_SUCCESS;
}

bool Pattern::build() {
  const uint64_t start = clock::now_ns();
  for (Segment& s : segments)
    if (!build_segment(s)) return false;
  names.resize(names.empty() ? 0 : steps.size());
  if (!names.empty()) name_segments();
  build_ns = clock::now_ns() - start;
  return true;
}

size_t Pattern::device_bytes() const {
  size_t nodes = 0;
  for (const Segment& s : segments) nodes += s.end - s.begin;
  return nodes * kBytesPerNode;
}

}  // namespace shunt::graphs
