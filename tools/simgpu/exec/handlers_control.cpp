// Block heads, guards, branches, calls, exits.
#include "tools/simgpu/exec/program.h"
#include "tools/simgpu/exec/registry.h"
#include "tools/simgpu/exec/warp.h"

namespace simgpu::exec {
namespace {

// First instruction of every basic block: meeting point, budget, counters.
template <bool M>
const Inst* head(Ctx* c, const Inst* i) {
  if (__builtin_expect(c->node != nullptr, 0) && c->node->pc == i && c->node->depth == c->depth)
    return arrive_at_node(c, i);
  if (__builtin_expect(c->budget < 0, 0)) return take_turns(c, i);
  c->budget -= static_cast<int64_t>(i->imm);
  c->block_warps[i->a] += 1;
  c->block_threads[i->a] += M ? static_cast<uint32_t>(__builtin_popcount(c->mask)) : kLanes;
  return i + 1;
}

// The next imm >> 1 instructions run only in lanes where the predicate holds (imm bit 0: does not hold).
template <bool M>
const Inst* guard(Ctx* c, const Inst* i) {
  const uint32_t n = static_cast<uint32_t>(i->imm >> 1), p = c->pred[i->a] ^ ((i->imm & 1) ? kFullMask : 0u);
  const uint32_t m = c->mask & p;
  if (m == 0) return i + 1 + n;
  if (m == c->mask) return i + 1;
  const uint32_t mask = c->mask, mode = c->mode;
  c->mask = m;
  c->mode = 1;
  const Inst* at = i + 1;
  const Inst* const end = at + n;
  while (at != end) {
    at = at->fn[1](c, at);
    if (!at) return nullptr;  // fault
  }
  c->mask = mask;
  c->mode = mode;
  return end;
}

template <bool M>
const Inst* bra(Ctx*, const Inst* i) {
  return static_cast<const Inst*>(i->aux);
}

template <bool Negate>
struct Branch {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    uint32_t p = c->pred[i->a];
    if constexpr (Negate) p = ~p;
    const uint32_t m = M ? c->mask : kFullMask;
    p &= m;
    if (p == m) return static_cast<const Inst*>(i->aux);
    if (p == 0) return i + 1;
    return diverge(c, i + 1, static_cast<const Inst*>(i->aux), reinterpret_cast<const Inst*>(i->imm), p);
  }
};

template <bool M>
const Inst* brx(Ctx* c, const Inst* i) {
  const auto* index = reinterpret_cast<const uint32_t*>(c->base[i->a >> kBaseShift] + (i->a & kOffsetMask));
  const auto* table = static_cast<const Inst* const*>(i->aux);
  const uint32_t first = static_cast<uint32_t>(__builtin_ctz(c->mask)), k = index[first];
  if (k >= i->d) return raise_fault(c, i, Fault::invalid_pc, k, first, "branch table index out of range");
  uint32_t same = 0;
  for (uint32_t l = 0; l < kLanes; ++l) same |= index[l] == k ? 1u << l : 0u;
  const uint32_t rest = c->mask & ~same;
  if (rest == 0) return table[k];
  return diverge(c, table[k], i, reinterpret_cast<const Inst*>(i->imm), rest);  // the others decide again
}

const Inst* enter(Ctx* c, const Inst* i, const Function* f) {
  Warp& w = *c->warp;
  if (w.calls.size() >= 1u << 16)
    return raise_fault(c, i, Fault::hardware_stack, 0, static_cast<uint32_t>(__builtin_ctz(c->mask)),
                       "call depth");
  const Function* caller = w.function;
  w.calls.push_back({i + 1, c->fp32, c->fp64, c->fpp, c->local_base, c->local_sp, caller});
  c->fp32 += caller->frame32;
  c->fp64 += caller->frame64;
  c->fpp += caller->framep;
  c->local_base = (c->local_sp + 15) & ~15ull;
  c->local_sp = c->local_base + f->local_bytes;
  c->depth += 1;
  w.function = f;
  if (c->local_sp > c->local_stride ||
      !ensure_rows(c, c->fp32 + f->frame32 + f->out_words * 128ull, c->fp64 + f->frame64, c->fpp + f->framep))
    return raise_fault(c, i, Fault::hardware_stack, 0, static_cast<uint32_t>(__builtin_ctz(c->mask)),
                       "thread stack overflow");
  enter_frame(c);
  return f->start;
}

// The caller's outgoing words may lie beyond what the stack held so far: the check comes with the caller's
// own frame.
template <bool M>
const Inst* call(Ctx* c, const Inst* i) {
  return enter(c, i, static_cast<const CallSite*>(i->aux)->callee);
}
template <bool M>
const Inst* call_builtin(Ctx* c, const Inst* i) {
  return static_cast<const CallSite*>(i->aux)->callee->builtin(c, i);
}
const Function* function_at(Ctx* c, uint64_t address);

template <bool M>
const Inst* call_indirect(Ctx* c, const Inst* i) {
  const auto* address = reinterpret_cast<const uint64_t*>(c->base[i->a >> kBaseShift] + (i->a & kOffsetMask));
  const uint32_t first = static_cast<uint32_t>(__builtin_ctz(c->mask));
  const uint64_t target = address[first];
  uint32_t same = 0;
  for (uint32_t l = 0; l < kLanes; ++l) same |= address[l] == target ? 1u << l : 0u;
  const uint32_t rest = c->mask & ~same;
  if (rest != 0) return diverge(c, i, i, i + 1, rest);
  const Function* f = function_at(c, target);
  if (!f || (!f->defined && !f->builtin))
    return raise_fault(c, i, Fault::invalid_pc, target, first,
                       "indirect call to something that is not a function");
  if (f->builtin) return f->builtin(c, i);
  return enter(c, i, f);
}

template <bool M>
const Inst* ret(Ctx* c, const Inst* i) {
  (void)i;
  Warp& w = *c->warp;
  const CallRecord r = w.calls.back();
  w.calls.pop_back();
  c->fp32 = r.fp32;
  c->fp64 = r.fp64;
  c->fpp = r.fpp;
  c->local_base = r.local_base;
  c->local_sp = r.local_sp;
  c->depth -= 1;
  w.function = r.function;
  enter_frame(c);
  if (c->node && c->node->pc == r.return_pc && c->node->depth == c->depth)
    return arrive_at_node(c, r.return_pc);
  return r.return_pc;
}

template <bool M>
const Inst* exit_lanes(Ctx* c, const Inst* i) {
  (void)i;
  return retire_lanes(c);
}

template <bool M>
const Inst* trap(Ctx* c, const Inst* i) {
  return raise_fault(c, i, Fault::launch_failed, 0, static_cast<uint32_t>(__builtin_ctz(c->mask)),
                     i->imm == 1   ? "brkpt"
                     : i->imm == 2 ? "a function that does not return has returned"
                                   : "trap");
}

template <bool M>
const Inst* spin(Ctx* c, const Inst* i) {
  c->budget -= static_cast<int64_t>(i->imm);
  c->spinning = true;
  return i + 1;
}

uint64_t* row64(Ctx* c, uint32_t slot) {
  return reinterpret_cast<uint64_t*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

template <bool M>
const Inst* local_base(Ctx* c, const Inst* i) {
  uint64_t* d = row64(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if (!M || ((c->mask >> l) & 1)) d[l] = c->local_base;
  return i + 1;
}
// The stack moves for all lanes by the largest request: their frames stay aligned with each other.
template <bool M>
const Inst* alloca_bytes(Ctx* c, const Inst* i) {
  uint64_t* d = row64(c, i->dst);
  const uint64_t* size = row64(c, i->a);
  const uint64_t align = i->imm ? i->imm : 16;
  uint64_t most = 0;
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) most = size[l] > most ? size[l] : most;
  const uint64_t at = (c->local_sp + align - 1) / align * align;
  if (most > c->local_stride || at + most > c->local_stride)
    return raise_fault(c, i, Fault::hardware_stack, most, static_cast<uint32_t>(__builtin_ctz(c->mask)),
                       "alloca beyond the thread's stack");
  c->local_sp = at + most;
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) d[l] = at;
  return i + 1;
}
template <bool M>
const Inst* stacksave(Ctx* c, const Inst* i) {
  uint64_t* d = row64(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) d[l] = c->local_sp;
  return i + 1;
}
template <bool M>
const Inst* stackrestore(Ctx* c, const Inst* i) {
  const uint64_t v = row64(c, i->a)[static_cast<uint32_t>(__builtin_ctz(c->mask))];
  if (v <= c->local_stride) c->local_sp = v;
  return i + 1;
}

const Function* function_at(Ctx* c, uint64_t address) { return program_of(c)->function_at(address); }

}  // namespace

void register_control(HandlerTable* t) {
  add_handler(t, "head", &head<false>, &head<true>);
  add_handler(t, "guard", &guard<false>, &guard<true>);
  add_handler(t, "bra", &bra<false>, &bra<true>);
  add_handler(t, "bra.p", &Branch<false>::run<false>, &Branch<false>::run<true>);
  add_handler(t, "bra.np", &Branch<true>::run<false>, &Branch<true>::run<true>);
  add_handler(t, "brx", &brx<false>, &brx<true>);
  add_handler(t, "call", &call<false>, &call<true>);
  add_handler(t, "call.builtin", &call_builtin<false>, &call_builtin<true>);
  add_handler(t, "call.indirect", &call_indirect<false>, &call_indirect<true>);
  add_handler(t, "ret", &ret<false>, &ret<true>);
  add_handler(t, "exit", &exit_lanes<false>, &exit_lanes<true>);
  add_handler(t, "trap", &trap<false>, &trap<true>);
  add_handler(t, "spin", &spin<false>, &spin<true>);
  add_handler(t, "local.base", &local_base<false>, &local_base<true>);
  add_handler(t, "alloca", &alloca_bytes<false>, &alloca_bytes<true>);
  add_handler(t, "stacksave", &stacksave<false>, &stacksave<true>);
  add_handler(t, "stackrestore", &stackrestore<false>, &stackrestore<true>);
}

}  // namespace simgpu::exec
