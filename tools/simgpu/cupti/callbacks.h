// The callback API: one subscriber, fed at entry and exit of driver and runtime calls.
#pragma once
#include <cstdint>

namespace simgpu::cupti {

// simgpu's API callback: on the calling thread, without the driver's lock.
void on_api(void* user, const char* function, int exit, int result, uint64_t correlation);
void on_runtime(void* user, const char* function, int exit, int result, uint64_t correlation);
// The runtime function this thread is in, 0: none. Driver calls inside have its correlation.
uint32_t current_runtime_cbid();
void note_wait(uint64_t handle);  // stream of the wait just made by this thread
void reset_subscriber();

}  // namespace simgpu::cupti
