#include "tools/simgpu/cupti/records.h"

#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "tools/simgpu/cupti/clock.h"
#include "tools/simgpu/cupti/settings.h"

namespace simgpu::cupti {
namespace {

struct Span {
  uint64_t start = 0, end = 0;  // zero: CUPTI's way to say "not known"
};
Span device_span(const Item& item) {
  if (item.incomplete || fault(Site::zero_stamp)) return {};
  return {stamp(item.record.start_ns), stamp(item.record.end_ns)};
}
bool asynchronous(const Item& item) {
  if (!item.function) return true;
  const std::string_view name = item.function;
  return name.find("Async") != name.npos || name.find("Graph") != name.npos;
}
// Events are named by small numbers, in the order in which they are first met.
uint32_t event_number(uint64_t handle) {
  struct Numbers {
    std::mutex mutex;
    std::unordered_map<uint64_t, uint32_t> of;
  };
  static Numbers* const numbers = new Numbers;
  std::lock_guard lock(numbers->mutex);
  return numbers->of.emplace(handle, static_cast<uint32_t>(numbers->of.size() + 1)).first->second;
}

void fill(const Item& item, CUpti_ActivityKernel10& k) {
  const simgpu_record& r = item.record;
  const Span span = device_span(item);
  const bool known = r.grid[0] != 0;  // work of a sibling library (collectives) has no grid
  k.kind = item.kind;
  k.registersPerThread = static_cast<uint16_t>(r.registers);
  k.start = span.start;
  k.end = k.completed = span.end;
  k.deviceId = static_cast<uint32_t>(r.device);
  k.contextId = static_cast<uint32_t>(r.context_id);
  k.streamId = static_cast<uint32_t>(r.stream_id);
  k.gridX = known ? int32_t(r.grid[0]) : 1;
  k.gridY = known ? int32_t(r.grid[1]) : 1;
  k.gridZ = known ? int32_t(r.grid[2]) : 1;
  k.blockX = known ? int32_t(r.block[0]) : 1;
  k.blockY = known ? int32_t(r.block[1]) : 1;
  k.blockZ = known ? int32_t(r.block[2]) : 1;
  k.staticSharedMemory = int32_t(r.static_shared);
  k.dynamicSharedMemory = int32_t(r.dynamic_shared);
  k.sharedMemoryExecuted = r.static_shared + r.dynamic_shared;
  k.localMemoryPerThread = r.local_bytes;
  k.correlationId = static_cast<uint32_t>(r.correlation);
  k.name = r.name;
  const std::string_view function = item.function ? item.function : "";
  k.launchType = function.find("Cooperative") != function.npos
                     ? CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE
                     : CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  k.graphNodeId = r.graph_node_id;
  k.graphId = static_cast<uint32_t>(r.graph_id);
  k.channelID = CUPTI_INVALID_CHANNEL_ID;
  if (r.cluster[0] * r.cluster[1] * r.cluster[2] > 1) {
    k.clusterX = r.cluster[0];
    k.clusterY = r.cluster[1];
    k.clusterZ = r.cluster[2];
  }
}

template <class Memcpy>
void fill_copy(const Item& item, Memcpy& m) {
  const simgpu_record& r = item.record;
  const Span span = device_span(item);
  m.kind = item.kind;
  m.copyKind = static_cast<uint8_t>(r.copy_kind);
  m.srcKind = static_cast<uint8_t>(r.src_memory);
  m.dstKind = static_cast<uint8_t>(r.dst_memory);
  m.flags = asynchronous(item) ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  m.bytes = r.bytes;
  m.start = span.start;
  m.end = span.end;
  m.deviceId = static_cast<uint32_t>(r.device);
  m.contextId = static_cast<uint32_t>(r.context_id);
  m.streamId = static_cast<uint32_t>(r.stream_id);
  m.correlationId = static_cast<uint32_t>(r.correlation);
  m.graphNodeId = r.graph_node_id;
  m.graphId = static_cast<uint32_t>(r.graph_id);
  m.channelID = CUPTI_INVALID_CHANNEL_ID;
}
void fill(const Item& item, CUpti_ActivityMemcpy6& m) {
  fill_copy(item, m);
  m.copyCount = 1;
}
void fill(const Item& item, CUpti_ActivityMemcpyPtoP4& m) {
  fill_copy(item, m);
  const simgpu_record& r = item.record;
  m.srcDeviceId = static_cast<uint32_t>(r.src_device);
  m.dstDeviceId = static_cast<uint32_t>(r.dst_device);
  m.srcContextId = r.src_device == r.device ? m.contextId : CUPTI_INVALID_CONTEXT_ID;
  m.dstContextId = r.dst_device == r.device ? m.contextId : CUPTI_INVALID_CONTEXT_ID;
}
void fill(const Item& item, CUpti_ActivityMemset4& m) {
  const simgpu_record& r = item.record;
  const Span span = device_span(item);
  m.kind = item.kind;
  m.value = r.value;
  m.bytes = r.bytes;
  m.start = span.start;
  m.end = span.end;
  m.deviceId = static_cast<uint32_t>(r.device);
  m.contextId = static_cast<uint32_t>(r.context_id);
  m.streamId = static_cast<uint32_t>(r.stream_id);
  m.correlationId = static_cast<uint32_t>(r.correlation);
  m.flags = asynchronous(item) ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  m.memoryKind = static_cast<uint16_t>(r.dst_memory);
  m.graphNodeId = r.graph_node_id;
  m.graphId = static_cast<uint32_t>(r.graph_id);
  m.channelID = CUPTI_INVALID_CHANNEL_ID;
}
void fill(const Item& item, CUpti_ActivityGraphTrace2& g) {
  const simgpu_record& r = item.record;
  const Span span = device_span(item);
  g.kind = item.kind;
  g.correlationId = static_cast<uint32_t>(r.correlation);
  g.start = span.start;
  g.end = span.end;
  g.deviceId = g.endDeviceId = static_cast<uint32_t>(r.device);
  g.graphId = static_cast<uint32_t>(r.graph_id);
  g.contextId = g.endContextId = static_cast<uint32_t>(r.context_id);
  g.streamId = static_cast<uint32_t>(r.stream_id);
}
void fill(const Item& item, CUpti_ActivityAPI& a) {
  const simgpu_record& r = item.record;
  a.kind = item.kind;
  a.cbid = item.cbid;
  a.start = stamp(r.start_ns);
  a.end = stamp(r.end_ns);
  a.processId = static_cast<uint32_t>(getpid());
  a.threadId = item.thread;
  a.correlationId = static_cast<uint32_t>(r.correlation);
  a.returnValue = static_cast<uint32_t>(r.result);
}
void fill(const Item& item, CUpti_ActivitySynchronization2& s) {
  const simgpu_record& r = item.record;
  s.kind = item.kind;
  s.start = stamp(r.start_ns);
  s.end = stamp(r.end_ns);
  s.correlationId = static_cast<uint32_t>(r.correlation);
  s.contextId = static_cast<uint32_t>(r.context_id);
  s.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  s.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  s.returnValue = static_cast<uint32_t>(r.result);
  const std::string_view function = item.function ? item.function : "";
  if (function == "cuStreamSynchronize") {
    s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    s.streamId = static_cast<uint32_t>(r.stream_id);
  } else if (function == "cuEventSynchronize") {
    s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    s.cudaEventId = event_number(r.handle);
  } else if (std::string_view(r.kind) == "event_wait") {
    s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    s.streamId = static_cast<uint32_t>(r.stream_id);
  } else {
    s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
}
void fill(const Item& item, CUpti_ActivityOverhead3& o) {
  o.kind = item.kind;
  o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST;
  o.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  o.objectId.pt.processId = static_cast<uint32_t>(getpid());
  o.objectId.pt.threadId = item.thread;
  o.start = stamp(item.record.start_ns);
  o.end = stamp(item.record.end_ns);
  o.correlationId = static_cast<uint32_t>(item.record.correlation);
}

template <class T>
size_t write(const Item& item, uint8_t* out) {
  static_assert(sizeof(T) <= kMaxRecordBytes && sizeof(T) % ACTIVITY_RECORD_ALIGNMENT == 0);
  T value;
  memset(&value, 0, sizeof value);
  fill(item, value);
  memcpy(out, &value, sizeof value);
  return sizeof value;
}

}  // namespace

size_t record_size(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

size_t write_record(const Item& item, uint8_t* out) {
  if (!item.ready.empty()) {
    memcpy(out, item.ready.data(), item.ready.size());
    return item.ready.size();
  }
  switch (item.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return write<CUpti_ActivityKernel10>(item, out);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return write<CUpti_ActivityMemcpy6>(item, out);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return write<CUpti_ActivityMemcpyPtoP4>(item, out);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write<CUpti_ActivityMemset4>(item, out);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return write<CUpti_ActivityGraphTrace2>(item, out);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return write<CUpti_ActivityAPI>(item, out);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return write<CUpti_ActivitySynchronization2>(item, out);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return write<CUpti_ActivityOverhead3>(item, out);
    default:
      return 0;
  }
}

size_t write_external(const Item::External& external, uint64_t correlation, uint8_t* out) {
  CUpti_ActivityExternalCorrelation e;
  memset(&e, 0, sizeof e);
  e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  e.externalKind = external.kind;
  e.externalId = external.id;
  e.correlationId = static_cast<uint32_t>(correlation);
  memcpy(out, &e, sizeof e);
  return sizeof e;
}

}  // namespace simgpu::cupti
