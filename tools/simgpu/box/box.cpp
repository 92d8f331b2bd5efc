#include "tools/simgpu/box/box.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/process_id.h"
#include "tools/simgpu/box/mapping.h"
#include "tools/simgpu/box/segment.h"

namespace simgpu {

// What one library of one process knows besides the segment.
struct PrivateData {
  BoxSpec spec;
  // The process's slot; valid while slot_pid is this process (a fork's child has to find its own).
  std::atomic<ProcessSlot*> slot{nullptr};
  std::atomic<uint32_t> slot_pid{0};
  std::atomic<bool> warned_release{false}, warned_slots{false};
};

namespace {

constexpr uint64_t kSweepInterval_ns = 2'000'000;

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

BoxSpec spec_from_environment(std::string& error, bool& ok) {
  const char* sim = environment("SIMGPU_SPEC");
  const char* links = environment("SIMGPU_LINKS");
  BoxSpec spec;
  ok = parse_box_spec(sim ? sim : "b200:1", links ? links : "nvlink5", spec, error);
  return spec;
}

Box* open_for_process() {
  std::string error;
  Box* box = nullptr;
  if (const char* name = environment("SIMGPU_BOX")) {
    box = Box::open_named(name[0] == '/' ? name : std::string("/") + name, error);
  } else if (Segment* segment = map_process_private(error, spec_from_environment)) {
    box = Box::adopt(segment, error);
  }
  if (!box) std::fprintf(stderr, "simgpu: %s\n", error.c_str());
  return box;
}

}  // namespace

Box* Box::get() {
  static Box* const box = open_for_process();
  return box;
}

bool Box::create_named(const BoxSpec& spec, std::string& name, std::string& error) {
  if (spec.devices.empty() || spec.link.size() != spec.devices.size()) {
    error = "the box specification is incomplete: build it with parse_box_spec";
    return false;
  }
  return create_named_segment(spec, name, error);
}

void Box::unlink_named(const std::string& name) { unlink_named_segment(name); }

Box* Box::open_named(const std::string& name, std::string& error) {
  size_t bytes = 0;
  Segment* segment = map_named(name, bytes, error);
  if (!segment) return nullptr;
  BoxSpec spec;
  if (!spec_of_segment(segment, spec, error)) {
    error = "the box '" + name + "' " + error;
    munmap(segment, bytes);
    return nullptr;
  }
  return new Box(segment, bytes, name, std::move(spec));
}

Box* Box::create_private(const BoxSpec& spec, std::string& error) {
  Segment* segment = map_new_private(spec, error);
  return segment ? new Box(segment, sizeof(Segment), "", spec) : nullptr;
}

Box* Box::adopt(Segment* segment, std::string& error) {
  BoxSpec spec;
  if (!spec_of_segment(segment, spec, error)) return nullptr;
  return new Box(segment, 0, "", std::move(spec));  // mapped for the whole process: never unmapped
}

Box::Box(Segment* segment, size_t bytes, std::string name, BoxSpec spec)
    : segment_(segment), segment_bytes_(bytes), name_(std::move(name)), private_(new PrivateData) {
  private_->spec = std::move(spec);
}

Box::~Box() {
  if (segment_bytes_ != 0) munmap(segment_, segment_bytes_);
  delete private_;
}

const BoxSpec& Box::spec() const { return private_->spec; }
int Box::device_count() const { return static_cast<int>(segment_->device_count); }
const shunt::profiles::Profile& Box::profile(int device) const {
  return *private_->spec.devices[static_cast<size_t>(device)].profile;
}
DeviceState& Box::state(int device) { return segment_->devices[device].state; }

void Box::uuid(int device, uint8_t out[16]) const { std::memcpy(out, segment_->devices[device].uuid, 16); }

std::string Box::uuid_string(int device) const {
  const uint8_t* u = segment_->devices[device].uuid;
  char text[48];
  std::snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
                u[15]);
  return text;
}

std::string Box::pci_bus_id(int device) const {
  char text[32];
  std::snprintf(text, sizeof text, "%08X:%02X:00.0", pci_domain(device), pci_bus(device));
  return text;
}
uint32_t Box::pci_bus(int device) const { return segment_->devices[device].pci_bus; }
uint32_t Box::pci_domain(int device) const { return segment_->devices[device].pci_domain; }

namespace {

// The process's slot, made on first use. Lock held.
ProcessSlot* own_slot(Segment* segment, PrivateData* data) {
  uint32_t pid = static_cast<uint32_t>(getpid());
  if (data->slot_pid.load(std::memory_order_acquire) == pid)
    return data->slot.load(std::memory_order_relaxed);
  ProcessSlot* slot = claim_slot(segment);
  if (!slot) {
    if (!data->warned_slots.exchange(true))
      std::fprintf(stderr, "simgpu: the box already has %d processes: end some, or use another box\n",
                   kMaxProcesses);
    return nullptr;
  }
  data->slot.store(slot, std::memory_order_relaxed);
  data->slot_pid.store(pid, std::memory_order_release);
  return slot;
}

}  // namespace

uint64_t Box::capacity_bytes(int device) const {
  const DeviceRecord& record = segment_->devices[device];
  uint64_t reserved = record.state.reserved_bytes.load(std::memory_order_relaxed);
  return record.memory_bytes > reserved ? record.memory_bytes - reserved : 0;
}

bool Box::reserve(int device, uint64_t bytes) {
  SegmentLock lock(segment_);
  ProcessSlot* slot = own_slot(segment_, private_);
  if (!slot) return false;
  std::atomic<uint64_t>& total = segment_->devices[device].state.used_bytes;
  uint64_t capacity = capacity_bytes(device);
  auto fits = [&] {
    uint64_t used = total.load(std::memory_order_relaxed);
    return used <= capacity && bytes <= capacity - used;
  };
  if (!fits()) {
    sweep_dead(segment_);
    if (!fits()) return false;
  }
  slot->used[device].fetch_add(bytes, std::memory_order_relaxed);
  step();
  total.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void Box::release(int device, uint64_t bytes) {
  SegmentLock lock(segment_);
  ProcessSlot* slot = own_slot(segment_, private_);
  uint64_t has = slot ? slot->used[device].load(std::memory_order_relaxed) : 0;
  if (bytes > has) {
    if (!private_->warned_release.exchange(true))
      std::fprintf(stderr, "simgpu: device %d: %llu bytes given back by a process that has only %llu\n",
                   device, static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(has));
    bytes = has;
  }
  if (bytes == 0) return;
  slot->used[device].fetch_sub(bytes, std::memory_order_relaxed);
  step();
  segment_->devices[device].state.used_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

uint64_t Box::free_bytes(int device) const {
  // Somebody who waits for a dead neighbour's memory asks here, so look at the neighbours now and then.
  uint64_t now = monotonic_ns(), last = segment_->last_sweep_ns.load(std::memory_order_relaxed);
  if (now - last > kSweepInterval_ns && segment_->last_sweep_ns.compare_exchange_strong(last, now)) {
    SegmentLock lock(segment_);
    sweep_dead(segment_);
  }
  uint64_t capacity = capacity_bytes(device);
  uint64_t used = segment_->devices[device].state.used_bytes.load(std::memory_order_relaxed);
  return capacity > used ? capacity - used : 0;
}

uint64_t Box::own_bytes(int device) const {
  SegmentLock lock(segment_);
  ProcessSlot* slot = find_slot(segment_, static_cast<uint32_t>(getpid()), shunt::own_start_time());
  return slot ? slot->used[device].load(std::memory_order_relaxed) : 0;
}

std::vector<Box::ProcessUse> Box::processes(int device) {
  SegmentLock lock(segment_);
  sweep_dead(segment_);
  std::vector<ProcessUse> list;
  for (const ProcessSlot& slot : segment_->slots) {
    uint32_t pid = slot.pid.load(std::memory_order_relaxed);
    if (pid == 0) continue;
    uint64_t bytes = slot.used[device].load(std::memory_order_relaxed);
    if (bytes != 0 || slot.attached[device].load(std::memory_order_relaxed) != 0)
      list.push_back({pid, bytes});
  }
  return list;
}

void Box::attach(int device) {
  SegmentLock lock(segment_);
  if (ProcessSlot* slot = own_slot(segment_, private_))
    slot->attached[device].store(1, std::memory_order_relaxed);
}

void Box::detach(int device) {
  SegmentLock lock(segment_);
  if (ProcessSlot* slot = own_slot(segment_, private_))
    slot->attached[device].store(0, std::memory_order_relaxed);
}

uint64_t Box::merge_clock(uint64_t now_ns) {
  uint64_t seen = segment_->clock_ns.load(std::memory_order_acquire);
  while (seen < now_ns)
    if (segment_->clock_ns.compare_exchange_weak(seen, now_ns, std::memory_order_acq_rel)) return now_ns;
  return seen;
}

void Box::raise_xid(int device, uint32_t xid) {
  DeviceState& s = state(device);
  s.xid.store(xid, std::memory_order_relaxed);
  s.event_count.fetch_add(1, std::memory_order_release);
  segment_->event_word.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &segment_->event_word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

uint32_t Box::event_word() const { return segment_->event_word.load(std::memory_order_acquire); }

bool Box::wait_event(uint32_t seen, uint32_t timeout_ms) {
  uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  while (event_word() == seen) {
    uint64_t now = monotonic_ns();
    if (now >= deadline) return false;
    timespec left{static_cast<time_t>((deadline - now) / 1'000'000'000),
                  static_cast<long>((deadline - now) % 1'000'000'000)};
    syscall(SYS_futex, &segment_->event_word, FUTEX_WAIT, seen, &left, nullptr, 0);
  }
  return true;
}

uint64_t Box::unique_id() { return segment_->next_id.fetch_add(1, std::memory_order_relaxed) + 1; }

std::string Box::object_name(std::string_view kind, uint64_t id) const {
  std::string base = name_;
  if (base.empty())  // a private box: shared only with this process's forks
    base = "/simgpu-private-" + std::to_string(segment_->creator_pid) + "-" +
           std::to_string(segment_->creator_start);
  return base + "." + std::string(kind) + "-" + std::to_string(id);
}

}  // namespace simgpu
