// The executor: PTX modules become compact code, executed a warp at a time. Knows nothing of the driver API:
// memory is reached through AddressSpace, time and statistics are handed back. Program is immutable and
// shared by all threads; an Execution belongs to one thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ptx/ir.h"

namespace simgpu::exec {

// Numeric values are the CUresult codes, so that the driver passes them on.
enum class Fault : uint32_t {
  none = 0,
  illegal_address = 700,
  launch_timeout = 702,
  assert_failed = 710,
  hardware_stack = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719 /* trap */,
};

// A live allocation as the launching device may see it. Device addresses are what programs hold; `host` is
// where this process finds byte `base` (an alias mapping: app-visible device addresses are PROT_NONE for the
// host).
struct Region {
  uint64_t base = 0, end = 0;
  uint8_t* host = nullptr;
  uint64_t id = 0;  // allocation generation, for reports
  bool writable = true;
  bool remote = false;  // peer or host memory: its traffic crosses a link (link 0 host, 1 peer)
  bool peer = false;
};
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // The region containing addr that the launching device may access; false: illegal address. Called on first
  // touch of a region by a warp-level cache, from the executing threads: must be thread-safe and cheap.
  virtual bool find(uint64_t addr, Region& out) const = 0;
};

// What a launch touched, interval-compressed, for the race detector and the cost model.
struct Access {
  uint64_t base, end;
  enum Kind : uint8_t { read, write, atomic } kind;
};

struct GlobalVariable {  // .global and .const module variables; the driver gives each an address per context
  std::string name;
  bool constant = false, visible = false, managed = false;
  uint64_t size = 0;
  uint32_t align = 1;
  std::vector<uint8_t> init;  // size bytes or empty (zero)
  struct Reloc {
    uint64_t offset;
    uint32_t global;
    bool is_function = false;
    uint32_t function = 0;
    int64_t addend;
    uint8_t bytes = 8;
  };
  std::vector<Reloc> relocs;  // pointers in initialisers
};

struct KernelInfo {
  std::string name;
  struct Param {
    uint32_t offset, size, align;
  };
  std::vector<Param> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared = 0, local_bytes = 0, registers = 0;  // registers: estimate, 16..255
  uint32_t maxntid[3] = {0, 0, 0}, reqntid[3] = {0, 0, 0}, cluster[3] = {0, 0, 0}, minnctapersm = 0;
  bool order_dependent =
      false;  // result may depend on block order: fp or exchanging atomics, CAS, a used atomic return value
  bool uses_grid_sync = false;
};

// Which bytes of global memory have been written, kept by the driver. Called from the executing threads.
struct UnwrittenRead {
  std::string kernel;
  uint32_t line = 0;  // of the PTX
  uint64_t address = 0;
  struct {
    uint32_t x, y, z;
  } block{}, thread{};
};
class WriteWatch {
 public:
  virtual ~WriteWatch() = default;
  virtual void written(uint64_t address, uint64_t bytes) = 0;
  // False: `first` is the first byte of the range that nothing has written.
  virtual bool is_written(uint64_t address, uint64_t bytes, uint64_t& first) const = 0;
  virtual void unwritten_read(const UnwrittenRead& read) = 0;
};

class Program {
 public:
  virtual ~Program() = default;
  // Links one or several modules. On failure returns null and `error` names instruction, line and reason
  // ("unsupported PTX instruction 'wgmma.mma_async...' at line 214"), or the unresolved symbol.
  static std::unique_ptr<Program> build(const std::vector<const shunt::ptx::Module*>& modules,
                                        std::string& error);
  virtual const std::vector<KernelInfo>& kernels() const = 0;
  virtual const std::vector<GlobalVariable>& globals() const = 0;
  virtual int find_kernel(const std::string& name) const = 0;  // -1: none
  // What a pointer to function `function` (GlobalVariable::Reloc::function) holds.
  virtual uint64_t function_address(uint32_t function) const = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct DeviceLimits {
  uint32_t sm_count = 1, cc = 100;  // cc 100 = 10.0
  uint32_t max_resident_blocks =
      1;  // on the whole device, from occupancy; cooperative launches keep all resident
  double sm_clock_ghz = 1.0;
};

struct Launch {
  const Program* program = nullptr;
  int kernel = -1;
  const uint64_t* global_addresses = nullptr;  // parallel to program->globals()
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  const void* params = nullptr;  // param_bytes bytes, copied at creation
  bool cooperative = false;
  const AddressSpace* memory = nullptr;
  DeviceLimits limits;
  uint64_t seed = 0;      // block order of order-dependent kernels
  uint32_t threads = 1;   // host threads that may be used
  uint64_t start_ns = 0;  // virtual time: %globaltimer, %clock64
  bool record_accesses = false;
  bool check_uninitialised = false;  // against `writes`
  WriteWatch* writes = nullptr;
  std::function<void(const char*, size_t)> print;  // printf and assert text, in order
  // textures and surfaces: resolves a 64-bit handle; filled by the driver when the program has any
  const class TextureSource* textures = nullptr;
};

struct Stats {
  uint64_t thread_instructions = 0, warp_instructions = 0;
  uint64_t bytes_read = 0, bytes_written = 0;  // global memory, local device
  uint64_t host_bytes = 0, peer_bytes = 0;     // over links
  uint64_t shared_bytes = 0, atomics = 0;
  uint64_t ops_fp64 = 0, ops_fp32 = 0, ops_fp16 = 0, ops_int = 0, ops_special = 0;
  uint64_t ops_tensor_fp16 = 0, ops_tensor_bf16 = 0, ops_tensor_tf32 = 0, ops_tensor_fp64 = 0,
           ops_tensor_int8 = 0, ops_tensor_fp8 = 0;
};

struct FaultInfo {
  Fault fault = Fault::none;
  std::string text;
  uint64_t address = 0;
  uint32_t line = 0;
  Dim3 block, thread;
};

// One kernel in flight. Interpreter state is data, so a kernel that spins can be left and taken up again.
class Execution {
 public:
  enum class State { running, done, faulted };
  virtual ~Execution() = default;
  static std::unique_ptr<Execution> create(const Launch& launch, std::string& error);
  // Runs until done, faulted, or about `max_warp_instructions` were spent. Resident blocks take turns, so
  // blocks that wait for each other (or for memory another kernel or the host writes) make progress over
  // several calls.
  virtual State advance(uint64_t max_warp_instructions) = 0;
  // After advance() returned running: no lane of any resident block can move, whatever other kernels or the
  // host do (threads wait at barriers that the missing ones can never reach). Hardware would hang.
  virtual bool stuck() const = 0;
  virtual const Stats& stats() const = 0;
  virtual const FaultInfo& fault() const = 0;
  virtual const std::vector<Access>& accesses() const = 0;  // sorted, merged; valid when done
};

// Texture and surface access, implemented by the driver (arrays, samplers), called by tex/suld/sust/txq
// handlers.
class TextureSource {
 public:
  virtual ~TextureSource() = default;
  // Element 3 of the coordinates is the layer of layered textures and surfaces, element 0 of surfaces is in
  // bytes. geom: 1,2,3 dimensions; coordinates as float or integer texels; out: four 32-bit channels. false:
  // bad handle.
  virtual bool sample(uint64_t handle, int geom, bool layered, bool float_coords, const float* xyz,
                      const int32_t* ixyz, float lod, uint32_t out[4]) const = 0;
  virtual bool surface(uint64_t handle, int geom, const int32_t* xyz_bytes_x, void* data, uint32_t bytes,
                       bool write) const = 0;
  virtual bool query(uint64_t handle, const char* what,
                     uint32_t& out) const = 0;  // width, height, depth, ...
};

}  // namespace simgpu::exec
