#include "tools/simgpu/cupti/lifetime.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "tools/simgpu/cupti/activity.h"
#include "tools/simgpu/cupti/buffers.h"
#include "tools/simgpu/cupti/callbacks.h"
#include "tools/simgpu/cupti/clock.h"
#include "tools/simgpu/cupti/cupti_api.h"
#include "tools/simgpu/cupti/driver.h"

namespace simgpu::cupti {
namespace {

std::atomic<bool> g_dead{false};
std::atomic<bool> g_attached{false};
int g_subscription = 0;  // under the mutex
std::mutex& mutex() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}

}  // namespace

bool is_dead() { return g_dead.load(std::memory_order_relaxed); }

bool attach() {
  if (is_dead()) return false;
  if (g_attached.load(std::memory_order_acquire)) return true;
  if (!driver().ok) return false;
  std::lock_guard lock(mutex());
  if (g_attached.load()) return true;
  // Locks of the parent's other threads stay locked in a child: nothing of ours may run there.
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { g_dead = true; });
  if (at_fork != 0) return false;
  g_subscription = driver().subscribe(on_record, nullptr);
  driver().set_api_callback(on_api, nullptr);
  driver().set_runtime_callback(on_runtime, nullptr);
  g_attached.store(true, std::memory_order_release);
  return true;
}

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

// Everything the client set is forgotten; buffers it lent go back with what they hold, unfinished work is
// lost.
CUPTI_EXPORT CUptiResult cuptiFinalize() {
  if (is_dead()) return CUPTI_ERROR_NOT_INITIALIZED;
  {
    std::lock_guard lock(mutex());
    if (!g_attached.load()) return CUPTI_SUCCESS;
    driver().set_api_callback(nullptr, nullptr);
    driver().set_runtime_callback(nullptr, nullptr);
    driver().unsubscribe(g_subscription);
    g_attached = false;
  }
  reset_subscriber();
  reset_selection();
  reset_buffers();
  reset_clock();
  return CUPTI_SUCCESS;
}
