#include "tools/simgpu/cupti/buffers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "tools/simgpu/cupti/activity.h"
#include "tools/simgpu/cupti/clock.h"
#include "tools/simgpu/cupti/driver.h"
#include "tools/simgpu/cupti/lifetime.h"
#include "tools/simgpu/cupti/records.h"
#include "tools/simgpu/cupti/settings.h"

namespace simgpu::cupti {
namespace {

struct Queue {
  std::mutex mutex;  // leaf
  std::deque<Item> items;
  std::unordered_set<uint64_t> delivered_early;
};
struct ClientBuffer {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0, records = 0, max_records = 0;
};
struct Delivery {
  std::mutex mutex;     // one filler at a time
  ClientBuffer buffer;  // under the mutex
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<size_t> dropped{0};
};
struct Periodic {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t period_ms = 0;
  bool running = false;
};
template <class T>
T& leaked() {
  static T* const instance = new T;
  return *instance;
}
thread_local bool t_filling = false;  // a client callback that flushes must not wait for itself

void hand_back(Delivery& d) {
  if (!d.buffer.data) return;
  const ClientBuffer full = d.buffer;
  d.buffer = {};
  if (auto complete = d.complete.load()) {
    Quiet quiet;
    complete(nullptr, 0, full.data, full.size, full.used);
  }
}

bool room_for(Delivery& d, size_t bytes) {
  ClientBuffer& b = d.buffer;
  if (b.data && (b.used + bytes > b.size || (b.max_records && b.records >= b.max_records))) hand_back(d);
  if (b.data) return true;
  auto request = d.request.load();
  if (!request) return false;
  ClientBuffer fresh;
  const uint64_t start = driver().host_ns();
  {
    Quiet quiet;
    request(&fresh.data, &fresh.size, &fresh.max_records);
  }
  if (wanted(CUPTI_ACTIVITY_KIND_OVERHEAD, 0)) {
    Item item;
    item.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    item.record.start_ns = start;
    item.record.end_ns = driver().host_ns();
    item.thread = static_cast<uint32_t>(syscall(SYS_gettid));
    enqueue(std::move(item));
  }
  if (!fresh.data) return false;
  if (!buffers_come_zeroed()) memset(fresh.data, 0, fresh.size);
  b = fresh;
  if (bytes <= b.size) return true;
  hand_back(d);  // too small for even one record: empty it goes back
  return false;
}

void put(Delivery& d, const uint8_t* bytes, size_t size) {
  if (fault(Site::drop) || !room_for(d, size)) {
    d.dropped.fetch_add(1);
    return;
  }
  memcpy(d.buffer.data + d.buffer.used, bytes, size);
  d.buffer.used += size;
  ++d.buffer.records;
}

// Delivery mutex held.
void fill_buffers(Delivery& d) {
  Queue& q = leaked<Queue>();
  sample_clock(std::max(driver().host_ns(), driver().device_ns()));
  alignas(8) uint8_t bytes[kMaxRecordBytes];
  while (true) {
    Item item;
    {
      std::lock_guard lock(q.mutex);
      if (q.items.empty()) return;
      item = std::move(q.items.front());
      q.items.pop_front();
    }
    for (const Item::External& external : item.external)
      put(d, bytes, write_external(external, item.record.correlation, bytes));
    if (const size_t size = write_record(item, bytes)) put(d, bytes, size);
  }
}

struct Filling {
  Filling() { t_filling = true; }
  ~Filling() { t_filling = false; }
};

void periodic_thread() {
  Periodic& p = leaked<Periodic>();
  std::unique_lock lock(p.mutex);
  while (p.period_ms) {
    p.changed.wait_for(lock, std::chrono::milliseconds(p.period_ms));
    if (!p.period_ms) break;
    lock.unlock();
    drain(false);  // full buffers leave on the way
    lock.lock();
  }
  p.running = false;
}

}  // namespace

void enqueue(Item item) {
  Queue& q = leaked<Queue>();
  std::lock_guard lock(q.mutex);
  q.items.push_back(std::move(item));
}

bool first_delivery(uint64_t serial) {
  Queue& q = leaked<Queue>();
  std::lock_guard lock(q.mutex);
  return serial == 0 || q.delivered_early.erase(serial) == 0;
}

const char* intern(const char* text) {
  struct Names {
    std::mutex mutex;
    std::unordered_set<std::string> set;  // nodes stay put
  };
  Names& names = leaked<Names>();
  std::lock_guard lock(names.mutex);
  return names.set.emplace(text ? text : "").first->c_str();
}

void drain(bool wait) {
  Delivery& d = leaked<Delivery>();
  if (t_filling || !d.request.load()) return;
  {
    Queue& q = leaked<Queue>();
    std::lock_guard lock(q.mutex);
    if (q.items.empty()) return;
  }
  std::unique_lock lock(d.mutex, std::defer_lock);
  // The application may hold locks that the client's callbacks want: API exits never wait here.
  if (wait)
    lock.lock();
  else if (!lock.try_lock())
    return;
  Filling filling;
  fill_buffers(d);
}

void reset_buffers() {
  Delivery& d = leaked<Delivery>();
  {
    Periodic& p = leaked<Periodic>();
    std::lock_guard lock(p.mutex);
    p.period_ms = 0;
    p.changed.notify_all();
  }
  if (!t_filling) {
    std::lock_guard lock(d.mutex);
    Filling filling;
    hand_back(d);
  }
  Queue& q = leaked<Queue>();
  std::lock_guard lock(q.mutex);
  q.items.clear();
  q.delivered_early.clear();
  d.request = nullptr;
  d.complete = nullptr;
  d.dropped = 0;
}

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                               CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  if (!funcBufferRequested || !funcBufferCompleted) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Delivery& d = leaked<Delivery>();
  d.complete = funcBufferCompleted;
  d.request = funcBufferRequested;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Delivery& d = leaked<Delivery>();
  if (!d.request.load()) return CUPTI_ERROR_INVALID_OPERATION;
  if (t_filling) return CUPTI_SUCCESS;  // asked from a client callback: the delivery under way does it
  const bool forced = flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
  std::lock_guard lock(d.mutex);
  Filling filling;
  // What is still running, seen under the driver's lock, so that nothing finishes in between.
  struct Look {
    bool forced, any = false;
  } look{forced};
  driver().unfinished(
      [](void* user, const simgpu_record* record) {
        auto& look = *static_cast<Look*>(user);
        Item item;
        item.kind = selected_kind(*record);
        if (item.kind == CUPTI_ACTIVITY_KIND_INVALID) return;
        Queue& q = leaked<Queue>();
        std::lock_guard lock(q.mutex);
        if (q.delivered_early.count(record->serial)) return;
        look.any = true;
        if (!look.forced) return;
        q.delivered_early.insert(record->serial);
        item.record = *record;
        item.record.name = intern(record->name);
        item.record.kind = intern(record->kind);
        item.function = function_of(record->correlation);
        item.incomplete = true;
        q.items.push_back(std::move(item));
      },
      &look);
  fill_buffers(d);
  // Buffers with records still to come stay, unless forced.
  if (forced || !look.any) hand_back(d);
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}

CUPTI_EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t time) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  Periodic& p = leaked<Periodic>();
  std::lock_guard lock(p.mutex);
  p.period_ms = time;
  p.changed.notify_all();
  if (time && !p.running) {
    try {
      std::thread(periodic_thread).detach();
    } catch (...) {
      return CUPTI_ERROR_UNKNOWN;
    }
    p.running = true;
  }
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  *dropped = leaked<Delivery>().dropped.exchange(0);
  return CUPTI_SUCCESS;
}

// Pure arithmetic on the client's memory: works in a forked child and after cuptiFinalize.
CUPTI_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
                                                    CUpti_Activity** record) {
  if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
  size_t offset = 0;
  if (*record) {
    auto* previous = reinterpret_cast<uint8_t*>(*record);
    if (previous < buffer || previous >= buffer + validBufferSizeBytes) return CUPTI_ERROR_INVALID_PARAMETER;
    const size_t size = record_size((*record)->kind);
    if (size == 0) return CUPTI_ERROR_INVALID_KIND;
    offset = size_t(previous - buffer) + size;
  }
  if (offset >= validBufferSizeBytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (validBufferSizeBytes - offset < sizeof(CUpti_Activity)) return CUPTI_ERROR_INVALID_KIND;
  auto* next = reinterpret_cast<CUpti_Activity*>(buffer + offset);
  const size_t size = record_size(next->kind);
  if (size == 0 || offset + size > validBufferSizeBytes) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}
