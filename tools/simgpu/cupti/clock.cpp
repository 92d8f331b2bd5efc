#include "tools/simgpu/cupti/clock.h"

#include <time.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "tools/simgpu/cupti/driver.h"
#include "tools/simgpu/cupti/lifetime.h"
#include "tools/simgpu/cupti/settings.h"

namespace simgpu::cupti {
namespace {

constexpr size_t kMaxSamples = 4096;
struct Sample {
  uint64_t virtual_ns, given;
};
struct Clock {
  std::mutex mutex;
  bool has_epoch = false;
  uint64_t epoch_ns = 0;
  std::atomic<CUpti_TimestampCallbackFunc> callback{nullptr};
  std::deque<Sample> samples;  // ascending in both
};
Clock& the_clock() {
  static Clock* const instance = new Clock;
  return *instance;
}
uint64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

}  // namespace

uint64_t stamp(uint64_t virtual_ns) {
  Clock& c = the_clock();
  std::lock_guard lock(c.mutex);
  if (c.callback.load() && !c.samples.empty()) {
    // Outside the samples the nearest pair's offset applies.
    const auto& s = c.samples;
    if (virtual_ns <= s.front().virtual_ns) return s.front().given - (s.front().virtual_ns - virtual_ns);
    if (virtual_ns >= s.back().virtual_ns) return s.back().given + (virtual_ns - s.back().virtual_ns);
    size_t low = 0, high = s.size() - 1;
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (s[middle].virtual_ns <= virtual_ns ? low : high) = middle;
    }
    const double part =
        double(virtual_ns - s[low].virtual_ns) / double(s[high].virtual_ns - s[low].virtual_ns);
    return s[low].given + uint64_t(part * double(s[high].given - s[low].given));
  }
  if (!c.has_epoch) {
    c.has_epoch = true;
    c.epoch_ns = settings().has_epoch ? settings().epoch_ns : realtime_ns() - virtual_ns;
  }
  return c.epoch_ns + virtual_ns;
}

void sample_clock(uint64_t virtual_ns) {
  Clock& c = the_clock();
  const CUpti_TimestampCallbackFunc callback = c.callback.load();
  if (!callback) return;
  const uint64_t given = callback();
  std::lock_guard lock(c.mutex);
  // Threads race between the call above and the lock, and a program's clock may stand still: keep the order.
  if (!c.samples.empty() && (c.samples.back().virtual_ns >= virtual_ns || c.samples.back().given > given))
    return;
  c.samples.push_back({virtual_ns, given});
  if (c.samples.size() > kMaxSamples) c.samples.pop_front();
}

void reset_clock() {
  Clock& c = the_clock();
  std::lock_guard lock(c.mutex);
  c.callback = nullptr;
  c.samples.clear();
  c.has_epoch = false;
}

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  const uint64_t now = driver().host_ns();
  sample_clock(now);
  *timestamp = stamp(now);
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  if (!funcTimestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  {
    Clock& c = the_clock();
    std::lock_guard lock(c.mutex);
    c.samples.clear();
    c.callback = funcTimestamp;
  }
  sample_clock(driver().host_ns());
  return CUPTI_SUCCESS;
}
