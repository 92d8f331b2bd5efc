// The groups of a reading, each a function over the NVML table. Called by Monitor with its lock held.
#pragma once
#include "runtime/monitor/device.h"
#include "runtime/monitor/nvml_library.h"

namespace shunt::monitor {

Identity read_identity(const nvml::Functions& f, nvml::Handle device, uint32_t index);
std::optional<Memory> read_memory(const nvml::Functions& f, nvml::Handle device, const Identity& identity);
void read_load(const nvml::Functions& f, nvml::Handle device, Reading& out);
void read_power(const nvml::Functions& f, nvml::Handle device, Reading& out);
void read_links(const nvml::Functions& f, nvml::Handle device, Reading& out);
void read_health(const nvml::Functions& f, nvml::Handle device, Reading& out);
std::vector<Process> read_processes(const nvml::Functions& f, nvml::Handle device, bool names);
// Are the pids NVML reports (the host's) those of this process's namespace?
bool sees_host_pids();

// A call through an optional function: kNotSupported when the library lacks it.
template <class... Parameters, class... Arguments>
nvml::Return try_call(nvml::Return (*function)(Parameters...), Arguments... arguments) {
  return function ? function(arguments...) : nvml::kNotSupported;
}
// One value by out-parameter; empty on any error.
template <class T, class... Parameters, class... Arguments>
std::optional<T> ask(nvml::Return (*function)(Parameters...), Arguments... arguments) {
  T value{};
  if (!function || function(arguments..., &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

}  // namespace shunt::monitor
