// Managed memory: advice, prefetch, range attributes. Residency is bookkeeping: results never depend on it,
// times do.
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/ops.h"

using namespace simgpu::driver;

namespace {
constexpr int kHost = -1;  // CU_DEVICE_CPU
constexpr int kNowhere = -2;

CUresult managed_range(CUdeviceptr ptr, size_t count, AllocationRef& out) {
  SIMGPU_REQUIRE(ptr && count, CUDA_ERROR_INVALID_VALUE);
  out = MemoryMap::get().find(ptr);
  SIMGPU_REQUIRE(out && out->kind == MemoryKind::managed && count <= out->end() - ptr,
                 CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult place_of(const CUmemLocation& location, int& place) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      SIMGPU_REQUIRE(device_at(location.id), CUDA_ERROR_INVALID_DEVICE);
      place = location.id;
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      place = kHost;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUmemLocation location_of(CUdevice device) {
  CUmemLocation location = {};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

CUresult advise(CUdeviceptr ptr, size_t count, CUmem_advise advice, const CUmemLocation& location) {
  AllocationRef a;
  SIMGPU_TRY(managed_range(ptr, count, a));
  int place = kNowhere;
  const bool needs_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                           advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                           advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (needs_place) SIMGPU_TRY(place_of(location, place));
  const uint64_t bit = place == kHost ? uint64_t{1} << 63 : place >= 0 ? uint64_t{1} << place : 0;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      a->read_mostly = true;
      break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      a->read_mostly = false;
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      a->preferred_location = place;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      a->preferred_location = kNowhere;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      a->accessed_by |= bit;
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      a->accessed_by &= ~bit;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

class PrefetchBody : public OpBody {
 public:
  PrefetchBody(AllocationRef allocation, uint64_t count, int to)
      : OpBody(OpKind::prefetch), allocation(std::move(allocation)), count(count), to(to) {}
  std::string name() const override { return "prefetch"; }
  Step execute(Op&, uint64_t) override {
    allocation->last_prefetch = to;
    return Step::done;
  }
  Cost cost(const Op& op) const override {
    const int device = to >= 0 ? to : op.device;
    Cost cost;
    cost.duration_ns = uint64_t(device_at(device)->profile->copy_latency_ns.value +
                                double(count) / (link_bytes_per_s(device, -1) * 0.8) * 1e9);
    cost.uses.push_back({device, to >= 0 ? Resource::host_in : Resource::host_out, 1});
    return cost;
  }
  uint64_t bytes() const override { return count; }
  const AllocationRef allocation;
  const uint64_t count;
  const int to;
};

CUresult prefetch(Lock& lock, CUdeviceptr ptr, size_t count, const CUmemLocation& location, unsigned flags,
                  CUstream handle) {
  SIMGPU_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
  AllocationRef a;
  SIMGPU_TRY(managed_range(ptr, count, a));
  int place;
  SIMGPU_TRY(place_of(location, place));
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  SIMGPU_TRY(resolve_stream(handle, stream, context));
  return submit(lock, stream, std::make_shared<PrefetchBody>(a, count, place));
}

CUresult range_attribute(void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr ptr,
                         size_t count) {
  SIMGPU_REQUIRE(data, CUDA_ERROR_INVALID_VALUE);
  AllocationRef a;
  SIMGPU_TRY(managed_range(ptr, count, a));
  auto put = [&](int value) {
    if (size != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  auto as_device = [](int place) {
    return place == kHost ? CU_DEVICE_CPU : place == kNowhere ? CU_DEVICE_INVALID : place;
  };
  auto as_type = [](int place) {
    return int(place == kHost      ? CU_MEM_LOCATION_TYPE_HOST
               : place == kNowhere ? CU_MEM_LOCATION_TYPE_INVALID
                                   : CU_MEM_LOCATION_TYPE_DEVICE);
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return put(a->read_mostly);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return put(as_device(a->preferred_location));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return put(as_device(a->last_prefetch));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return put(as_type(a->preferred_location));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return put(a->preferred_location >= 0 ? a->preferred_location : 0);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return put(as_type(a->last_prefetch));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return put(a->last_prefetch >= 0 ? a->last_prefetch : 0);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      SIMGPU_REQUIRE(size && size % 4 == 0, CUDA_ERROR_INVALID_VALUE);
      int* out = static_cast<int*>(data);
      size_t used = 0;
      for (size_t bit = 0; bit < 64 && used < size / 4; ++bit) {
        if (a->accessed_by >> bit & 1) out[used++] = bit == 63 ? CU_DEVICE_CPU : int(bit);
      }
      while (used < size / 4) out[used++] = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
}  // namespace

SIMGPU_API cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  return api_call("cuMemAdvise", kNeedsInit,
                  [&](Lock&) -> CUresult { return advise(devPtr, count, advice, location); });
}
SIMGPU_API cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return api_call("cuMemAdvise", kNeedsInit,
                  [&](Lock&) -> CUresult { return advise(devPtr, count, advice, location_of(device)); });
}
SIMGPU_API cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                 CUstream hStream) {
  return api_call("cuMemPrefetchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return prefetch(lock, devPtr, count, location, flags, hStream);
  });
}
SIMGPU_API cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  return api_call("cuMemPrefetchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    return prefetch(lock, devPtr, count, location_of(dstDevice), 0, hStream);
  });
}
SIMGPU_API cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                   CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                   size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  return api_call("cuMemPrefetchBatchAsync", kNeedsInit, [&](Lock& lock) -> CUresult {
    SIMGPU_REQUIRE(
        dptrs && sizes && count && prefetchLocs && prefetchLocIdxs && numPrefetchLocs && flags == 0,
        CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(numPrefetchLocs <= count && prefetchLocIdxs[0] == 0, CUDA_ERROR_INVALID_VALUE);
    size_t location = 0;
    for (size_t i = 0; i < count; ++i) {
      while (location + 1 < numPrefetchLocs && prefetchLocIdxs[location + 1] <= i) ++location;
      SIMGPU_TRY(prefetch(lock, dptrs[i], sizes[i], prefetchLocs[location], 0, hStream));
    }
    return CUDA_SUCCESS;
  });
}
SIMGPU_API cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                  CUdeviceptr devPtr, size_t count) {
  return api_call("cuMemRangeGetAttribute", kNeedsInit, [&](Lock&) -> CUresult {
    return range_attribute(data, dataSize, attribute, devPtr, count);
  });
}
SIMGPU_API cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                   size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return api_call("cuMemRangeGetAttributes", kNeedsInit, [&](Lock&) -> CUresult {
    SIMGPU_REQUIRE(data && dataSizes && attributes && numAttributes, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numAttributes; ++i)
      SIMGPU_TRY(range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    return CUDA_SUCCESS;
  });
}
