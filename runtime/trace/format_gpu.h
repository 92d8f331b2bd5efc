// Device-side records of a .shnt file, filled from CUPTI. Stamps stay raw (CLOCK_REALTIME nanoseconds, 0 when
// CUPTI lost them); readers convert with the clock records. Types 32-37 of RecordType.
#pragma once
#include "runtime/trace/format.h"

namespace shunt::trace {

struct GpuRecord {
  RecordHeader
      header;  // t_ns: engine time at which the record was received; id: decision id (external id), 0 none
  uint64_t start, end;  // raw CUPTI stamps
  uint32_t correlation, device, context, stream;
  uint64_t graph_node, bytes;  // bytes: copies and sets
  uint32_t graph_id, name;     // name: string id (kernels)
  uint32_t grid[3], block[3];
  uint32_t registers, static_shared, dynamic_shared;
  uint8_t copy_kind, src_kind, dst_kind, reserved;
  uint64_t spare;
};
static_assert(sizeof(GpuRecord) == 128);

}  // namespace shunt::trace
