// Reads of device memory that nothing has written. SIMGPU_MEMCHECK=report|off (default off): one bit for each
// byte of cuMemAlloc and pool memory, set by kernels, copies, fills and collectives, asked when a kernel, a
// copy or a collective reads. A copy between device buffers carries the bits along instead. Reports begin
// with "simgpu: memcheck", once for each place in a kernel. Not checked: shared and local memory, textures,
// memory the host or another process writes (managed, pinned, imported, mapped), module variables (the driver
// initialises those).
//
// Owner: the process (leaked). Threads: any; own lock, taken after the engine mutex.
#pragma once
#include <cstdint>

#include "tools/simgpu/driver/core/op.h"

namespace simgpu::driver {

struct Allocation;

bool memcheck_on();
void memcheck_track(const Allocation& allocation);  // new memory, nothing written
void memcheck_forget(uint64_t base);
void memcheck_trust(uint64_t address);  // others may write it from now on: all of it counts as written
void memcheck_executed(Op& op);         // copies, fills and siblings' work; kernels report as they run
exec::WriteWatch* memcheck_watch();     // for Launch::writes

struct MemcheckCounts {
  uint64_t reports = 0, shadow_bytes = 0;
};
MemcheckCounts memcheck_counts();

}  // namespace simgpu::driver
