// NVML: NVLink, link by link. A link number beyond the part's is an invalid argument: clients loop until
// then.
#include <algorithm>

#include "tools/simgpu/nvml/links.h"

using namespace simgpu::nvml;

namespace simgpu::nvml {

uint32_t link_version(Device device) {
  int generation = static_cast<int>(profile(device).nvlink_generation.value);
  if (box().spec().links == "nvlink5") generation = std::min(generation, 5);
  switch (generation) {
    case 3:
      return 5;  // 3.1
    case 4:
      return 6;
    case 5:
      return 7;
    case 6:
      return 8;
    default:
      return 0;
  }
}

uint32_t link_speed_mbps(Device device) {
  switch (static_cast<int>(profile(device).nvlink_generation.value)) {
    case 3:
      return 25781;
    case 4:
      return 26562;
    case 5:
      return 53125;
    case 6:
      return 53125;  // assumed: twice the links at NVLink 5's raw rate give the published 3.6 TB/s
    default:
      return 0;
  }
}

uint64_t link_bytes(Device device, uint32_t link, bool transmit) {
  uint32_t up = links_up(device);
  if (up == 0 || !link_active(device, link)) return 0;
  return (transmit ? state(device).nvlink_tx_bytes : state(device).nvlink_rx_bytes).load() / up;
}

namespace {
Return check_link(Device d, uint32_t link) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(link < link_count(d));
  return kSuccess;
}
}  // namespace
}  // namespace simgpu::nvml

#define CHECK_LINK(d, link) \
  if (Return bad = check_link(d, link); bad != kSuccess) return bad

SIMGPU_NVML nvmlDeviceGetNvLinkState(Device d, uint32_t link, uint32_t* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out);
  *out = link_active(d, link);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetNvLinkVersion(Device d, uint32_t link, uint32_t* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out);
  if (!link_active(d, link)) return kNotSupported;
  *out = link_version(d);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetNvLinkCapability(Device d, uint32_t link, uint32_t capability, uint32_t* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out && capability < 6);
  static constexpr uint32_t kHas[] = {1, 1, 1, 1, 0, 1};  // peers, system memory, atomics of both, SLI, valid
  *out = link_active(d, link) ? kHas[capability] : 0;
  return kSuccess;
}
// Boards with more than two devices are wired through switches; the switch has no PCI function of its own to
// name.
SIMGPU_NVML nvmlDeviceGetNvLinkRemoteDeviceType(Device d, uint32_t link, uint32_t* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out);
  if (!link_active(d, link)) return kNotSupported;
  *out = 2;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, uint32_t link, PciInfo* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out);
  return kNotSupported;
}
SIMGPU_NVML nvmlDeviceGetNvLinkRemotePciInfo(Device d, uint32_t link, PciInfoV2* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out);
  return kNotSupported;
}
SIMGPU_NVML nvmlDeviceGetNvLinkErrorCounter(Device d, uint32_t link, uint32_t counter,
                                            unsigned long long* out) {
  CHECK_LINK(d, link);
  SIMGPU_NVML_REQUIRE(out && counter < 5);
  *out = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceResetNvLinkErrorCounters(Device d, uint32_t link) {
  CHECK_LINK(d, link);
  return kSuccess;
}
