// Lowering of branches, calls, barriers and warp-wide instructions.
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

bool lower_bra(Lowering& l, const Instruction& in) {
  if (!need(l, in, 1)) return false;
  const uint32_t target = l.label(in.operands[0].symbol);
  if (in.guard.empty()) {
    LInst* i = l.emit("bra");
    if (!i) return false;
    i->flow = Flow::jump;
    i->targets = {target};
    return true;
  }
  Operand g;
  g.kind = Operand::Kind::reg;
  g.symbol = in.guard;
  LOp p = l.pred(g);
  LInst* i = l.emit(in.guard_negated ? "bra.np" : "bra.p", {}, p);
  if (!i) return false;
  i->flow = Flow::branch;
  i->targets = {target};
  return true;
}

bool lower_brx(Lowering& l, const Instruction& in) {  // brx.idx index, table
  if (!need(l, in, 2)) return false;
  LOp index = l.src(in.operands[0], Type::u32);
  const shunt::ptx::BranchTargets* table = nullptr;
  for (const auto& t : l.source.branch_targets)
    if (t.name == in.operands[1].symbol) table = &t;
  if (!table) return l.fail("unknown branch table '" + in.operands[1].symbol + "'");
  std::vector<uint32_t> targets;
  for (const auto& n : table->labels) targets.push_back(l.label(n));
  LInst* i = l.emit("brx", {}, index);
  if (!i) return false;
  i->flow = Flow::table;
  i->targets = std::move(targets);
  return true;
}

bool lower_ret(Lowering& l, const Instruction& in) {  // ret exit
  LInst* i = l.emit(in.opcode == "exit" || l.function.entry ? "exit" : "ret");
  if (!i) return false;
  i->flow = Flow::leave;
  i->dead_end = in.opcode == "exit" && !l.function.entry;
  return true;
}
bool lower_trap(Lowering& l, const Instruction& in) {
  LInst* i = l.emit("trap", {}, {}, {}, {}, {}, in.opcode == "brkpt" ? 1 : 0);
  if (!i) return false;
  i->flow = Flow::leave;
  i->dead_end = true;
  return true;
}

bool lower_call(Lowering& l, const Instruction& in) {
  size_t at = 0;
  const Operand *returns = nullptr, *args = nullptr, *callee = nullptr, *proto = nullptr;
  const auto& ops = in.operands;
  if (at < ops.size() && ops[at].kind == Operand::Kind::list) returns = &ops[at++];
  if (at < ops.size()) callee = &ops[at++];
  if (at < ops.size() && ops[at].kind == Operand::Kind::list) args = &ops[at++];
  if (at < ops.size()) proto = &ops[at++];
  if (!callee) return l.fail("call without a target");
  uint32_t out = 0;
  LOp target;
  const Symbol* s = callee->kind == Operand::Kind::reg ? nullptr : l.symbol(callee->symbol);
  if (callee->kind == Operand::Kind::reg)
    target = l.src(*callee, Type::b64);
  else if (!s || s->kind != Symbol::Kind::function)
    return l.fail(
        "unresolved function '" + callee->symbol + "'" +
        // The device runtime's names; as a launch from the device they are an interface, not a kernel.
        (callee->symbol.starts_with("cudaLaunchDevice") ||
                 callee->symbol.starts_with("cudaGetParameterBuffer")
             ? " (dynamic parallelism is not supported)"
             : ""));
  const auto out_op = [](uint32_t k) {
    LOp o;
    o.kind = LOp::Kind::out;
    o.id = k;
    return o;
  };
  if (args)
    for (const auto& a : args->elements) {
      const Symbol* p = a.symbol.empty() ? nullptr : l.symbol(a.symbol);
      if (!p || p->kind != Symbol::Kind::func_param)
        return l.fail("call argument '" + a.symbol + "' is not a .param variable");
      const Symbol copy = *p;
      for (uint32_t w : copy.words) {
        LOp from;
        from.kind = LOp::Kind::vreg;
        from.id = w;
        if (!l.emit("mov.b32", out_op(out++), from)) return false;
      }
    }
  auto site = std::make_unique<CallSite>();
  site->arg_words = out;
  std::vector<uint32_t> result_words;
  if (returns)
    for (const auto& r : returns->elements) {
      const Symbol* p = r.symbol.empty() ? nullptr : l.symbol(r.symbol);
      if (!p || p->kind != Symbol::Kind::func_param)
        return l.fail("call result '" + r.symbol + "' is not a .param variable");
      result_words.insert(result_words.end(), p->words.begin(), p->words.end());
    }
  site->return_words = static_cast<uint32_t>(result_words.size());
  bool noreturn = false;
  if (s) {
    Function* f = l.linker.program.functions[s->index].get();
    site->callee = f;
    l.function.callees.push_back(f->index);
    noreturn = f->name == "__assertfail";
  } else {
    l.function.calls_indirectly = true;
    if (proto)
      for (const auto& p : l.source.prototypes)
        if (p.name == proto->symbol) noreturn = p.noreturn;
  }
  l.max_out = std::max(l.max_out, out + site->return_words);
  LInst* i = l.emit(s ? (site->callee->builtin ? "call.builtin" : "call") : "call.indirect", {}, target);
  if (!i) return false;
  i->aux = site.get();
  i->early = true;
  l.linker.program.call_sites.push_back(std::move(site));
  uint32_t k = out;
  for (uint32_t w : result_words) {
    LOp to;
    to.kind = LOp::Kind::vreg;
    to.id = w;
    if (!l.emit("mov.b32", to, out_op(k++))) return false;
  }
  if (noreturn) {  // lanes do not come back; keeps what follows out of the flow graph
    LInst* t = l.emit("trap", {}, {}, {}, {}, {}, 2);
    if (!t) return false;
    t->flow = Flow::leave;
    t->dead_end = true;
  }
  return true;
}

// ---- barriers
// -----------------------------------------------------------------------------------------------------
bool lower_bar(Lowering& l, const Instruction& in) {
  // bar.sync a{, b}; bar.arrive a, b; bar.red.popc.u32 d, a{, b}, {!}c; bar.red.and.pred p, a{, b}, {!}c;
  // bar.warp.sync m
  if (in.has("warp")) {
    if (!need(l, in, 1)) return false;
    LInst* i = l.emit("bar.warp.sync", {}, l.src(in.operands[0], Type::u32));
    if (i) i->flow = Flow::none;
    return i != nullptr;
  }
  if (in.has("cluster")) {
    if (in.has("arrive")) return l.emit("cluster.arrive") != nullptr;
    return l.emit("cluster.wait") != nullptr;
  }
  if (in.has("red")) {
    const bool popc = in.has("popc");
    const size_t n = in.operands.size();
    if (n < 3) return l.fail("bar.red needs an operand");
    const Operand& value = in.operands[n - 1];
    LOp p = l.pred(value);
    if (value.negated) {
      LOp t = l.temp(RegClass::pred);
      l.emit("pred.mov", t, p, {}, {}, {}, kFullMask);
      p = t;
    }
    LOp id = l.src(in.operands[1], Type::u32),
        count = n > 3 ? l.src(in.operands[2], Type::u32) : l.constant32(0);
    LOp d = popc ? l.dst(in.operands[0], Type::u32) : l.pred_dst(in.operands[0]);
    // Arrive and contribute, wait, then read the result: the second half runs after release.
    if (!l.emit("bar.red", {}, id, count, p)) return false;
    return l.emit(popc ? "bar.red.popc" : in.has("and") ? "bar.red.and" : "bar.red.or", d, id) != nullptr;
  }
  LOp id = in.operands.empty() ? l.constant32(0) : l.src(in.operands[0], Type::u32);
  LOp count = in.operands.size() > 1 ? l.src(in.operands[1], Type::u32) : l.constant32(0);
  return l.emit(in.has("arrive") ? "bar.arrive" : "bar.sync", {}, id, count) != nullptr;
}

bool lower_fence(Lowering& l, const Instruction& in) {  // memory is sequentially consistent within a worker;
                                                        // order across workers needs the host's fence
  if (in.has("proxy") || in.has("mbarrier_init")) return true;
  return l.emit("fence") != nullptr;
}

bool lower_nanosleep(Lowering& l, const Instruction& in) {
  if (!need(l, in, 1)) return false;
  return l.emit("nanosleep", {}, l.src(in.operands[0], Type::u32)) != nullptr;
}

// ---- warp-wide
// ------------------------------------------------------------------------------------------------------
bool lower_shfl(Lowering& l, const Instruction& in) {  // shfl.sync.mode.b32 d|p, a, b, c, mask
  if (!need(l, in, 4)) return false;
  const bool pair = in.operands[0].kind == Operand::Kind::pair;
  const Operand& dop = pair ? in.operands[0].elements[0] : in.operands[0];
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::u32),
      c = l.src(in.operands[3], Type::u32);
  LOp mask = in.has("sync") ? l.src(in.operands.at(4), Type::b32) : l.constant32(0);
  const char* mode = in.has("up") ? "up" : in.has("down") ? "down" : in.has("bfly") ? "bfly" : "idx";
  LOp p = pair ? l.pred_dst(in.operands[0].elements[1]) : l.temp(RegClass::pred);
  p.def = true;
  LInst* i =
      l.emit(std::string("shfl.") + mode, l.dst(dop, Type::b32), a, b, c, mask, in.has("sync") ? 1 : 0);
  if (!i) return false;
  i->extra = {p};
  i->early = true;
  return true;
}
bool lower_vote(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  LOp p = l.pred(in.operands[1]),
      mask = in.has("sync") ? l.src(in.operands.at(2), Type::b32) : l.constant32(0);
  const uint64_t imm = (in.has("sync") ? 1u : 0u) | (in.operands[1].negated ? 2u : 0u);
  LInst* i;
  if (in.has("ballot"))
    i = l.emit("vote.ballot", l.dst(in.operands[0], Type::b32), p, mask, {}, {}, imm);
  else
    i = l.emit(in.has("all")   ? "vote.all"
               : in.has("uni") ? "vote.uni"
                               : "vote.any",
               l.pred_dst(in.operands[0]), p, mask, {}, {}, imm);
  if (i) i->early = true;
  return i != nullptr;
}
bool lower_match(Lowering& l,
                 const Instruction& in) {  // match.any.sync.b32 d, a, mask; match.all.sync.b32 d|p, a, mask
  if (!need(l, in, 3)) return false;
  const Type t = last_type(in);
  const bool pair = in.operands[0].kind == Operand::Kind::pair;
  LOp a = l.src(in.operands[1], t), mask = l.src(in.operands[2], Type::b32);
  LOp d = l.dst(pair ? in.operands[0].elements[0] : in.operands[0], Type::b32);
  LOp p = pair ? l.pred_dst(in.operands[0].elements[1]) : l.temp(RegClass::pred);
  p.def = true;
  LInst* i =
      l.emit(std::string("match.") + (in.has("all") ? "all." : "any.") + b_key(t), d, a, mask, {}, {}, 1);
  if (!i) return false;
  i->extra = {p};
  i->early = true;
  return true;
}
bool lower_redux(Lowering& l, const Instruction& in) {
  if (!need(l, in, 3)) return false;
  const Type t = last_type(in);
  LOp a = l.src(in.operands[1], t), mask = l.src(in.operands[2], Type::b32);
  std::string key = "redux.";
  key += in.has("add")   ? "add.b32"
         : in.has("and") ? "and.b32"
         : in.has("or")  ? "or.b32"
         : in.has("xor") ? "xor.b32"
         : in.has("min") ? "min." + (t == Type::f32 ? std::string("f32") : su_key(t))
                         : "max." + (t == Type::f32 ? std::string("f32") : su_key(t));
  const uint64_t imm = 1 | (in.has("abs") ? 2 : 0) | (in.has("NaN") ? 4 : 0);
  LInst* i = l.emit(key, l.dst(in.operands[0], t), a, mask, {}, {}, imm);
  if (i) i->early = true;
  return i != nullptr;
}
bool lower_activemask(Lowering& l, const Instruction& in) {
  if (!need(l, in, 1)) return false;
  return l.emit("activemask", l.dst(in.operands[0], Type::b32)) != nullptr;
}
bool lower_elect(Lowering& l, const Instruction& in) {  // elect.sync d|p, mask
  if (!need(l, in, 2)) return false;
  const bool pair = in.operands[0].kind == Operand::Kind::pair;
  LOp mask = l.src(in.operands[1], Type::b32);
  LOp d = pair ? l.dst_any(in.operands[0].elements[0], RegClass::r32) : l.temp(RegClass::r32);
  LOp p = pair ? l.pred_dst(in.operands[0].elements[1]) : l.pred_dst(in.operands[0]);
  p.def = true;
  LInst* i = l.emit("elect", d, {}, mask, {}, {}, 1);
  if (!i) return false;
  i->extra = {p};
  i->early = true;
  return true;
}

bool lower_alloca(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  const Type t = last_type(in);
  LOp size = l.src(in.operands[1], t), d = l.dst(in.operands[0], t);
  const uint64_t align = in.operands.size() > 2 ? static_cast<uint64_t>(in.operands[2].imm) : 16;
  l.function.uses_alloca = true;
  if (!wide(t)) return l.fail("32-bit alloca is not supported");
  return l.emit("alloca", d, size, {}, {}, {}, align) != nullptr;
}
bool lower_stacksave(Lowering& l, const Instruction& in) {
  if (!need(l, in, 1)) return false;
  l.function.uses_alloca = true;
  if (in.opcode == "stacksave") return l.emit("stacksave", l.dst(in.operands[0], Type::b64)) != nullptr;
  return l.emit("stackrestore", {}, l.src(in.operands[0], Type::b64)) != nullptr;
}

}  // namespace simgpu::exec
