// From the simulator's virtual time to the stamps of records. Without a timestamp callback: virtual time plus
// one constant, so that the first stamp taken equals CLOCK_REALTIME and all differences are the simulator's,
// exactly. With one: pairs (virtual, callback) are sampled at API entries and exits and at deliveries; stamps
// are interpolated between them. Any thread; the callback is never called under a lock of ours.
#pragma once
#include "tools/simgpu/cupti/cupti_api.h"

namespace simgpu::cupti {

uint64_t stamp(uint64_t virtual_ns);
void sample_clock(uint64_t virtual_ns);  // does nothing without a callback
void reset_clock();                      // back to the default, for cuptiFinalize

}  // namespace simgpu::cupti
