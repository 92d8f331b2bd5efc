// NVML: initialisation, versions, error texts, process names, units.
#include <cstdio>
#include <fstream>

#include "tools/simgpu/nvml/faults.h"
#include "tools/simgpu/nvml/state.h"

using namespace simgpu::nvml;

SIMGPU_NVML nvmlInit_v2() {
  if (Return injected = fault(__func__); injected != kSuccess) return injected;
  return initialise();
}
SIMGPU_NVML nvmlInit() { return nvmlInit_v2(); }
SIMGPU_NVML nvmlInitWithFlags(uint32_t flags) {
  constexpr uint32_t kKnown = 7;
  SIMGPU_NVML_REQUIRE((flags & ~kKnown) == 0);
  return initialise();
}
SIMGPU_NVML nvmlShutdown() { return shut_down(); }

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(uint32_t code) {
  switch (code) {
    case 0:
      return "Success";
    case 1:
      return "Uninitialized";
    case 2:
      return "Invalid Argument";
    case 3:
      return "Not Supported";
    case 4:
      return "Insufficient Permissions";
    case 5:
      return "Already Initialized";
    case 6:
      return "Not Found";
    case 7:
      return "Insufficient Size";
    case 8:
      return "Insufficient External Power";
    case 9:
      return "Driver Not Loaded";
    case 10:
      return "Timeout";
    case 11:
      return "Interrupt Request Issue";
    case 12:
      return "NVML Shared Library Not Found";
    case 13:
      return "Function Not Found";
    case 14:
      return "Corrupted infoROM";
    case 15:
      return "GPU is lost";
    case 16:
      return "GPU requires restart";
    case 17:
      return "The operating system has blocked the request.";
    case 18:
      return "Driver/library version mismatch";
    case 19:
      return "In use by another client";
    case 20:
      return "Insufficient Memory";
    case 21:
      return "No data";
    case 22:
      return "Not supported with vGPU ECC";
    case 23:
      return "Insufficient Resources";
    case 24:
      return "Frequency Not Supported";
    case 25:
      return "Argument version mismatch";
    case 26:
      return "Deprecated";
    case 27:
      return "Not Ready";
    case 28:
      return "GPU Not Found";
    case 29:
      return "Invalid State";
    case 30:
      return "Reset type not supported";
    default:
      return "Unknown Error";
  }
}

namespace {
Return system_text(const std::string& text, char* out, uint32_t length) {
  return initialised() ? copy_text(text, out, length) : kUninitialized;
}
}  // namespace

SIMGPU_NVML nvmlSystemGetDriverVersion(char* out, uint32_t length) {
  return system_text(simgpu::kDriverVersion, out, length);
}
// Works before initialisation too, as documented.
SIMGPU_NVML nvmlSystemGetNVMLVersion(char* out, uint32_t length) {
  return copy_text("13." + std::string(simgpu::kDriverVersion), out, length);
}
SIMGPU_NVML nvmlSystemGetCudaDriverVersion(int* version) {
  SIMGPU_NVML_REQUIRE(version);
  *version = simgpu::kCudaDriverVersion;
  return kSuccess;
}
SIMGPU_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

SIMGPU_NVML nvmlSystemGetDriverBranch(DriverBranch* branch, uint32_t length) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(branch);
  if (branch->version != version_of<DriverBranch>(1)) return kArgumentVersionMismatch;
  return copy_text("r615_00", branch->branch, std::min<uint32_t>(length, sizeof branch->branch));
}

SIMGPU_NVML nvmlSystemGetProcessName(uint32_t pid, char* name, uint32_t length) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(name && length > 0);
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string line;
  if (!std::getline(file, line, '\0')) return kNotFound;
  line.resize(std::min<size_t>(line.size(), length - 1));
  return copy_text(line, name, length);
}

SIMGPU_NVML nvmlUnitGetCount(uint32_t* count) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(count);
  *count = 0;
  return kSuccess;
}
SIMGPU_NVML nvmlSystemGetHicVersion(uint32_t* count, void*) { return nvmlUnitGetCount(count); }
SIMGPU_NVML nvmlGetExcludedDeviceCount(uint32_t* count) { return nvmlUnitGetCount(count); }
