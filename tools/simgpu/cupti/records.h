// From an item to CUPTI's newest structure of its kind, as cupti_activity.h of the toolkit declares it.
#pragma once
#include "tools/simgpu/cupti/buffers.h"

namespace simgpu::cupti {

inline constexpr size_t kMaxRecordBytes = 512;
// Bytes of a record of that kind; 0 for kinds simgpu never writes.
size_t record_size(CUpti_ActivityKind kind);
// Writes the record proper (not external ids) to `out`, aligned to 8, zeroed by this function. Returns its
// size.
size_t write_record(const Item& item, uint8_t* out);
size_t write_external(const Item::External& external, uint64_t correlation, uint8_t* out);

}  // namespace simgpu::cupti
