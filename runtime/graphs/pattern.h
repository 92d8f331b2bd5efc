// A learned sequence of one stream: steps in order, runs of launches among them cut into segments, each of
// which is an executable graph. A pattern belongs to its stream's state and is used under that stream's gate;
// only build() runs elsewhere (builder.h), before anybody else looks at the segments.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graphs/params.h"
#include "runtime/model/op.h"

namespace shunt::graphs {

// What makes two calls the same step. For launches everything but the parameter bytes; for other calls the
// kind.
struct Shape {
  uint64_t function = 0, function_id = 0;
  uint32_t grid[3] = {}, block[3] = {};
  uint32_t shared_bytes = 0;
  uint32_t kind = 0;  // model::OpKind
  bool operator==(const Shape&) const = default;
  bool launch() const { return function != 0; }
  uint64_t hash() const;
};

struct Step {
  Shape shape;
  const ParamLayout* layout = nullptr;
  uint32_t params = 0;         // offset into Pattern::bytes
  uint32_t pointers = 0;       // offset into Pattern::pointers
  int32_t segment = -1;        // -1: always eager
  bool dirty = false;          // the executable has other bytes than `params`
  bool host_visible = false;   // a parameter points to memory the host can watch: submit at once
  bool kernel_handle = false;  // function is a CUkernel
  CUgraphNode node = nullptr;
};

struct Segment {
  uint32_t begin = 0, end = 0;  // steps
  uint32_t dirty = 0;           // how many of them
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  uint64_t text = 0;  // NVTX: the launches behind a replay, by name; 0 without a tool
};

struct SegmentLimits {
  uint32_t least = 3;  // shorter runs stay eager
  uint32_t first = 8;  // the device gets its first work early
  uint32_t most = 64;
};

class Pattern {
 public:
  enum class Build : uint8_t { waiting, running, ready, failed, cancelled };
  ~Pattern();

  std::vector<Step> steps;
  std::vector<uint8_t> bytes;   // parameters of all launches, as last seen
  std::vector<void*> pointers;  // kernelParams arrays into `bytes`
  std::vector<Segment> segments;
  std::vector<std::string> names;  // kernels by step, only when an NVTX tool listens
  CUcontext context = nullptr;
  std::atomic<Build> build_state{Build::waiting};
  uint64_t build_ns = 0;

  // A step for the launch in `op` with its present parameters. False: the launch can't be a graph node.
  bool add_launch(const Shape& shape, model::Op& op, const ParamLayout& layout);
  void add_other(const Shape& shape);
  // All steps are there: pointers, segments. Returns the launches that fell into segments.
  uint32_t close(const SegmentLimits& limits);
  // Makes the executables. Driver calls; on the builder's thread or, in tests, anywhere.
  bool build();
  size_t device_bytes() const;  // estimate, for the budget

 private:
  void name_segments();
  bool build_segment(Segment& s);
};

// Takes over the launch's parameter bytes; true when any differ from what was there.
inline bool copy_params(const ParamLayout& layout, uint8_t* to, void* const* from) {
  bool differs = false;
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const auto [offset, size] = layout.params[i];
    uint8_t* place = to + offset;
    if (size == 8) {
      uint64_t now, then;
      __builtin_memcpy(&now, from[i], 8);
      __builtin_memcpy(&then, place, 8);
      differs |= now != then;
      __builtin_memcpy(place, &now, 8);
    } else if (size == 4) {
      uint32_t now, then;
      __builtin_memcpy(&now, from[i], 4);
      __builtin_memcpy(&then, place, 4);
      differs |= now != then;
      __builtin_memcpy(place, &now, 4);
    } else if (__builtin_memcmp(place, from[i], size) != 0) {
      __builtin_memcpy(place, from[i], size);
      differs = true;
    }
  }
  return differs;
}

}  // namespace shunt::graphs
