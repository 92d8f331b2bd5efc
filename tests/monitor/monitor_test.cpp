// The monitor reads what the box is, says "unknown" where a library cannot tell, and never waits.
#include "runtime/monitor/monitor.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "tools/simgpu/box/box.h"

using namespace shunt::monitor;

namespace {

// NVML keeps its box for the life of a process: each scenario runs in a child of its own.
int with_box(const char* sim, const std::string& links, const std::function<void(simgpu::Box&)>& body) {
  simgpu::BoxSpec spec;
  std::string error, name;
  EXPECT_TRUE(simgpu::parse_box_spec(sim, links, spec, error)) << error;
  EXPECT_TRUE(simgpu::Box::create_named(spec, name, error)) << error;
  pid_t pid = fork();
  if (pid == 0) {
    setenv("SIMGPU_BOX", name.c_str(), 1);
    body(*simgpu::Box::open_named(name, error));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  simgpu::Box::unlink_named(name);
  return status;
}

std::unique_ptr<Monitor> open_monitor(const nvml::Loader& loader = nvml::system_loader()) {
  std::string error;
  std::unique_ptr<Monitor> monitor = Monitor::open(error, loader);
  EXPECT_TRUE(monitor) << error;
  return monitor;
}

TEST(Monitor, ReadsIdentityMemoryAndPower) {
  EXPECT_EQ(0, with_box("b200:2,rubin@mem=64GiB", "nvlink6", [](simgpu::Box& box) {
              auto monitor = open_monitor();
              ASSERT_EQ(monitor->device_count(), 3u);
              ASSERT_TRUE(box.reserve(0, 5000));
              Snapshot s = monitor->read();
              EXPECT_EQ(s.driver_version, simgpu::kDriverVersion);
              EXPECT_EQ(s.cuda_version, simgpu::kCudaDriverVersion);
              for (int i = 0; i < 3; ++i) {
                const Device& d = s.devices[static_cast<size_t>(i)];
                EXPECT_EQ(d.identity.uuid, box.uuid_string(i));
                uint8_t bytes[16];
                box.uuid(i, bytes);
                EXPECT_TRUE(std::equal(bytes, bytes + 16, d.identity.uuid_bytes.begin()));
                EXPECT_EQ(s.find(d.identity.uuid), &d);
                ASSERT_TRUE(d.identity.profile);
                EXPECT_EQ(d.identity.profile->key, i < 2 ? "b200" : "rubin");
                EXPECT_EQ(d.identity.addressing, i < 2 ? Addressing::none : Addressing::ats);
                ASSERT_TRUE(d.now.memory);
                EXPECT_EQ(d.now.memory->total, box.spec().devices[static_cast<size_t>(i)].memory_bytes);
                EXPECT_EQ(d.now.memory->free, box.free_bytes(i));
                EXPECT_EQ(d.now.memory->used, i == 0 ? 5000u : 0u);
                EXPECT_EQ(*d.now.memory->reserved, box.state(i).reserved_bytes);
                EXPECT_EQ(d.now.memory->os_accounted, i == 2) << "where the GPU is a NUMA node";
                EXPECT_EQ(d.now.power.limit_w, box.spec().devices[static_cast<size_t>(i)].power_limit_w);
                EXPECT_EQ(d.now.power.base_limit_w.has_value(), i == 2);
              }
              EXPECT_EQ(s.devices[2].identity.display_name(), "rubin") << "the board has no name of its own";
              EXPECT_EQ(s.devices[0].identity.display_name(), "NVIDIA B200");
              EXPECT_EQ(s.devices[0].identity.pci_bus_id, "00000000:1b:00.0");
              ASSERT_EQ(s.devices[0].now.processes.size(), 1u);
              EXPECT_EQ(s.devices[0].now.processes[0].pid, static_cast<uint32_t>(getpid()));
              EXPECT_EQ(s.devices[0].now.processes[0].bytes, 5000u);
              EXPECT_EQ(monitor->read_memory(0)->used, 5000u);
            }));
}

TEST(Monitor, LoopsOverAsManyLinksAsThePartHas) {
  std::string file = "/tmp/shunt-monitor-box-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "default = \"nvlink6\"\n[[device]]\nindex = 1\nlinks_down = [0, 35]\n";
  EXPECT_EQ(0, with_box("b200,rubin", file, [](simgpu::Box&) {
              Snapshot s = open_monitor()->read(kLinks);
              EXPECT_EQ(s.devices[0].now.links.size(), 18u);
              EXPECT_EQ(s.devices[0].now.links_active(), 18u);
              ASSERT_EQ(s.devices[1].now.links.size(), 36u);
              EXPECT_EQ(s.devices[1].now.links_active(), 34u);
              EXPECT_EQ(s.devices[1].now.links[35].state, LinkState::inactive);
              EXPECT_EQ(s.devices[1].now.links[34].speed_mbps, 53125u);
              EXPECT_EQ(link_version_name(*s.devices[1].now.links[34].version), "NVLink 6.0");
              EXPECT_EQ(link_version_name(*s.devices[0].now.links[0].version), "NVLink 5.0");
              EXPECT_FALSE(s.devices[0].now.fabric->has_cluster())
                  << "an HGX board's zero UUID matches nobody";
              EXPECT_TRUE(s.devices[1].now.fabric->has_cluster());
              EXPECT_FALSE(s.devices[0].now.memory) << "only what was asked for";
            }));
  unlink(file.c_str());
}

TEST(Monitor, RatesNeedTwoReadings) {
  EXPECT_EQ(0, with_box("b200,a100", "nvlink5", [](simgpu::Box& box) {
              auto monitor = open_monitor();
              EXPECT_FALSE(monitor->read(kLoad).devices[0].now.rates);
              box.state(0).sm_active_ns += 250'000'000;
              box.state(0).busy_ns += 500'000'000;
              box.state(0).nvlink_tx_bytes += 3ull << 30;
              box.merge_clock(1'000'000'000);
              Snapshot s = monitor->read(kLoad);
              ASSERT_TRUE(s.devices[0].now.rates);
              EXPECT_NEAR(s.devices[0].now.rates->sm_percent, 25, 0.1);
              EXPECT_NEAR(s.devices[0].now.rates->nvlink_tx_mib_s, 3 * 1024, 1);
              EXPECT_EQ(s.devices[0].now.busy_percent, 50u);
              EXPECT_FALSE(s.devices[1].now.rates) << "no GPM before Hopper";
            }));
}

TEST(Monitor, XidsOfOtherProcessesAreCounted) {
  EXPECT_EQ(0, with_box("b200:2", "nvlink5", [](simgpu::Box& box) {
              auto monitor = open_monitor();
              EXPECT_EQ(monitor->read(kHealth).devices[1].now.health.xid_count, 0u);
              box.raise_xid(1, 94);
              box.raise_xid(1, 79);
              Health h = monitor->read(kHealth).devices[1].now.health;
              EXPECT_EQ(h.xid_count, 2u);
              EXPECT_EQ(h.last_xid, 79u);
              EXPECT_EQ(h.recovery_action, 1u);
              EXPECT_EQ(monitor->read(kHealth).devices[1].now.health.xid_count, 2u) << "each is counted once";
              EXPECT_EQ(monitor->read(kHealth).devices[0].now.health.xid_count, 0u);
            }));
}

TEST(Monitor, PeersAndPowerLimit) {
  std::string file = "/tmp/shunt-monitor-peers-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "[[pair]]\ndevices=[0,1]\np2p=\"broken\"\n[[pair]]\ndevices=[0,2]\nlink=\"none\"\n";
  EXPECT_EQ(0, with_box("b200:3", file, [](simgpu::Box&) {
              auto monitor = open_monitor();
              EXPECT_EQ(monitor->peer(0, 1).read, true) << "NVML cannot know that it is broken";
              EXPECT_EQ(monitor->peer(0, 2).read, false);
              EXPECT_EQ(monitor->peer(1, 2).nvlink, true);
              EXPECT_EQ(monitor->peer(0, 2).ancestor, 50u);
              setenv("SIMGPU_ROOT", "0", 1);
              EXPECT_EQ(monitor->set_power_limit(0, 500), 4u);
              setenv("SIMGPU_ROOT", "1", 1);
              EXPECT_EQ(monitor->set_power_limit(0, 500), nvml::kSuccess);
              EXPECT_EQ(monitor->read(kPower).devices[0].now.power.limit_w, 500);
              EXPECT_EQ(monitor->set_power_limit(0, 50), nvml::kInvalidArgument);
              EXPECT_EQ(monitor->set_power_limit(0, -1), nvml::kInvalidArgument);
            }));
  unlink(file.c_str());
}

const char* const kNames[] = {
#define NVML_FUNCTION(name, parameters) #name,
#include "runtime/monitor/nvml_functions.def"
#undef NVML_FUNCTION
};

// A library that lacks everything but the four calls that list devices, and one symbol more in each round.
const char* g_missing = nullptr;
bool g_bare = false;
void* without(void* library, const char* name) {
  static const std::set<std::string> kNeeded{"nvmlInit_v2", "nvmlDeviceGetCount_v2",
                                             "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"};
  if (g_bare && !kNeeded.contains(name)) return nullptr;
  if (g_missing && std::string(g_missing) == name) return nullptr;
  return dlsym(library, name);
}

TEST(Monitor, EverySymbolIsOptional) {
  EXPECT_EQ(0, with_box("rubin,b200", "nvlink6", [](simgpu::Box& box) {
              nvml::Loader loader = nvml::system_loader();
              loader.symbol = without;
              ASSERT_TRUE(box.reserve(1, 1000));
              g_bare = true;
              {
                Snapshot s = open_monitor(loader)->read();
                ASSERT_EQ(s.devices.size(), 2u);
                EXPECT_EQ(s.devices[0].identity.uuid, box.uuid_string(0));
                EXPECT_FALSE(s.devices[0].now.memory);
                EXPECT_FALSE(s.devices[0].now.busy_percent);
                EXPECT_TRUE(s.devices[0].now.links.empty());
                EXPECT_FALSE(s.devices[0].identity.profile) << "nothing to identify it by";
              }
              g_bare = false;
              for (const char* name : kNames) {
                g_missing = name;
                std::string error;
                std::unique_ptr<Monitor> monitor = Monitor::open(error, loader);
                static const std::set<std::string> kNeeded{"nvmlInit_v2", "nvmlDeviceGetCount_v2",
                                                           "nvmlDeviceGetHandleByIndex_v2",
                                                           "nvmlDeviceGetUUID"};
                EXPECT_EQ(monitor == nullptr, kNeeded.contains(name)) << name;
                if (!monitor) {
                  EXPECT_NE(error.find("lacks the calls"), std::string::npos) << error;
                  continue;
                }
                monitor->read();
                Snapshot s = monitor->read();
                EXPECT_EQ(s.devices.size(), 2u) << name;
                if (std::string(name) == "nvmlDeviceGetMemoryInfo_v2") {
                  EXPECT_FALSE(s.devices[1].now.memory->reserved);
                  EXPECT_EQ(s.devices[1].now.memory->used, 1000 + box.state(1).reserved_bytes)
                      << "the old form's meaning";
                }
                if (std::string(name) == "nvmlDeviceGetComputeRunningProcesses_v3") {
                  EXPECT_EQ(s.devices[1].now.processes.size(), 1u);
                }
                if (std::string(name) == "nvmlDeviceGetPciInfo_v3") {
                  EXPECT_TRUE(s.devices[0].identity.profile) << "Rubin by architecture";
                }
              }
            }));
}

TEST(Monitor, EveryCallMayFail) {
  // Each function in turn fails always, then with one chance in two all of them: readings get thinner,
  // nothing else.
  for (const char* name : kNames) {
    std::string faults = "nvml:" + std::string(name) + "@*=15";
    setenv("SIMGPU_FAULTS", faults.c_str(), 1);
    EXPECT_EQ(0, with_box("rubin,b200", "nvlink6", [&](simgpu::Box&) {
                std::string error;
                std::unique_ptr<Monitor> monitor = Monitor::open(error);
                EXPECT_EQ(monitor == nullptr, std::string(name) == "nvmlInit_v2") << name;
                if (!monitor) return;
                for (int i = 0; i < 2; ++i) EXPECT_EQ(monitor->read().devices.size(), 2u) << name;
                if (std::string(name) == "nvmlDeviceGetPowerUsage") {
                  EXPECT_TRUE(monitor->read().devices[0].now.health.lost);
                }
              }));
  }
  for (int seed = 0; seed < 20; ++seed) {
    setenv("SIMGPU_FAULTS", "nvml%0.5", 1);
    setenv("SIMGPU_SEED", std::to_string(seed).c_str(), 1);
    EXPECT_EQ(0, with_box("rubin,b200", "nvlink6", [&](simgpu::Box&) {
                std::string error;
                std::unique_ptr<Monitor> monitor = Monitor::open(error);
                for (int i = 0; monitor && i < 3; ++i) monitor->read();
              }));
  }
  unsetenv("SIMGPU_FAULTS");
  unsetenv("SIMGPU_SEED");
}

TEST(Monitor, NoLibraryIsOneLine) {
  nvml::Loader loader = nvml::system_loader();
  loader.open = [](const char*) -> void* { return nullptr; };
  std::string error;
  EXPECT_EQ(Monitor::open(error, loader), nullptr);
  EXPECT_NE(error.find("libnvidia-ml.so.1 was not found"), std::string::npos);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Monitor, AReadingDoesNotWait) {
  EXPECT_EQ(
      0, with_box("b200:4,rubin:4", "nvlink6", [](simgpu::Box&) {
        auto monitor = open_monitor();
        monitor->read();
        std::vector<double> times;
        for (int i = 0; i < 15; ++i) {
          auto start = std::chrono::steady_clock::now();
          monitor->read();
          times.push_back(
              std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        }
        std::nth_element(times.begin(), times.begin() + 7, times.end());
        EXPECT_LT(times[7], 20) << "milliseconds for 8 devices";
      }));
}

}  // namespace
