// Events.
#include "tools/simgpu/cudart/state.h"

using namespace simgpu::cudart;

namespace {

CUresult record_event(Flavour flavour, cudaEvent_t event, cudaStream_t stream) {
  return driver.cuEventRecord[flavour](event, stream);
}
CUresult record_event_with_flags(Flavour flavour, cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return driver.cuEventRecordWithFlags[flavour](event, stream, flags);
}

}  // namespace

CUDART_DUAL(_ptsz, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), record_event, event, stream)
CUDART_DUAL(_ptsz, cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
            record_event_with_flags, event, stream, flags)

CUDART_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return with_context([&] { return driver.cuEventCreate(event, CU_EVENT_DEFAULT); });
}
CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  static_assert(cudaEventBlockingSync == CU_EVENT_BLOCKING_SYNC &&
                cudaEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
                cudaEventInterprocess == CU_EVENT_INTERPROCESS);
  return with_context([&] { return driver.cuEventCreate(event, flags); });
}
CUDART_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventQuery(event); });
}
CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventSynchronize(event); });
}
CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&] { return driver.cuEventDestroy(event); });
}
CUDART_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_context([&] { return driver.cuEventElapsedTime(ms, start, end); });
}
