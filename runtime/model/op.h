// Op: one driver call of the program on its way down the call path (runtime/exec). Lives on the caller's
// stack for the length of the call. A hook fills it, links read it, and the last link makes the call.
// Delaying engines copy what they need: pointers (params, host memory) are valid only until the hook returns.
// One thread.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "runtime/base/reasons.h"

namespace shunt::model {

// Classes of interpose/api/*.json; the same words, `unknown` for what the spec does not have.
enum class OpClass : uint8_t {
  harmless,
  launch,
  copy,
  alloc,
  free,
  sync,
  query,
  capture,
  module,
  attribute,
  device,
  unknown
};

// What exactly, for calls some link treats specially. `other`: only the class is known, and every delaying
// link drains.
enum class OpKind : uint8_t {
  other,
  kernel,
  kernel_ex,
  kernel_cooperative,
  graph_launch,
  host_function,
  event_record,
  event_wait,
  stream_memop,
  copy_linear,
  copy_2d,
  copy_3d,
  copy_peer,
  copy_array,
  copy_batch,
  memset,
  prefetch,
  alloc_linear,
  alloc_pitch,
  alloc_managed,
  alloc_host,
  alloc_async,
  alloc_pool,
  alloc_vmm,
  register_host,
  map_vmm,
  free_linear,
  free_host,
  free_async,
  free_vmm,
  unregister_host,
  unmap_vmm,
  stream_create,
  stream_destroy,
  event_create,
  event_destroy,
  context_create,
  context_destroy,
  context_current,
  green_context,
  primary_retain,
  primary_release,
  primary_reset,
  module_load,
  module_unload,
  function_get,
  capture_begin,
  capture_end,
  sync_stream,
  sync_event,
  sync_context,
  query_stream,
  query_event,
  pointer_attribute,
  pointer_attributes,
  address_range,
  stream_attribute,
  capture_query,
  count,  // not a kind
};

enum class Access : uint8_t { read = 1, write = 2, read_write = 3 };

// Device or host bytes the call itself names (copies, memsets, frees). What a kernel touches is not here.
struct Range {
  uint64_t base, bytes;
  Access access;
};

struct LaunchShape {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  uint32_t attribute_count;  // cuLaunchKernelEx
  const CUlaunchAttribute* attributes;
  void** params;  // one pointer per parameter, or null with `extra`
  void** extra;
};

struct StreamInfo;
struct FunctionInfo;

struct Op {
  using Invoke = CUresult (*)(Op&);

  uint16_t slot = 0;  // runtime/link/generated/slots.h
  OpClass op_class = OpClass::unknown;
  OpKind kind = OpKind::other;
  bool asynchronous = false;  // returns before the work is done
  bool per_thread = false;    // the per-thread default stream variant
  bool from_engine = false;   // made by shunt itself: travels from its engine's next link downwards
  uint8_t range_count = 0;
  CUresult result = CUDA_SUCCESS;  // set by the driver link
  CUstream stream = nullptr;       // as given; 0 and per_thread are resolved in `stream_info`
  CUcontext context = nullptr;     // current, or the one the call names; null when unknown
  uint64_t object = 0;             // function, event, allocation, module: the call's main object
  uint64_t bytes = 0;
  StreamInfo* stream_info = nullptr;      // filled by the model link; null: unknown stream
  FunctionInfo* function_info = nullptr;  // kernels only
  Invoke invoke = nullptr;                // makes exactly the program's call with the program's arguments
  void* arguments = nullptr;              // the hook's closure behind `invoke`
  const char* name = nullptr;             // function_get: the name asked for
  uint64_t out = 0;                       // a created handle or address, once the call succeeded
  uint64_t aux = 0;  // second object: pool, parent module, flags of a creation, a memset's value
  int device = -1;   // of a freed allocation (physical), filled by the model link
  CUdeviceptr* deliver = nullptr;        // where the program wants a created address
  size_t* deliver_pitch = nullptr;       // and its pitch, or the size of a range
  size_t pitch = 0;                      // pitch a stand-in allocation has
  void* detail[2] = {nullptr, nullptr};  // output places of a question: data, or attributes and data
  LaunchShape launch;                    // kernels only; otherwise uninitialised
  Range ranges[3];                       // range_count of them

  void add_range(uint64_t base, uint64_t size, Access access) {
    if (range_count < 3) ranges[range_count++] = {base, size, access};
  }
  bool has_stream_order() const {
    return op_class == OpClass::launch || (op_class == OpClass::copy && asynchronous) ||
           kind == OpKind::alloc_async || kind == OpKind::free_async;
  }
};

}  // namespace shunt::model
