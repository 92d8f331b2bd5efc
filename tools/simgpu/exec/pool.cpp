#include "tools/simgpu/exec/pool.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace simgpu::exec {
namespace {

struct Pool {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  uint32_t threads = 0, idle = 0;
  pid_t pid = 0;
};
std::mutex g_mutex;
Pool* g_pool = nullptr;

void work(Pool* p) {
  std::unique_lock lock(p->mutex);
  for (;;) {
    p->idle += 1;
    p->wake.wait(lock, [p] { return !p->tasks.empty(); });
    p->idle -= 1;
    auto task = std::move(p->tasks.front());
    p->tasks.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

Pool* pool() {
  std::lock_guard lock(g_mutex);
  if (!g_pool || g_pool->pid != getpid()) {  // a forked child has none of its parent's threads
    g_pool = new Pool;
    g_pool->pid = getpid();
  }
  return g_pool;
}

}  // namespace

void pool_run(uint32_t n, const std::function<void(uint32_t)>& task) {
  Pool* p = pool();
  std::lock_guard lock(p->mutex);
  for (uint32_t k = 1; k <= n; ++k) p->tasks.push_back([task, k] { task(k); });
  while (p->threads < 256 && p->idle + 0u < p->tasks.size() && p->threads < p->tasks.size() + 0u) {
    std::thread(work, p).detach();
    p->threads += 1;
  }
  p->wake.notify_all();
}

}  // namespace simgpu::exec
