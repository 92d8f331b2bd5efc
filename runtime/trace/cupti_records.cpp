#include "runtime/trace/cupti_records.h"

#include <algorithm>

#include "runtime/trace/cupti_library.h"
#include "runtime/trace/format_gpu.h"
#include "runtime/trace/writer.h"

namespace shunt::trace::gpu {
namespace {

template <class T>
const T& as(const void* record) {
  return *static_cast<const T*>(record);
}

template <class Record>
Record* begin(RecordType type, uint64_t external) {
  auto* r = static_cast<Record*>(trace::detail::reserve(sizeof(Record)));
  if (!r) return nullptr;
  *r = Record{};
  r->header = {static_cast<uint16_t>(type), sizeof(Record),
               static_cast<uint32_t>(external >> kExternalFeatureShift), clock::now_ns(),
               external & kExternalIdMask};
  return r;
}

// The fields every device record has under the same names.
template <class Activity>
void place(GpuRecord& to, const Activity& from) {
  to.start = from.start, to.end = from.end;
  to.correlation = from.correlationId, to.device = from.deviceId;
  to.context = from.contextId, to.stream = from.streamId;
  to.graph_id = from.graphId;
}

template <class Activity>
void copy(GpuRecord& to, const Activity& from) {
  place(to, from);
  to.bytes = from.bytes, to.graph_node = from.graphNodeId;
  to.copy_kind = from.copyKind, to.src_kind = from.srcKind, to.dst_kind = from.dstKind;
}

void kernel(GpuRecord& to, const CUpti_ActivityKernel10& from) {
  place(to, from);
  to.graph_node = from.graphNodeId;
  to.name = static_cast<uint32_t>(string_id(from.name ? from.name : "?"));
  const int32_t grid[] = {from.gridX, from.gridY, from.gridZ};
  const int32_t block[] = {from.blockX, from.blockY, from.blockZ};
  for (int i = 0; i < 3; i++)
    to.grid[i] = static_cast<uint32_t>(grid[i]), to.block[i] = static_cast<uint32_t>(block[i]);
  to.registers = from.registersPerThread;
  to.static_shared = static_cast<uint32_t>(from.staticSharedMemory);
  to.dynamic_shared = static_cast<uint32_t>(from.dynamicSharedMemory);
}

}  // namespace

void Records::note(uint32_t correlation, uint64_t external) {
  WriteGuard guard(lock_);
  slots_[correlation % kSlots] = {correlation, external};
}

uint64_t Records::external_of(uint32_t correlation) {
  SharedGuard guard(lock_);
  const Slot& slot = slots_[correlation % kSlots];
  return slot.correlation == correlation ? slot.external : 0;
}

Records::Counts Records::counts() {
  SharedGuard guard(lock_);
  return counts_;
}

void Records::take(uint8_t* buffer, size_t bytes) {
  CUpti_Activity* record = nullptr;
  while (cupti_.cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) continue;
    const auto& external = as<CUpti_ActivityExternalCorrelation>(record);
    if (external.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2) continue;
    note(external.correlationId, external.externalId);
    if (auto* r = begin<CounterRecord>(RecordType::cupti_external, external.externalId)) {
      r->header.flags = 0;
      r->value = external.correlationId;
      trace::detail::commit(sizeof(CounterRecord));
    }
  }
  Counts found;
  record = nullptr;
  while (cupti_.cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) write(record, found);
  WriteGuard guard(lock_);
  counts_.calls += found.calls, counts_.device += found.device;
  counts_.unstamped += found.unstamped, counts_.unknown += found.unknown;
}

void Records::write(const void* record, Counts& found) {
  GpuRecord r{};
  RecordType type;
  switch (as<CUpti_Activity>(record).kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& api = as<CUpti_ActivityAPI>(record);
      found.calls++;
      const char* name = nullptr;
      if (cupti_.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, api.cbid, &name) != CUPTI_SUCCESS || !name)
        name = "?";
      const uint64_t text = string_id(name);  // before the record: it may open a chunk
      auto* a = begin<ApiRecord>(RecordType::cupti_api, external_of(api.correlationId));
      if (!a) return;
      a->start = api.start, a->end = api.end;
      a->correlation = api.correlationId, a->thread = api.threadId;
      a->name = static_cast<uint32_t>(text), a->result = api.returnValue;
      return trace::detail::commit(sizeof(ApiRecord));
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      type = RecordType::cupti_kernel;
      kernel(r, as<CUpti_ActivityKernel10>(record));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      type = RecordType::cupti_memcpy;
      copy(r, as<CUpti_ActivityMemcpy6>(record));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      type = RecordType::cupti_memcpy;
      copy(r, as<CUpti_ActivityMemcpyPtoP4>(record));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = as<CUpti_ActivityMemset4>(record);
      type = RecordType::cupti_memset;
      place(r, set);
      r.bytes = set.bytes, r.graph_node = set.graphNodeId;
      r.dst_kind = static_cast<uint8_t>(set.memoryKind);
      break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      type = RecordType::cupti_graph;
      place(r, as<CUpti_ActivityGraphTrace2>(record));
      break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return;  // taken already
    default:
      found.unknown++;
      return;
  }
  found.device++;
  found.unstamped += r.start == 0 || r.end < r.start;
  if (auto* to = begin<GpuRecord>(type, external_of(r.correlation))) {
    const RecordHeader header = to->header;
    *to = r;
    to->header = header;
    trace::detail::commit(sizeof(GpuRecord));
  }
}

}  // namespace shunt::trace::gpu
