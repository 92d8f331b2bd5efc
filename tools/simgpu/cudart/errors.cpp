#include "tools/simgpu/cudart/errors.h"

#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {
namespace {

const char* name_of(cudaError_t error) {
  switch (error) {
#define ERROR(enumerator, text) \
  case enumerator:              \
    return #enumerator;
#include "tools/simgpu/cudart/error_table.def"
#undef ERROR
  }
  return nullptr;
}

const char* text_of(cudaError_t error) {
  switch (error) {
#define ERROR(enumerator, text) \
  case enumerator:              \
    return text;
#include "tools/simgpu/cudart/error_table.def"
#undef ERROR
  }
  return nullptr;
}

}  // namespace

cudaError_t to_runtime(CUresult result) {
  if (result == CUDA_SUCCESS) [[likely]]
    return cudaSuccess;
  const auto error = static_cast<cudaError_t>(result);
  return name_of(error) != nullptr ? error : cudaErrorUnknown;
}

cudaError_t record(cudaError_t error) {
  if (error != cudaSuccess) [[unlikely]]
    thread_state().last_error = error;
  return error;
}

}  // namespace simgpu::cudart

using namespace simgpu::cudart;

CUDART_API cudaError_t cudaGetLastError() {
  WatchedCall call("cudaGetLastError");
  // No driver call: the state is the runtime's and the thread's. An error that corrupted the context comes
  // back with the next call that reaches the driver.
  return call.leaves_with(std::exchange(thread_state().last_error, cudaSuccess));
}

CUDART_API cudaError_t cudaPeekAtLastError() {
  WatchedCall call("cudaPeekAtLastError");
  return call.leaves_with(thread_state().last_error);
}

CUDART_API const char* cudaGetErrorName(cudaError_t error) {
  const char* name = name_of(error);
  return name != nullptr ? name : "unrecognized error code";
}

CUDART_API const char* cudaGetErrorString(cudaError_t error) {
  const char* text = text_of(error);
  return text != nullptr ? text : "unrecognized error code";
}
