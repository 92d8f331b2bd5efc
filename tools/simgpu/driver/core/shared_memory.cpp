#include "tools/simgpu/driver/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tools/simgpu/driver/core/device.h"

namespace simgpu::driver {
uint64_t process_start_time(uint32_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  FILE* file = fopen(path, "re");
  if (!file) return 0;
  const size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  // The name may contain anything, so fields count from the last parenthesis: state is the third field.
  const char* p = strrchr(text, ')');
  if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X') return 0;
  p += 2;
  for (int field = 3; field < 22 && p; ++field) {
    p = strchr(p, ' ');
    if (p) ++p;
  }
  return p ? strtoull(p, nullptr, 10) : 0;
}

int open_remote(uint32_t pid, uint64_t start_time, int fd) {
  if (process_start_time(pid) != start_time) return -1;
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  // Between the two looks the process may have gone and its number been given away.
  if (opened >= 0 && process_start_time(pid) != start_time) {
    close(opened);
    return -1;
  }
  return opened;
}

MappedRange::~MappedRange() {
  if (alias) munmap(alias, bytes);
  if (address) munmap(reinterpret_cast<void*>(address), bytes);
}

std::shared_ptr<MappedRange> map_range(int fd, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kPage = DeviceHeap::kPage;
  auto range = std::make_shared<MappedRange>();
  // Aligned as device memory is: take more and give back the ends.
  void* p = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const uint64_t start = reinterpret_cast<uint64_t>(p), aligned = (start + kPage - 1) / kPage * kPage;
  if (aligned > start) munmap(p, aligned - start);
  if (aligned < start + kPage) munmap(reinterpret_cast<void*>(aligned + bytes), start + kPage - aligned);
  range->address = aligned;
  range->bytes = bytes;
  void* alias = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, off_t(offset));
  if (alias == MAP_FAILED) return nullptr;
  range->alias = static_cast<uint8_t*>(alias);
  return range;
}

int ordinal_of_box(int box_index) {
  for (const Device* device : platform()->devices)
    if (device->box_index == box_index) return device->ordinal;
  return -1;
}
}  // namespace simgpu::driver
