#include "runtime/ledger/layout.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

namespace shunt::ledger {

static_assert(std::is_standard_layout_v<File>);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

#ifdef SHUNT_LEDGER_STEPS
void (*ledger_step)() = nullptr;
#endif

namespace {

void initialise_mutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

int lock_contended(pthread_mutex_t* mutex, uint32_t timeout_ms) {
#ifdef __SANITIZE_THREAD__
  constexpr clockid_t kClock = CLOCK_REALTIME;  // ThreadSanitizer does not know pthread_mutex_clocklock
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec until{};
  clock_gettime(kClock, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += static_cast<long>(timeout_ms % 1000) * 1'000'000;
  if (until.tv_nsec >= 1'000'000'000) until.tv_nsec -= 1'000'000'000, ++until.tv_sec;
#ifdef __SANITIZE_THREAD__
  return pthread_mutex_timedlock(mutex, &until);
#else
  return pthread_mutex_clocklock(mutex, kClock, &until);
#endif
}

}  // namespace

void initialise(File* file) {
  file->magic = kMagic;
  file->version = kVersion;
  file->bytes = sizeof(File);
  initialise_mutex(&file->mutex);
  step();
  file->ready.store(1, std::memory_order_release);
}

bool matches(const File* file, size_t bytes, std::string& why) {
  // `ready` is looked at first: what its maker wrote before is then seen.
  if (bytes != sizeof(File) || file->ready.load(std::memory_order_acquire) != 1 || file->magic != kMagic)
    why = "is damaged: shunt ledger --repair makes a new one";
  else if (file->version != kVersion || file->bytes != sizeof(File))
    why = "was made by another version of shunt: end its processes, or run shunt ledger --repair";
  else
    return true;
  return false;
}

namespace {
std::atomic<uint64_t> g_worst_wait_ns{0};
}
uint64_t worst_lock_wait_ns() { return g_worst_wait_ns.load(std::memory_order_relaxed); }

bool lock(pthread_mutex_t* mutex, uint32_t timeout_ms) {
  int rc = pthread_mutex_trylock(mutex);
  if (rc == EBUSY) {
    uint64_t start = boottime_ns();
    rc = lock_contended(mutex, timeout_ms);
    uint64_t waited = boottime_ns() - start, worst = g_worst_wait_ns.load(std::memory_order_relaxed);
    while (worst < waited && !g_worst_wait_ns.compare_exchange_weak(worst, waited)) {
    }
  }
  // Its last holder died: what it guards is written so that every prefix of the writing is sound (see
  // layout.h).
  if (rc == EOWNERDEAD) rc = pthread_mutex_consistent(mutex);
  if (rc != 0) return false;
  step();
  return true;
}

void unlock(pthread_mutex_t* mutex) {
  step();
  pthread_mutex_unlock(mutex);
  step();
}

uint64_t boottime_ns() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

uint64_t image_id() {
  // Sixteen random bytes the kernel gives every program it starts.
  uint64_t id = 0;
  if (const void* random = reinterpret_cast<const void*>(getauxval(AT_RANDOM)))
    std::memcpy(&id, random, sizeof id);
  return id;
}

}  // namespace shunt::ledger
