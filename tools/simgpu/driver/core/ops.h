// The kinds of device work: kernels, copies, fills, host functions, events, memory waits and writes. Bodies
// are immutable and shared by graph nodes and launches; see op.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/module.h"
#include "tools/simgpu/driver/core/op.h"

namespace simgpu::driver {

struct KernelLaunch {
  std::shared_ptr<ModuleInstance> instance;
  int kernel = -1;
  exec::Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  int priority = 0;
  bool has_priority = false;
  bool programmatic = false;    // programmatic stream serialisation asked for: accepted, ordered as usual
  std::vector<uint8_t> params;  // param_bytes
  std::vector<std::pair<int, CUlaunchAttributeValue>> attributes;  // as given, for graph node queries
};
class KernelBody : public OpBody {
 public:
  explicit KernelBody(KernelLaunch launch) : OpBody(OpKind::kernel), launch(std::move(launch)) {}
  std::string name() const override;
  Demand demand(const Op& op) const override;
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op& op) const override;
  const KernelLaunch launch;
};

// A box of bytes between two places. Arrays are linear memory here: the caller has turned them into address
// and pitch.
struct CopyPlace {
  uint64_t address = 0;           // first byte
  uint64_t pitch = 0, slice = 0;  // bytes between rows and between planes
};
struct CopyShape {
  CopyPlace src, dst;
  uint64_t width = 0, height = 1, depth = 1;  // width in bytes
  uint64_t bytes() const { return width * height * depth; }
};
enum class Where : uint8_t { pageable, pinned, device, managed };
struct Location {
  Where where = Where::pageable;
  int device = -1;
  AllocationRef allocation;
};
class CopyBody : public OpBody {
 public:
  CopyBody(CopyShape shape, Location src, Location dst, int link_device)
      : OpBody(OpKind::memcpy),
        shape(shape),
        src(std::move(src)),
        dst(std::move(dst)),
        link_device(link_device) {}
  std::string name() const override;
  Demand demand(const Op& op) const override;
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op& op) const override;
  uint64_t bytes() const override { return shape.bytes(); }
  void accesses(const Op& op, std::vector<exec::Access>& out) const override;
  int copy_kind() const;  // CUPTI's numbering
  const CopyShape shape;
  const Location src, dst;
  const int link_device;        // whose copy engine
  std::vector<uint8_t> staged;  // pageable source, taken at the call: rows packed
};

class MemsetBody : public OpBody {
 public:
  MemsetBody(CopyPlace dst, Location where, uint32_t value, unsigned element_bytes, uint64_t width_elements,
             uint64_t height)
      : OpBody(OpKind::memset),
        dst(dst),
        where(std::move(where)),
        value(value),
        element_bytes(element_bytes),
        width(width_elements),
        height(height) {}
  std::string name() const override { return "memset"; }
  Demand demand(const Op& op) const override { return {}; }
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op& op) const override;
  uint64_t bytes() const override { return width * height * element_bytes; }
  void accesses(const Op& op, std::vector<exec::Access>& out) const override;
  const CopyPlace dst;
  const Location where;
  const uint32_t value;
  const unsigned element_bytes;
  const uint64_t width, height;
};

// Runs on the driver's callback thread, never on a thread of the application and never under the engine
// mutex.
class HostFunctionBody : public OpBody {
 public:
  HostFunctionBody(CUhostFn function, void* user)
      : OpBody(OpKind::host_function), function(function), user(user) {}
  // cuStreamAddCallback's form: also runs, with the error, when the context has failed.
  HostFunctionBody(CUstreamCallback callback, CUstream stream, void* user)
      : OpBody(OpKind::host_function), callback(callback), stream(stream), user(user) {}
  std::string name() const override { return "host function"; }
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op& op) const override { return {1000, {}}; }
  const CUhostFn function = nullptr;
  const CUstreamCallback callback = nullptr;
  const CUstream stream = nullptr;
  void* const user;
};

// Orders without doing anything: event records and waits, graph begin and end, barriers.
class MarkerBody : public OpBody {
 public:
  MarkerBody(OpKind kind, std::string label, uint64_t duration_ns = 0)
      : OpBody(kind), label(std::move(label)), duration_ns(duration_ns) {}
  std::string name() const override { return label; }
  Step execute(Op&, uint64_t) override { return Step::done; }
  Cost cost(const Op&) const override { return {duration_ns, {}}; }
  const std::string label;
  const uint64_t duration_ns;
};

// A marker with an effect: runs `action` without the engine mutex at its place in the order.
class ActionBody : public OpBody {
 public:
  ActionBody(OpKind kind, std::string label, std::function<void(Op&)> action, uint64_t duration_ns = 0)
      : OpBody(kind), label(std::move(label)), action(std::move(action)), duration_ns(duration_ns) {}
  std::string name() const override { return label; }
  Step execute(Op& op, uint64_t) override {
    action(op);
    return Step::done;
  }
  Cost cost(const Op&) const override { return {duration_ns, {}}; }
  const std::string label;
  const std::function<void(Op&)> action;
  const uint64_t duration_ns;
};

class MemoryWaitBody : public OpBody {
 public:
  MemoryWaitBody(uint64_t address, uint64_t value, bool wide, unsigned flags)
      : OpBody(OpKind::memory_wait), address(address), value(value), wide(wide), flags(flags) {}
  std::string name() const override { return "wait for memory value"; }
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op&) const override { return {500, {}}; }
  bool waits_outside() const override { return true; }
  const uint64_t address, value;
  const bool wide;
  const unsigned flags;
};
class MemoryWriteBody : public OpBody {
 public:
  MemoryWriteBody(uint64_t address, uint64_t value, bool wide)
      : OpBody(OpKind::memory_write), address(address), value(value), wide(wide) {}
  std::string name() const override { return "write memory value"; }
  Step execute(Op& op, uint64_t budget) override;
  Cost cost(const Op&) const override { return {500, {}}; }
  const uint64_t address, value;
  const bool wide;
};

// Where `bytes` at `address` live. INVALID_VALUE when the range leaves its allocation or lies in freed device
// memory.
CUresult locate(uint64_t address, uint64_t bytes, Location& out);
// The bytes behind an address: alias for device memory, itself for host memory. Null: freed meanwhile.
uint8_t* host_bytes(uint64_t address);
// Emits the timeline record of a completed op.
void record_op(const Op& op);
// The timeline's record of an op, finished or not; false for ops without one.
bool describe_op(const Op& op, struct Record& record);
// Seconds-per-byte models shared by copies and prefetches.
double link_bytes_per_s(int device_a, int device_b /* -1 host */);
}  // namespace simgpu::driver
