// The simulated box: which devices there are, how they are linked, what is used by whom. One shared-memory segment per
// box (SIMGPU_BOX=/name, created by `shunt run --sim`; private to the process when unset); libcuda, libnvidia-ml, libnccl
// and libcupti of every process read and write the same state. Killing any process at any point leaves it usable:
// robust mutex, totals rebuilt from live process slots. Any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/profiles/profile.h"

namespace simgpu {

struct DeviceSpec { const shunt::profiles::Profile* profile = nullptr; uint64_t memory_bytes = 0; double power_limit_w = 0; };
enum class LinkKind : uint8_t { none, pcie, nvlink, c2c };
struct BoxSpec {
  std::vector<DeviceSpec> devices;
  std::string links = "nvlink5";   // nvlink5 | nvlink6 | pcie5 | pcie6 | none | a TOML file
  // Device pair -> link; host link per device. Built by parse_box_spec from `links`.
  std::vector<std::vector<LinkKind>> link;  std::vector<std::vector<double>> link_bytes_per_s;
  std::vector<LinkKind> host_link; std::vector<double> host_link_bytes_per_s;
};
// "b200:2,rubin:2@mem=64GiB@power=800". On error false and one line: what, value, fix (nearest known model).
bool parse_box_spec(std::string_view sim, std::string_view links, BoxSpec& out, std::string& error);

struct DeviceState {                       // in the shared segment; fixed layout, atomics only
  std::atomic<uint64_t> used_bytes;        // all processes
  std::atomic<uint64_t> reserved_bytes;    // driver overhead shown by NVML as reserved
  std::atomic<uint64_t> busy_ns;           // virtual time with a kernel running
  std::atomic<uint64_t> energy_mj, pcie_tx_bytes, pcie_rx_bytes, nvlink_tx_bytes, nvlink_rx_bytes, dram_bytes;
  std::atomic<uint64_t> power_limit_mw;
  std::atomic<uint32_t> xid, links_down_mask_lo, links_down_mask_hi;
};

class Box {
 public:
  // The process's box, from SIMGPU_BOX / SIMGPU_SPEC / SIMGPU_LINKS (default "b200:1"). Created once, leaked on purpose.
  // Null with a one-line reason on stderr when the specification is bad.
  static Box* get();
  // Creates the named segment for a launcher and returns its name; the launcher unlinks it.
  static bool create_named(const BoxSpec& spec, std::string& name, std::string& error);
  static void unlink_named(const std::string& name);

  const BoxSpec& spec() const;
  int device_count() const;
  const shunt::profiles::Profile& profile(int device) const;
  DeviceState& state(int device);
  void uuid(int device, uint8_t out[16]) const;               // stable for a box specification
  std::string uuid_string(int device) const;                  // "GPU-xxxxxxxx-xxxx-..."
  std::string pci_bus_id(int device) const;                   // "00000000:1B:00.0"
  uint32_t pci_bus(int device) const;

  // Device memory accounting against the device's capacity, over all processes. false: out of memory.
  bool reserve(int device, uint64_t bytes);
  void release(int device, uint64_t bytes);
  uint64_t free_bytes(int device) const;

  // Processes on a device, for NVML: pid and bytes. Dead processes are swept first.
  struct ProcessUse { uint32_t pid; uint64_t bytes; };
  std::vector<ProcessUse> processes(int device);

  // Virtual time of the box: the largest clock any process has published. merge_clock() raises it and returns the maximum.
  uint64_t merge_clock(uint64_t now_ns);
};

}  // namespace simgpu
