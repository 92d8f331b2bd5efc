// Device memory that other processes can map: a stretch of a memfd, named by process and descriptor number
// (/proc/<pid>/fd/<n>) or by a passed descriptor. A mapping keeps the pages alive, so an exporter that is
// killed takes nothing away from those who have opened its memory. Engine mutex held.
#pragma once
#include <cstdint>
#include <memory>

#include "tools/simgpu/driver/core/memory.h"

namespace simgpu::driver {
struct FileRange {  // goes into handles byte for byte
  uint32_t pid = 0;
  int32_t fd = -1;
  uint64_t start_time = 0;  // of the process: a recycled pid is not the exporter
  uint64_t offset = 0, bytes = 0;
  int32_t box_index = -1;
};
uint64_t process_start_time(uint32_t pid);  // 0: there is no such process
// A descriptor of another process's (or this one's) file; -1 when it has gone.
int open_remote(uint32_t pid, uint64_t start_time, int fd);
// An address range with the bytes behind it: window (PROT_NONE) and alias, released with the last reference.
struct MappedRange {
  uint64_t address = 0, bytes = 0;
  uint8_t* alias = nullptr;
  ~MappedRange();
};
std::shared_ptr<MappedRange> map_range(int fd, uint64_t offset, uint64_t bytes);
// The visible ordinal of a box device; -1 when this process does not see it.
int ordinal_of_box(int box_index);
}  // namespace simgpu::driver
