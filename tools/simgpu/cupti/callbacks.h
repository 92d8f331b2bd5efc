// The callback API: one subscriber, fed at entry and exit of driver calls.
#pragma once
#include <cstdint>

namespace simgpu::cupti {

// simgpu's API callback: on the calling thread, without the driver's lock.
void on_api(void* user, const char* function, int exit, int result, uint64_t correlation);
void note_wait(uint64_t handle);  // stream of the wait just made by this thread
void reset_subscriber();

}  // namespace simgpu::cupti
