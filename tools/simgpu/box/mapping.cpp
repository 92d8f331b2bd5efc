#include "tools/simgpu/box/mapping.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "runtime/base/process_id.h"
#include "tools/simgpu/box/segment.h"

namespace simgpu {
namespace {

constexpr const char* kPrivateName = "simgpu-box";
constexpr const char* kSharedMemoryFolder = "/dev/shm";

std::string system_error(const std::string& what) { return what + ": " + std::strerror(errno); }

void* map_fd(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// The address at which some library of this process has already mapped its private box.
Segment* find_mapped() {
  std::ifstream maps("/proc/self/maps");
  std::string line, tag = std::string("/memfd:") + kPrivateName + " ";
  while (std::getline(maps, line)) {
    if (line.find(tag) == std::string::npos) continue;
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    auto* segment = reinterpret_cast<Segment*>(begin);
    std::string ignored;
    if (segment_matches(segment, end - begin, ignored)) return segment;
  }
  return nullptr;
}

// A named box nobody uses any more: its launcher was killed before it could unlink it.
void remove_stale_boxes(const std::string& prefix) {
  DIR* folder = opendir(kSharedMemoryFolder);
  if (!folder) return;
  std::vector<std::string> stale;
  while (dirent* entry = readdir(folder)) {
    std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0 || name.find('.') != std::string::npos) continue;
    size_t bytes = 0;
    std::string ignored;
    Segment* segment = map_named("/" + name, bytes, ignored);
    if (!segment) continue;
    bool dead = shunt::process_start_time(segment->creator_pid) != segment->creator_start &&
                !any_live_process(segment);
    munmap(segment, bytes);
    if (dead) stale.push_back("/" + name);
  }
  closedir(folder);
  for (const std::string& name : stale) unlink_named_segment(name);
}

}  // namespace

Segment* map_named(const std::string& name, size_t& bytes, std::string& error) {
  int fd = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) {
    error = "no box named '" + name + "' (" + std::strerror(errno) +
            "): start the program with shunt run --sim, or unset SIMGPU_BOX";
    return nullptr;
  }
  struct stat info {};
  fstat(fd, &info);
  bytes = static_cast<size_t>(info.st_size);
  void* memory = bytes >= sizeof(Segment) ? map_fd(fd, bytes) : nullptr;
  close(fd);
  if (!memory) {
    error = "'" + name + "' is not a simgpu box: unset SIMGPU_BOX or name a box made by shunt run --sim";
    return nullptr;
  }
  auto* segment = static_cast<Segment*>(memory);
  std::string why;
  if (segment_matches(segment, bytes, why)) return segment;
  error = "the box '" + name + "' " + why;
  munmap(memory, bytes);
  return nullptr;
}

Segment* map_new_private(const BoxSpec& spec, std::string& error) {
  int fd = memfd_create(kPrivateName, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Segment)) != 0) {
    error = system_error("cannot make the box's memory");
    if (fd >= 0) close(fd);
    return nullptr;
  }
  void* memory = map_fd(fd, sizeof(Segment));
  close(fd);
  if (!memory) {
    error = system_error("cannot map the box's memory");
    return nullptr;
  }
  auto* segment = static_cast<Segment*>(memory);
  initialise_segment(segment, spec);
  return segment;
}

Segment* map_process_private(std::string& error, BoxSpec (*make_spec)(std::string& error, bool& ok)) {
  // Two libraries may get here at the same time and share no symbol. A lock on a file of this process's own
  // /proc folder is seen by both, by no other process, and goes with the process.
  int lock = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (lock >= 0) flock(lock, LOCK_EX);
  Segment* segment = find_mapped();
  if (!segment) {
    bool ok = false;
    BoxSpec spec = make_spec(error, ok);
    if (ok) segment = map_new_private(spec, error);
  }
  if (lock >= 0) close(lock);
  return segment;
}

bool create_named_segment(const BoxSpec& spec, std::string& name, std::string& error) {
  std::string prefix = "simgpu-" + std::to_string(getuid()) + "-";
  remove_stale_boxes(prefix);
  std::string base =
      "/" + prefix + std::to_string(getpid()) + "-" + std::to_string(shunt::own_start_time()) + "-";
  for (int n = 0; n < 1000; ++n) {
    std::string candidate = base + std::to_string(n);
    int fd = shm_open(candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) {
      error = system_error("cannot create the box's shared memory " + candidate);
      return false;
    }
    void* memory = ftruncate(fd, sizeof(Segment)) == 0 ? map_fd(fd, sizeof(Segment)) : nullptr;
    if (!memory) error = system_error("cannot size the box's shared memory " + candidate);
    close(fd);
    if (!memory) {
      shm_unlink(candidate.c_str());
      return false;
    }
    initialise_segment(static_cast<Segment*>(memory), spec);
    munmap(memory, sizeof(Segment));
    name = candidate;
    return true;
  }
  error = "cannot find a free name for the box: 1000 are in use by this process";
  return false;
}

void unlink_named_segment(const std::string& name) {
  if (name.size() < 2 || name[0] != '/') return;
  shm_unlink(name.c_str());
  std::string prefix = name.substr(1) + ".";
  DIR* folder = opendir(kSharedMemoryFolder);
  if (!folder) return;
  std::vector<std::string> objects;
  while (dirent* entry = readdir(folder))
    if (std::string_view(entry->d_name).substr(0, prefix.size()) == prefix)
      objects.push_back(std::string("/") + entry->d_name);
  closedir(folder);
  for (const std::string& object : objects) shm_unlink(object.c_str());
}

}  // namespace simgpu
