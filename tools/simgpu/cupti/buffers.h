// Records on their way to the client. The driver's callbacks put items into a queue (leaf lock, any thread);
// API exits, flushes and the periodic thread turn them into CUPTI's structures in the client's buffers.
// Client callbacks run without the driver's lock and without the queue's; one thread at a time fills.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/simgpu/cupti/cupti_api.h"
#include "tools/simgpu/driver/private_api.h"

namespace simgpu::cupti {

struct Item {
  CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_INVALID;
  simgpu_record record{};          // name: interned, lives for ever
  const char* function = nullptr;  // API call behind it
  uint32_t cbid = 0, thread = 0;
  struct External {
    CUpti_ExternalCorrelationKind kind;
    uint64_t id;
  };
  std::vector<External> external;
  bool incomplete = false;     // forced out before its end
  std::vector<uint8_t> ready;  // a finished structure (devices, contexts)
};

void enqueue(Item item);
// `wait`: for another thread's delivery to end; otherwise that thread will do ours too.
void drain(bool wait);
// False when an earlier forced flush has already delivered this execution.
bool first_delivery(uint64_t serial);
const char* intern(const char* text);
void reset_buffers();

}  // namespace simgpu::cupti
