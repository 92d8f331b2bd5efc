// NVML's view of links and topology, sound and broken: hardware-and-seed.md §4, row by row.
#include <unistd.h>

#include "tests/nvml/nvml_library.h"

using namespace nvml_test;

namespace {

std::string box_file(const std::string& text) {
  static int count = 0;
  std::string path =
      "/tmp/simgpu-nvml-box-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".toml";
  std::ofstream(path) << text;
  return path;
}

// Loops as clients should: until the link number is refused.
std::vector<uint32_t> link_states(Library& nvml, Device d) {
  std::vector<uint32_t> states;
  for (uint32_t link = 0; link < 64; ++link) {
    uint32_t active = 9;
    if (nvml.call("nvmlDeviceGetNvLinkState", d, link, &active) != kSuccess) break;
    states.push_back(active);
  }
  return states;
}
FieldValue field(Library& nvml, Device d, uint32_t id, uint32_t scope = 0) {
  FieldValue v{};
  v.field_id = id;
  v.scope_id = scope;
  EXPECT_EQ(nvml.call("nvmlDeviceGetFieldValues", d, 1, &v), kSuccess);
  return v;
}
uint32_t p2p(Library& nvml, uint32_t a, uint32_t b, uint32_t index) {
  uint32_t status = 99;
  EXPECT_EQ(nvml.call("nvmlDeviceGetP2PStatus", nvml.device(a), nvml.device(b), index, &status), kSuccess);
  return status;
}

TEST(NvmlLinks, RubinHas36) {
  Library nvml("b200,rubin", "nvlink6");
  EXPECT_EQ(link_states(nvml, nvml.device(0)), std::vector<uint32_t>(18, 1));
  EXPECT_EQ(link_states(nvml, nvml.device(1)), std::vector<uint32_t>(36, 1));
  EXPECT_EQ(field(nvml, nvml.device(0), 91).value.ui, 18u);
  EXPECT_EQ(field(nvml, nvml.device(1), 91).value.ui, 36u);
  uint32_t version = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetNvLinkVersion", nvml.device(0), 0u, &version), kSuccess);
  EXPECT_EQ(version, 7u);
  EXPECT_EQ(nvml.call("nvmlDeviceGetNvLinkVersion", nvml.device(1), 35u, &version), kSuccess);
  EXPECT_EQ(version, 8u);
  EXPECT_EQ(field(nvml, nvml.device(1), 166, 35).value.ui, 8u);
  EXPECT_EQ(field(nvml, nvml.device(0), 164, 17).value.ui, 53125u);
  EXPECT_EQ(field(nvml, nvml.device(0), 164, 18).status, kNotSupported);
}

TEST(NvmlLinks, LinksThatAreDown) {
  std::string file = box_file("[[device]]\nindex = 1\nlinks_down = [0, 35]\n");
  Library nvml("rubin:2", file);
  std::vector<uint32_t> states = link_states(nvml, nvml.device(1));
  ASSERT_EQ(states.size(), 36u);
  EXPECT_EQ(states[0], 0u);
  EXPECT_EQ(states[1], 1u);
  EXPECT_EQ(states[35], 0u);
  EXPECT_EQ(field(nvml, nvml.device(1), 165, 35).value.ui, 0u);
  EXPECT_EQ(field(nvml, nvml.device(1), 164, 35).value.ui, 0u);
  FabricInfoV3 fabric{};
  fabric.version = version_of<FabricInfoV3>(3);
  EXPECT_EQ(nvml.call("nvmlDeviceGetGpuFabricInfoV", nvml.device(1), &fabric), kSuccess);
  EXPECT_EQ(fabric.health_mask & 3, 1u) << "degraded bandwidth";
  EXPECT_EQ(fabric.health_summary, 3u);
  // A link may also go down while programs run.
  nvml.box->state(0).links_down_mask_lo = 1u << 7;
  EXPECT_EQ(link_states(nvml, nvml.device(0))[7], 0u);
  unlink(file.c_str());
}

TEST(NvmlLinks, WithoutNvLinkPeersTheyAreInactive) {
  Library nvml("b200:2", "pcie5");
  EXPECT_EQ(link_states(nvml, nvml.device(0)), std::vector<uint32_t>(18, 0));
  EXPECT_EQ(p2p(nvml, 0, 1, 0), 0u);
  EXPECT_EQ(p2p(nvml, 0, 1, 2), 5u) << "no NVLink";
  EXPECT_EQ(p2p(nvml, 0, 1, 4), 0u) << "over PCIe";
}

TEST(NvmlLinks, TrafficIsSharedByTheLinksThatAreUp) {
  Library nvml("b200:2");
  Device d = nvml.device(0);
  nvml.box->state(0).nvlink_tx_bytes = 17ull << 20;
  nvml.box->state(0).links_down_mask_lo = 1;
  EXPECT_EQ(field(nvml, d, 202, 0).value.ull, 0u);
  EXPECT_EQ(field(nvml, d, 202, 1).value.ull, 1u << 20);
  EXPECT_EQ(field(nvml, d, 202, 0xFFFFFFFF).value.ull, 17u << 20);
  EXPECT_EQ(field(nvml, d, 138, 0xFFFFFFFF).value.ull, 17u << 10) << "in KiB";
}

TEST(NvmlTopology, BrokenPeersStillSayOk) {
  std::string file =
      box_file("[[pair]]\ndevices=[0,1]\np2p=\"broken\"\n[[pair]]\ndevices=[0,2]\np2p=\"not_supported\"\n");
  Library nvml("b200:3", file);
  EXPECT_EQ(p2p(nvml, 0, 1, 0), 0u) << "advisory: only a verified copy tells";
  EXPECT_EQ(p2p(nvml, 0, 2, 0), 5u);
  EXPECT_EQ(p2p(nvml, 1, 2, 1), 0u);
  uint32_t status = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetP2PStatus", nvml.device(0), nvml.device(1), 5u, &status),
            kInvalidArgument);
  unlink(file.c_str());
}

TEST(NvmlTopology, AncestorsAndNeighbours) {
  Library nvml("b200:4");
  auto level = [&](uint32_t a, uint32_t b) {
    uint32_t out = 99;
    EXPECT_EQ(nvml.call("nvmlDeviceGetTopologyCommonAncestor", nvml.device(a), nvml.device(b), &out),
              kSuccess);
    return out;
  };
  EXPECT_EQ(level(0, 1), 40u);
  EXPECT_EQ(level(0, 2), 50u) << "the other socket";
  uint32_t count = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetTopologyNearestGpus", nvml.device(0), 50u, &count,
                      static_cast<Device*>(nullptr)),
            kSuccess);
  EXPECT_EQ(count, 2u);
}

TEST(NvmlTopology, OrderIsPciOrderNotBoxOrder) {
  std::string file = box_file("[[device]]\nindex = 0\npci = \"0002:81\"\n");
  Library nvml("rubin,b200", file);
  char name[96];
  EXPECT_EQ(nvml.call("nvmlDeviceGetName", nvml.device(0), name, 96u), kSuccess);
  EXPECT_STREQ(name, "NVIDIA B200");
  PciInfo pci = nvml.get<PciInfo>("nvmlDeviceGetPciInfo_v3", nvml.device(1));
  EXPECT_STREQ(pci.bus_id, "00000002:81:00.0") << "domains are not always zero";
  EXPECT_EQ(nvml.get<uint32_t>("nvmlDeviceGetMinorNumber", nvml.device(1)), 0u)
      << "the device node is not the index";
  unlink(file.c_str());
}

TEST(NvmlTopology, FabricAsCaptured) {
  Library nvml("b200,rubin,gb200,a100");
  auto fabric = [&](uint32_t index) {
    FabricInfoV2 f{};
    f.version = version_of<FabricInfoV2>(2);
    EXPECT_EQ(nvml.call("nvmlDeviceGetGpuFabricInfoV", nvml.device(index), &f), kSuccess);
    return f;
  };
  auto zero = [](const FabricInfoV2& f) {
    return std::string(reinterpret_cast<const char*>(f.cluster_uuid), 16) == std::string(16, '\0');
  };
  EXPECT_EQ(fabric(0).state, 3u);
  EXPECT_TRUE(zero(fabric(0))) << "HGX: completed with a zero UUID";
  EXPECT_EQ(fabric(0).clique, 0u);
  EXPECT_EQ(fabric(1).clique, 32766u);
  EXPECT_FALSE(zero(fabric(1)));
  EXPECT_EQ(fabric(3).state, 0u);
  FabricInfoV4 v4{};
  EXPECT_EQ(nvml.call("nvmlDeviceGetGpuFabricInfo_v4", nvml.device(1), &v4), kSuccess);
  EXPECT_EQ(v4.clique_count, 2u) << "unicast and multicast cliques apart";
  FabricInfoV2 bad{};
  EXPECT_EQ(nvml.call("nvmlDeviceGetGpuFabricInfoV", nvml.device(0), &bad), kArgumentVersionMismatch);
}

TEST(NvmlFields, PowerScopes) {
  Library nvml("rubin,b200");
  EXPECT_EQ(field(nvml, nvml.device(0), 187).value.ui, 200000u);
  EXPECT_EQ(field(nvml, nvml.device(0), 188).value.ui, 2300000u);
  EXPECT_EQ(field(nvml, nvml.device(0), 190, 3).value.ui, 2100000u) << "the base limit VR200 adds";
  EXPECT_EQ(field(nvml, nvml.device(1), 190, 3).status, kNotSupported);
  EXPECT_EQ(field(nvml, nvml.device(1), 9999).status, kNotSupported) << "an unknown field fails alone";
}

}  // namespace
