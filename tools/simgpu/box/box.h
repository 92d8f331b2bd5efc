// The simulated box: which devices there are, how they are linked, what is used by whom. One shared-memory
// segment per box (SIMGPU_BOX=/name, created by `shunt run --sim`; private to the process and its forks when
// unset); libcuda, libnvidia-ml, libnccl and libcupti of every process read and write the same state. Killing
// any process at any point leaves it usable: robust mutex, totals rebuilt from live process slots. Any
// thread. Nothing to do at exit: the memory of a process that has gone is given back by the next process that
// looks.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/profiles/profile.h"

namespace simgpu {

constexpr int kMaxDevices = 128;
constexpr int kMaxProcesses = 1024;

// What libcuda and NVML both report: the driver a box of B200 and Rubin needs, and the CUDA version simgpu
// implements.
constexpr const char* kDriverVersion = "615.23";
constexpr int kCudaDriverVersion = 13000;

struct DeviceSpec {
  const shunt::profiles::Profile* profile = nullptr;
  uint64_t memory_bytes = 0;    // NVML's total
  uint64_t reserved_bytes = 0;  // the part of it no program can have
  double power_limit_w = 0;
  uint64_t links_down = 0;  // NVLink links that are down from the start, bit per link
  uint32_t numa_node = 0;
  uint32_t pci_domain = 0, pci_bus = 0;
};

enum class LinkKind : uint8_t { none, pcie, nvlink, c2c };
// Peer access between two devices. broken: the driver says yes and the copies report success, but the bytes
// never arrive (seen on real boards; shunt has to find out by a copy-and-verify probe).
enum class P2p : uint8_t { not_supported, ok, broken };

struct BoxSpec {
  std::vector<DeviceSpec> devices;
  std::string links = "nvlink5";  // nvlink5 | nvlink6 | pcie5 | pcie6 | none | a TOML file (see links.cpp)
  // Device pair -> link; host link per device. Built by parse_box_spec from `links`. Rates are one way, at
  // link level: what a copy reaches is this times the profile's link_efficiency. Both directions of a pair
  // are equal.
  std::vector<std::vector<LinkKind>> link;
  std::vector<std::vector<double>> link_bytes_per_s;
  std::vector<std::vector<P2p>> p2p;
  std::vector<LinkKind> host_link;
  std::vector<double> host_link_bytes_per_s;
};

// "b200:2,rubin:2@mem=64GiB@power=800" (a comma also separates options: "@mem=64GiB,power=800").
// On error false and one line: what, value, fix (nearest known model). `out` is then untouched.
bool parse_box_spec(std::string_view sim, std::string_view links, BoxSpec& out, std::string& error);

struct DeviceState {                     // in the shared segment; fixed layout, atomics only
  std::atomic<uint64_t> used_bytes;      // all processes
  std::atomic<uint64_t> reserved_bytes;  // driver overhead shown by NVML as reserved
  std::atomic<uint64_t> busy_ns;         // virtual time with a kernel running
  std::atomic<uint64_t> energy_mj, pcie_tx_bytes, pcie_rx_bytes, nvlink_tx_bytes, nvlink_rx_bytes, dram_bytes;
  std::atomic<uint64_t> power_limit_mw;
  std::atomic<uint32_t> xid, links_down_mask_lo, links_down_mask_hi;
  std::atomic<uint32_t> event_count;       // raised with xid (Box::raise_xid)
  std::atomic<uint64_t> sm_active_ns;      // busy_ns weighted by the fraction of SMs in use
  std::atomic<uint64_t> tensor_active_ns;  // virtual time the tensor pipes were busy
  std::atomic<uint64_t> c2c_tx_bytes, c2c_rx_bytes;
  std::atomic<uint64_t> ecc_corrected, ecc_uncorrected;
  std::atomic<uint32_t> compute_mode;  // NVML_COMPUTEMODE_*: 0 default, 2 prohibited, 3 exclusive process
  std::atomic<uint32_t> persistence_mode, locked_sm_clock_mhz, locked_memory_clock_mhz;
  std::atomic<uint64_t> spare[8];
};

struct Segment;
struct PrivateData;

class Box {
 public:
  // The process's box, from SIMGPU_BOX / SIMGPU_SPEC / SIMGPU_LINKS (default "b200:1"). Created once, leaked
  // on purpose. All libraries of one process get the same one. Null with a one-line reason on stderr when the
  // specification is bad.
  static Box* get();
  // Creates the named segment for a launcher and returns its name; the launcher unlinks it.
  static bool create_named(const BoxSpec& spec, std::string& name, std::string& error);
  // Also removes the objects named by object_name(). Processes that have it open keep their view.
  static void unlink_named(const std::string& name);
  // A view of a named or a new private segment; the caller owns it. Null and one line on error.
  static Box* open_named(const std::string& name, std::string& error);
  static Box* create_private(const BoxSpec& spec, std::string& error);
  static Box* adopt(Segment* segment, std::string& error);  // for get()
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  const BoxSpec& spec() const;
  int device_count() const;
  const shunt::profiles::Profile& profile(int device) const;
  DeviceState& state(int device);
  void uuid(int device, uint8_t out[16]) const;  // stable for a box specification
  std::string uuid_string(int device) const;     // "GPU-xxxxxxxx-xxxx-..."
  std::string pci_bus_id(int device) const;      // "00000000:1B:00.0"
  uint32_t pci_bus(int device) const;
  uint32_t pci_domain(int device) const;

  // Device memory accounting against the device's capacity, over all processes. false: out of memory.
  bool reserve(int device, uint64_t bytes);
  // Gives back bytes this process reserved. More than it has: gives back what it has and says so once on
  // stderr.
  void release(int device, uint64_t bytes);
  uint64_t free_bytes(int device) const;      // usable now; sweeps processes that have died
  uint64_t capacity_bytes(int device) const;  // NVML's total less reserved: what programs can have in all
  uint64_t own_bytes(int device) const;       // this process

  // Processes on a device, for NVML: pid and bytes. Dead processes are swept first. A process appears with
  // attach(device) (a context was made) or with its first reserve, and leaves with detach or when it dies.
  struct ProcessUse {
    uint32_t pid;
    uint64_t bytes;
  };
  std::vector<ProcessUse> processes(int device);
  void attach(int device);
  void detach(int device);

  // Virtual time of the box: the largest clock any process has published. merge_clock() raises it and returns
  // the maximum.
  uint64_t merge_clock(uint64_t now_ns);

  // Reports an Xid: state().xid, event_count and a wake of NVML's event waiters.
  void raise_xid(int device, uint32_t xid);
  // A number that changes with every event of any device, and a sleep until it differs from `seen` or the
  // time is up (true: it differs).
  uint32_t event_word() const;
  bool wait_event(uint32_t seen, uint32_t timeout_ms);

  // Numbers and shared-memory names that are unique in this box, for what libraries share between processes
  // (exported allocations, events, communicators). Names go with unlink_named.
  uint64_t unique_id();
  std::string object_name(std::string_view kind, uint64_t id) const;  // "/simgpu-....mem-12"

 private:
  Box(Segment* segment, size_t bytes, std::string name, BoxSpec spec);
  Segment* segment_;
  size_t segment_bytes_;
  std::string name_;
  PrivateData* private_;
};

}  // namespace simgpu
