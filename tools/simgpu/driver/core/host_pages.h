// Host accesses that race with device work, caught by page protection while races are watched
// (SIMGPU_HOST_PAGES=off turns it off). Pinned and managed memory is mapped twice: the program's view, whose
// whole pages are protected while a copy or fill that writes (or reads) them is not known to the host as
// complete, and an alias for the device. The first forbidden access is reported as "simgpu: race", then let
// through. Accesses by system calls fail with EFAULT instead. guard/settle: engine mutex. The fault handler
// takes no lock.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/simgpu/driver/core/op.h"

namespace simgpu::driver {
bool host_pages_watched();
// Memory of `bytes` for the program; `alias` is where the device reads and writes it (the same place when not
// watched).
void* map_watched_memory(uint64_t bytes, uint8_t*& alias);
void unmap_watched_memory(void* view, uint8_t* alias, uint64_t bytes);
// A kernel has written this; nobody has waited for it yet.
void host_pages_executed(const Op& op, const std::vector<exec::Access>& accesses);
void host_pages_guard(const Op& op);                              // at submission
void host_pages_settle(const std::vector<uint32_t>& host_clock);  // the host has waited
}  // namespace simgpu::driver
