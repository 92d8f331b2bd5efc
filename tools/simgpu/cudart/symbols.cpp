#include "tools/simgpu/cudart/symbols.h"

#include "tools/simgpu/cudart/convert.h"
#include "tools/simgpu/cudart/registry.h"
#include "tools/simgpu/cudart/state.h"

namespace simgpu::cudart {

cudaError_t symbol_range(const void* symbol, size_t offset, size_t count, void** address) {
  CUdeviceptr base = 0;
  size_t size = 0;
  if (const cudaError_t error = resolve_symbol(symbol, &base, &size); error != cudaSuccess) return error;
  if (offset > size || count > size - offset) return cudaErrorInvalidValue;
  *address = reinterpret_cast<void*>(base + offset);
  return cudaSuccess;
}

bool kind_to_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
bool kind_from_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

namespace {

cudaError_t to_symbol(Flavour flavour, const void* symbol, const void* source, size_t count, size_t offset,
                      cudaMemcpyKind kind, const cudaStream_t* stream) {
  if (!kind_to_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
  void* address = nullptr;
  if (const cudaError_t error = symbol_range(symbol, offset, count, &address); error != cudaSuccess) {
    return error;
  }
  if (count == 0) return cudaSuccess;
  const CUdeviceptr destination = to_driver(address);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_runtime(stream == nullptr
                            ? driver.cuMemcpyHtoD[flavour](destination, source, count)
                            : driver.cuMemcpyHtoDAsync[flavour](destination, source, count, *stream));
    case cudaMemcpyDeviceToDevice:
      return to_runtime(
          stream == nullptr
              ? driver.cuMemcpyDtoD[flavour](destination, to_driver(source), count)
              : driver.cuMemcpyDtoDAsync[flavour](destination, to_driver(source), count, *stream));
    default:
      return to_runtime(stream == nullptr
                            ? driver.cuMemcpy[flavour](destination, to_driver(source), count)
                            : driver.cuMemcpyAsync[flavour](destination, to_driver(source), count, *stream));
  }
}

cudaError_t from_symbol(Flavour flavour, void* destination, const void* symbol, size_t count, size_t offset,
                        cudaMemcpyKind kind, const cudaStream_t* stream) {
  if (!kind_from_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
  void* address = nullptr;
  if (const cudaError_t error = symbol_range(symbol, offset, count, &address); error != cudaSuccess) {
    return error;
  }
  if (count == 0) return cudaSuccess;
  const CUdeviceptr source = to_driver(address);
  switch (kind) {
    case cudaMemcpyDeviceToHost:
      return to_runtime(stream == nullptr
                            ? driver.cuMemcpyDtoH[flavour](destination, source, count)
                            : driver.cuMemcpyDtoHAsync[flavour](destination, source, count, *stream));
    case cudaMemcpyDeviceToDevice:
      return to_runtime(
          stream == nullptr
              ? driver.cuMemcpyDtoD[flavour](to_driver(destination), source, count)
              : driver.cuMemcpyDtoDAsync[flavour](to_driver(destination), source, count, *stream));
    default:
      return to_runtime(stream == nullptr
                            ? driver.cuMemcpy[flavour](to_driver(destination), source, count)
                            : driver.cuMemcpyAsync[flavour](to_driver(destination), source, count, *stream));
  }
}

}  // namespace
}  // namespace simgpu::cudart

using namespace simgpu::cudart;

CUDART_API cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  return with_context([&]() -> cudaError_t {
    if (devPtr == nullptr) return cudaErrorInvalidValue;
    size_t size = 0;
    return resolve_symbol(symbol, reinterpret_cast<CUdeviceptr*>(devPtr), &size);
  });
}

CUDART_API cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return with_context([&]() -> cudaError_t {
    if (size == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    return resolve_symbol(symbol, &address, size);
  });
}

CUDART_DUAL(_ptds, cudaMemcpyToSymbol,
            (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind),
            to_symbol, symbol, src, count, offset, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpyToSymbolAsync,
            (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            to_symbol, symbol, src, count, offset, kind, &stream)
CUDART_DUAL(_ptds, cudaMemcpyFromSymbol,
            (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind), from_symbol,
            dst, symbol, count, offset, kind, nullptr)
CUDART_DUAL(_ptsz, cudaMemcpyFromSymbolAsync,
            (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            from_symbol, dst, symbol, count, offset, kind, &stream)
