// The device heap of in-kernel malloc: one per process, at a fixed address window, of the default 8 MiB.
#pragma once
#include <cstdint>

#include "tools/simgpu/exec/exec.h"

namespace simgpu::exec {
bool heap_region(Region& out);           // false: nothing was ever allocated
uint64_t heap_allocate(uint64_t bytes);  // device address, 0: exhausted
void heap_free(uint64_t address);
}  // namespace simgpu::exec
