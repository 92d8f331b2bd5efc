// NVML on a simulated box: what it says agrees with the box, and misuse gets the documented codes.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/nvml/nvml_library.h"

using namespace nvml_test;

namespace {

TEST(Nvml, IdentityAgreesWithTheBox) {
  Library nvml("b200:2,rubin:2@mem=64GiB");
  uint32_t count = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetCount_v2", &count), kSuccess);
  ASSERT_EQ(count, 4u);
  for (uint32_t i = 0; i < count; ++i) {
    Device d = nvml.device(i), again = nullptr;
    char text[96];
    EXPECT_EQ(nvml.call("nvmlDeviceGetUUID", d, text, 96u), kSuccess);
    EXPECT_EQ(text, nvml.box->uuid_string(static_cast<int>(i)));
    EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByUUID", static_cast<const char*>(text), &again), kSuccess);
    EXPECT_EQ(again, d);
    EXPECT_EQ(nvml.call("nvmlDeviceGetName", d, text, 96u), kSuccess);
    EXPECT_STREQ(text, i < 2 ? "NVIDIA B200" : "NVIDIA Graphics Device");
    EXPECT_EQ(nvml.get<uint32_t>("nvmlDeviceGetArchitecture", d), i < 2 ? 10u : 13u);
    PciInfo pci = nvml.get<PciInfo>("nvmlDeviceGetPciInfo_v3", d);
    EXPECT_EQ(pci.pci_device_id, i < 2 ? 0x290110DEu : 0x307F10DEu);
    EXPECT_EQ(pci.bus_id, nvml.box->pci_bus_id(static_cast<int>(i)));
    again = nullptr;
    EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(pci.bus_id), &again),
              kSuccess);
    EXPECT_EQ(again, d);
    EXPECT_EQ(
        nvml.call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(pci.bus_id_legacy), &again),
        kSuccess);
    EXPECT_EQ(again, d);
    int major = 0, minor = 0;
    EXPECT_EQ(nvml.call("nvmlDeviceGetCudaComputeCapability", d, &major, &minor), kSuccess);
    EXPECT_EQ(major * 10 + minor, i < 2 ? 100 : 107);
    VersionedValue mode{version_of<VersionedValue>(1), -1};
    EXPECT_EQ(nvml.call("nvmlDeviceGetAddressingMode", d, &mode), kSuccess);
    EXPECT_EQ(mode.value, i < 2 ? 0 : 2);
    uint32_t current = 9, pending = 9;
    EXPECT_EQ(nvml.call("nvmlDeviceGetMigMode", d, &current, &pending), kSuccess);
    EXPECT_EQ(current + pending, 0u);
  }
}

TEST(Nvml, Versions) {
  Library nvml("rubin");
  char text[80];
  EXPECT_EQ(nvml.call("nvmlSystemGetDriverVersion", text, 80u), kSuccess);
  EXPECT_STREQ(text, simgpu::kDriverVersion);
  EXPECT_EQ(nvml.call("nvmlSystemGetNVMLVersion", text, 80u), kSuccess);
  EXPECT_EQ(std::string(text), "13." + std::string(simgpu::kDriverVersion));
  EXPECT_EQ(nvml.call("nvmlSystemGetDriverVersion", text, 3u), kInsufficientSize);
  int cuda = 0;
  EXPECT_EQ(nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda), kSuccess);
  EXPECT_EQ(cuda, simgpu::kCudaDriverVersion);
  EXPECT_STREQ(nvml.error_string(3), "Not Supported");
  EXPECT_STREQ(nvml.error_string(12345), "Unknown Error");
}

TEST(Nvml, MemoryOfAllProcesses) {
  Library nvml("b200@mem=8GiB");
  Device d = nvml.device(0);
  auto v2 = [&] {
    MemoryV2 m{};
    m.version = version_of<MemoryV2>(2);
    EXPECT_EQ(nvml.call("nvmlDeviceGetMemoryInfo_v2", d, &m), kSuccess);
    EXPECT_EQ(m.total, m.reserved + m.used + m.free);
    return m;
  };
  EXPECT_EQ(v2().total, 8ull << 30);
  EXPECT_EQ(v2().used, 0u);
  EXPECT_GT(v2().reserved, 0u);
  ASSERT_TRUE(nvml.box->reserve(0, 1000));
  int pipe_fd[2];
  ASSERT_EQ(pipe(pipe_fd), 0);
  pid_t other = fork();
  if (other == 0) {
    bool ok = nvml.box->reserve(0, 500);
    if (write(pipe_fd[1], &ok, 1) != 1) _exit(1);
    pause();
  }
  char ok = 0;
  ASSERT_EQ(read(pipe_fd[0], &ok, 1), 1);
  EXPECT_EQ(v2().used, 1500u);
  Memory v1 = nvml.get<Memory>("nvmlDeviceGetMemoryInfo", d);
  EXPECT_EQ(v1.used, 1500u + v2().reserved) << "the first form counts the reserved part as used";
  EXPECT_EQ(v1.total, v1.used + v1.free);

  uint32_t count = 0;
  EXPECT_EQ(
      nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", d, &count, static_cast<ProcessInfo*>(nullptr)),
      kInsufficientSize);
  ASSERT_EQ(count, 2u);
  ProcessInfo list[4];
  count = 1;
  EXPECT_EQ(nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", d, &count, list), kInsufficientSize);
  count = 4;
  ASSERT_EQ(nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", d, &count, list), kSuccess);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(list[0].pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(list[0].used_memory, 1000u);
  EXPECT_EQ(list[0].gpu_instance, 0xFFFFFFFFu);
  EXPECT_EQ(list[1].pid, static_cast<uint32_t>(other));
  EXPECT_EQ(list[1].used_memory, 500u);
  char name[256];
  EXPECT_EQ(nvml.call("nvmlSystemGetProcessName", list[0].pid, name, 256u), kSuccess);
  EXPECT_NE(std::string(name).find("test_nvml"), std::string::npos);

  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  count = 4;
  ASSERT_EQ(nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", d, &count, list), kSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(v2().used, 1000u);
}

TEST(Nvml, PowerLimitsAreBoundedAndNeedRoot) {
  Library nvml("b200");
  Device d = nvml.device(0);
  uint32_t low = 0, high = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetPowerManagementLimitConstraints", d, &low, &high), kSuccess);
  EXPECT_EQ(low, 200000u);
  EXPECT_EQ(high, 1000000u);
  setenv("SIMGPU_ROOT", "0", 1);
  EXPECT_EQ(nvml.call("nvmlDeviceSetPowerManagementLimit", d, 600000u), kNoPermission);
  EXPECT_EQ(nvml.get<uint32_t>("nvmlDeviceGetPowerManagementLimit", d), 1000000u);
  setenv("SIMGPU_ROOT", "1", 1);
  EXPECT_EQ(nvml.call("nvmlDeviceSetPowerManagementLimit", d, 199999u), kInvalidArgument);
  EXPECT_EQ(nvml.call("nvmlDeviceSetPowerManagementLimit", d, 1000001u), kInvalidArgument);
  EXPECT_EQ(nvml.call("nvmlDeviceSetPowerManagementLimit", d, 600000u), kSuccess);
  unsetenv("SIMGPU_ROOT");
  EXPECT_EQ(nvml.get<uint32_t>("nvmlDeviceGetPowerManagementLimit", d), 600000u);
  EXPECT_EQ(nvml.get<uint32_t>("nvmlDeviceGetPowerManagementDefaultLimit", d), 1000000u);
  EXPECT_EQ(nvml.box->state(0).power_limit_mw, 600000u) << "every process of the box sees it";
  if (geteuid() == 0) {
    pid_t child = fork();
    if (child == 0)
      _exit(setuid(65534) == 0 && nvml.call("nvmlDeviceSetPowerManagementLimit", d, 700000u) == kNoPermission
                ? 0
                : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "without the override the effective user decides";
  }
}

TEST(Nvml, LoadFollowsVirtualTime) {
  Library nvml("b200");
  Device d = nvml.device(0);
  simgpu::DeviceState& s = nvml.box->state(0);
  EXPECT_EQ(nvml.get<Utilization>("nvmlDeviceGetUtilizationRates", d).gpu, 0u);
  EXPECT_EQ(nvml.get<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons", d), 1u) << "idle";
  uint32_t idle_power = nvml.get<uint32_t>("nvmlDeviceGetPowerUsage", d);
  s.busy_ns += 40'000'000;
  s.dram_bytes += static_cast<uint64_t>(7.67e12 * 0.1 * 0.25);
  nvml.box->merge_clock(100'000'000);
  Utilization u = nvml.get<Utilization>("nvmlDeviceGetUtilizationRates", d);
  EXPECT_EQ(u.gpu, 40u);
  EXPECT_EQ(u.memory, 25u);
  EXPECT_EQ(nvml.get<Utilization>("nvmlDeviceGetUtilizationRates", d).gpu, 40u)
      << "two calls of one query agree";
  EXPECT_GT(nvml.get<uint32_t>("nvmlDeviceGetPowerUsage", d), idle_power + 100000);
  uint32_t clock = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetClockInfo", d, 1u, &clock), kSuccess);
  EXPECT_EQ(clock, 1965u);
  s.power_limit_mw = 500000;
  EXPECT_EQ(nvml.get<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons", d), 4u) << "power cap";
  EXPECT_EQ(nvml.call("nvmlDeviceGetClockInfo", d, 1u, &clock), kSuccess);
  EXPECT_LT(clock, 1965u);
  EXPECT_GT(nvml.get<unsigned long long>("nvmlDeviceGetTotalEnergyConsumption", d), 0u);
  usleep(250000);
  EXPECT_EQ(nvml.get<Utilization>("nvmlDeviceGetUtilizationRates", d).gpu, 0u) << "nothing has moved since";
}

TEST(Nvml, GpmRatesBetweenTwoSamples) {
  Library nvml("rubin,a100");
  Device d = nvml.device(0), old = nvml.device(1);
  GpmSupport support{1, 9};
  EXPECT_EQ(nvml.call("nvmlGpmQueryDeviceSupport", d, &support), kSuccess);
  EXPECT_EQ(support.supported, 1u);
  EXPECT_EQ(nvml.call("nvmlGpmQueryDeviceSupport", old, &support), kSuccess);
  EXPECT_EQ(support.supported, 0u);
  GpmSample *a = nullptr, *b = nullptr;
  ASSERT_EQ(nvml.call("nvmlGpmSampleAlloc", &a), kSuccess);
  ASSERT_EQ(nvml.call("nvmlGpmSampleAlloc", &b), kSuccess);
  EXPECT_EQ(nvml.call("nvmlGpmSampleGet", old, a), kNotSupported);
  ASSERT_EQ(nvml.call("nvmlGpmSampleGet", d, a), kSuccess);
  simgpu::DeviceState& s = nvml.box->state(0);
  s.sm_active_ns += 300'000'000;
  s.tensor_active_ns += 200'000'000;
  s.nvlink_tx_bytes += 36ull << 30;
  s.links_down_mask_hi = 1u << 3;  // link 35
  s.dram_bytes += static_cast<uint64_t>(19.2e12 / 2);
  nvml.box->merge_clock(1'000'000'000);
  ASSERT_EQ(nvml.call("nvmlGpmSampleGet", d, b), kSuccess);
  struct {
    uint32_t version = 1, count = 8;
    GpmSample *a, *b;
    GpmMetric metrics[8];
  } get;
  get.a = a;
  get.b = b;
  uint32_t ids[] = {2, 5, 10, 61, 63, 247, 211 + 1, 3};
  for (int i = 0; i < 8; ++i) get.metrics[i].id = ids[i];
  ASSERT_EQ(nvml.call("nvmlGpmMetricsGet", static_cast<void*>(&get)), kSuccess);
  EXPECT_NEAR(get.metrics[0].value, 30, 0.01);
  EXPECT_NEAR(get.metrics[1].value, 20, 0.01);
  EXPECT_NEAR(get.metrics[2].value, 50, 0.01);
  EXPECT_NEAR(get.metrics[3].value, 36 * 1024, 0.1);
  EXPECT_NEAR(get.metrics[4].value, 36 * 1024 / 35.0, 0.1) << "35 links carry it";
  EXPECT_EQ(get.metrics[5].value, 0) << "link 35 is down";
  EXPECT_EQ(get.metrics[6].status, kSuccess) << "link 18 exists on Rubin";
  EXPECT_EQ(get.metrics[7].status, kNotSupported) << "occupancy is not modelled";
  get.version = 2;
  EXPECT_EQ(nvml.call("nvmlGpmMetricsGet", static_cast<void*>(&get)), kArgumentVersionMismatch);
  nvml.call("nvmlGpmSampleFree", a);
  nvml.call("nvmlGpmSampleFree", b);
}

TEST(Nvml, EventsOfOtherProcessesArrive) {
  Library nvml("b200:2");
  EventSet* set = nullptr;
  ASSERT_EQ(nvml.call("nvmlEventSetCreate", &set), kSuccess);
  unsigned long long supported =
      nvml.get<unsigned long long>("nvmlDeviceGetSupportedEventTypes", nvml.device(1));
  EXPECT_EQ(supported & 0xC00A, 0xC00Au);
  ASSERT_EQ(nvml.call("nvmlDeviceRegisterEvents", nvml.device(1), 0x8ull, set), kSuccess);
  EXPECT_EQ(nvml.call("nvmlDeviceRegisterEvents", nvml.device(1), 1ull << 60, set), kNotSupported);
  EventData data{};
  EXPECT_EQ(nvml.call("nvmlEventSetWait_v2", set, &data, 10u), kTimeout);
  pid_t other = fork();
  if (other == 0) {
    usleep(20000);
    nvml.box->raise_xid(0, 13);  // a device nobody watches
    nvml.box->raise_xid(1, 79);
    _exit(0);
  }
  ASSERT_EQ(nvml.call("nvmlEventSetWait_v2", set, &data, 5000u), kSuccess);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(data.device, nvml.device(1));
  EXPECT_EQ(data.type, 8u);
  EXPECT_EQ(data.data, 79u);
  EXPECT_EQ(nvml.call("nvmlEventSetWait_v2", set, &data, 10u), kTimeout) << "an event is told once";
  EXPECT_EQ(nvml.call("nvmlEventSetFree", set), kSuccess);
}

TEST(Nvml, MisuseGetsTheDocumentedCode) {
  Library nvml("b200:2");
  Device d = nvml.device(0), out = nullptr;
  EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByIndex_v2", 2u, &out), kInvalidArgument);
  EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByIndex_v2", 0u, static_cast<Device*>(nullptr)), kInvalidArgument);
  EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByUUID", "GPU-00000000", &out), kNotFound)
      << "prefixes are CUDA's, not NVML's";
  EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByPciBusId_v2", "00000000:FE:00.0", &out), kNotFound);
  EXPECT_EQ(nvml.call("nvmlDeviceGetHandleByPciBusId_v2", "nonsense", &out), kInvalidArgument);
  char small[8];
  EXPECT_EQ(nvml.call("nvmlDeviceGetName", d, small, 8u), kInsufficientSize);
  for (Device bad : {Device(nullptr), Device(reinterpret_cast<const DeviceHandle*>(0x10)),
                     reinterpret_cast<Device>(reinterpret_cast<const char*>(d) + 1000),
                     reinterpret_cast<Device>(reinterpret_cast<const char*>(d) + 1)}) {
    uint32_t v = 0;
    EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", bad, &v), kInvalidArgument);
  }
  MemoryV2 m{};
  m.version = 1;
  EXPECT_EQ(nvml.call("nvmlDeviceGetMemoryInfo_v2", d, &m), kArgumentVersionMismatch);
  EXPECT_EQ(nvml.call("nvmlDeviceGetMemoryInfo_v2", d, static_cast<MemoryV2*>(nullptr)), kInvalidArgument);
  // Known but not offered: says so, as a real library does for a missing feature.
  EXPECT_EQ(nvml.call("nvmlDeviceGetFanSpeed", d, small), kNotSupported);
  EXPECT_EQ(nvml.call("nvmlDeviceGetAttributes_v2", d, static_cast<void*>(small)), kNotSupported);
  EXPECT_FALSE(nvml.has("nvmlDeviceGetSomethingOfTheFuture"));

  EXPECT_EQ(nvml.call("nvmlInit_v2"), kSuccess);
  EXPECT_EQ(nvml.call("nvmlShutdown"), kSuccess);
  uint32_t count = 0;
  EXPECT_EQ(nvml.call("nvmlDeviceGetCount_v2", &count), kSuccess) << "initialised twice, shut down once";
  EXPECT_EQ(nvml.call("nvmlShutdown"), kSuccess);
  EXPECT_EQ(nvml.call("nvmlDeviceGetCount_v2", &count), kUninitialized);
  EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", d, &count), kUninitialized);
  EXPECT_EQ(nvml.call("nvmlDeviceGetFanSpeed", d, small), kUninitialized);
  EXPECT_EQ(nvml.call("nvmlShutdown"), kUninitialized);
}

TEST(Nvml, FaultsStrikeWhereTheScheduleSays) {
  setenv("SIMGPU_FAULTS",
         "alloc@1,nvml:nvmlDeviceGetPowerUsage@2=15,nvml:nvmlDeviceGetName@2+,nvml:nvmlDeviceGetUUID%1=10",
         1);
  Library nvml("b200");
  unsetenv("SIMGPU_FAULTS");
  Device d = nvml.device(0);
  uint32_t value = 0;
  char text[96];
  EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", d, &value), kSuccess);
  EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", d, &value), 15u) << "the second time only";
  EXPECT_EQ(nvml.call("nvmlDeviceGetPowerUsage", d, &value), kSuccess);
  EXPECT_EQ(nvml.call("nvmlDeviceGetName", d, text, 96u), kSuccess);
  EXPECT_EQ(nvml.call("nvmlDeviceGetName", d, text, 96u), kUnknown);
  EXPECT_EQ(nvml.call("nvmlDeviceGetName", d, text, 96u), kUnknown) << "from then on";
  EXPECT_EQ(nvml.call("nvmlDeviceGetUUID", d, text, 96u), kTimeout);
  EXPECT_EQ(nvml.call("nvmlDeviceGetTemperature", d, 0u, &value), kSuccess) << "others are untouched";
}

TEST(Nvml, ABadBoxIsADriverThatIsNotLoaded) {
  pid_t child = fork();
  if (child == 0) {
    unsetenv("SIMGPU_BOX");
    setenv("SIMGPU_SPEC", "no-such-model", 1);
    if (!freopen("/dev/null", "w", stderr)) _exit(3);
    void* handle = dlopen(SIMGPU_NVML_PATH, RTLD_NOW);
    if (!handle) _exit(2);
    _exit(reinterpret_cast<Return (*)()>(dlsym(handle, "nvmlInit_v2"))() == kDriverNotLoaded ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
