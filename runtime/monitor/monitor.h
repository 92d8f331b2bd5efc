// Live state of every device of the box, through NVML. Works before cuInit and without CUDA. It never waits:
// a reading is a round of queries, event queues are drained with time-out zero, and rates come from the
// previous reading. No thread of its own (see sampler.h for one). One Monitor may be used from any thread,
// one call at a time (it locks itself); after fork the child opens a new one. Nothing to do at exit.
#pragma once
#include <memory>
#include <string>

#include "runtime/monitor/device.h"
#include "runtime/monitor/nvml_library.h"

namespace shunt::monitor {

// What a reading contains. Identity is always there.
enum What : uint32_t {
  kMemory = 1,
  kLoad = 2,     // utilisation, GPM rates, clocks
  kPower = 4,    // power, temperature
  kLinks = 8,    // NVLink, PCIe, fabric
  kHealth = 16,  // Xid, ECC, recovery action
  kProcesses = 32,
  kEverything = 63,
};

// PCIe distance and NVML's word on peer copies. Advisory: status OK is not a working copy.
struct PeerStatus {
  std::optional<uint32_t> ancestor;  // NVML_TOPOLOGY_*: 10 .. 50
  std::optional<bool> read, write, nvlink, atomics, pci;
};

class Monitor {
 public:
  // Null and one line when there is no NVML, or it refuses to start.
  static std::unique_ptr<Monitor> open(std::string& error,
                                       const nvml::Loader& loader = nvml::system_loader());
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  size_t device_count() const;
  const Identity& identity(size_t index) const;
  Snapshot read(uint32_t what = kEverything);
  // One device only: what placement asks on its way.
  std::optional<Memory> read_memory(size_t index);
  PeerStatus peer(size_t a, size_t b) const;
  // NVML's code; 4 without root. The limits are the device's own constraints.
  nvml::Return set_power_limit(size_t index, double watts);

 private:
  struct State;
  explicit Monitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "NVLink 5.0" of NVML's version number; "?" when unknown.
std::string link_version_name(uint32_t version);
// "power-cap", "idle", ... of the clock reason bits; empty for none.
std::string clock_reason_names(uint64_t reasons);

}  // namespace shunt::monitor
