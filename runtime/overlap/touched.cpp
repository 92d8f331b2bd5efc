#include "runtime/overlap/touched.h"

#include <string.h>

#include "runtime/model/model.h"

namespace shunt::overlap {

using model::Allocation;
using model::MemoryKind;
using model::Op;
using model::OpKind;

namespace {

bool seen_by_host(MemoryKind kind) {
  return kind == MemoryKind::host || kind == MemoryKind::registered || kind == MemoryKind::managed;
}

// Attributes with which a launch still begins after all earlier work of its stream and touches nothing else.
bool harmless_attributes(const model::LaunchShape& launch) {
  for (uint32_t i = 0; i < launch.attribute_count; ++i) {
    switch (launch.attributes[i].id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace

bool plain_device_memory(uint64_t begin, uint64_t bytes, int device) {
  if (bytes == 0) return true;
  const auto a = model::Model::get().allocations().find(begin);
  if (!a || begin + bytes > a->base + a->bytes || begin + bytes < begin) return false;
  const bool plain =
      a->kind == MemoryKind::device || a->kind == MemoryKind::pitched || a->kind == MemoryKind::async;
  return plain && a->device == device;
}

Reason Touched::by(Op& op, Code& code, Footprint& out) {
  out.clear();
  detail_ = "";
  switch (op.kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
      return kernel(op, code, out);
    case OpKind::free_async: {
      // The model has looked the block up (and taken it out of the registry).
      if (op.bytes == 0) return all(out, Reason::join_visible, "a block nobody saw being allocated");
      out.add(op.object, op.bytes, true);
      return Reason::none;
    }
    case OpKind::copy_linear:
    case OpKind::memset: {
      if (!op.asynchronous) return all(out, Reason::join_observed, "returns when it is done");
      model::Allocations& known = model::Model::get().allocations();
      const int device = model::Model::get().device_of(op.context);
      for (uint8_t i = 0; i < op.range_count; ++i) {
        const model::Range& r = op.ranges[i];
        if (r.bytes == 0) continue;
        const bool write = (static_cast<uint8_t>(r.access) & static_cast<uint8_t>(model::Access::write)) != 0;
        const auto a = known.find(r.base);
        // Written where the host or another device can see it, or in memory nobody saw being allocated (plain
        // host memory: such copies wait for the stream).
        if (write && (!a || seen_by_host(a->kind) || a->device != device))
          return all(out, Reason::join_visible, "writes memory that others see");
        out.add(r.base, r.bytes, write);
      }
      return Reason::none;
    }
    default:
      return all(out, Reason::join_other, "not described");
  }
}

Reason Touched::kernel(Op& op, Code& code, Footprint& out) {
  if (!op.function_info) return all(out, Reason::join_unknown_kernel, "unknown function");
  if (op.launch.attribute_count && !harmless_attributes(op.launch))
    return all(out, Reason::join_unknown_kernel, "launch attributes");
  CUcontext context = op.stream_info ? op.stream_info->context : op.context;
  const KernelCode* known = code.kernel(*op.function_info, context);
  if (!known->access)
    return known->beside ? assume(*known, op, context, out)
                         : all(out, Reason::join_unknown_kernel, known->reason);
  const ptx::KernelAccess& access = *known->access;
  // Module variables are in no allocation that a collective may be moved with, but others may see them
  // (managed ones), so writing one keeps its place.
  for (const ptx::VariableAccess& v : access.variables)
    if (v.mode != ptx::AccessMode::read)
      return all(out, Reason::join_unknown_kernel, "writes a module variable");
  if (const char* missing = take_parameters(access, op))
    return all(out, Reason::join_unknown_kernel, missing);
  ptx::LaunchShape shape;
  for (int i = 0; i < 3; ++i) shape.grid[i] = op.launch.grid[i], shape.block[i] = op.launch.block[i];
  ranges_.clear();
  if (!access.evaluate(shape, parameters_.data(), ranges_))
    return all(out, Reason::join_unknown_kernel, "its accesses cannot be computed");
  const int device = model::Model::get().device_of(context);
  model::Allocations& allocations = model::Model::get().allocations();
  for (const ptx::AccessRange& r : ranges_) {
    const bool write = (static_cast<uint8_t>(r.mode) & static_cast<uint8_t>(ptx::AccessMode::written)) != 0;
    std::optional<Allocation> a = allocations.find(r.begin);
    if (!a) {
      // A number that merely could be a pointer, or memory nobody saw being allocated. Neither is a
      // collective's buffer; the latter others may see.
      if (!r.whole && r.end > r.begin) return all(out, Reason::join_visible, "memory of unknown origin");
      continue;
    }
    if (seen_by_host(a->kind) || a->device != device)
      return all(out, Reason::join_visible, "memory that others see");
    if (!r.whole) {
      out.add(r.begin, r.end - r.begin, write);
      continue;
    }
    // Arithmetic may reach all of one allocation; mappings side by side in a reservation are one to a
    // program.
    if (a->kind == MemoryKind::vmm_mapping) {
      if (const auto reservation = model::Model::get().reservations().find(r.begin)) a = reservation;
    }
    out.add(a->base, a->bytes, write);
  }
  return Reason::none;
}

const char* Touched::take_parameters(const ptx::KernelAccess& access, const Op& op) {
  parameters_.assign(access.parameter_bytes + 8, 0);
  if (!op.launch.params) return access.layout.empty() ? nullptr : "parameters in one buffer";
  for (size_t i = 0; i < access.layout.size(); ++i) {
    if (!op.launch.params[i]) return "a parameter is missing";
    memcpy(parameters_.data() + access.layout[i].offset, op.launch.params[i], access.layout[i].size);
  }
  return nullptr;
}

// T2: every word of the parameters that points into live memory may be used to read and write all of that
// block. Taken for true only after it has covered what the PTX beside the machine code does, and for as long
// as it does: one disagreement bans the kernel.
Reason Touched::assume(const KernelCode& known, Op& op, CUcontext context, Footprint& out) {
  constexpr uint32_t kAgreements = 3;
  const ptx::KernelAccess& beside = *known.beside;
  if (known.banned.load(std::memory_order_relaxed))
    return all(out, Reason::join_unknown_kernel, "its arguments do not cover what it touches");
  bool agrees = beside.proven() && !take_parameters(beside, op);
  ptx::LaunchShape shape;
  for (int i = 0; i < 3; ++i) shape.grid[i] = op.launch.grid[i], shape.block[i] = op.launch.block[i];
  ranges_.clear();
  agrees = agrees && beside.evaluate(shape, parameters_.data(), ranges_);
  model::Allocations& allocations = model::Model::get().allocations();
  const int device = model::Model::get().device_of(context);
  for (size_t at = 0; agrees && at + 8 <= beside.parameter_bytes; at += 8) {
    uint64_t word;
    memcpy(&word, parameters_.data() + at, 8);
    std::optional<Allocation> a = allocations.find(word);
    if (!a) continue;
    if (seen_by_host(a->kind) || a->device != device)
      return all(out, Reason::join_visible, "memory that others see");
    if (a->kind == MemoryKind::vmm_mapping)
      if (const auto reservation = model::Model::get().reservations().find(word)) a = reservation;
    out.add(a->base, a->bytes, true);
  }
  for (const ptx::AccessRange& r : ranges_) {
    if (r.whole && !allocations.find(r.begin)) continue;  // a number
    const uint64_t end = r.whole ? r.begin + 1 : r.end;
    bool covered = r.begin >= end;
    for (uint32_t i = 0; i < out.count; ++i)
      covered = covered || (out.spans[i].begin <= r.begin && end <= out.spans[i].end);
    agrees = agrees && covered;
  }
  if (!agrees) {
    known.banned.store(true, std::memory_order_relaxed);
    return all(out, Reason::join_unknown_kernel, "its arguments do not cover what it touches");
  }
  if (known.agreed.fetch_add(1, std::memory_order_relaxed) < kAgreements)
    return all(out, Reason::join_unknown_kernel, "not yet seen to agree often enough");
  return Reason::none;
}

}  // namespace shunt::overlap
