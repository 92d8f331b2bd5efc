#include "tools/simgpu/box/segment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "runtime/base/process_id.h"

namespace simgpu {

static_assert(std::is_standard_layout_v<Segment>);
static_assert(std::atomic<uint64_t>::is_always_lock_free,
              "atomics in shared memory must not use a process's own locks");

#ifdef SIMGPU_BOX_STEPS
void (*box_step)() = nullptr;
#endif

namespace {

// A stable UUID: two runs of one specification name the same devices. Version 4's bits, so that parsers
// accept it.
void make_uuid(std::string_view key, uint32_t index, uint8_t out[16]) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  hash += 0xd1342543de82ef95 * (index + 1);
  for (int half = 0; half < 2; ++half) {
    uint64_t z = hash += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    std::memcpy(out + 8 * half, &z, 8);
  }
  out[6] = static_cast<uint8_t>((out[6] & 0x0F) | 0x40);
  out[8] = static_cast<uint8_t>((out[8] & 0x3F) | 0x80);
}

void initialise_mutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

}  // namespace

void initialise_segment(Segment* segment, const BoxSpec& spec) {
  segment->magic = kSegmentMagic;
  segment->version = kSegmentVersion;
  segment->bytes = sizeof(Segment);
  segment->device_count = static_cast<uint32_t>(spec.devices.size());
  segment->creator_pid = static_cast<uint32_t>(getpid());
  segment->creator_start = shunt::own_start_time();
  std::snprintf(segment->links, sizeof segment->links, "%s", spec.links.c_str());
  initialise_mutex(&segment->mutex);
  for (uint32_t i = 0; i < segment->device_count; ++i) {
    const DeviceSpec& from = spec.devices[i];
    DeviceRecord& to = segment->devices[i];
    std::snprintf(to.profile, sizeof to.profile, "%.*s", static_cast<int>(from.profile->key.size()),
                  from.profile->key.data());
    to.memory_bytes = from.memory_bytes;
    to.reserved_bytes = from.reserved_bytes;
    to.power_limit_w = from.power_limit_w;
    to.links_down = from.links_down;
    to.numa_node = from.numa_node;
    to.pci_domain = from.pci_domain;
    to.pci_bus = from.pci_bus;
    to.host_link = spec.host_link[i];
    to.host_bytes_per_s = spec.host_link_bytes_per_s[i];
    make_uuid(from.profile->key, i, to.uuid);
    to.state.reserved_bytes = from.reserved_bytes;
    to.state.power_limit_mw = static_cast<uint64_t>(from.power_limit_w * 1000);
    to.state.links_down_mask_lo = static_cast<uint32_t>(from.links_down);
    to.state.links_down_mask_hi = static_cast<uint32_t>(from.links_down >> 32);
    for (uint32_t j = 0; j < segment->device_count; ++j)
      segment->pairs[i][j] = {spec.link_bytes_per_s[i][j], spec.link[i][j], spec.p2p[i][j]};
  }
  segment->ready.store(1, std::memory_order_release);
}

bool segment_matches(const Segment* segment, size_t bytes, std::string& error) {
  // Looked at first: what its maker wrote before is then seen.
  bool ready = bytes >= sizeof(Segment) && segment->ready.load(std::memory_order_acquire) == 1;
  if (bytes < sizeof(Segment) || segment->magic != kSegmentMagic) {
    error = "is not a simgpu box";
  } else if (segment->version != kSegmentVersion || segment->bytes != sizeof(Segment)) {
    error = "has layout version " + std::to_string(segment->version) + ", this library has " +
            std::to_string(kSegmentVersion) + ": use one build of simgpu for all processes";
  } else if (!ready) {
    error = "was left half made by a launcher that died: start a new one with shunt run --sim";
  } else if (segment->device_count == 0 || segment->device_count > kMaxDevices) {
    error = "is damaged (device count)";
  } else {
    return true;
  }
  return false;
}

bool spec_of_segment(const Segment* segment, BoxSpec& spec, std::string& error) {
  size_t n = segment->device_count;
  spec.links = segment->links;
  spec.link.assign(n, std::vector<LinkKind>(n));
  spec.link_bytes_per_s.assign(n, std::vector<double>(n));
  spec.p2p.assign(n, std::vector<P2p>(n));
  for (size_t i = 0; i < n; ++i) {
    const DeviceRecord& from = segment->devices[i];
    DeviceSpec to;
    to.profile = shunt::profiles::find(from.profile);
    if (!to.profile) {
      error = "names the model '" + std::string(from.profile) + "', which this build does not know";
      return false;
    }
    to.memory_bytes = from.memory_bytes;
    to.reserved_bytes = from.reserved_bytes;
    to.power_limit_w = from.power_limit_w;
    to.links_down = from.links_down;
    to.numa_node = from.numa_node;
    to.pci_domain = from.pci_domain;
    to.pci_bus = from.pci_bus;
    spec.devices.push_back(to);
    spec.host_link.push_back(from.host_link);
    spec.host_link_bytes_per_s.push_back(from.host_bytes_per_s);
    for (size_t j = 0; j < n; ++j) {
      spec.link[i][j] = segment->pairs[i][j].kind;
      spec.link_bytes_per_s[i][j] = segment->pairs[i][j].bytes_per_s;
      spec.p2p[i][j] = segment->pairs[i][j].p2p;
    }
  }
  return true;
}

SegmentLock::SegmentLock(Segment* segment) : segment_(segment) {
  int rc = pthread_mutex_lock(&segment->mutex);
  if (rc == EOWNERDEAD) {
    step();
    sweep_dead(segment);
    step();
    pthread_mutex_consistent(&segment->mutex);
  } else if (rc != 0) {
    // Only possible when the memory itself was overwritten; going on would hand out memory twice.
    std::fprintf(stderr, "simgpu: the box's lock is damaged (error %d): its shared memory was overwritten\n",
                 rc);
    std::abort();
  }
  step();
}

SegmentLock::~SegmentLock() {
  step();
  pthread_mutex_unlock(&segment_->mutex);
  step();
}

void rebuild_totals(Segment* segment) {
  for (uint32_t d = 0; d < segment->device_count; ++d) {
    uint64_t sum = 0;
    for (const ProcessSlot& slot : segment->slots)
      if (slot.pid.load(std::memory_order_relaxed) != 0) sum += slot.used[d].load(std::memory_order_relaxed);
    segment->devices[d].state.used_bytes.store(sum, std::memory_order_relaxed);
    step();
  }
}

namespace {

bool slot_alive(const ProcessSlot& slot) {
  uint32_t pid = slot.pid.load(std::memory_order_acquire);
  if (pid == 0) return false;
  uint64_t start = slot.start_time.load(std::memory_order_relaxed);
  if (pid == static_cast<uint32_t>(getpid())) return start == shunt::own_start_time();
  return shunt::process_start_time(pid) == start;
}

void clear_slot(Segment* segment, ProcessSlot& slot) {
  slot.pid.store(0, std::memory_order_release);
  step();
  for (uint32_t d = 0; d < segment->device_count; ++d) {
    slot.used[d].store(0, std::memory_order_relaxed);
    slot.attached[d].store(0, std::memory_order_relaxed);
  }
  slot.start_time.store(0, std::memory_order_relaxed);
}

}  // namespace

void sweep_dead(Segment* segment) {
  for (ProcessSlot& slot : segment->slots) {
    if (slot.pid.load(std::memory_order_relaxed) == 0 || slot_alive(slot)) continue;
    clear_slot(segment, slot);
    step();
  }
  // Always: a process may have been killed between its slot and the total, or between freeing a slot and this
  // line.
  rebuild_totals(segment);
}

ProcessSlot* find_slot(Segment* segment, uint32_t pid, uint64_t start_time) {
  for (ProcessSlot& slot : segment->slots)
    if (slot.pid.load(std::memory_order_relaxed) == pid &&
        slot.start_time.load(std::memory_order_relaxed) == start_time)
      return &slot;
  return nullptr;
}

ProcessSlot* claim_slot(Segment* segment) {
  uint32_t pid = static_cast<uint32_t>(getpid());
  uint64_t start = shunt::own_start_time();
  if (ProcessSlot* own = find_slot(segment, pid, start)) return own;
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (ProcessSlot& slot : segment->slots) {
      if (slot.pid.load(std::memory_order_relaxed) != 0) continue;
      clear_slot(segment, slot);  // its last owner may have died while clearing it
      slot.start_time.store(start, std::memory_order_relaxed);
      step();
      slot.pid.store(pid, std::memory_order_release);
      step();
      return &slot;
    }
    sweep_dead(segment);
  }
  return nullptr;
}

bool any_live_process(const Segment* segment) {
  for (const ProcessSlot& slot : segment->slots)
    if (slot_alive(slot)) return true;
  return false;
}

}  // namespace simgpu
