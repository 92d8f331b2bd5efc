// Device profiles: what is known of each GPU model and how well it is known. Generated constexpr from profiles/*.toml
// by scripts/gen_profiles.py (committed; CI refuses drift). Shared by simgpu and the runtime. Immutable; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace shunt::profiles {

// Mark of a value: captured from hardware, vendor document, announced or preliminary, third party, assumed by us.
enum class Mark : uint8_t { captured, vendor, announced, third_party, assumed };
char mark_letter(Mark);   // C D A L K

struct Value { double value; Mark mark; };    // value 0 with Mark::assumed: unknown or absent

struct Profile {
  std::string_view key;            // "b200", "rubin": what --sim takes
  std::string_view name;           // as the driver reports it
  uint32_t pci_device_id;          // 0x2901
  uint32_t nvml_architecture;      // NVML_DEVICE_ARCH_*: Hopper 9, Blackwell 10, Rubin 13
  uint32_t cc_major, cc_minor;
  std::string_view first_cuda, first_driver;
  // sizes
  Value memory_bytes, sm_count, l2_bytes, shared_per_sm_bytes, shared_per_block_optin_bytes, regs_per_sm, threads_per_sm, blocks_per_sm;
  // clocks, MHz
  Value sm_clock_mhz, memory_clock_mhz, memory_bus_bits;
  // dense rates, operations per second; bytes per second
  Value fp64, fp32, fp16, tf32_tensor, bf16_tensor, fp16_tensor, fp8_tensor, fp4_tensor, int8_tensor, int32, fp64_tensor;
  Value memory_bandwidth, l2_bandwidth, nvlink_bandwidth_per_direction, nvlink_links, pcie_bandwidth_per_direction, c2c_bandwidth_per_direction;
  Value pcie_generation, nvlink_generation;
  // time costs in nanoseconds
  Value launch_ns, launch_gap_ns, graph_launch_ns, graph_node_ns, graph_instantiate_node_ns, copy_latency_ns, peer_latency_ns, c2c_latency_ns, host_call_ns;
  // fractions of peak reached in practice
  Value compute_efficiency, memory_efficiency;
  Value copy_engines, hardware_queues;
  // power, watts
  Value power_min_w, power_default_w, power_max_w, idle_w;
  std::string_view addressing;     // "none", "hmm", "ats"
};

std::span<const Profile> all();
const Profile* find(std::string_view key);                 // exact key; never a substring
// By PCI device id, then NVML architecture, then compute capability; the name is the last resort and matched whole.
const Profile* identify(uint32_t pci_device_id, uint32_t nvml_architecture, uint32_t cc_major, uint32_t cc_minor, std::string_view name);

}  // namespace shunt::profiles
