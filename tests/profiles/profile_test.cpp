// Device profiles: every figure the cost model starts from is present and marked, and no board is taken for
// another.
#include "runtime/profiles/profile.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace p = shunt::profiles;

namespace {

std::string key_of(const p::Profile* profile) { return profile ? std::string(profile->key) : "none"; }

TEST(Profiles, EveryModelOfTheResearchTableIsThere) {
  for (auto key : {"a100", "a100-40gb", "h100", "h200", "gh200", "gh200-144g", "b100", "b200", "gb200",
                   "b300", "gb300", "rubin"})
    EXPECT_NE(p::find(key), nullptr) << key;
  std::set<uint32_t> ids;
  for (const p::Profile& profile : p::all())
    EXPECT_TRUE(ids.insert(profile.pci_device_id).second) << profile.key;
}

TEST(Profiles, KeysMatchWhole) {
  EXPECT_EQ(p::find("b20"), nullptr);
  EXPECT_EQ(p::find("B200"), nullptr);
  EXPECT_EQ(p::find("b2000"), nullptr);
  EXPECT_EQ(p::find(""), nullptr);
  EXPECT_EQ(key_of(p::find("b200")), "b200");
}

TEST(Profiles, PciIdWinsOverName) {
  EXPECT_EQ(key_of(p::identify(0x2901, 0, 0, 0, "NVIDIA GB200")), "b200");
  EXPECT_EQ(key_of(p::identify(0x2941, 0, 0, 0, "anything")), "gb200");
  EXPECT_EQ(key_of(p::identify(0x290110DE, 10, 10, 0, "")), "b200") << "NVML's combined form";
  EXPECT_EQ(key_of(p::identify(0x29011002, 10, 10, 0, "NVIDIA B200")), "none") << "another vendor's device";
}

TEST(Profiles, SubstringsOfNamesDoNotMatch) {
  EXPECT_EQ(key_of(p::identify(0, 0, 0, 0, "NVIDIA GB200")), "gb200");
  EXPECT_EQ(key_of(p::identify(0, 10, 10, 0, "NVIDIA GB200")), "gb200");
  EXPECT_EQ(key_of(p::identify(0, 0, 0, 0, "B200")), "none");
  EXPECT_EQ(key_of(p::identify(0, 10, 10, 0, "NVIDIA GB200 NVL4")), "none");
}

TEST(Profiles, RubinIsFoundWithoutAName) {
  for (auto name : {"NVIDIA Graphics Device", "NVIDIA VR200", ""}) {
    EXPECT_EQ(key_of(p::identify(0x307F, 0, 0, 0, name)), "rubin");
    EXPECT_EQ(key_of(p::identify(0x3080, 13, 10, 7, name)), "rubin") << "architecture";
    EXPECT_EQ(key_of(p::identify(0, 0, 10, 7, name)), "rubin") << "compute capability";
  }
  EXPECT_EQ(key_of(p::identify(0, 0, 0, 0, "NVIDIA Graphics Device")), "none")
      << "every unreleased board is called that";
}

TEST(Profiles, UnknownBoardsAreNotTakenForAKnownOne) {
  EXPECT_EQ(key_of(p::identify(0x2331, 9, 9, 0, "NVIDIA H100 PCIe")), "none");
  EXPECT_EQ(key_of(p::identify(0x9999, 14, 11, 0, "NVIDIA Feynman")), "none");
  EXPECT_EQ(key_of(p::identify(0, 0, 0, 0, "")), "none");
  EXPECT_EQ(key_of(p::identify(0x9999, 13, 10, 0, "NVIDIA B200")), "none")
      << "facts that contradict each other";
}

TEST(Profiles, WhatTheCostModelNeedsIsNeverUnknown) {
  for (const p::Profile& profile : p::all()) {
    SCOPED_TRACE(profile.key);
    for (p::Value v : {profile.memory_bytes,
                       profile.sm_count,
                       profile.l2_bytes,
                       profile.shared_per_sm_bytes,
                       profile.shared_per_block_optin_bytes,
                       profile.sm_clock_mhz,
                       profile.memory_clock_mhz,
                       profile.memory_bus_bits,
                       profile.fp64,
                       profile.fp32,
                       profile.fp16,
                       profile.bf16_tensor,
                       profile.memory_bandwidth,
                       profile.nvlink_bandwidth_per_direction,
                       profile.nvlink_links,
                       profile.pcie_bandwidth_per_direction,
                       profile.launch_ns,
                       profile.launch_latency_ns,
                       profile.launch_gap_ns,
                       profile.graph_launch_ns,
                       profile.graph_node_ns,
                       profile.copy_latency_ns,
                       profile.host_call_ns,
                       profile.compute_efficiency,
                       profile.memory_efficiency,
                       profile.link_efficiency,
                       profile.copy_engines,
                       profile.hardware_queues,
                       profile.power_max_w})
      EXPECT_GT(v.value, 0);
    EXPECT_LT(profile.power_min_w.value, profile.power_max_w.value);
    EXPECT_LE(profile.power_default_w.value, profile.power_max_w.value);
    EXPECT_LT(profile.graph_node_ns.value, profile.launch_gap_ns.value);
    // NVML clock x bus width is a good prior of the quoted bandwidth on every captured part.
    double derived = profile.memory_clock_mhz.value * 1e6 * 2 * profile.memory_bus_bits.value / 8;
    EXPECT_NEAR(derived / profile.memory_bandwidth.value, 1, 0.06);
    // 128 single-precision lanes per SM since Hopper, 64 on A100.
    double lanes = profile.fp32.value / (profile.sm_count.value * profile.sm_clock_mhz.value * 1e6 * 2);
    EXPECT_GT(lanes, 60);
    EXPECT_LT(lanes, 132);
  }
}

TEST(Profiles, FiguresAndMarksOfTheTwoMainModels) {
  const p::Profile& b200 = *p::find("b200");
  const p::Profile& rubin = *p::find("rubin");
  EXPECT_EQ(b200.memory_bytes.value, 183359.0 * 1048576);
  EXPECT_EQ(p::mark_letter(b200.memory_bytes.mark), 'C');
  EXPECT_EQ(b200.nvlink_links.value, 18);
  EXPECT_EQ(rubin.nvlink_links.value, 36);
  EXPECT_EQ(rubin.memory_bandwidth.value, 19.2e12) << "the lower of NVIDIA's two figures";
  EXPECT_EQ(rubin.nvlink_bandwidth_per_direction.value, 1.5e12);
  EXPECT_EQ(p::mark_letter(rubin.memory_bandwidth.mark), 'A');
  EXPECT_EQ(p::mark_letter(rubin.launch_ns.mark), 'K') << "no launch cost is published for Rubin";
  EXPECT_EQ(rubin.compute_efficiency.value, 0.75);
  EXPECT_EQ(rubin.memory_efficiency.value, 0.85);
  EXPECT_EQ(rubin.addressing, "ats");
  // Ratios of hardware-and-seed.md §5.
  auto ratio = [](p::Value a, p::Value b) { return a.value / b.value; };
  EXPECT_NEAR(ratio(rubin.memory_bandwidth, b200.memory_bandwidth), 2.5, 0.05);
  EXPECT_NEAR(ratio(rubin.bf16_tensor, b200.bf16_tensor), 1.8, 0.05);
  EXPECT_NEAR(ratio(rubin.fp8_tensor, b200.fp8_tensor), 3.9, 0.05);
  EXPECT_NEAR(ratio(rubin.fp64, b200.fp64), 0.89, 0.02);
}

TEST(Profiles, NearestKeyForAMistypedOne) {
  EXPECT_EQ(key_of(p::nearest("b2000")), "b200");
  EXPECT_EQ(key_of(p::nearest("ruben")), "rubin");
  EXPECT_EQ(key_of(p::nearest("B200")), "b200");
  EXPECT_EQ(key_of(p::nearest("")), "none");
  EXPECT_EQ(key_of(p::nearest("something-else-entirely")), "none");
}

}  // namespace
