// Which records the client wants, and the switches of the activity API. Any thread; readers take no lock.
#pragma once
#include <cstdint>

#include "tools/simgpu/cupti/cupti_api.h"
#include "tools/simgpu/driver/private_api.h"

namespace simgpu::cupti {

bool wanted(CUpti_ActivityKind kind,
            uint64_t context_id);  // a context's own setting wins over the global one
bool driver_api_wanted(uint32_t cbid);
bool runtime_api_wanted(uint32_t cbid);
bool buffers_come_zeroed();  // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
bool system_thread_ids();
void reset_selection();

// The subscriber of the driver's timeline: under the driver's lock, so it only takes the record down.
void on_record(void* user, const simgpu_record* record);
// The activity kind of a device record as currently selected; CUPTI_ACTIVITY_KIND_INVALID: not wanted.
CUpti_ActivityKind selected_kind(const simgpu_record& record);

void note_function(uint64_t correlation, const char* function);  // API entry
const char* function_of(uint64_t correlation);                   // null when long ago

// Enqueue records about devices and contexts, when these kinds are selected. Without the driver's lock.
void report_devices(bool regardless_of_selection);
void report_context(const struct CurrentContext& context);

}  // namespace simgpu::cupti
