// The ledger's file: fixed layout, versioned, shared by all processes of one user since boot. A process
// writes only its own slot (and, under a lock, the tables), every sum is made by reading the live slots: so a
// process that is killed at any instruction leaves nothing to repair but its slot, which the next sweep gives
// back.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace shunt::ledger {

constexpr int kMaxDevices = 32;
constexpr int kMaxProcesses = 512;
constexpr uint64_t kMagic = 0x72'65'67'64'65'6c'68'73;  // "shledger"
constexpr uint32_t kVersion = 2;

struct DeviceUse {
  std::atomic<uint64_t> used;      // allocated through shunt
  std::atomic<uint64_t> reserved;  // promised, not allocated yet
  std::atomic<uint64_t> spilled;   // asked of this device, placed elsewhere
  std::atomic<uint64_t> wanted;    // waiting for: pressure on the others
  std::atomic<uint64_t> freed;     // given back since the process started
};

struct alignas(64) Slot {
  std::atomic<uint64_t> sequence;      // odd while several fields change together
  std::atomic<uint64_t> start_time;    // written last when a slot is taken; 0: being taken
  std::atomic<uint64_t> namespace_id;  // of pids
  std::atomic<uint64_t> image_id;      // changes with exec
  std::atomic<uint64_t> heartbeat_ns;  // CLOCK_BOOTTIME
  std::atomic<uint32_t> dirty;         // being cleared: the next sweep finishes what a killed one began
  char name[16];                       // of the program, for people
  DeviceUse devices[kMaxDevices];
};

struct alignas(64) DeviceEntry {
  std::atomic<uint32_t> known;          // 1 once the UUID is written
  std::atomic<uint32_t> pressure_word;  // changes when somebody starts or stops waiting
  std::atomic<uint32_t> freed_word;     // changes when memory was given back; waiters sleep on it
  std::atomic<uint32_t> waiters;        // somebody may be asleep; cleared by the one who finds nobody
  uint8_t uuid[16];
  std::atomic<uint64_t> freed_by_dead;  // memory of processes that ended
};

struct File {
  uint64_t magic;
  uint32_t version, bytes;
  std::atomic<uint32_t> ready;
  std::atomic<uint32_t> slots_in_use;  // slots at and beyond this number were never taken
  std::atomic<uint64_t> sweeps, reclaimed_slots;
  pthread_mutex_t mutex;                        // slot and device tables
  std::atomic<uint32_t> owners[kMaxProcesses];  // pid of each slot; 0 free
  DeviceEntry devices[kMaxDevices];
  Slot slots[kMaxProcesses];
};

void initialise(File* file);
bool matches(const File* file, size_t bytes, std::string& why);

// Locks a robust mutex, for a limited time: a stopped process must not stop the others. false: not locked.
bool lock(pthread_mutex_t* mutex, uint32_t timeout_ms);
void unlock(pthread_mutex_t* mutex);
uint64_t worst_lock_wait_ns();  // of this process so far

uint64_t boottime_ns();
uint64_t pid_namespace();
uint64_t image_id();  // differs after exec

// Tests compile this library with SHUNT_LEDGER_STEPS and stop the process at each of these points.
#ifdef SHUNT_LEDGER_STEPS
extern void (*ledger_step)();
inline void step() {
  if (ledger_step) ledger_step();
}
#else
inline void step() {}
#endif

}  // namespace shunt::ledger
