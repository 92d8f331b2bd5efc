// Lowering of loads, stores, atomics and address arithmetic.
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

namespace {

bool space_of(const Instruction& in, Space& s) {
  s = Space::none;
  for (const auto& m : in.modifiers) {
    if (m == "global")
      s = Space::global;
    else if (m == "const")
      s = Space::constant;
    else if (m == "local")
      s = Space::local;
    else if (m == "shared" || m == "shared::cta" || m == "shared::cluster")
      s = Space::shared;
    else if (m == "param" || m == "param::entry" || m == "param::func")
      s = Space::param;
    else
      continue;
    return true;
  }
  return false;
}
uint32_t vector_of(const Instruction& in) {
  if (in.has("v2")) return 2;
  if (in.has("v4")) return 4;
  if (in.has("v8")) return 8;
  return 1;
}
bool waits_on_memory(const Instruction& in) {
  return in.has("volatile") || in.has("relaxed") || in.has("acquire") || in.has("mmio");
}

std::string memory_key(Type t) {
  switch (bits(t)) {
    case 8:
      return is_signed_int(t) ? "s8" : "u8";
    case 16:
      return t == Type::s16 ? "s16" : "u16";
    case 32:
      return t == Type::s32 ? "s32" : "u32";
    case 64:
    case 128:
      return "u64";
    default:
      return {};
  }
}
// Suffix "type.register" of a load into a register of this class and declared width.
std::string load_key(Lowering& l, Type t, const LOp& d, uint32_t width) {
  std::string m = memory_key(t);
  if (l.is_wide(d)) return m + ".64";
  if (bits(t) == 8 && m == "s8") return width == 16 ? "s8.16" : "s8.32";
  if (m == "s16") return width == 16 ? "u16.32" : "s16.32";
  if (m == "s32") return "u32.32";
  return m + ".32";
}

void spin_hint(Lowering& l, const Instruction& in, Space s) {
  if (waits_on_memory(in)) l.emit("spin", {}, {}, {}, {}, {}, s == Space::shared ? 64 : 512);
}

// Destinations or sources of a vector access; 128-bit registers count as two.
bool elements(Lowering& l, const Operand& o, Type t, bool def, std::vector<LOp>& out,
              std::vector<uint32_t>& widths) {
  const auto one = [&](const Operand& e) {
    const uint32_t w = l.width_of(e);
    if (bits(t) == 128) {
      if (w != 128) return l.fail("128-bit register expected");
      LOp lo = l.dst_any(e, RegClass::r64), hi;
      lo.def = def;
      lo.use = !def;
      hi = lo;
      hi.id += 1;
      out.push_back(lo);
      out.push_back(hi);
      widths.push_back(64);
      widths.push_back(64);
      return true;
    }
    LOp v = def ? l.dst_any(e, wide(t) ? RegClass::r64 : RegClass::r32) : l.src_any(e, t);
    if (!v) return false;
    v.def = def;
    v.use = !def;
    out.push_back(v);
    widths.push_back(w);
    return true;
  };
  if (o.kind != Operand::Kind::vector) return one(o);
  for (const auto& e : o.elements)
    if (!one(e)) return false;
  return true;
}

// ---- .param of device functions and calls: words in registers
// ------------------------------------------------------
bool load_words(Lowering& l, const Symbol& s, uint64_t byte, Type t, LOp d, uint32_t width) {
  const uint32_t n = bits(t);
  LOp w = l.word(s, byte);
  if (!w) return false;
  if (n == 64) {
    if (byte % 4 != 0) return l.fail("unaligned parameter");
    LOp hi = l.word(s, byte + 4);
    return hi && l.emit("pack.b64", d, w, hi);
  }
  LOp v = w;
  if (n < 32) {
    v = l.temp(RegClass::r32);
    if (!l.emit(is_signed_int(t) ? "bfe.s32" : "bfe.u32", v, w,
                l.constant32(static_cast<uint32_t>(byte % 4) * 8), l.constant32(n)))
      return false;
    if (width == 16 && is_signed_int(t)) {
      LOp z = l.temp(RegClass::r32);
      l.emit("cvt.u32.u16", z, v);
      v = z;
    }
  }
  if (l.is_wide(d)) return l.emit(is_signed_int(t) ? "cvt.s64.s32" : "cvt.u64.u32", d, v) != nullptr;
  return l.emit("mov.b32", d, v) != nullptr;
}
bool store_words(Lowering& l, const Symbol& s, uint64_t byte, Type t, LOp v) {
  const uint32_t n = bits(t);
  LOp w = l.word(s, byte);
  if (!w) return false;
  if (n == 64) {
    LOp hi = l.word(s, byte + 4);
    return hi && l.emit("cvt.u32.u64", w, v) && l.emit("high.b64", hi, v);
  }
  if (l.is_wide(v)) {
    LOp x = l.temp(RegClass::r32);
    l.emit("cvt.u32.u64", x, v);
    v = x;
  }
  if (n == 32) return l.emit("mov.b32", w, v) != nullptr;
  LInst* i = l.emit("bfi.b32", w, v, w, l.constant32(static_cast<uint32_t>(byte % 4) * 8), l.constant32(n));
  return i != nullptr;
}

const Symbol* word_symbol(Lowering& l, const Operand& o) {
  if (o.kind != Operand::Kind::address || o.symbol.empty()) return nullptr;
  const Symbol* s = l.symbol(o.symbol);
  return s && s->kind == Symbol::Kind::func_param ? s : nullptr;
}

}  // namespace

bool lower_ld(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  Space space;
  space_of(in, space);
  const Type t = last_type(in);
  if (memory_key(t).empty()) return l.fail("unsupported type of load");
  std::vector<LOp> d;
  std::vector<uint32_t> widths;
  if (!elements(l, in.operands[0], t, true, d, widths)) return false;
  const uint32_t size = bits(t) == 128 ? 8 : bits(t) / 8;
  const Type et = bits(t) == 128 ? Type::b64 : t;
  if (const Symbol* s = word_symbol(l, in.operands[1])) {
    const std::vector<uint32_t> saved = s->words;
    for (size_t k = 0; k < d.size(); ++k)
      if (!load_words(l, *s, static_cast<uint64_t>(in.operands[1].imm) + k * size, et, d[k], widths[k]))
        return false;
    return true;
  }
  LOp base;
  uint64_t offset;
  bool is_wide;
  const Symbol* target = in.operands[1].symbol.empty() ? nullptr : l.symbol(in.operands[1].symbol);
  if (target && target->kind == Symbol::Kind::entry_param && (space == Space::param)) {
    uint64_t at = target->offset + static_cast<uint64_t>(in.operands[1].imm);
    for (size_t k = 0; k < d.size(); ++k)
      if (!l.emit("ldp." + load_key(l, et, d[k], widths[k]), d[k], {}, {}, {}, {}, at + k * size))
        return false;
    return true;
  }
  if (!l.address(in.operands[1], space, base, offset, is_wide)) return false;
  if (space == Space::none && target) {  // generic load of a named variable: its own space
    if (target->kind == Symbol::Kind::shared)
      space = Space::shared;
    else if (target->kind == Symbol::Kind::local)
      space = Space::local;
    else if (target->kind == Symbol::Kind::global)
      space = Space::global;
  }
  if ((space == Space::none || space == Space::global || space == Space::constant) && !is_wide) {
    base = l.as64(base);
    is_wide = true;
  }
  spin_hint(l, in, space);
  LInst* i;
  if (d.size() == 1) {
    i = l.emit("ld." + load_key(l, et, d[0], widths[0]), d[0], base, {}, {}, {}, offset);
  } else {
    // One handler for all elements: they share type and register class, else element by element is not atomic
    // anyway.
    const std::string key = load_key(l, et, d[0], widths[0]);
    for (size_t k = 1; k < d.size(); ++k)
      if (load_key(l, et, d[k], widths[k]) != key)
        return l.fail("vector load into registers of different widths");
    i = l.emit("ldv." + key, {}, base, {}, {}, {}, offset);
    if (i) {
      i->extra = d;
      i->early = true;
      i->d = LOp{LOp::Kind::slot, false, false, static_cast<uint32_t>(d.size())};
    }
  }
  return l.resolver(i, space, is_wide);
}

bool lower_st(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  Space space;
  space_of(in, space);
  const Type t = last_type(in);
  if (memory_key(t).empty()) return l.fail("unsupported type of store");
  std::vector<LOp> v;
  std::vector<uint32_t> widths;
  if (!elements(l, in.operands[1], t, false, v, widths)) return false;
  const uint32_t size = bits(t) == 128 ? 8 : bits(t) / 8;
  const Type et = bits(t) == 128 ? Type::b64 : t;
  if (const Symbol* s = word_symbol(l, in.operands[0])) {
    for (size_t k = 0; k < v.size(); ++k)
      if (!store_words(l, *s, static_cast<uint64_t>(in.operands[0].imm) + k * size, et, v[k])) return false;
    return true;
  }
  LOp base;
  uint64_t offset;
  bool is_wide;
  const Symbol* target = in.operands[0].symbol.empty() ? nullptr : l.symbol(in.operands[0].symbol);
  if (!l.address(in.operands[0], space, base, offset, is_wide)) return false;
  if (space == Space::none && target) {
    if (target->kind == Symbol::Kind::shared)
      space = Space::shared;
    else if (target->kind == Symbol::Kind::local)
      space = Space::local;
    else if (target->kind == Symbol::Kind::global)
      space = Space::global;
  }
  if ((space == Space::none || space == Space::global || space == Space::constant) && !is_wide) {
    base = l.as64(base);
    is_wide = true;
  }
  const std::string mem = "u" + std::to_string(bits(et));
  LInst* i;
  if (v.size() == 1) {
    i = l.emit("st." + mem + (l.is_wide(v[0]) ? ".64" : ".32"), {}, base, v[0], {}, {}, offset);
  } else {
    bool any_wide = false, any_narrow = false;
    for (const auto& e : v) (l.is_wide(e) ? any_wide : any_narrow) = true;
    if (any_wide && any_narrow) return l.fail("vector store from registers of different widths");
    i = l.emit("stv." + mem + (any_wide ? ".64" : ".32"), {}, base, {}, {}, {}, offset);
    if (i) {
      i->extra = v;
      i->d = LOp{LOp::Kind::slot, false, false, static_cast<uint32_t>(v.size())};
    }
  }
  return l.resolver(i, space, is_wide);
}

bool lower_atom(Lowering& l, const Instruction& in) {  // atom and red
  Space space;
  space_of(in, space);
  const bool red = in.opcode == "red";
  const Type t = last_type(in);
  static const char* const ops[] = {"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"};
  std::string op;
  for (const auto& m : in.modifiers)
    for (const char* o : ops)
      if (m == o) op = o;
  if (op.empty()) return l.fail("unknown atomic operation");
  const size_t address_at = red ? 0 : 1;
  if (!need(l, in, address_at + (op == "cas" ? 3 : 2))) return false;
  const bool used = !red && in.operands[0].kind != Operand::Kind::none;
  const uint32_t n = vector_of(in);
  LOp base;
  uint64_t offset;
  bool is_wide;
  if (!l.address(in.operands[address_at], space, base, offset, is_wide)) return false;
  const Symbol* target =
      in.operands[address_at].symbol.empty() ? nullptr : l.symbol(in.operands[address_at].symbol);
  if (space == Space::none && target)
    space = target->kind == Symbol::Kind::shared ? Space::shared : Space::global;
  if ((space == Space::none || space == Space::global) && !is_wide) {
    base = l.as64(base);
    is_wide = true;
  }
  if (op == "cas" || op == "exch" || (used && waits_on_memory(in)))
    l.emit("spin", {}, {}, {}, {}, {}, space == Space::shared ? 64 : 512);
  std::string type;
  if (is_float(t) || is_half(t))
    type = op == "exch" || op == "cas" ? b_key(t) : f_key(t);
  else if (op == "min" || op == "max")
    type = su_key(t);
  else
    type = b_key(t);
  const bool fp = is_float(t) || is_half(t);
  const auto note = [&](LInst* i) {
    if (!i) return;
    i->atomic = true;
    i->early = true;
    if (space != Space::shared && (fp || op == "exch" || op == "cas")) l.order_dependent = true;
  };
  if (bits(t) == 128) {
    std::vector<LOp> d, v1, v2;
    std::vector<uint32_t> w;
    if (used && !elements(l, in.operands[0], t, true, d, w)) return false;
    if (!elements(l, in.operands[address_at + 1], t, false, v1, w)) return false;
    if (op == "cas" && !elements(l, in.operands[address_at + 2], t, false, v2, w)) return false;
    if (op != "cas" && op != "exch") return l.fail("unknown 128-bit atomic");
    LInst* i = l.emit("atom." + op + ".b128", {}, base, {}, {}, {}, offset);
    if (!i) return false;
    if (!used) {
      d = {l.temp(RegClass::r64), l.temp(RegClass::r64)};
      d[0].def = d[1].def = true;
    }
    i = &l.code.back();
    i->extra = d;
    i->extra.insert(i->extra.end(), v1.begin(), v1.end());
    i->extra.insert(i->extra.end(), v2.begin(), v2.end());
    note(i);
    return l.resolver(i, space, is_wide);
  }
  for (uint32_t k = 0; k < n; ++k) {  // vector forms are atomic per element
    const auto element = [&](const Operand& o) -> const Operand& {
      return n > 1 && o.kind == Operand::Kind::vector ? o.elements[k] : o;
    };
    LOp d = used ? l.dst_any(element(in.operands[0]), wide(t) ? RegClass::r64 : RegClass::r32)
                 : l.temp(wide(t) ? RegClass::r64 : RegClass::r32);
    LOp b = l.src(element(in.operands[address_at + 1]), t), c;
    if (op == "cas") c = l.src(element(in.operands[address_at + 2]), t);
    LInst* i = l.emit("atom." + op + "." + type, d, base, b, c,
                      LOp{LOp::Kind::slot, false, false, used ? 1u : 0u}, offset + k * bits(t) / 8);
    note(i);
    if (!l.resolver(i, space, is_wide)) return false;
  }
  return true;
}

bool lower_cvta(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  Space space;
  space_of(in, space);
  const bool to = in.has("to");
  LOp a = l.src(in.operands[1], Type::b64), d = l.dst_any(in.operands[0], RegClass::r64);
  uint64_t window = 0;
  if (space == Space::shared) window = kSharedWindow;
  if (space == Space::local) window = kLocalWindow;
  if (space == Space::param) window = kParamWindow;
  LOp r = l.is_wide(d) ? d : l.temp(RegClass::r64);
  if (window == 0 ? !l.emit("mov.b64", r, a)
                  : !l.emit("add.b64", r, a, l.constant64(to ? 0 - window : window)))
    return false;
  r.def = false;
  return l.is_wide(d) || l.emit("cvt.u32.u64", d, r);
}

bool lower_isspacep(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  Space space;
  space_of(in, space);
  uint64_t what = 0;
  if (space == Space::shared)
    what = in.has("shared::cluster") ? 5 : 1;
  else if (space == Space::local)
    what = 2;
  else if (space == Space::param)
    what = 3;
  else if (space == Space::constant)
    what = 4;
  return l.emit("isspacep", l.pred_dst(in.operands[0]), l.src(in.operands[1], Type::b64), {}, {}, {}, what) !=
         nullptr;
}

// Hints whose only meaning here is that their address must be a legal operand.
bool lower_hint(Lowering& l, const Instruction& in) {
  (void)in;
  return l.error().empty();
}

bool lower_createpolicy(Lowering& l, const Instruction& in) {
  if (!need(l, in, 1)) return false;
  return l.emit("mov.b64", l.dst(in.operands[0], Type::b64), l.constant64(0)) != nullptr;
}

bool lower_mapa(Lowering& l, const Instruction& in) {  // mapa{.shared::cluster}.u32|u64 d, a, rank
  if (!need(l, in, 3)) return false;
  const Type t = last_type(in);
  const bool shared = in.has("shared::cluster");
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], Type::u32), d = l.dst(in.operands[0], t);
  (void)shared;  // the rank field is the same in offsets and in generic addresses
  return l.emit(wide(t) ? "mapa.64" : "mapa.32", d, a, b) != nullptr;
}
bool lower_getctarank(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  const Type t = last_type(in);
  return l.emit(wide(t) ? "getctarank.64" : "getctarank.32", l.dst(in.operands[0], Type::u32),
                l.src(in.operands[1], t)) != nullptr;
}

}  // namespace simgpu::exec
