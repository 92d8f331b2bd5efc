// Box specifications: what is accepted means what it says; what is not is refused in one line with value and
// fix.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tools/simgpu/box/box.h"
#include "tools/simgpu/box/links.h"

using simgpu::BoxSpec;
using simgpu::LinkKind;
using simgpu::P2p;

namespace {

BoxSpec parse(const char* sim, const char* links = "nvlink5") {
  BoxSpec spec;
  std::string error;
  EXPECT_TRUE(simgpu::parse_box_spec(sim, links, spec, error)) << sim << ": " << error;
  return spec;
}

std::string refused(std::string_view sim, std::string_view links = "nvlink5") {
  BoxSpec spec;
  std::string error;
  EXPECT_FALSE(simgpu::parse_box_spec(sim, links, spec, error)) << sim;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  EXPECT_TRUE(spec.devices.empty()) << "a refused specification leaves the result untouched";
  return error;
}

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in: " << text;
}

TEST(BoxSpec, ModelsCountsAndOptions) {
  BoxSpec spec = parse("b200:2, rubin:2@mem=64GiB@power=800");
  ASSERT_EQ(spec.devices.size(), 4u);
  EXPECT_EQ(spec.devices[1].profile->key, "b200");
  EXPECT_EQ(spec.devices[1].memory_bytes, 183359ull << 20);
  EXPECT_EQ(spec.devices[1].power_limit_w, 1000);
  EXPECT_EQ(spec.devices[2].profile->key, "rubin");
  EXPECT_EQ(spec.devices[2].memory_bytes, 64ull << 30);
  EXPECT_LT(spec.devices[2].reserved_bytes, 64ull << 20 << 3);
  EXPECT_EQ(spec.devices[3].power_limit_w, 800);
  EXPECT_EQ(parse("h100").devices.size(), 1u);
}

TEST(BoxSpec, OptionsMayBeSeparatedByCommas) {
  BoxSpec spec = parse("b200:2@mem=1GiB,power=500,rubin");
  ASSERT_EQ(spec.devices.size(), 3u);
  EXPECT_EQ(spec.devices[1].memory_bytes, 1ull << 30);
  EXPECT_EQ(spec.devices[1].power_limit_w, 500);
  EXPECT_EQ(spec.devices[2].power_limit_w, 2300);
}

TEST(BoxSpec, EveryDeviceHasItsOwnBus) {
  BoxSpec spec = parse("b200:20");
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const auto& d : spec.devices) EXPECT_TRUE(seen.insert({d.pci_domain, d.pci_bus}).second);
  EXPECT_EQ(spec.devices[19].pci_domain, 2u) << "domains can be other than 0";
}

TEST(BoxSpec, BadModelsNameTheNearest) {
  expect_words(refused("b2000:2"), {"'b2000'", "did you mean 'b200'", "known models are"});
  expect_words(refused("ruben"), {"'ruben'", "'rubin'"});
  expect_words(refused("B200"), {"'b200'"});
  expect_words(refused(""), {"empty device list", "b200:2"});
  expect_words(refused("b200,,rubin"), {"empty device entry"});
  expect_words(refused("@mem=1GiB"), {"empty device entry"});
  expect_words(refused(",b200"), {"empty device entry"});
}

TEST(BoxSpec, BadCountsSizesAndPower) {
  for (const char* bad :
       {"b200:0", "b200:-1", "b200:x", "b200:", "b200:129", "b200:99999999999999999999", "b200:1.5"})
    expect_words(refused(bad), {"bad device count", "use 1 to 128"});
  expect_words(refused("b200:100,rubin:29"), {"too many devices", "128"});
  for (const char* bad :
       {"mem=", "mem=64Gi B", "mem=-1GiB", "mem=0", "mem=64QiB", "mem=1e300", "mem=nan", "mem=99999TiB"})
    expect_words(refused(std::string("b200@") + bad), {"bad memory size", "mem=64GiB"});
  for (const char* bad : {"power=0", "power=100", "power=1001", "power=x", "power="})
    expect_words(refused(std::string("b200@") + bad), {"bad power limit", "200 to 1000 watts"});
  expect_words(refused("b200@cores=4"), {"unknown device option 'cores=4'", "mem=", "power="});
  expect_words(refused("b200@"), {"unknown device option"});
  expect_words(refused("mem=4GiB"), {"unknown device model"});
}

TEST(BoxSpec, ErrorsStayShortAndPrintable) {
  std::string error = refused(std::string(5000, 'x') + "\n\x1b[31m");
  EXPECT_LT(error.size(), 400u);
  EXPECT_LT(refused("b200\x1b[0m:2").find('?'), 60u);
}

TEST(BoxLinks, ByName) {
  BoxSpec spec = parse("b200:2,rubin:2", "nvlink6");
  EXPECT_EQ(spec.link[0][1], LinkKind::nvlink);
  EXPECT_EQ(spec.link[0][0], LinkKind::none);
  EXPECT_EQ(spec.link_bytes_per_s[0][1], 900e9) << "a B200 has NVLink 5 only";
  EXPECT_EQ(spec.link_bytes_per_s[2][3], 1500e9);
  EXPECT_EQ(spec.link_bytes_per_s[1][2], 900e9);
  EXPECT_EQ(spec.p2p[1][2], P2p::ok) << "10.0 and 10.7 have one major version";
  EXPECT_EQ(spec.host_link[0], LinkKind::pcie);
  EXPECT_EQ(spec.host_link[2], LinkKind::c2c);

  spec = parse("b200:2,rubin:2", "pcie5");
  EXPECT_EQ(spec.link[2][3], LinkKind::pcie);
  EXPECT_EQ(spec.link_bytes_per_s[2][3], 63e9);
  EXPECT_EQ(spec.host_link[2], LinkKind::pcie);
  EXPECT_EQ(spec.host_link_bytes_per_s[2], 63e9);

  spec = parse("b200:2", "none");
  EXPECT_EQ(spec.link[0][1], LinkKind::none);
  EXPECT_EQ(spec.p2p[0][1], P2p::not_supported);
  EXPECT_GT(spec.host_link_bytes_per_s[0], 0) << "a device without peers still has its host";
}

TEST(BoxLinks, DifferentMajorVersionsAreNoPeers) {
  BoxSpec spec = parse("h100,b200");
  EXPECT_EQ(spec.p2p[0][1], P2p::not_supported);
  EXPECT_EQ(spec.link_bytes_per_s[0][1], 450e9);
}

TEST(BoxLinks, BadNames) {
  expect_words(refused("b200", "nvlink7"), {"'nvlink7'", "nvlink5"});
  expect_words(refused("b200", "/no/such/file.toml"), {"cannot read", "/no/such/file.toml"});
  expect_words(refused("b200", "/tmp/"), {"cannot read"});
}

BoxSpec devices(const char* sim) { return parse(sim); }
std::string file_refused(std::string_view text) {
  BoxSpec spec = devices("b200:2,rubin:2");
  std::string error;
  EXPECT_FALSE(simgpu::build_links_from_toml(text, "box.toml", spec, error)) << text;
  expect_words(error, {"box.toml"});
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(BoxLinks, File) {
  BoxSpec spec = devices("b200:2,rubin:2");
  std::string error;
  ASSERT_TRUE(simgpu::build_links_from_toml(R"(
default = "nvlink5"
[[pair]]
devices = [0, 1]
p2p = "broken"
[[pair]]
devices = [2, 1]
link = "pcie5"
bandwidth = "40GB/s"
[[pair]]
devices = [0, 3]
link = "none"
[[device]]
index = 2
host_link = "pcie5"
host_bandwidth = "50GB/s"
links_down = [0, 1, 2, 3, 4, 5, 6, 7, 35]
power_limit_w = 900
numa_node = 3
pci = "0002:81"
)",
                                            "box.toml", spec, error))
      << error;
  EXPECT_EQ(spec.p2p[0][1], P2p::broken);
  EXPECT_EQ(spec.p2p[1][0], P2p::broken);
  EXPECT_EQ(spec.link[1][2], LinkKind::pcie);
  EXPECT_EQ(spec.link_bytes_per_s[1][2], 40e9);
  EXPECT_EQ(spec.link[0][3], LinkKind::none);
  EXPECT_EQ(spec.host_link[2], LinkKind::pcie);
  EXPECT_EQ(spec.host_link_bytes_per_s[2], 50e9);
  EXPECT_EQ(spec.devices[2].links_down, 0x8000000FFull);
  EXPECT_DOUBLE_EQ(spec.link_bytes_per_s[2][3], 900e9 * 27 / 36) << "9 of 36 links are down";
  EXPECT_EQ(spec.devices[2].power_limit_w, 900);
  EXPECT_EQ(spec.devices[2].numa_node, 3u);
  EXPECT_EQ(spec.devices[2].pci_domain, 2u);
  EXPECT_EQ(spec.devices[2].pci_bus, 0x81u);
}

TEST(BoxLinks, AllLinksDownIsNoLink) {
  BoxSpec spec = devices("b200:2");
  std::string error, text = "[[device]]\nindex = 1\nlinks_down = [";
  for (int i = 0; i < 18; ++i) text += std::to_string(i) + ",";
  ASSERT_TRUE(simgpu::build_links_from_toml(text + "]", "box.toml", spec, error)) << error;
  EXPECT_EQ(spec.link[0][1], LinkKind::none);
  EXPECT_EQ(spec.p2p[0][1], P2p::not_supported);
}

TEST(BoxLinks, FileErrorsNameKeyValueAndFix) {
  expect_words(file_refused("default = \"nvlink9\""), {"nvlink9", "use nvlink5"});
  expect_words(file_refused("default = 5"), {"default"});
  expect_words(file_refused("speed = 5"), {"speed", "known keys"});
  expect_words(file_refused("[[pair]\n"), {"line 1"});
  expect_words(file_refused("[[pair]]\ndevices=[0,9]"), {"'9'", "0 to 3"});
  expect_words(file_refused("[[pair]]\ndevices=[0,-1]"), {"'-1'"});
  expect_words(file_refused("[[pair]]\ndevices=[1,1]"), {"two different"});
  expect_words(file_refused("[[pair]]\nlink=\"pcie5\""), {"devices"});
  expect_words(file_refused("[[pair]]\ndevices=[0,1]\nlink=\"usb\""), {"usb"});
  expect_words(file_refused("[[pair]]\ndevices=[0,1]\np2p=\"maybe\""), {"maybe", "broken"});
  expect_words(file_refused("[[pair]]\ndevices=[0,1]\nbandwidth=\"fast\""), {"fast", "GB/s"});
  expect_words(file_refused("[[pair]]\ndevices=[0,1]\nlink=\"none\"\np2p=\"ok\""), {"no link"});
  expect_words(file_refused("[[device]]\nindex=0\nlinks_down=[18]"), {"18", "0 to 17"});
  expect_words(file_refused("[[device]]\nindex=0\nhost_link=\"c2c\""), {"no chip-to-chip"});
  expect_words(file_refused("[[device]]\nindex=0\npower_limit_w=1"), {"200 to 1000"});
  expect_words(file_refused("[[device]]\nindex=0\npci=\"zz\""), {"zz"});
  expect_words(file_refused("[[device]]\nindex=0\npci=\"0:43\""), {"share"});
  expect_words(file_refused("[[device]]\nlinks_down=[1]"), {"device index"});
  expect_words(file_refused("pair = 3"), {"[[pair]]"});
}

}  // namespace
