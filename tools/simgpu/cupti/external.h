// External correlation ids: a stack per thread and kind. Owned by the thread; nothing is freed at exit.
#pragma once
#include "tools/simgpu/cupti/cupti_api.h"

namespace simgpu::cupti {

// The calling thread's innermost id of a kind; false when there is none.
bool external_id(CUpti_ExternalCorrelationKind kind, uint64_t& id);

}  // namespace simgpu::cupti
