#include "tools/simgpu/cupti/activity.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "tools/simgpu/cupti/buffers.h"
#include "tools/simgpu/cupti/callbacks.h"
#include "tools/simgpu/cupti/driver.h"
#include "tools/simgpu/cupti/external.h"
#include "tools/simgpu/cupti/lifetime.h"
#include "tools/simgpu/cupti/names.h"
#include "tools/simgpu/cupti/records.h"

namespace simgpu::cupti {
namespace {

constexpr uint64_t kFunctionRing = 1 << 16;
struct Attributes {
  std::atomic<size_t> device_buffer{3200000}, cdp_buffer{8388608}, pool_limit{250}, pre_allocate{3},
      graph_buffer{16777216};
  std::atomic<uint8_t> zeroed{0}, pinned{0}, per_thread{1};
};
struct Selection {
  std::atomic<bool> kinds[CUPTI_ACTIVITY_KIND_COUNT] = {};
  std::atomic<bool> driver_apis[kDriverCbids] = {};
  std::atomic<bool> runtime_apis[kRuntimeCbids] = {};
  std::shared_mutex mutex;
  std::map<std::pair<uint64_t, int>, bool> of_context;  // (context id, kind)
  std::atomic<bool> any_context{false};
  std::atomic<int> thread_id_type{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};
  Attributes attributes;
  struct Function {
    std::atomic<uint64_t> correlation{0};
    std::atomic<const char*> name{nullptr};
  };
  Function functions[kFunctionRing];
};
Selection& selection() {
  static Selection* const instance = new Selection;
  return *instance;
}

enum class Support { yes, legacy, no, unknown };
Support support(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR:
    case CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS:
    case CUPTI_ACTIVITY_KIND_BRANCH:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION:
    case CUPTI_ACTIVITY_KIND_SHARED_ACCESS:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION:
      return Support::legacy;
    default:
      if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) return Support::unknown;
      return record_size(kind) ? Support::yes : Support::no;
  }
}
CUptiResult refusal(CUpti_ActivityKind kind) {
  switch (support(kind)) {
    case Support::yes:
      break;
    case Support::legacy:
      return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
    case Support::no:
      return CUPTI_ERROR_NOT_COMPATIBLE;
    case Support::unknown:
      return CUPTI_ERROR_INVALID_KIND;
  }
  // Serialised and concurrent kernel tracing exclude each other.
  const auto& kinds = selection().kinds;
  if ((kind == CUPTI_ACTIVITY_KIND_KERNEL && kinds[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL]) ||
      (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && kinds[CUPTI_ACTIVITY_KIND_KERNEL]))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  return CUPTI_SUCCESS;
}
void select(CUpti_ActivityKind kind, bool on) {
  Selection& s = selection();
  s.kinds[kind] = on;
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER)
    for (auto& api : s.driver_apis) api = on;
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
    for (auto& api : s.runtime_apis) api = on;  // undoes what was asked for by function before
}

uint32_t thread_id() {
  return system_thread_ids() ? static_cast<uint32_t>(syscall(SYS_gettid))
                             : static_cast<uint32_t>(pthread_self());
}

bool waits_for_host(std::string_view function) {
  return function == "cuStreamSynchronize" || function == "cuEventSynchronize" ||
         function.substr(0, 16) == "cuCtxSynchronize";
}

}  // namespace

bool wanted(CUpti_ActivityKind kind, uint64_t context_id) {
  Selection& s = selection();
  if (s.any_context.load(std::memory_order_relaxed) && context_id) {
    std::shared_lock lock(s.mutex);
    if (auto it = s.of_context.find({context_id, kind}); it != s.of_context.end()) return it->second;
  }
  return s.kinds[kind].load(std::memory_order_relaxed);
}
bool driver_api_wanted(uint32_t cbid) { return cbid < kDriverCbids && selection().driver_apis[cbid]; }
bool runtime_api_wanted(uint32_t cbid) {
  return cbid != 0 && cbid < kRuntimeCbids && selection().runtime_apis[cbid];
}
bool buffers_come_zeroed() { return selection().attributes.zeroed.load(); }
bool system_thread_ids() { return selection().thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM; }

void reset_selection() {
  Selection& s = selection();
  for (auto& kind : s.kinds) kind = false;
  for (auto& api : s.driver_apis) api = false;
  for (auto& api : s.runtime_apis) api = false;
  std::unique_lock lock(s.mutex);
  s.of_context.clear();
  s.any_context = false;
}

void note_function(uint64_t correlation, const char* function) {
  auto& slot = selection().functions[correlation % kFunctionRing];
  slot.name = function;
  slot.correlation = correlation;
}
const char* function_of(uint64_t correlation) {
  const auto& slot = selection().functions[correlation % kFunctionRing];
  return slot.correlation == correlation ? slot.name.load() : nullptr;
}

CUpti_ActivityKind selected_kind(const simgpu_record& r) {
  const std::string_view kind = r.kind;
  const auto any_of = [&](std::initializer_list<CUpti_ActivityKind> kinds) {
    for (CUpti_ActivityKind k : kinds)
      if (wanted(k, r.context_id)) return k;
    return CUPTI_ACTIVITY_KIND_INVALID;
  };
  if (kind == "graph") return any_of({CUPTI_ACTIVITY_KIND_GRAPH_TRACE});
  // Whole graphs and single nodes exclude each other.
  const bool node = r.graph_node_id != 0;
  if (node && wanted(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, r.context_id)) return CUPTI_ACTIVITY_KIND_INVALID;
  if (kind == "kernel" || kind == "custom")
    return any_of({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL});
  if (kind == "memcpy")
    return any_of({r.copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP ? CUPTI_ACTIVITY_KIND_MEMCPY2
                                                                  : CUPTI_ACTIVITY_KIND_MEMCPY});
  if (kind == "memset") return any_of({CUPTI_ACTIVITY_KIND_MEMSET});
  if (kind == "event_wait" && !node) return any_of({CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
  return CUPTI_ACTIVITY_KIND_INVALID;
}

void on_record(void*, const simgpu_record* record) {
  if (is_dead()) return;
  Item item;
  const std::string_view kind = record->kind;
  if (kind == "api" || kind == "runtime") {
    const bool runtime = kind == "runtime";
    item.cbid = runtime ? runtime_cbid(record->name) : driver_cbid(record->name);
    if (item.cbid == 0 || !(runtime ? runtime_api_wanted(item.cbid) : driver_api_wanted(item.cbid))) return;
    item.kind = runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    item.thread = thread_id();
    // Once for each correlation: a runtime call that is recorded itself speaks for the driver calls inside.
    const bool spoken_for = !runtime && runtime_api_wanted(current_runtime_cbid());
    if (!spoken_for && wanted(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0)) {
      for (int k = CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN; k < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++k) {
        uint64_t id = 0;
        if (external_id(CUpti_ExternalCorrelationKind(k), id))
          item.external.push_back({CUpti_ExternalCorrelationKind(k), id});
      }
    }
  } else if (kind == "sync") {
    item.function = function_of(record->correlation);
    if (!item.function || !waits_for_host(item.function)) return;  // waits inside other calls
    note_wait(record->handle);
    if (!wanted(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, record->context_id)) return;
    item.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  } else {
    // Asked first: the mark of an early delivery goes away even when the kind is no longer selected.
    const bool first = first_delivery(record->serial);
    item.kind = selected_kind(*record);
    if (!first || item.kind == CUPTI_ACTIVITY_KIND_INVALID) return;
    item.function = function_of(record->correlation);
  }
  item.record = *record;
  item.record.name = intern(record->name);
  item.record.kind = intern(record->kind);
  enqueue(std::move(item));
}

void report_devices(bool regardless_of_selection) {
  if (!regardless_of_selection && !wanted(CUPTI_ACTIVITY_KIND_DEVICE, 0)) return;
  const Driver& d = driver();
  Quiet quiet;
  int count = 0;
  if (d.cuDeviceGetCount(&count) != CUDA_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    const auto get = [&](CUdevice_attribute attribute) {
      int value = 0;
      return d.cuDeviceGetAttribute(&value, attribute, i) == CUDA_SUCCESS ? static_cast<uint32_t>(value) : 0u;
    };
    CUpti_ActivityDevice5 out;
    memset(&out, 0, sizeof out);
    char name[256] = "";
    size_t memory = 0;
    d.cuDeviceGetName(name, sizeof name, i);
    d.cuDeviceTotalMem(&memory, i);
    d.cuDeviceGetUuid(&out.uuid, i);
    out.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    out.flags = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS) ? CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS
                                                            : CUPTI_ACTIVITY_FLAG_NONE;
    // kB/s: two transfers a clock (kHz) over the bus width (bits).
    out.globalMemoryBandwidth = uint64_t(get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)) * 2 *
                                get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
    out.globalMemorySize = memory;
    out.constantMemorySize = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    out.l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    out.numThreadsPerWarp = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    out.coreClockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    out.numMemcpyEngines = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    out.numMultiprocessors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out.maxWarpsPerMultiprocessor =
        out.numThreadsPerWarp
            ? get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / out.numThreadsPerWarp
            : 0;
    out.maxBlocksPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    out.maxSharedMemoryPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    out.maxRegistersPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    out.maxRegistersPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    out.maxSharedMemoryPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    out.maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    out.maxBlockDimX = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    out.maxBlockDimY = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    out.maxBlockDimZ = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    out.maxGridDimX = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    out.maxGridDimY = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    out.maxGridDimZ = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    out.computeCapabilityMajor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    out.computeCapabilityMinor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    out.id = static_cast<uint32_t>(i);
    out.eccEnabled = get(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
    out.name = intern(name);
    out.isCudaVisible = 1;
    out.numaId = invalidNumaId;
    Item item;
    item.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    const auto* bytes = reinterpret_cast<const uint8_t*>(&out);
    item.ready.assign(bytes, bytes + sizeof out);
    enqueue(std::move(item));
  }
}

void report_context(const CurrentContext& context) {
  if (!wanted(CUPTI_ACTIVITY_KIND_CONTEXT, context.id)) return;
  CUpti_ActivityContext3 out;
  memset(&out, 0, sizeof out);
  out.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  out.contextId = context.id;
  out.deviceId = static_cast<uint32_t>(context.device);
  out.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  Quiet quiet;
  unsigned long long null_stream = 0;
  driver().cuStreamGetId(nullptr, &null_stream);
  out.nullStreamId = static_cast<uint16_t>(null_stream);
  int processors = 0;
  driver().cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context.device);
  out.numMultiprocessors = static_cast<uint16_t>(processors);
  Item item;
  item.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&out);
  item.ready.assign(bytes, bytes + sizeof out);
  enqueue(std::move(item));
}

namespace {

// The attribute's place, or null.
template <class F>
CUptiResult with_attribute(CUpti_ActivityAttribute attr, F&& use) {
  Attributes& a = selection().attributes;
  switch (attr) {
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE:
      return use(a.device_buffer);
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP:
      return use(a.cdp_buffer);
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT:
      return use(a.pool_limit);
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE:
      return use(a.pre_allocate);
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS:
      return use(a.graph_buffer);
    case CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER:
      return use(a.zeroed);
    case CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED:
      return use(a.pinned);
    case CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER:
      return use(a.per_thread);
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE:
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT:
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE:
      return CUPTI_ERROR_NOT_SUPPORTED;  // gone since 12.3
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

}  // namespace
}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (const CUptiResult no = refusal(kind); no != CUPTI_SUCCESS) return no;
  select(kind, true);
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  const CUptiResult result = cuptiActivityEnable(kind);
  if (result != CUPTI_SUCCESS) return result;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) report_devices(true);
  if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) {
    if (const CurrentContext now = current_context(); now.id) report_context(now);
  }
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (support(kind) != Support::yes) return CUPTI_ERROR_INVALID_KIND;
  select(kind, false);
  return CUPTI_SUCCESS;
}

namespace {
CUptiResult select_for_context(CUcontext context, CUpti_ActivityKind kind, bool on) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (support(kind) == Support::unknown || (!on && support(kind) != Support::yes))
    return CUPTI_ERROR_INVALID_KIND;
  if (on)
    if (const CUptiResult no = refusal(kind); no != CUPTI_SUCCESS) return no;
  uint32_t id = 0;
  if (const CUptiResult result = cuptiGetContextId(context, &id); result != CUPTI_SUCCESS) return result;
  Selection& s = selection();
  std::unique_lock lock(s.mutex);
  s.of_context[{id, kind}] = on;
  s.any_context = true;
  return CUPTI_SUCCESS;
}
}  // namespace

CUPTI_EXPORT CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  return select_for_context(context, kind, true);
}
CUPTI_EXPORT CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  return select_for_context(context, kind, false);
}

CUPTI_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!driver_name(cbid)) return CUPTI_ERROR_INVALID_PARAMETER;
  selection().driver_apis[cbid] = enable != 0;
  return CUPTI_SUCCESS;
}
CUPTI_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!runtime_name(cbid)) return CUPTI_ERROR_INVALID_PARAMETER;
  selection().runtime_apis[cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize,
                                                   void* value) {
  if (!valueSize || !value) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  return with_attribute(attr, [&](auto& place) {
    const auto now = place.load();
    if (*valueSize < sizeof now) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    memcpy(value, &now, *valueSize = sizeof now);
    return CUPTI_SUCCESS;
  });
}
CUPTI_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t* valueSize,
                                                   void* value) {
  if (!valueSize || !value) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  return with_attribute(attr, [&](auto& place) {
    auto given = place.load();
    if (*valueSize < sizeof given) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
    memcpy(&given, value, sizeof given);
    place = given;
    return CUPTI_SUCCESS;
  });
}

CUPTI_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  if (type < 0 || type >= CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE) return CUPTI_ERROR_NOT_SUPPORTED;
  if (is_dead()) return CUPTI_ERROR_NOT_INITIALIZED;
  selection().thread_id_type = type;
  return CUPTI_SUCCESS;
}
CUPTI_EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  if (!type) return CUPTI_ERROR_INVALID_PARAMETER;
  *type = CUpti_ActivityThreadIdType(selection().thread_id_type.load());
  return CUPTI_SUCCESS;
}
