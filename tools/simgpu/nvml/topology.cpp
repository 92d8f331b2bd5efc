// NVML: how devices reach each other, the host and the fabric.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tools/simgpu/nvml/state.h"

using namespace simgpu::nvml;
using simgpu::LinkKind;
using simgpu::P2p;

namespace {
enum Level : uint32_t {
  kInternal = 0,
  kSingle = 10,
  kMultiple = 20,
  kHostBridge = 30,
  kNode = 40,
  kSystem = 50
};

uint32_t distance(Device a, Device b) {
  if (a == b) return kInternal;
  return spec(a).numa_node == spec(b).numa_node ? kNode : kSystem;
}
}  // namespace

// PCIe distance only; NVLink does not show here.
SIMGPU_NVML nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, uint32_t* out) {
  SIMGPU_NVML_CHECK(a);
  SIMGPU_NVML_CHECK(b);
  SIMGPU_NVML_REQUIRE(out);
  *out = distance(a, b);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetTopologyNearestGpus(Device d, uint32_t level, uint32_t* count, Device* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count && (out || *count == 0));
  uint32_t room = *count, found = 0;
  for (uint32_t i = 0; i < device_count(); ++i)
    if (device_at(i) != d && distance(d, device_at(i)) == level) {
      if (found < room) out[found] = device_at(i);
      ++found;
    }
  *count = room == 0 ? found : std::min(found, room);
  return kSuccess;
}

namespace {
uint32_t cpus() { return static_cast<uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_CONF))); }
// The host's processors are dealt to the box's nodes in equal runs.
bool near_cpu(Device d, uint32_t cpu) {
  uint32_t nodes = 1;
  for (uint32_t i = 0; i < device_count(); ++i) nodes = std::max(nodes, spec(device_at(i)).numa_node + 1);
  nodes = std::min(nodes, cpus());
  return cpu * nodes / cpus() == spec(d).numa_node % nodes;
}
}  // namespace

SIMGPU_NVML nvmlSystemGetTopologyGpuSet(uint32_t cpu, uint32_t* count, Device* out) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(count && cpu < cpus());
  uint32_t room = *count, found = 0;
  for (uint32_t i = 0; i < device_count(); ++i)
    if (near_cpu(device_at(i), cpu)) {
      if (out && found < room) out[found] = device_at(i);
      ++found;
    }
  *count = found;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCpuAffinity(Device d, uint32_t words, unsigned long* set) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(words > 0 && set);
  std::fill(set, set + words, 0ul);
  for (uint32_t cpu = 0; cpu < cpus() && cpu < words * 64; ++cpu)
    if (near_cpu(d, cpu)) set[cpu / 64] |= 1ul << (cpu % 64);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCpuAffinityWithinScope(Device d, uint32_t words, unsigned long* set,
                                                uint32_t scope) {
  SIMGPU_NVML_REQUIRE(scope <= 1);
  return nvmlDeviceGetCpuAffinity(d, words, set);
}
SIMGPU_NVML nvmlDeviceGetMemoryAffinity(Device d, uint32_t words, unsigned long* set, uint32_t scope) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(words > 0 && set && scope <= 1);
  std::fill(set, set + words, 0ul);
  if (spec(d).numa_node / 64 < words) set[spec(d).numa_node / 64] |= 1ul << (spec(d).numa_node % 64);
  return kSuccess;
}
// Only where the device's memory is a node of the operating system. Nodes of devices follow those of
// processors.
SIMGPU_NVML nvmlDeviceGetNumaNodeId(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (profile(d).addressing != "ats") return kNotSupported;
  *out = 2 + static_cast<uint32_t>(d->box_device);
  return kSuccess;
}

// Advisory, as on real boards: a broken pair says OK, and only a verified copy tells.
SIMGPU_NVML nvmlDeviceGetP2PStatus(Device a, Device b, uint32_t index, uint32_t* out) {
  SIMGPU_NVML_CHECK(a);
  SIMGPU_NVML_CHECK(b);
  SIMGPU_NVML_REQUIRE(out && index <= 4 && a != b);
  constexpr uint32_t kOk = 0, kNotSupportedPair = 5;
  auto i = static_cast<size_t>(a->box_device), j = static_cast<size_t>(b->box_device);
  bool peers = box().spec().p2p[i][j] != P2p::not_supported;
  LinkKind link = box().spec().link[i][j];
  bool ok = peers;
  if (index == 2) ok = peers && link == LinkKind::nvlink;
  if (index == 4) ok = peers && link == LinkKind::pcie;
  *out = ok ? kOk : kNotSupportedPair;
  return kSuccess;
}

namespace {

struct Fabric {
  uint32_t state = 0, clique = 0;  // 0 not supported, 3 completed
  bool has_uuid = false;
  bool degraded = false;
};

// As captured: HGX boards complete with a zero UUID and clique 0; rack parts carry their domain's UUID.
Fabric fabric_of(Device d) {
  Fabric f;
  uint32_t up = links_up(d);
  if (profile(d).nvml_architecture < 9 || up == 0) return f;
  f.state = 3;
  f.degraded = up < link_count(d);
  f.has_uuid = profile(d).addressing == "ats" && profile(d).nvml_architecture >= 10;
  f.clique = !f.has_uuid ? 0 : profile(d).nvml_architecture >= 13 ? 32766 : 1;
  return f;
}
void cluster_uuid(const Fabric& f, uint8_t out[16]) {
  std::memset(out, 0, 16);
  if (!f.has_uuid) return;
  box().uuid(0, out);
  out[0] ^= 0xFF;  // the domain's, not the first device's
}
uint32_t health_mask(const Fabric& f) {
  constexpr uint32_t kFalse = 2;
  return (f.degraded ? 1u : kFalse) | kFalse << 2 | kFalse << 4 | kFalse << 6 | 1u << 8;
}
uint8_t health_summary(const Fabric& f) { return f.state == 0 ? 0 : f.degraded ? 3 : 1; }

}  // namespace

SIMGPU_NVML nvmlDeviceGetGpuFabricInfo(Device d, FabricInfo* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  Fabric f = fabric_of(d);
  cluster_uuid(f, out->cluster_uuid);
  out->status = kSuccess;
  out->clique = f.clique;
  out->state = f.state;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetGpuFabricInfoV(Device d, void* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  // The second form is a prefix of the third.
  auto* v3 = static_cast<FabricInfoV3*>(out);
  bool third = v3->version == version_of<FabricInfoV3>(3);
  if (!third && v3->version != version_of<FabricInfoV2>(2)) return kArgumentVersionMismatch;
  Fabric f = fabric_of(d);
  cluster_uuid(f, v3->cluster_uuid);
  v3->status = kSuccess;
  v3->clique = f.clique;
  v3->state = f.state;
  v3->health_mask = health_mask(f);
  if (third) v3->health_summary = health_summary(f);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetGpuFabricInfo_v4(Device d, FabricInfoV4* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  Fabric f = fabric_of(d);
  *out = FabricInfoV4{};
  cluster_uuid(f, out->cluster_uuid);
  if (f.state == 3) {
    out->cliques[0] = {0, f.clique};  // unicast
    out->clique_count = 1;
    if (profile(d).nvml_architecture >= 13)
      out->cliques[out->clique_count++] = {1, f.clique};  // multicast apart
  }
  out->state = static_cast<uint8_t>(f.state);
  out->health_mask = health_mask(f);
  out->health_summary = health_summary(f);
  return kSuccess;
}

SIMGPU_NVML nvmlDeviceGetMaxPcieLinkGeneration(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = static_cast<uint32_t>(profile(d).pcie_generation.value);
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetGpuMaxPcieLinkGeneration(Device d, uint32_t* out) {
  return nvmlDeviceGetMaxPcieLinkGeneration(d, out);
}
SIMGPU_NVML nvmlDeviceGetCurrPcieLinkGeneration(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  auto generation = static_cast<uint32_t>(profile(d).pcie_generation.value);
  *out = box().spec().links == "pcie5" ? std::min(generation, 5u) : generation;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetMaxPcieLinkWidth(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 16;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetCurrPcieLinkWidth(Device d, uint32_t* out) {
  return nvmlDeviceGetMaxPcieLinkWidth(d, out);
}
SIMGPU_NVML nvmlDeviceGetPcieLinkMaxSpeed(Device d, uint32_t* out) {
  return nvmlDeviceGetMaxPcieLinkGeneration(d, out);
}
SIMGPU_NVML nvmlDeviceGetPcieSpeed(Device d, uint32_t* out) {
  uint32_t generation = 0;
  if (Return bad = nvmlDeviceGetCurrPcieLinkGeneration(d, &generation); bad != kSuccess) return bad;
  SIMGPU_NVML_REQUIRE(out);
  *out = 1000u << generation;  // 4: 16000 million transfers per second, doubling with each generation
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetBusType(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 2;
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPcieThroughput(Device d, uint32_t counter, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out && counter <= 1);
  Load now = load(d);
  *out = static_cast<uint32_t>(std::min(4e9, (counter == 0 ? now.pcie_tx : now.pcie_rx) / 1024));  // KB/s
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceGetPcieReplayCounter(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 0;
  return kSuccess;
}
