// Callback ids and names of driver and runtime functions, read from the toolkit's headers when simgpu is
// built.
#pragma once
#include <string_view>

#include "tools/simgpu/cupti/cupti_api.h"

namespace simgpu::cupti {

// The id of a function as simgpu's driver names it: plain names mean the version cuda.h maps them to. 0:
// none.
uint32_t driver_cbid(std::string_view name);
uint32_t runtime_cbid(std::string_view name);  // as exported, with _ptsz or _ptds
// Null when the number is no function's.
const char* driver_name(uint32_t cbid);
const char* runtime_name(uint32_t cbid);
inline constexpr uint32_t kDriverCbids = CUPTI_DRIVER_TRACE_CBID_SIZE;
inline constexpr uint32_t kRuntimeCbids = CUPTI_RUNTIME_TRACE_CBID_SIZE;

}  // namespace simgpu::cupti
