// The box that a verb looks at: this machine, or with --sim a simulated one of this process. Opens NVML and
// knows the driver's file. One thread.
#pragma once
#include <memory>
#include <string>

#include "runtime/config/config.h"
#include "runtime/monitor/monitor.h"

namespace shunt::tool {

struct MonitoredBox {
  std::unique_ptr<monitor::Monitor> monitor;
  std::string driver = "libcuda.so.1";  // what to dlopen
  bool simulated = false;
};

// False: one line in `error`. With --sim the environment of this process names the box afterwards.
bool open_box(const config::Config& config, MonitoredBox& out, std::string& error);

}  // namespace shunt::tool
