// Lowering of asynchronous copies and mbarrier. Copies happen at once: the memory model allows it, and
// waiting is then free; what programs can observe (arrival counts, phases, transaction counts) is kept.
#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

namespace {

bool address64(Lowering& l, const Operand& o, LOp& row, uint64_t& offset) {
  bool is_wide;
  if (!l.address(o, Space::none, row, offset, is_wide)) return false;
  row = l.as64(row);
  return true;
}

bool bulk(Lowering& l, const Instruction& in) {
  if (in.has("commit_group") || in.has("wait_group") || in.has("wait_group.read")) return true;
  if (in.has("prefetch")) return true;
  if (in.has("tensor") || in.opcode != "cp") return l.fail("tensor copies are not supported");
  // cp.async.bulk.dst.src.completion [d], [s], size{, [mbar]}{, policy}
  if (!need(l, in, 3)) return false;
  auto copy = std::make_shared<AsyncCopy>();
  std::vector<Window> windows;
  for (const auto& m : in.modifiers) {
    if (m.rfind("shared", 0) == 0)
      windows.push_back(Window::shared);
    else if (m == "global")
      windows.push_back(Window::global);
    if (m.rfind("multicast", 0) == 0) return l.fail("multicast copies are not supported");
    if (m == "cp_mask") return l.fail("masked bulk copies are not supported");
  }
  if (windows.size() < 2) return l.fail("bulk copy needs two state spaces");
  copy->dst = windows[0];
  copy->src = windows[1];
  copy->has_barrier = in.has("mbarrier::complete_tx::bytes");
  LOp d, s, b;
  if (!address64(l, in.operands[0], d, copy->dst_offset) ||
      !address64(l, in.operands[1], s, copy->src_offset))
    return false;
  LOp size = l.src(in.operands[2], Type::u32);
  if (copy->has_barrier && (!need(l, in, 4) || !address64(l, in.operands[3], b, copy->barrier_offset)))
    return false;
  LInst* i = l.emit("cp.async.bulk", {}, d, s, size, b);
  if (!i) return false;
  i->aux = copy.get();
  l.linker.program.attachments.push_back(copy);
  return true;
}

}  // namespace

bool lower_cp(Lowering& l, const Instruction& in) {
  if (!in.has("async")) return l.fail("unknown copy");
  if (in.has("bulk")) return bulk(l, in);
  if (in.has("commit_group") || in.has("wait_group") || in.has("wait_all")) return true;
  if (in.has("mbarrier")) {  // cp.async.mbarrier.arrive{.noinc}.shared.b64 [mbar]
    if (!need(l, in, 1)) return false;
    if (!in.has("noinc")) return true;  // pending count goes up by one and, the copies being done, down again
    LOp base;
    uint64_t offset;
    bool is_wide;
    if (!l.address(in.operands[0], Space::shared, base, offset, is_wide)) return false;
    LInst* i =
        l.emit("mbarrier.arrive", l.temp(RegClass::r64), base, l.constant32(1), l.constant32(0), {}, offset);
    if (i) i->early = true;
    return l.resolver(i, in.has("shared") || in.has("shared::cta") ? Space::shared : Space::none, is_wide);
  }
  // cp.async.ca|cg.shared.global [d], [s], cp-size{, src-size}{, cache-policy} or {, ignore-src}
  if (!need(l, in, 3)) return false;
  auto copy = std::make_shared<AsyncCopy>();
  LOp d, s, size, ignore;
  if (!address64(l, in.operands[0], d, copy->dst_offset) ||
      !address64(l, in.operands[1], s, copy->src_offset))
    return false;
  if (in.operands[2].kind != Operand::Kind::imm_int) return l.fail("copy size must be an immediate");
  copy->bytes = static_cast<uint32_t>(in.operands[2].imm);
  if (copy->bytes != 4 && copy->bytes != 8 && copy->bytes != 16)
    return l.fail("copy size must be 4, 8 or 16");
  for (size_t k = 3; k < in.operands.size(); ++k) {
    const Operand& o = in.operands[k];
    const uint32_t w = l.width_of(o);
    if (w == 1) {
      ignore = l.pred(o);
      copy->has_ignore = true;
      copy->ignore_negated = o.negated;
    } else if (w == 64)
      continue;  // cache policy
    else if (!copy->has_size) {
      size = l.src(o, Type::u32);
      copy->has_size = true;
    }
  }
  LInst* i = l.emit("cp.async", {}, d, s, size, ignore);
  if (!i) return false;
  i->aux = copy.get();
  l.linker.program.attachments.push_back(copy);
  return true;
}

bool lower_mbarrier(Lowering& l, const Instruction& in) {
  const auto& ops = in.operands;
  if (in.has("pending_count")) {
    if (!need(l, in, 2)) return false;
    return l.emit("mbarrier.pending_count", l.dst_any(ops[0], RegClass::r32), l.src(ops[1], Type::b64)) !=
           nullptr;
  }
  size_t at = 0;
  while (at < ops.size() && ops[at].kind != Operand::Kind::address) ++at;
  if (at == ops.size()) return l.fail("mbarrier needs an address");
  bool shared = false;
  for (const auto& m : in.modifiers) shared |= m.rfind("shared", 0) == 0;
  LOp base;
  uint64_t offset;
  bool is_wide;
  if (!l.address(ops[at], Space::shared, base, offset, is_wide)) return false;
  if (!shared) {
    base = l.as64(base);
    is_wide = true;
  }
  const auto operand = [&](size_t k, uint32_t otherwise) {
    return at + k < ops.size() ? l.src(ops[at + k], Type::u32) : l.constant32(otherwise);
  };
  LInst* i = nullptr;
  if (in.has("init"))
    i = l.emit("mbarrier.init", {}, base, operand(1, 1), {}, {}, offset);
  else if (in.has("inval"))
    return true;
  else if (in.has("test_wait") || in.has("try_wait")) {
    const bool parity = in.has("parity");
    l.emit("spin", {}, {}, {}, {}, {}, 256);
    LOp state = parity ? l.src(ops[at + 1], Type::u32) : l.src(ops[at + 1], Type::b64);
    LOp p = l.pred_dst(ops[0]);
    i = l.emit(parity ? "mbarrier.test.parity" : "mbarrier.test", p, base, state, {}, {}, offset);
  } else if (in.has("arrive") || in.has("arrive_drop")) {
    const bool drop = in.has("arrive_drop"), expect = in.has("expect_tx");
    LOp d = at > 0 ? l.dst_any(ops[0], RegClass::r64) : l.temp(RegClass::r64);
    // b arrivals, c transactions to expect first
    i = l.emit(drop ? "mbarrier.arrive_drop" : "mbarrier.arrive", d, base,
               expect ? l.constant32(1) : operand(1, 1), expect ? operand(1, 0) : l.constant32(0), {},
               offset);
  } else if (in.has("expect_tx"))
    i = l.emit("mbarrier.expect_tx", {}, base, operand(1, 0), {}, {}, offset);
  else if (in.has("complete_tx"))
    i = l.emit("mbarrier.complete_tx", {}, base, operand(1, 0), {}, {}, offset);
  else
    return l.fail("unknown mbarrier operation");
  if (i) i->early = true;
  return l.resolver(i, shared ? Space::shared : Space::none, is_wide);
}

}  // namespace simgpu::exec
