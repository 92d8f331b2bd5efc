// Each finding from the facts that cause it, and not without them.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

monitor::Device device(uint32_t index, const char* model, uint32_t cc) {
  monitor::Device d;
  d.identity.nvml_index = index;
  d.identity.name = model;
  d.identity.profile = profiles::find(model);
  d.identity.cc_major = cc / 10, d.identity.cc_minor = cc % 10;
  d.now.links.assign(4, {monitor::LinkState::active, 7, 53125});
  d.now.fabric = monitor::Fabric{};
  d.now.fabric->state = 3;
  d.now.power.limit_w = d.now.power.default_limit_w = 1000;
  return d;
}

monitor::Snapshot good() {
  monitor::Snapshot s;
  s.driver_version = "615.23", s.cuda_version = 13000;
  s.devices = {device(0, "b200", 100), device(1, "b200", 100)};
  return s;
}

const Finding* find(const Findings& all, const std::string& check, Severity s) {
  for (const Finding& f : all)
    if (f.check == check && f.severity == s) return &f;
  return nullptr;
}

Findings box(const monitor::Snapshot& s) {
  Findings out;
  check_box(s, out);
  return out;
}

TEST(Doctor, AHealthyBoxIsFine) {
  const Findings f = box(good());
  EXPECT_EQ(exit_status(f), 0);
  for (const Finding& one : f) EXPECT_EQ(one.severity, Severity::fine) << one.check << ": " << one.evidence;
}

TEST(Doctor, EachFaultOfABoxIsFoundWithItsDevice) {
  struct Case {
    const char* check;
    Severity severity;
    void (*spoil)(monitor::Snapshot&);
  };
  const Case cases[] = {
      {"driver", Severity::warning, [](monitor::Snapshot& s) { s.cuda_version = 12030; }},
      {"mixed-models", Severity::note, [](monitor::Snapshot& s) { s.devices[1] = device(1, "rubin", 107); }},
      {"unknown-model", Severity::note,
       [](monitor::Snapshot& s) { s.devices[1].identity.profile = nullptr; }},
      {"nvlink", Severity::error,
       [](monitor::Snapshot& s) { s.devices[1].now.links[2].state = monitor::LinkState::inactive; }},
      {"nvlink", Severity::note,
       [](monitor::Snapshot& s) {
         for (auto& d : s.devices)
           for (auto& l : d.now.links) l.state = monitor::LinkState::inactive;
       }},
      {"fabric", Severity::error, [](monitor::Snapshot& s) { s.devices[1].now.fabric->state = 2; }},
      {"fabric", Severity::note, [](monitor::Snapshot& s) { s.devices[1].now.fabric->clique = 7; }},
      {"lost", Severity::error, [](monitor::Snapshot& s) { s.devices[1].now.health.lost = true; }},
      {"ecc", Severity::error, [](monitor::Snapshot& s) { s.devices[1].now.health.ecc_uncorrected = 3; }},
      {"recovery", Severity::error,
       [](monitor::Snapshot& s) { s.devices[1].now.health.recovery_action = 1; }},
      {"power-limit", Severity::warning, [](monitor::Snapshot& s) { s.devices[1].now.power.limit_w = 600; }},
      {"mig", Severity::note, [](monitor::Snapshot& s) { s.devices[1].identity.mig_enabled = true; }},
  };
  for (const Case& c : cases) {
    monitor::Snapshot s = good();
    c.spoil(s);
    const Findings f = box(s);
    const Finding* found = find(f, c.check, c.severity);
    ASSERT_NE(found, nullptr) << c.check << " was not found";
    EXPECT_FALSE(found->fix.empty()) << c.check;
    EXPECT_EQ(exit_status(f), c.severity == Severity::error     ? 2
                              : c.severity == Severity::warning ? 1
                                                                : 0)
        << c.check;
    size_t bad = 0;
    for (const Finding& one : f) bad += one.severity != Severity::fine;
    EXPECT_EQ(bad, 1u) << c.check << " brings others along";
  }
}

TEST(Doctor, APeerlessDeviceWithLinksToNobodyIsNoFault) {
  monitor::Snapshot s = good();
  for (auto& l : s.devices[1].now.links) l.state = monitor::LinkState::inactive;
  EXPECT_EQ(find(box(s), "nvlink", Severity::error), nullptr);
}

TEST(Doctor, DeviceCodeIsJudgedByTheDriversRule) {
  using binary::Entry;
  const auto entry = [](Entry::Kind kind, uint32_t sm, uint16_t major = 9, uint16_t minor = 0) {
    Entry e;
    e.kind = kind, e.sm = sm, e.version_major = major, e.version_minor = minor;
    return e;
  };
  const auto judge = [&](std::vector<Entry> code, int cuda = 13000) {
    Program p;
    p.path = "app", p.elf = true, p.device_code = std::move(code);
    monitor::Snapshot s = good();
    s.cuda_version = cuda;
    Findings out;
    check_program(p, s, out);
    return out;
  };
  EXPECT_NE(find(judge({entry(Entry::Kind::elf, 100)}), "program", Severity::fine), nullptr);
  EXPECT_NE(find(judge({entry(Entry::Kind::ptx, 75)}), "program", Severity::note), nullptr);
  EXPECT_NE(find(judge({entry(Entry::Kind::elf, 90)}), "program", Severity::error), nullptr);
  EXPECT_NE(find(judge({entry(Entry::Kind::ptx, 120)}), "program", Severity::error), nullptr);
  EXPECT_EQ(find(judge({entry(Entry::Kind::ptx, 75)}), "ptx-version", Severity::error), nullptr);
  EXPECT_NE(find(judge({entry(Entry::Kind::ptx, 75)}, 12080), "ptx-version", Severity::error), nullptr);
  EXPECT_EQ(find(judge({entry(Entry::Kind::ptx, 75, 8, 7)}, 12080), "ptx-version", Severity::error), nullptr);
  EXPECT_NE(find(judge({entry(Entry::Kind::ptx, 75, 8, 7)}, 12040), "ptx-version", Severity::error), nullptr);
}

TEST(Doctor, Variables) {
  struct Case {
    const char *name, *value, *check;
    Severity severity;
  };
  const Case cases[] = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1", "max-connections", Severity::note},
                        {"CUDA_LAUNCH_BLOCKING", "1", "launch-blocking", Severity::warning},
                        {"NCCL_P2P_DISABLE", "1", "nccl-p2p", Severity::warning},
                        {"NVIDIA_TF32_OVERRIDE", "0", "tf32", Severity::note},
                        {"CUDA_VISIBLE_DEVICES", "0, 1", "visible-devices", Severity::warning},
                        {"LD_PRELOAD", "/x/libvgpu.so:/y/libshunt.so", "preload", Severity::warning},
                        {"LD_PRELOAD", "/usr/lib/libjemalloc.so.2", "preload", Severity::note}};
  const char* const harmless[][2] = {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"},
                                     {"CUDA_LAUNCH_BLOCKING", "0"},
                                     {"CUDA_VISIBLE_DEVICES", "0,GPU-12"},
                                     {"LD_PRELOAD", "/y/libshunt.so"}};
  for (const Case& c : cases) unsetenv(c.name);
  for (const Case& c : cases) {
    Findings out;
    setenv(c.name, c.value, 1);
    check_environment("/nonexistent", out);
    unsetenv(c.name);
    EXPECT_NE(find(out, c.check, c.severity), nullptr) << c.name << "=" << c.value;
  }
  for (const auto& [name, value] : harmless) {
    Findings out;
    setenv(name, value, 1);
    check_environment("/nonexistent", out);
    unsetenv(name);
    for (const Finding& f : out)
      EXPECT_TRUE(f.check == "rdma" || f.check == "storage") << f.check << ": " << f.evidence;
  }
}

TEST(Doctor, KernelModules) {
  char folder[] = "/tmp/doctor.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string root = folder;
  const auto make = [&](const char* path) { ASSERT_EQ(system(("mkdir -p " + root + path).c_str()), 0); };
  const auto look = [&] {
    Findings out;
    check_environment(root, out);
    return out;
  };
  EXPECT_NE(find(look(), "rdma", Severity::fine), nullptr);
  EXPECT_NE(find(look(), "storage", Severity::note), nullptr);
  make("/sys/class/infiniband");
  EXPECT_NE(find(look(), "rdma", Severity::warning), nullptr);
  make("/sys/module/nvidia_peermem");
  EXPECT_NE(find(look(), "rdma", Severity::fine), nullptr);
  make("/proc/driver/nvidia-fs");
  EXPECT_NE(find(look(), "storage", Severity::fine), nullptr);
  ASSERT_EQ(system(("rm -rf " + root).c_str()), 0);
}

TEST(Doctor, TheWorstComesFirstAndHostileTextStaysJson) {
  const Findings f = {{Severity::fine, "a", "fine", ""},
                      {Severity::error, "b",
                       "quote \" and \xff and a very long line that has to be broken somewhere in it", "fix"},
                      {Severity::note, "c", "note", "do"}};
  const std::string text = render_text(f, 60);
  EXPECT_LT(text.find("error"), text.find("note"));
  EXPECT_LT(text.find("note "), text.find("ok "));
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    EXPECT_LE(end - start, 62u);
  const auto j = nlohmann::json::parse(render_json(f));
  EXPECT_EQ(j["status"], 2);
  EXPECT_EQ(j["findings"].size(), 3u);
}

}  // namespace
}  // namespace shunt::tool::doctor
