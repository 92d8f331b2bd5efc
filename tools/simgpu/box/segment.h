// Layout of a box in shared memory, its lock and its process slots. The slots are the truth; every total is a
// cache that is rebuilt from live slots whenever a process died with the lock held or is found dead. Any
// thread of any process.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "tools/simgpu/box/box.h"

namespace simgpu {

constexpr uint64_t kSegmentMagic = 0x78'6f'62'75'70'67'6d'73;  // "smgpubox"
constexpr uint32_t kSegmentVersion = 1;

struct PairRecord {
  double bytes_per_s;
  LinkKind kind;
  P2p p2p;
};

struct DeviceRecord {
  char profile[32];
  uint64_t memory_bytes;
  uint64_t reserved_bytes;
  double power_limit_w;
  uint64_t links_down;
  double host_bytes_per_s;
  uint32_t numa_node, pci_domain, pci_bus;
  LinkKind host_link;
  uint8_t uuid[16];
  DeviceState state;
};

struct ProcessSlot {
  std::atomic<uint32_t> pid;  // 0: free. Written last when a slot is taken, first when it is given back.
  std::atomic<uint64_t> start_time;
  std::atomic<uint64_t> used[kMaxDevices];
  std::atomic<uint32_t> attached[kMaxDevices];
};

struct Segment {
  uint64_t magic;
  uint32_t version;
  uint32_t device_count;
  uint64_t bytes;
  std::atomic<uint32_t> ready;  // 1 once everything else is written
  std::atomic<uint32_t> event_word;
  uint32_t creator_pid;
  uint64_t creator_start;
  pthread_mutex_t mutex;
  std::atomic<uint64_t> clock_ns, next_id, last_sweep_ns;
  char links[256];
  DeviceRecord devices[kMaxDevices];
  PairRecord pairs[kMaxDevices][kMaxDevices];
  ProcessSlot slots[kMaxProcesses];
};

void initialise_segment(Segment* segment, const BoxSpec& spec);  // fresh zero pages
bool segment_matches(const Segment* segment, size_t bytes, std::string& error);
bool spec_of_segment(const Segment* segment, BoxSpec& spec, std::string& error);

// Holds the segment's lock. A predecessor that died with it is cleaned up after, so what it guards is always
// consistent.
class SegmentLock {
 public:
  explicit SegmentLock(Segment* segment);
  ~SegmentLock();
  SegmentLock(const SegmentLock&) = delete;
  SegmentLock& operator=(const SegmentLock&) = delete;

 private:
  Segment* segment_;
};

// All below with the lock held.
void sweep_dead(Segment* segment);  // frees slots of processes that have gone, then rebuilds the totals
void rebuild_totals(Segment* segment);
ProcessSlot* find_slot(Segment* segment, uint32_t pid, uint64_t start_time);
ProcessSlot* claim_slot(Segment* segment);      // this process's, existing or new; null: all are taken
bool any_live_process(const Segment* segment);  // needs no lock

// Tests compile this library with SIMGPU_BOX_STEPS and stop a process at each of these points.
#ifdef SIMGPU_BOX_STEPS
extern void (*box_step)();
inline void step() {
  if (box_step) box_step();
}
#else
inline void step() {}
#endif

}  // namespace simgpu
