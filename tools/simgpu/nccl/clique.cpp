#include "tools/simgpu/nccl/clique.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/process_id.h"

namespace simgpu::nccl {

namespace {

constexpr uint64_t kMagic = 0x314c43434e4d4953ull;  // "SIMNCCL1"

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void nap() {
  const timespec t{0, 200'000};
  nanosleep(&t, nullptr);
}

}  // namespace

double timeout_s() {
  const char* text = getenv("SIMGPU_NCCL_TIMEOUT");
  const double value = text ? atof(text) : 0;
  return value > 0 ? value : 60;
}

Clique* Clique::open(const std::string& name, int ranks, std::string& error) {
  int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  const bool creator = fd >= 0;
  if (!creator) fd = shm_open(name.c_str(), O_RDWR, 0600);
  if (fd < 0) return error = "shared memory " + name + ": " + strerror(errno), nullptr;
  if (creator && ftruncate(fd, sizeof(CliqueMemory)) != 0) {
    error = "shared memory " + name + ": " + strerror(errno);
    close(fd);
    return nullptr;
  }
  struct stat st {};
  for (const double until = now_s() + 5;
       fstat(fd, &st) == 0 && st.st_size < static_cast<off_t>(sizeof(CliqueMemory)) && now_s() < until;)
    nap();
  void* memory = st.st_size >= static_cast<off_t>(sizeof(CliqueMemory))
                     ? mmap(nullptr, sizeof(CliqueMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) return error = "shared memory " + name + " cannot be mapped", nullptr;
  auto* m = static_cast<CliqueMemory*>(memory);
  if (creator) {
    m->ranks = static_cast<uint32_t>(ranks);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    m->magic.store(kMagic, std::memory_order_release);
  }
  for (const double until = now_s() + 5;
       m->magic.load(std::memory_order_acquire) != kMagic && now_s() < until;)
    nap();
  if (m->magic.load() != kMagic || m->ranks != static_cast<uint32_t>(ranks)) {
    error = "ranks disagree on the size of the communicator: " + std::to_string(ranks) + " here, " +
            std::to_string(m->ranks) + " elsewhere";
    munmap(memory, sizeof(CliqueMemory));
    return nullptr;
  }
  auto* clique = new Clique;
  clique->name_ = name;
  clique->memory_ = m;
  return clique;
}

bool Clique::join(int rank, int box_device, int cuda_device, uint32_t cc) {
  Guard guard(*this);
  RankSlot& slot = memory_->slot[rank];
  if (slot.joined.load()) return false;
  slot.pid = static_cast<uint32_t>(getpid());
  slot.process_start = shunt::process_start_time(slot.pid);
  slot.box_device = box_device;
  slot.cuda_device = cuda_device;
  slot.cc = cc;
  slot.joined.store(1, std::memory_order_release);
  // The last to come takes the name away: nothing is left behind whatever happens later.
  if (memory_->joined.fetch_add(1) + 1 == memory_->ranks) shm_unlink(name_.c_str());
  return true;
}

bool Clique::wait_all(double timeout, std::string& missing) const {
  for (const double until = now_s() + timeout;
       memory_->joined.load(std::memory_order_acquire) < memory_->ranks;) {
    if (now_s() < until) {
      nap();
      continue;
    }
    for (uint32_t r = 0; r < memory_->ranks; ++r) {
      if (!memory_->slot[r].joined.load()) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    }
    shm_unlink(name_.c_str());
    return false;
  }
  return true;
}

void Clique::leave(int rank) { memory_->slot[rank].left.store(1); }

uint64_t Clique::announce(int rank, int color, int key) {
  RankSlot& mine = memory_->slot[rank];
  const uint64_t n = mine.exchanges.load();
  mine.color[n % 16] = color;
  mine.key[n % 16] = key;
  mine.exchanges.store(n + 1, std::memory_order_release);
  return n;
}

bool Clique::await(uint64_t n, double timeout, std::string& missing) {
  const double until = now_s() + timeout;
  for (uint32_t r = 0; r < memory_->ranks; ++r) {
    while (memory_->slot[r].exchanges.load(std::memory_order_acquire) < n + 1) {
      if (now_s() > until || memory_->slot[r].aborted.load()) return missing = std::to_string(r), false;
      nap();
    }
  }
  return true;
}

bool Clique::any_dead(std::string& who) {
  for (uint32_t r = 0; r < memory_->ranks; ++r) {
    RankSlot& slot = memory_->slot[r];
    if (!slot.joined.load() || slot.left.load()) continue;
    if (slot.dead.load() || shunt::process_start_time(slot.pid) != slot.process_start) {
      slot.dead.store(1);
      who += (who.empty() ? "" : ", ") + std::to_string(r);
    }
  }
  return !who.empty();
}

bool Clique::aborted() const {
  for (uint32_t r = 0; r < memory_->ranks; ++r) {
    if (memory_->slot[r].aborted.load()) return true;
  }
  return false;
}

Clique::Guard::Guard(Clique& clique) : mutex_(&clique.memory_->mutex) {
  // A holder that died leaves posts that are whole or free: each is filled before its state is set.
  if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
}
Clique::Guard::~Guard() { pthread_mutex_unlock(mutex_); }

Post* Clique::free_post() {
  for (Post& post : memory_->posts) {
    if (post.state == Post::free) return &post;
  }
  return nullptr;
}

}  // namespace simgpu::nccl
