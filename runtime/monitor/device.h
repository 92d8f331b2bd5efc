// What is known of a device and what it does now. Plain data, copied freely; an empty optional means the
// library or the part cannot say. Keyed by UUID: NVML's order is neither stable nor CUDA's.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/profiles/profile.h"

namespace shunt::monitor {

enum class Addressing : uint8_t { unknown, none, hmm, ats };

// Does not change while the driver is loaded.
struct Identity {
  uint32_t nvml_index = 0;
  std::optional<uint32_t> minor;  // /dev/nvidiaN; not the index
  std::string uuid;               // "GPU-..."
  std::array<uint8_t, 16> uuid_bytes{};
  std::string name;            // as the driver reports it
  std::string pci_bus_id;      // "00000000:1b:00.0": eight digits of domain, lower case
  uint32_t pci_device_id = 0;  // 0x2901; 0 unknown
  uint32_t architecture = 0;   // NVML_DEVICE_ARCH_*; 0 unknown
  uint32_t cc_major = 0, cc_minor = 0;
  const profiles::Profile* profile = nullptr;  // null: a model the profiles do not know
  Addressing addressing = Addressing::unknown;
  std::optional<uint32_t> numa_node;  // the device's memory is this node of the operating system
  bool mig_enabled = false;

  // The model's key where the board has no name of its own ("rubin"), else the driver's name.
  std::string display_name() const;
};

struct Memory {
  uint64_t total = 0, free = 0, used = 0;
  std::optional<uint64_t> reserved;  // the driver's share; without it, it is part of `used`
  // The operating system accounts this memory (the device is a NUMA node): pages linger after a process has
  // gone, so `used` is an upper bound.
  bool os_accounted = false;
};

enum class LinkState : uint8_t { inactive, active, unknown };
struct Link {
  LinkState state = LinkState::unknown;
  std::optional<uint32_t> version;     // NVML_NVLINK_VERSION_*: 5.0 = 7, 6.0 = 8
  std::optional<uint32_t> speed_mbps;  // MB/s, raw, one way
};

struct Process {
  uint32_t pid = 0;  // as the host counts
  std::optional<uint64_t> bytes;
  std::string name;  // empty: not visible from this pid namespace, or gone
};

struct Fabric {
  uint32_t state = 0;  // NVML_GPU_FABRIC_STATE_*: completed 3
  uint32_t clique = 0, health_mask = 0;
  std::array<uint8_t, 16> cluster{};
  // Devices of one NVLink domain have equal cluster and clique; an all-zero cluster never matches across
  // hosts.
  bool has_cluster() const { return cluster != std::array<uint8_t, 16>{}; }
};

struct Health {
  uint32_t last_xid = 0, xid_count = 0;  // seen since the monitor was opened
  std::optional<uint64_t> ecc_uncorrected;
  std::optional<uint32_t> recovery_action;  // NVML_GPU_RECOVERY_ACTION_*: 0 none
  bool lost = false;                        // the device stopped answering
};

// Two-sample rates (GPM). Empty until the second reading, and where the part has no GPM.
struct Rates {
  double sm_percent = 0, tensor_percent = 0, dram_percent = 0;
  double pcie_tx_mib_s = 0, pcie_rx_mib_s = 0, nvlink_tx_mib_s = 0, nvlink_rx_mib_s = 0;
};

struct Power {
  std::optional<double> watts, limit_w, default_limit_w, min_limit_w, max_limit_w, base_limit_w;
  std::optional<uint64_t> energy_mj;
};

struct Reading {
  std::optional<Memory> memory;
  std::optional<uint32_t> busy_percent;  // time any kernel ran: not how much of the device it used
  std::optional<uint32_t> memory_busy_percent;
  std::optional<Rates> rates;
  Power power;
  std::optional<uint32_t> celsius;
  std::optional<int32_t> margin_celsius;  // to the thermal limit
  std::optional<uint32_t> sm_clock_mhz, memory_clock_mhz, max_sm_clock_mhz;
  std::optional<uint64_t> clock_reasons;  // NVML_CLOCKS_EVENT_REASON bits
  std::optional<uint32_t> pcie_generation, pcie_width, compute_mode;
  std::vector<Link> links;
  std::vector<Process> processes;
  std::optional<Fabric> fabric;
  Health health;

  uint32_t links_active() const;
};

struct Device {
  Identity identity;
  Reading now;
};

struct Snapshot {
  uint64_t time_ns = 0;  // shunt::clock
  std::string driver_version;
  int cuda_version = 0;  // 13000
  std::vector<Device> devices;

  const Device* find(const std::string& uuid) const;
};

}  // namespace shunt::monitor
