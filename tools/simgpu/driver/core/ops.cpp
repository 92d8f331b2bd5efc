#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/access_check.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/hooks.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memcheck.h"
#include "tools/simgpu/driver/core/occupancy.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/timeline.h"
#include "tools/simgpu/driver/core/vmm.h"

namespace simgpu::driver {
namespace {
unsigned executor_threads() {
  static const unsigned count = [] {
    if (const char* text = getenv("SIMGPU_THREADS"); text && atoi(text) > 0) return unsigned(atoi(text));
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return unsigned(std::max(1, CPU_COUNT(&set)));
    return std::max(1u, std::thread::hardware_concurrency());
  }();
  return count;
}
uint64_t seed() {
  static const uint64_t value = [] {
    const char* text = getenv("SIMGPU_SEED");
    return text ? strtoull(text, nullptr, 0) : 0;
  }();
  return value;
}
double positive(double value, double fallback) { return value > 0 ? value : fallback; }
// Device idle before a piece of work: shorter between the nodes of a graph.
double gap_ns(const Op& op, const shunt::profiles::Profile& p) {
  return op.in_graph ? p.graph_node_ns.value : p.launch_gap_ns.value;
}
}  // namespace

std::string KernelBody::name() const {
  return launch.instance->image->program->kernels()[size_t(launch.kernel)].name;
}

Demand KernelBody::demand(const Op& op) const {
  const Device& device = *op.context->device;
  const exec::KernelInfo& info = launch.instance->image->program->kernels()[size_t(launch.kernel)];
  const uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
  const int per_sm = std::max(1, resident_blocks_per_sm(device, info, int(threads), launch.dynamic_shared));
  const double blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  Demand demand;
  demand.sm_fraction = std::min(1.0, blocks / (double(per_sm) * device.sm_count()));
  demand.all_at_once = launch.cooperative;
  return demand;
}

OpBody::Step KernelBody::execute(Op& op, uint64_t budget) {
  if (Engine::get().execution_disabled()) return Step::done;
  if (!op.execution) {
    const Device& device = *op.context->device;
    const exec::KernelInfo& info = launch.instance->image->program->kernels()[size_t(launch.kernel)];
    exec::Launch l;
    l.program = launch.instance->image->program.get();
    l.kernel = launch.kernel;
    l.global_addresses = launch.instance->global_addresses.data();
    l.grid = launch.grid;
    l.block = launch.block;
    l.cluster = launch.cluster;
    l.dynamic_shared = launch.dynamic_shared;
    l.params = launch.params.data();
    l.cooperative = launch.cooperative;
    l.record_accesses = races_watched() || access_check_wanted();
    l.writes = memcheck_watch();
    l.check_uninitialised = l.writes != nullptr;
    l.memory = &op.context->space;
    l.limits.sm_count = uint32_t(device.sm_count());
    l.limits.cc = uint32_t(device.cc());
    const uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
    l.limits.max_resident_blocks =
        uint32_t(std::max(1, resident_blocks_per_sm(device, info, int(threads), launch.dynamic_shared)) *
                 device.sm_count());
    l.limits.sm_clock_ghz = device.profile->sm_clock_mhz.value / 1000;
    l.seed = seed() ? seed() * 0x9E3779B97F4A7C15u + op.seq : 0;
    l.threads = executor_threads();
    l.start_ns = std::max(op.start_ns, op.submit_ns);
    std::shared_ptr<Context> context = op.context;
    l.print = [context](const char* text, size_t size) {
      Lock lock(Engine::get().mutex());
      context->printed.append(text, size);
    };
    if (g_texture_source) l.textures = g_texture_source(*op.context);
    std::string error;
    op.execution = exec::Execution::create(l, error);
    if (!op.execution) {
      op.error = CUDA_ERROR_LAUNCH_FAILED;
      op.error_text = "kernel " + info.name + ": " + error;
      return Step::done;
    }
  }
  const auto state = op.execution->advance(budget);
  op.stats = op.execution->stats();
  op.spent += budget;
  if (state == exec::Execution::State::running) {
    // Blocks in flight may not be in the statistics yet.
    op.stats.warp_instructions = std::max(op.stats.warp_instructions, op.spent);
    if (!op.execution->stuck()) return Step::again;
    log_line(LogLevel::error, "deadlock: kernel %s: its threads wait at barriers that the others never reach",
             name().c_str());
    op.error = CUDA_ERROR_LAUNCH_TIMEOUT;
    op.error_text = "kernel " + name() + ": hangs at a barrier";
    return Step::done;
  }
  if (state == exec::Execution::State::faulted) {
    const exec::FaultInfo& fault = op.execution->fault();
    op.error = CUresult(fault.fault == exec::Fault::none ? uint32_t(CUDA_ERROR_LAUNCH_FAILED)
                                                         : uint32_t(fault.fault));
    op.error_text = "kernel " + name() + ": " + fault.text;
  } else if (access_check_wanted()) {
    access_check(op, *this);
  }
  return Step::done;
}

// Roofline over what was executed, plus how far the grid fills the device and the longest warp's own chain of
// issues.
Cost KernelBody::cost(const Op& op) const {
  const Device& device = *op.context->device;
  const shunt::profiles::Profile& p = *device.profile;
  const exec::Stats& s = op.stats;
  const double blocks = std::max(1.0, double(launch.grid.x) * launch.grid.y * launch.grid.z);
  const double warps_per_block =
      std::max(1.0, std::ceil(double(launch.block.x) * launch.block.y * launch.block.z / 32));
  const double sms = device.sm_count();
  const double held = op.held_sm > 0 ? op.held_sm : 1;
  const double wanted = op.demand.sm_fraction > 0 ? op.demand.sm_fraction : held;
  const double squeezed = std::min(1.0, held / wanted);  // fewer SMs than the grid could have used
  const double used_sms = std::max(1.0, std::min(blocks, sms) * squeezed);
  const double fill = used_sms / sms;
  const double compute = positive(p.compute_efficiency.value, 0.75) * fill;

  auto seconds = [](double amount, double rate) { return rate > 0 && amount > 0 ? amount / rate : 0.0; };
  double compute_s = 0;
  compute_s += seconds(double(s.ops_fp64), p.fp64.value * compute) +
               seconds(double(s.ops_fp32), p.fp32.value * compute);
  compute_s += seconds(double(s.ops_fp16), p.fp16.value * compute) +
               seconds(double(s.ops_int), p.int32.value * compute);
  compute_s += seconds(double(s.ops_special), p.fp32.value / 8 * compute);
  compute_s += seconds(double(s.ops_tensor_fp16), p.fp16_tensor.value * compute) +
               seconds(double(s.ops_tensor_bf16), p.bf16_tensor.value * compute);
  compute_s += seconds(double(s.ops_tensor_tf32), p.tf32_tensor.value * compute) +
               seconds(double(s.ops_tensor_fp64), p.fp64_tensor.value * compute);
  compute_s += seconds(double(s.ops_tensor_int8), p.int8_tensor.value * compute) +
               seconds(double(s.ops_tensor_fp8), p.fp8_tensor.value * compute);
  const double clock_hz = positive(p.sm_clock_mhz.value, 1500) * 1e6;
  const double issue_s = seconds(double(s.warp_instructions), 4 * clock_hz * used_sms);
  // A warp issues about every fourth cycle when its instructions depend on each other; blocks beyond what is
  // resident follow in waves. Instruction counts are averages over the warps.
  const exec::KernelInfo& info = launch.instance->image->program->kernels()[size_t(launch.kernel)];
  const int threads = int(launch.block.x * launch.block.y * launch.block.z);
  const double capacity =
      std::max(1.0, std::max(1, resident_blocks_per_sm(device, info, threads, launch.dynamic_shared)) * sms *
                        squeezed);
  const double chain_s =
      double(s.warp_instructions) / (blocks * warps_per_block) * 4 / clock_hz * std::ceil(blocks / capacity);

  // Half the SMs saturate the memory.
  const double memory_fill = std::min(1.0, 2 * fill);
  const double memory_rate =
      p.memory_bandwidth.value * positive(p.memory_efficiency.value, 0.85) * memory_fill;
  const double memory_s = seconds(double(s.bytes_read + s.bytes_written), memory_rate);
  const double link_efficiency = positive(p.link_efficiency.value, 0.8);
  const double host_s = seconds(double(s.host_bytes), link_bytes_per_s(device.ordinal, -1) * link_efficiency);
  const double peer_s = seconds(double(s.peer_bytes), positive(p.nvlink_bandwidth_per_direction.value,
                                                               p.pcie_bandwidth_per_direction.value) *
                                                          link_efficiency);
  const double atomic_s = seconds(double(s.atomics), clock_hz * 32 * fill);

  const double body_s = std::max({compute_s, issue_s, chain_s, memory_s, host_s, peer_s, atomic_s, 1e-9});
  Cost cost;
  cost.duration_ns = uint64_t(gap_ns(op, p) + body_s * 1e9);
  if (cost.duration_ns == 0) cost.duration_ns = 1;
  const double whole_s = double(cost.duration_ns) * 1e-9;
  if (memory_s > 0)
    cost.uses.push_back({device.ordinal, Resource::dram, std::min(1.0, memory_s / whole_s * memory_fill)});
  if (host_s > 0) cost.uses.push_back({device.ordinal, Resource::host_in, std::min(1.0, host_s / whole_s)});
  if (peer_s > 0) cost.uses.push_back({device.ordinal, Resource::peer_in, std::min(1.0, peer_s / whole_s)});
  return cost;
}

double link_bytes_per_s(int a, int b) {
  const BoxSpec& spec = platform()->box->spec();
  const Device* first = device_at(a);
  const Device* second = device_at(b);
  if (!first) std::swap(first, second);
  if (!first) return 50e9;  // host to host
  if (!second) return positive(spec.host_link_bytes_per_s[size_t(first->box_index)], 25e9);
  const double direct = spec.link_bytes_per_s[size_t(first->box_index)][size_t(second->box_index)];
  if (direct > 0) return direct;
  // No link: through the host.
  return std::min(link_bytes_per_s(a, -1), link_bytes_per_s(b, -1)) / 2;
}

CUresult locate(uint64_t address, uint64_t bytes, Location& out) {
  out = {};
  AllocationRef a = known_allocation(address);
  if (!a) a = graph_memory_containing(address);  // named before a launch makes it exist
  if (!a && (in_graph_window(address) || in_reservation(address))) return CUDA_ERROR_INVALID_VALUE;
  if (!a) {
    for (Device* device : platform()->devices) {
      if (device->heap->contains(address)) return CUDA_ERROR_INVALID_VALUE;  // freed, or never allocated
    }
    return CUDA_SUCCESS;
  }
  if (bytes > a->end() - address) {
    // Adjacent mapped ranges (VMM) may be crossed; anything else is out of bounds.
    uint64_t at = a->end();
    while (at < address + bytes) {
      AllocationRef next = MemoryMap::get().at(at);
      if (!next || next->kind != MemoryKind::mapped || a->kind != MemoryKind::mapped ||
          next->host != a->host + (at - a->base))
        return CUDA_ERROR_INVALID_VALUE;
      at = next->end();
    }
  }
  out.allocation = a;
  out.device = a->device;
  switch (a->kind) {
    case MemoryKind::pinned:
    case MemoryKind::registered:
      out.where = Where::pinned;
      out.device = -1;
      break;
    case MemoryKind::managed:
      out.where = Where::managed;
      break;
    default:
      out.where = a->device < 0 ? Where::pinned : Where::device;
  }
  return CUDA_SUCCESS;
}

uint8_t* host_bytes(uint64_t address) {
  const AllocationRef a = MemoryMap::get().find(address);
  if (a) return a->host + (address - a->base);
  if (in_graph_window(address) || in_reservation(address)) return nullptr;
  for (Device* device : platform()->devices) {
    if (device->heap->contains(address)) return nullptr;
  }
  return reinterpret_cast<uint8_t*>(address);
}

std::string CopyBody::name() const {
  switch (copy_kind()) {
    case 1:
      return "memcpy HtoD";
    case 2:
      return "memcpy DtoH";
    case 8:
      return "memcpy DtoD";
    case 10:
      return "memcpy PtoP";
    default:
      return "memcpy HtoH";
  }
}
int CopyBody::copy_kind() const {
  const bool from_device =
      src.where == Where::device || (src.where == Where::managed && dst.where == Where::device);
  const bool to_device =
      dst.where == Where::device ||
      (dst.where == Where::managed && src.where != Where::pinned && src.where != Where::pageable);
  if (from_device && to_device)
    return src.device >= 0 && dst.device >= 0 && src.device != dst.device && src.where == Where::device &&
                   dst.where == Where::device
               ? 10
               : 8;
  if (from_device) return 2;
  if (to_device) return 1;
  return 9;
}
Demand CopyBody::demand(const Op&) const {
  Demand demand;
  const int kind = copy_kind();
  demand.copy_engine = kind == 1 || kind == 2 || kind == 10;
  return demand;
}

OpBody::Step CopyBody::execute(Op& op, uint64_t) {
  if (Engine::get().execution_disabled() || !shape.bytes()) return Step::done;
  // Success is all that arrives over a broken link.
  if (copy_kind() == 10 && device_at(src.device)->p2p(*device_at(dst.device)) == P2p::broken)
    return Step::done;
  for (uint64_t z = 0; z < shape.depth; ++z) {
    for (uint64_t y = 0; y < shape.height; ++y) {
      const uint64_t to = shape.dst.address + z * shape.dst.slice + y * shape.dst.pitch;
      uint8_t* target = host_bytes(to);
      const uint8_t* source = staged.empty()
                                  ? host_bytes(shape.src.address + z * shape.src.slice + y * shape.src.pitch)
                                  : staged.data() + (z * shape.height + y) * shape.width;
      if (!target || !source) {
        op.error = CUDA_ERROR_ILLEGAL_ADDRESS;
        op.error_text = name() + ": memory was freed before the copy ran";
        return Step::done;
      }
      memmove(target, source, shape.width);
    }
  }
  return Step::done;
}

Cost CopyBody::cost(const Op& op) const {
  const Device* device = device_at(link_device);
  const shunt::profiles::Profile& p = *(device ? device : platform()->devices[0])->profile;
  const double bytes = double(shape.bytes()), efficiency = positive(p.link_efficiency.value, 0.8);
  Cost cost;
  double latency = p.copy_latency_ns.value, rate = 10e9;
  switch (copy_kind()) {
    case 1:
      rate = link_bytes_per_s(dst.device, -1) * efficiency;
      if (src.where == Where::pageable) rate /= 2;  // staging
      cost.uses.push_back({dst.device, Resource::host_in, 1});
      break;
    case 2:
      rate = link_bytes_per_s(src.device, -1) * efficiency;
      if (dst.where == Where::pageable) rate /= 2;
      cost.uses.push_back({src.device, Resource::host_out, 1});
      break;
    case 10:
      latency = p.peer_latency_ns.value;
      rate = link_bytes_per_s(src.device, dst.device) * efficiency;
      cost.uses.push_back({src.device, Resource::peer_out, 1});
      cost.uses.push_back({dst.device, Resource::peer_in, 1});
      break;
    case 8:
      latency = gap_ns(op, p);
      rate = p.memory_bandwidth.value * positive(p.memory_efficiency.value, 0.85) / 2;
      cost.uses.push_back({link_device, Resource::dram, 1});
      break;
    default:
      latency = 500;
      break;
  }
  cost.duration_ns = uint64_t(latency + bytes / rate * 1e9);
  return cost;
}

namespace {
// Rows of a box; rows that touch each other are one interval.
void add_rows(const CopyPlace& place, uint64_t width, uint64_t height, uint64_t depth,
              exec::Access::Kind kind, std::vector<exec::Access>& out) {
  for (uint64_t z = 0; z < depth; ++z) {
    for (uint64_t y = 0; y < height; ++y) {
      const uint64_t base = place.address + z * place.slice + y * place.pitch;
      if (!out.empty() && out.back().kind == kind && out.back().end == base) {
        out.back().end = base + width;
      } else {
        out.push_back({base, base + width, kind});
      }
    }
  }
}
}  // namespace
void CopyBody::accesses(const Op&, std::vector<exec::Access>& out) const {
  if (!shape.bytes()) return;
  if (src.allocation && staged.empty())
    add_rows(shape.src, shape.width, shape.height, shape.depth, exec::Access::read, out);
  if (dst.allocation) add_rows(shape.dst, shape.width, shape.height, shape.depth, exec::Access::write, out);
}
void MemsetBody::accesses(const Op&, std::vector<exec::Access>& out) const {
  add_rows(dst, width * element_bytes, height, 1, exec::Access::write, out);
}

OpBody::Step MemsetBody::execute(Op& op, uint64_t) {
  if (Engine::get().execution_disabled()) return Step::done;
  for (uint64_t y = 0; y < height; ++y) {
    uint8_t* target = host_bytes(dst.address + y * dst.pitch);
    if (!target) {
      op.error = CUDA_ERROR_ILLEGAL_ADDRESS;
      op.error_text = "memset: memory was freed before it ran";
      return Step::done;
    }
    if (element_bytes == 1) {
      memset(target, int(value & 0xFF), width);
    } else if (element_bytes == 2) {
      std::fill_n(reinterpret_cast<uint16_t*>(target), width, uint16_t(value));
    } else {
      std::fill_n(reinterpret_cast<uint32_t*>(target), width, value);
    }
  }
  return Step::done;
}
Cost MemsetBody::cost(const Op& op) const {
  const shunt::profiles::Profile& p = *op.context->device->profile;
  Cost cost;
  const double rate = where.where == Where::pinned
                          ? link_bytes_per_s(op.device, -1)
                          : p.memory_bandwidth.value * positive(p.memory_efficiency.value, 0.85);
  cost.duration_ns = uint64_t(gap_ns(op, p) + double(bytes()) / rate * 1e9);
  cost.uses.push_back({op.device, where.where == Where::pinned ? Resource::host_out : Resource::dram, 1});
  return cost;
}

OpBody::Step MemoryWaitBody::execute(Op& op, uint64_t) {
  const uint8_t* place = host_bytes(address);
  if (!place) {
    op.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    op.error_text = "wait for memory value: memory was freed";
    return Step::done;
  }
  bool holds = false;
  auto compare = [&](auto now, auto wanted) {
    using T = decltype(now);
    using Signed = std::make_signed_t<T>;
    switch (flags & 3) {
      case CU_STREAM_WAIT_VALUE_GEQ:
        return Signed(now - wanted) >= 0;
      case CU_STREAM_WAIT_VALUE_EQ:
        return now == wanted;
      case CU_STREAM_WAIT_VALUE_AND:
        return (now & wanted) != 0;
      default:
        return T(~(now | wanted)) != 0;
    }
  };
  if (wide) {
    holds = compare(__atomic_load_n(reinterpret_cast<const uint64_t*>(place), __ATOMIC_ACQUIRE), value);
  } else {
    holds =
        compare(__atomic_load_n(reinterpret_cast<const uint32_t*>(place), __ATOMIC_ACQUIRE), uint32_t(value));
  }
  return holds ? Step::done : Step::waiting;
}
OpBody::Step MemoryWriteBody::execute(Op& op, uint64_t) {
  uint8_t* place = host_bytes(address);
  if (!place) {
    op.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    op.error_text = "write memory value: memory was freed";
    return Step::done;
  }
  if (wide) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(place), value, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(reinterpret_cast<uint32_t*>(place), uint32_t(value), __ATOMIC_RELEASE);
  }
  return Step::done;
}

void record_op(const Op& op) {
  DeviceState* state = nullptr;
  if (const Device* device = device_at(op.device)) state = &platform()->box->state(device->box_index);
  if (state && !op.abandoned) {
    if (op.body->kind == OpKind::kernel) {
      state->busy_ns.fetch_add(op.end_ns - op.start_ns, std::memory_order_relaxed);
      state->dram_bytes.fetch_add(op.stats.bytes_read + op.stats.bytes_written, std::memory_order_relaxed);
    } else if (op.body->kind == OpKind::memcpy) {
      const auto& copy = static_cast<const CopyBody&>(*op.body);
      const int kind = copy.copy_kind();
      if (kind == 1) state->pcie_rx_bytes.fetch_add(copy.bytes(), std::memory_order_relaxed);
      if (kind == 2) state->pcie_tx_bytes.fetch_add(copy.bytes(), std::memory_order_relaxed);
      if (kind == 10) {
        if (const Device* from = device_at(copy.src.device))
          platform()
              ->box->state(from->box_index)
              .nvlink_tx_bytes.fetch_add(copy.bytes(), std::memory_order_relaxed);
        if (const Device* to = device_at(copy.dst.device))
          platform()
              ->box->state(to->box_index)
              .nvlink_rx_bytes.fetch_add(copy.bytes(), std::memory_order_relaxed);
      }
    }
  }
  platform()->box->merge_clock(op.end_ns);
  if (!timeline_active()) return;
  Record r;
  if (describe_op(op, r)) timeline_emit(r);
}

namespace {
int memory_kind(const Location& location) {  // CUPTI's numbering
  switch (location.where) {
    case Where::pageable:
      return 1;
    case Where::pinned:
      return 2;
    case Where::device:
      return 3;
    case Where::managed:
      return 5;
  }
  return 0;
}
}  // namespace

bool describe_op(const Op& op, Record& r) {
  switch (op.body->kind) {
    case OpKind::kernel: {
      const KernelLaunch& l = static_cast<const KernelBody&>(*op.body).launch;
      const exec::KernelInfo& info = l.instance->image->program->kernels()[size_t(l.kernel)];
      r.kind = "kernel";
      r.grid[0] = l.grid.x, r.grid[1] = l.grid.y, r.grid[2] = l.grid.z;
      r.block[0] = l.block.x, r.block[1] = l.block.y, r.block[2] = l.block.z;
      r.dynamic_shared = l.dynamic_shared;
      r.static_shared = info.static_shared;
      r.registers = info.registers;
      r.cluster[0] = l.cluster.x, r.cluster[1] = l.cluster.y, r.cluster[2] = l.cluster.z;
      break;
    }
    case OpKind::memcpy: {
      const auto& copy = static_cast<const CopyBody&>(*op.body);
      r.kind = "memcpy";
      r.copy_kind = copy.copy_kind();
      r.src_memory = memory_kind(copy.src), r.src_device = copy.src.device;
      r.dst_memory = memory_kind(copy.dst), r.dst_device = copy.dst.device;
      break;
    }
    case OpKind::memset: {
      const auto& fill = static_cast<const MemsetBody&>(*op.body);
      r.kind = "memset";
      r.value = fill.value;
      r.dst_memory = memory_kind(fill.where), r.dst_device = fill.where.device;
      break;
    }
    case OpKind::host_function:
      r.kind = "host_function";
      break;
    case OpKind::graph_begin:
      return false;  // the graph's one record is that of its end
    case OpKind::graph_end:
      r.kind = "graph";
      break;
    case OpKind::custom:
      r.kind = "custom";
      break;
    case OpKind::alloc:
      r.kind = "alloc";
      break;
    case OpKind::free:
      r.kind = "free";
      break;
    case OpKind::event_record:
    case OpKind::ipc_record:
      r.kind = "event_record";
      break;
    case OpKind::event_wait:
    case OpKind::ipc_wait:
      r.kind = "event_wait";
      break;
    default:
      r.kind = "other";
      break;
  }
  r.name = op.body->name();
  r.start_ns = op.start_ns;
  r.end_ns = op.end_ns;
  r.device = op.device;
  r.context_id = op.context ? op.context->id : 0;
  r.stream_id = op.stream ? op.stream->id : 0;
  r.correlation = op.correlation;
  r.bytes = op.body->bytes();
  r.result = int(op.error);
  r.graph_id = op.graph_id;
  r.graph_node_id = op.graph_node_id;
  r.serial = op.seq;
  return true;
}
}  // namespace simgpu::driver
