// What a finished launch leaves for the next one of the same shape: register rows, counters, launch rows. A
// short kernel would spend most of its time in malloc and memset otherwise. Bounded; any thread; whoever
// finds the shelf in use (or held by a thread that a fork left behind) allocates.
#pragma once
#include <cstdint>
#include <memory>

#include "tools/simgpu/exec/exec.h"
#include "tools/simgpu/exec/warp.h"
#include "tools/simgpu/exec/worker.h"

namespace simgpu::exec {

// Everything the layout of a cluster's memory and a worker's tables depends on.
struct PartsKey {
  uint64_t program = 0;  // ProgramImpl::generation
  int kernel = -1;
  Dim3 block;
  uint32_t cluster_size = 0, shared_bytes = 0;
  uint64_t local_stride = 0;
  bool operator==(const PartsKey& o) const {
    return program == o.program && kernel == o.kernel && block.x == o.block.x && block.y == o.block.y &&
           block.z == o.block.z && cluster_size == o.cluster_size && shared_bytes == o.shared_bytes &&
           local_stride == o.local_stride;
  }
};

struct FreeDeleter {
  void operator()(uint8_t* p) const { std::free(p); }
};

struct Parts {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<uint8_t[], FreeDeleter> launch_rows;
};

Parts take_parts(const PartsKey&);           // any member may be null
void leave_parts(const PartsKey&, Parts&&);  // the oldest give way
}  // namespace simgpu::exec
