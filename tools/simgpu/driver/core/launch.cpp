#include "tools/simgpu/driver/core/launch.h"

#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/occupancy.h"

namespace simgpu::driver {
namespace {
CUresult gather_parameters(const exec::KernelInfo& info, void** kernel_params, void** extra,
                           std::vector<uint8_t>& out) {
  out.assign(info.param_bytes, 0);
  SIMGPU_REQUIRE(!(kernel_params && extra), CUDA_ERROR_INVALID_VALUE);
  if (extra) {
    const void* buffer = nullptr;
    size_t size = 0;
    bool has_size = false;
    for (void** p = extra; *p != CU_LAUNCH_PARAM_END;) {
      if (*p == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        buffer = p[1];
      } else if (*p == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        SIMGPU_REQUIRE(p[1], CUDA_ERROR_INVALID_VALUE);
        size = *static_cast<size_t*>(p[1]);
        has_size = true;
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
      p += 2;
    }
    // A buffer may end before the padding of the last parameter.
    const size_t needed = info.params.empty() ? 0 : info.params.back().offset + info.params.back().size;
    SIMGPU_REQUIRE(needed == 0 || (buffer && has_size && size >= needed), CUDA_ERROR_INVALID_VALUE);
    if (needed) memcpy(out.data(), buffer, std::min<size_t>(size, out.size()));
    return CUDA_SUCCESS;
  }
  if (info.params.empty()) return CUDA_SUCCESS;
  SIMGPU_REQUIRE(kernel_params, CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < info.params.size(); ++i) {
    SIMGPU_REQUIRE(kernel_params[i], CUDA_ERROR_INVALID_VALUE);
    memcpy(out.data() + info.params[i].offset, kernel_params[i], info.params[i].size);
  }
  return CUDA_SUCCESS;
}
}  // namespace

int max_block_threads(const Device& device, const exec::KernelInfo& info) {
  int limit = 1024;
  if (info.maxntid[0])
    limit =
        std::min(limit, int(info.maxntid[0] * std::max(1u, info.maxntid[1]) * std::max(1u, info.maxntid[2])));
  if (info.reqntid[0])
    limit =
        std::min(limit, int(info.reqntid[0] * std::max(1u, info.reqntid[1]) * std::max(1u, info.reqntid[2])));
  const uint32_t per_warp = (std::max(16u, info.registers) * 32 + 255) / 256 * 256;
  return std::min(limit, int(uint32_t(device.regs_per_sm()) / per_warp) * 32);
}

CUresult prepare_launch(Context& context, CUfunction function, const LaunchRequest& request,
                        void** kernel_params, void** extra, KernelLaunch& out, LaunchExtras* extras) {
  KernelRef ref;
  SIMGPU_TRY(resolve_function(function, context, ref));
  const exec::KernelInfo& info = ref.info();
  const Device& device = *context.device;
  const exec::Dim3 &grid = request.grid, &block = request.block;
  out.cooperative = request.cooperative;
  exec::Dim3 cluster{std::max(1u, info.cluster[0]), std::max(1u, info.cluster[1]),
                     std::max(1u, info.cluster[2])};
  for (unsigned i = 0; i < request.attribute_count; ++i) {
    const CUlaunchAttribute& a = request.attributes[i];
    switch (a.id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        continue;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out.cooperative |= a.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        SIMGPU_REQUIRE(a.value.clusterDim.x && a.value.clusterDim.y && a.value.clusterDim.z,
                       CUDA_ERROR_INVALID_VALUE);
        cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        out.priority = std::clamp(a.value.priority, -5, 0);
        out.has_priority = true;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        out.programmatic = a.value.programmaticStreamSerializationAllowed != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
        const CUevent event = a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
                                  ? a.value.programmaticEvent.event
                                  : a.value.launchCompletionEvent.event;
        Event* e = lookup<Event>(event);
        SIMGPU_REQUIRE(e && (e->flags & CU_EVENT_DISABLE_TIMING) && !(e->flags & CU_EVENT_INTERPROCESS),
                       CUDA_ERROR_INVALID_VALUE);
        if (extras) extras->completion_event = event;
        break;
      }
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;  // hints: nothing a program could observe
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    out.attributes.emplace_back(int(a.id), a.value);
  }

  SIMGPU_REQUIRE(grid.x && grid.y && grid.z && block.x && block.y && block.z, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(block.x <= 1024 && block.y <= 1024 && block.z <= 64, CUDA_ERROR_INVALID_VALUE);
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  SIMGPU_REQUIRE(threads <= 1024, CUDA_ERROR_INVALID_VALUE);
  if (info.reqntid[0]) {
    SIMGPU_REQUIRE(block.x == info.reqntid[0] && block.y == std::max(1u, info.reqntid[1]) &&
                       block.z == std::max(1u, info.reqntid[2]),
                   CUDA_ERROR_INVALID_VALUE);
  }
  SIMGPU_REQUIRE(int(threads) <= max_block_threads(device, info), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  SIMGPU_REQUIRE(request.dynamic_shared <= uint64_t(ref.settings->dynamic_limit(info)),
                 CUDA_ERROR_INVALID_VALUE);
  const uint64_t cluster_size = uint64_t(cluster.x) * cluster.y * cluster.z;
  if (cluster_size > 1) {
    SIMGPU_REQUIRE(device.profile->cc_major >= 9, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    SIMGPU_REQUIRE(cluster_size <= (ref.settings->non_portable_cluster ? 16u : 8u),
                   CUDA_ERROR_INVALID_CLUSTER_SIZE);
    SIMGPU_REQUIRE(grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0,
                   CUDA_ERROR_INVALID_CLUSTER_SIZE);
  }
  const int resident = resident_blocks_per_sm(device, info, int(threads), request.dynamic_shared);
  SIMGPU_REQUIRE(resident > 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  if (out.cooperative) {
    SIMGPU_REQUIRE(uint64_t(grid.x) * grid.y * grid.z <= uint64_t(resident) * uint64_t(device.sm_count()),
                   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
  SIMGPU_TRY(gather_parameters(info, kernel_params, extra, out.params));
  out.instance = ref.instance;
  out.kernel = ref.kernel;
  out.grid = grid;
  out.block = block;
  out.cluster = cluster;
  out.dynamic_shared = uint32_t(request.dynamic_shared);
  return CUDA_SUCCESS;
}
}  // namespace simgpu::driver
