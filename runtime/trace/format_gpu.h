// Device-side records of a .shnt file, filled from CUPTI. Stamps stay raw (CLOCK_REALTIME nanoseconds, 0 when
// CUPTI lost them); readers convert with the clock records: those with kClockOfGpu, else any. Types 32-38 of
// RecordType.
#pragma once
#include "runtime/trace/format.h"

namespace shunt::trace {

struct GpuRecord {
  // t_ns: engine time at which the record was received; id: decision id (external id), 0 none; flags: feature
  // of that decision + 1, so that device time is summed without looking the decision up
  RecordHeader header;
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

// A driver call as CUPTI saw it: what device records of the same correlation come from.
struct ApiRecord {
  RecordHeader header;  // id: decision id, 0 none
  uint64_t start, end;  // raw CUPTI stamps
  uint32_t correlation, thread;
  uint32_t name, result;  // name: string id
  uint64_t spare;
};
static_assert(sizeof(ApiRecord) == 64);

// As CUPTI is told: ids count by thread from bit 32, so the top byte is free for the feature + 1.
inline constexpr int kExternalFeatureShift = 56;
inline constexpr uint64_t kExternalIdMask = (uint64_t{1} << kExternalFeatureShift) - 1;

// cupti_external, in the layout of a CounterRecord: id is the decision; value is a correlation id, or with
// this flag the decision that the work was enqueued with.
inline constexpr uint32_t kExternalLeader = 1;
// clock: `realtime` is CUPTI's own stamp of that moment.
inline constexpr uint32_t kClockOfGpu = 1;

}  // namespace shunt::trace
