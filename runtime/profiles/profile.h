// Device profiles: what is known of each GPU model and how well it is known. Generated constexpr from
// data/*.toml by scripts/gen_profiles.py (committed; CI refuses drift). Shared by simgpu and the runtime.
// Immutable; any thread; nothing to do at exit.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace shunt::profiles {

// Mark of a value: captured from hardware, vendor document, announced or preliminary, third party, assumed by
// us.
enum class Mark : uint8_t { captured, vendor, announced, third_party, assumed };
char mark_letter(Mark);  // C D A L K

struct Value {
  double value;
  Mark mark;
};  // value 0 with Mark::assumed: unknown or absent

struct Profile {
  std::string_view key;        // "b200", "rubin": what --sim takes
  std::string_view name;       // as the driver reports it
  bool name_is_placeholder;    // the board has no name of its own yet: never identified by it
  uint32_t pci_device_id;      // 0x2901
  uint32_t nvml_architecture;  // NVML_DEVICE_ARCH_*: Ampere 7, Hopper 9, Blackwell 10, Rubin 13
  uint32_t cc_major, cc_minor;
  std::string_view first_cuda, first_driver;
  // sizes; memory_bytes is NVML's total, reserved_bytes the part of it NVML calls reserved
  Value memory_bytes, reserved_bytes, sm_count, l2_bytes, shared_per_sm_bytes, shared_per_block_optin_bytes;
  Value regs_per_sm, threads_per_sm, blocks_per_sm;
  // clocks, MHz: highest SM clock, memory clock before doubling (clock x 2 x bus bits / 8 = bandwidth)
  Value sm_clock_mhz, memory_clock_mhz, memory_bus_bits;
  // dense rates, operations per second (a fused multiply-add is two)
  Value fp64, fp32, fp16, tf32_tensor, bf16_tensor, fp16_tensor, fp8_tensor, fp4_tensor, int8_tensor, int32;
  Value fp64_tensor;
  // bytes per second; NVLink is the whole device's, one way
  Value memory_bandwidth, l2_bandwidth, nvlink_bandwidth_per_direction, nvlink_links;
  Value pcie_bandwidth_per_direction, c2c_bandwidth_per_direction, pcie_generation, nvlink_generation;
  // time costs, nanoseconds
  Value launch_ns;                  // host time inside one launch call
  Value launch_latency_ns;          // launch call to first instruction on an idle device
  Value launch_gap_ns;              // device idle between two kernels queued in one stream
  Value graph_launch_ns;            // host time of a repeated graph launch, without nodes
  Value graph_node_host_ns;         // ... and per node
  Value graph_node_ns;              // device idle between two dependent nodes
  Value graph_instantiate_node_ns;  // host, per node: build and instantiate
  Value graph_patch_node_ns;        // host, per patched node of an executable
  Value copy_latency_ns, peer_latency_ns,
      c2c_latency_ns;  // fixed part of a copy: host link, peer, chip-to-chip
  Value host_call_ns;  // host time of any other driver call
  // fractions of peak reached in practice: arithmetic, device memory, links
  Value compute_efficiency, memory_efficiency, link_efficiency;
  Value copy_engines, hardware_queues;
  // power, watts; power_base_w is a second limit some boards have (0: none)
  Value power_min_w, power_default_w, power_max_w, power_base_w, idle_w;
  std::string_view addressing;  // "none", "hmm", "ats"
};

std::span<const Profile> all();
const Profile* find(std::string_view key);  // exact key; never a substring

// By PCI device id; else by what remains after NVML architecture and compute capability; the name is the last
// resort, matched whole, and never a placeholder. An unknown fact is 0 or empty. pci_device_id may be NVML's
// combined form (device << 16 | vendor). Null when nothing or more than one model fits: a wrong model is
// worse than none.
const Profile* identify(uint32_t pci_device_id, uint32_t nvml_architecture, uint32_t cc_major,
                        uint32_t cc_minor, std::string_view name);

// The known key closest to a mistyped one, for error messages; null when nothing is near.
const Profile* nearest(std::string_view key);

}  // namespace shunt::profiles
