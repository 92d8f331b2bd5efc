// Attaching to the driver, detaching (cuptiFinalize) and fork. Any thread.
#pragma once

namespace simgpu::cupti {

// Connects to the driver on first use. False in a forked child (dead for good) and under a driver that is not
// simgpu's.
bool attach();
bool is_dead();  // in a forked child

}  // namespace simgpu::cupti
