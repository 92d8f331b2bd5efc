// Lowering of integer, logic, comparison and move instructions.
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

namespace {

bool binary(Lowering& l, const Instruction& in, const std::string& key, Type t, Type tb) {
  if (!need(l, in, 3)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], tb);
  return mark(l.emit(key, l.dst(in.operands[0], t), a, b), class_for(t)) != nullptr;
}
bool unary(Lowering& l, const Instruction& in, const std::string& key, Type td, Type ta) {
  if (!need(l, in, 2)) return false;
  LOp a = l.src(in.operands[1], ta);
  return mark(l.emit(key, l.dst(in.operands[0], td), a), class_for(ta)) != nullptr;
}

// add/sub with carry: flags bit 0 reads CC.CF, bit 1 writes it.
bool carry_op(Lowering& l, const Instruction& in, const char* op, LOp d, LOp a, LOp b, Type t, bool read,
              bool write) {
  LOp cin, cout;
  if (read) cin = l.carry();
  if (write) {
    cout = l.carry();
    cout.def = true;
  }
  return mark(l.emit(std::string(op) + "." + b_key(t), d, a, b, cin, cout,
                     (read ? 1u : 0u) | (write ? 2u : 0u)),
              OpClass::integer) != nullptr;
  (void)in;
}

}  // namespace

bool lower_add_sub(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_float(t) || is_half(t) || t == Type::f32x2) return lower_float_arith(l, in);
  if (!need(l, in, 3)) return false;
  const bool sub = in.opcode == "sub" || in.opcode == "subc";
  const bool with_carry = in.opcode == "addc" || in.opcode == "subc";
  if (with_carry || in.has("cc")) {
    LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t);
    return carry_op(l, in, sub ? "subc" : "addc", l.dst(in.operands[0], t), a, b, t, with_carry,
                    in.has("cc"));
  }
  if (t == Type::u16x2 || t == Type::s16x2) return !sub && binary(l, in, "add.x2", Type::b32, Type::b32);
  if (in.has("sat")) return binary(l, in, in.opcode + ".sat.s32", t, t);
  return binary(l, in, in.opcode + "." + b_key(t), t, t);
}

bool lower_mul(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_float(t) || is_half(t) || t == Type::f32x2) return lower_float_arith(l, in);
  if (!need(l, in, 3)) return false;
  if (in.has("wide")) {
    LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t);
    const Type d = bits(t) == 16 ? Type::b32 : Type::b64;
    return mark(l.emit("mul.wide." + su_key(t), l.dst(in.operands[0], d), a, b), OpClass::integer) != nullptr;
  }
  if (in.has("hi")) return binary(l, in, "mul.hi." + su_key(t), t, t);
  return binary(l, in, "mul.lo." + b_key(t), t, t);
}

bool lower_mad(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_float(t)) return lower_float_arith(l, in);
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t);
  if (in.has("wide")) {
    const Type d = bits(t) == 16 ? Type::b32 : Type::b64;
    LOp c = l.src(in.operands[3], d);
    return mark(l.emit("mad.wide." + su_key(t), l.dst(in.operands[0], d), a, b, c), OpClass::integer) !=
           nullptr;
  }
  LOp c = l.src(in.operands[3], t);
  if (in.opcode == "madc" || in.has("cc")) {
    LOp product = l.temp(wide(t) ? RegClass::r64 : RegClass::r32);
    if (!l.emit(in.has("hi") ? "mul.hi." + su_key(t) : "mul.lo." + b_key(t), product, a, b)) return false;
    return carry_op(l, in, "addc", l.dst(in.operands[0], t), product, c, t, in.opcode == "madc",
                    in.has("cc"));
  }
  std::string key =
      in.has("hi") ? (in.has("sat") ? "mad.hi.sat.s32" : "mad.hi." + su_key(t)) : "mad.lo." + b_key(t);
  return mark(l.emit(key, l.dst(in.operands[0], t), a, b, c), OpClass::integer) != nullptr;
}

bool lower_mul24(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  const std::string key = std::string("mul24.") + (in.has("hi") ? "hi." : "lo.") + su_key(t);
  if (in.opcode == "mul24") return binary(l, in, key, t, t);
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t), c = l.src(in.operands[3], t),
      p = l.temp(RegClass::r32);
  if (!l.emit(key, p, a, b)) return false;
  return l.emit(in.has("sat") ? "add.sat.s32" : "add.b32", l.dst(in.operands[0], t), p, c) != nullptr;
}

bool lower_div_rem(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_float(t)) return lower_float_arith(l, in);
  return binary(l, in, in.opcode + "." + su_key(t), t, t);
}

bool lower_logic(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (t == Type::pred) {
    if (!need(l, in, in.opcode == "not" ? 2 : 3)) return false;
    LOp a = l.pred(in.operands[1]);
    if (in.opcode == "not")
      return l.emit("pred.mov", l.pred_dst(in.operands[0]), a, {}, {}, {},
                    in.operands[1].negated ? 0 : kFullMask) != nullptr;
    LOp b = l.pred(in.operands[2]);
    uint64_t table = in.opcode == "and" ? 8 : in.opcode == "or" ? 14 : 6;
    return l.emit("pred.logic", l.pred_dst(in.operands[0]), a, b, {}, {}, table) != nullptr;
  }
  if (in.opcode == "not" || in.opcode == "cnot") return unary(l, in, in.opcode + "." + b_key(t), t, t);
  return binary(l, in, in.opcode + "." + b_key(t), t, t);
}

bool lower_shift(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  return binary(l, in, in.opcode == "shl" ? "shl." + b_key(t) : "shr." + su_key(t), t, Type::u32);
}

bool lower_shf(Lowering& l, const Instruction& in) {
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32),
      c = l.src(in.operands[3], Type::u32);
  return mark(l.emit(std::string("shf.") + (in.has("l") ? "l." : "r.") +
                         (in.has("clamp") ? "clamp" : "wrap") + ".b32",
                     l.dst(in.operands[0], Type::b32), a, b, c),
              OpClass::integer) != nullptr;
}

bool lower_min_max(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_float(t) || is_half(t)) return lower_float_arith(l, in);
  std::string key = in.opcode + "." + (in.has("relu") ? "relu." : "");
  key += (t == Type::u16x2 || t == Type::s16x2) ? f_key(t) : su_key(t);
  return binary(l, in, key, t, t);
}

bool lower_abs_neg(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (is_half(t)) return lower_half_unary(l, in);
  if (is_float(t)) return unary(l, in, in.opcode + (in.has("ftz") ? ".ftz." : ".") + f_key(t), t, t);
  return unary(l, in, in.opcode == "neg" ? "neg." + b_key(t) : "abs." + su_key(t), t, t);
}

bool lower_sad(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t), c = l.src(in.operands[3], t);
  return mark(l.emit("sad." + su_key(t), l.dst(in.operands[0], t), a, b, c), OpClass::integer) != nullptr;
}

bool lower_bit_count(Lowering& l, const Instruction& in) {  // popc clz: 32-bit result; brev: same width
  const Type t = last_type(in);
  return unary(l, in, in.opcode + "." + b_key(t), in.opcode == "brev" ? t : Type::u32, t);
}
bool lower_bfind(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  return unary(l, in, std::string("bfind.") + (in.has("shiftamt") ? "shiftamt." : "") + su_key(t), Type::u32,
               t);
}
bool lower_bfe(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], Type::u32),
      c = l.src(in.operands[3], Type::u32);
  return mark(l.emit("bfe." + su_key(t), l.dst(in.operands[0], t), a, b, c), OpClass::integer) != nullptr;
}
bool lower_bfi(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  if (!need(l, in, 5)) return false;
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t), p = l.src(in.operands[3], Type::u32),
      n = l.src(in.operands[4], Type::u32);
  return mark(l.emit("bfi." + b_key(t), l.dst(in.operands[0], t), a, b, p, n), OpClass::integer) != nullptr;
}
bool lower_bmsk_szext(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  return binary(
      l, in, in.opcode + (in.has("clamp") ? ".clamp." : ".wrap.") + (in.opcode == "bmsk" ? "b32" : su_key(t)),
      t, Type::u32);
}
bool lower_fns(Lowering& l, const Instruction& in) {
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32),
      c = l.src(in.operands[3], Type::s32);
  return l.emit("fns.b32", l.dst(in.operands[0], Type::b32), a, b, c) != nullptr;
}

bool lower_lop3(Lowering& l, const Instruction& in) {
  // lop3.b32 d, a, b, c, lut;  lop3.or.b32 d|p, a, b, c, lut, q;
  if (!need(l, in, 5)) return false;
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32),
      c = l.src(in.operands[3], Type::b32);
  if (in.operands[4].kind != Operand::Kind::imm_int) return l.fail("lop3 needs an immediate table");
  const bool with_pred = in.has("or") || in.has("and");
  if (!with_pred)
    return mark(l.emit("lop3.b32", l.dst(in.operands[0], Type::b32), a, b, c, {},
                       static_cast<uint64_t>(in.operands[4].imm)),
                OpClass::integer) != nullptr;
  if (!need(l, in, 6) || in.operands[0].kind != Operand::Kind::pair)
    return l.fail("lop3 with a predicate needs d|p and q");
  LOp r = l.temp(RegClass::r32);
  if (!l.emit("lop3.b32", r, a, b, c, {}, static_cast<uint64_t>(in.operands[4].imm))) return false;
  LOp nz = l.temp(RegClass::pred);
  l.emit("setp.ne.u32", nz, r, l.constant32(0));
  LOp q = l.pred(in.operands[5]);
  const bool neg = in.operands[5].negated;
  uint64_t table = in.has("or") ? (neg ? 13 : 14) : (neg ? 4 : 8);  // bit a*2+b
  if (!l.emit("pred.logic", l.pred_dst(in.operands[0].elements[1]), nz, q, {}, {}, table)) return false;
  return l.emit("mov.b32", l.dst(in.operands[0].elements[0], Type::b32), r) != nullptr;
}

bool lower_prmt(Lowering& l, const Instruction& in) {
  if (!need(l, in, 4)) return false;
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32),
      c = l.src(in.operands[3], Type::b32);
  static const char* const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (uint64_t k = 0; k < 6; ++k)
    if (in.has(modes[k]))
      return l.emit("prmt.mode.b32", l.dst(in.operands[0], Type::b32), a, b, c, {}, k + 1) != nullptr;
  return mark(l.emit("prmt.b32", l.dst(in.operands[0], Type::b32), a, b, c), OpClass::integer) != nullptr;
}

bool lower_dp(Lowering& l, const Instruction& in) {  // dp4a dp2a
  if (!need(l, in, 4) || in.types.size() < 2) return false;
  LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32),
      c = l.src(in.operands[3], Type::b32);
  return mark(l.emit(in.opcode + "." + f_key(in.types[0]) + "." + f_key(in.types[1]),
                     l.dst(in.operands[0], Type::b32), a, b, c, {}, in.has("hi") ? 1 : 0),
              OpClass::integer) != nullptr;
}

// Comparison into predicate `p`; false when the form does not exist.
static bool compare(Lowering& l, const Instruction& in, const std::string& op, Type t, const Operand& oa,
                    const Operand& ob, LOp p) {
  std::string key = "setp." + op + ".";
  if (t == Type::f16 || t == Type::bf16) {
    const char* widen = t == Type::f16 ? "cvt.f32.f16" : "cvt.f32.bf16";
    LOp a = l.temp(RegClass::r32), b = l.temp(RegClass::r32);
    if (!l.emit(widen, a, l.src(oa, t)) || !l.emit(widen, b, l.src(ob, t))) return false;
    return mark(l.emit("setp." + op + ".f32", p, a, b), OpClass::fp16) != nullptr;
  }
  LOp a = l.src(oa, t), b = l.src(ob, t);
  if (is_float(t))
    return mark(l.emit(key + (in.has("ftz") ? "ftz." : "") + f_key(t), p, a, b), class_for(t)) != nullptr;
  std::string o = op;
  if (o == "lo") o = "lt";
  if (o == "ls") o = "le";
  if (o == "hi") o = "gt";
  if (o == "hs") o = "ge";
  return mark(l.emit("setp." + o + "." + su_key(t), p, a, b), OpClass::integer) != nullptr;
}

static const char* const kCompareNames[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                            "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

static std::string compare_name(const Instruction& in) {
  if (in.modifiers.empty()) return {};
  for (const char* n : kCompareNames)
    if (in.modifiers[0] == n) return n;
  return {};
}
static int bool_op(const Instruction& in) {  // 0 none 1 and 2 or 3 xor
  if (in.has("and")) return 1;
  if (in.has("or")) return 2;
  if (in.has("xor")) return 3;
  return 0;
}
// d = (x op c) with c possibly negated
static uint64_t bool_table(int op, bool negate_x, bool negate_c) {
  uint64_t table = 0;
  for (int x = 0; x < 2; ++x)
    for (int c = 0; c < 2; ++c) {
      const bool u = (x != 0) != negate_x, v = (c != 0) != negate_c;
      const bool r = op == 1 ? u && v : op == 2 ? u || v : u != v;
      if (r) table |= 1ull << (x * 2 + c);
    }
  return table;
}

bool lower_setp(Lowering& l, const Instruction& in) {
  if (!need(l, in, 3)) return false;
  const std::string op = compare_name(in);
  if (op.empty()) return l.fail("unknown comparison");
  const Type t = last_type(in);
  const int logic = bool_op(in);
  const bool pair = in.operands[0].kind == Operand::Kind::pair;
  const Operand& po = pair ? in.operands[0].elements[0] : in.operands[0];
  if (t == Type::f16x2 || t == Type::bf16x2) {
    if (!pair) return l.fail("a packed comparison needs p|q");
    const Type h = t == Type::f16x2 ? Type::f16 : Type::bf16;
    const char* widen = h == Type::f16 ? "cvt.f32.f16" : "cvt.f32.bf16";
    LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32);
    LOp results[2];
    for (int half = 0; half < 2; ++half) {
      LOp x = l.temp(RegClass::r32), y = l.temp(RegClass::r32);
      if (half) {
        LOp u = l.temp(RegClass::r32), v = l.temp(RegClass::r32);
        l.emit("high.b32", u, a);
        l.emit("high.b32", v, b);
        l.emit(widen, x, u);
        l.emit(widen, y, v);
      } else {
        l.emit(widen, x, a);
        l.emit(widen, y, b);
      }
      results[half] = l.temp(RegClass::pred);
      if (!mark(l.emit("setp." + op + ".f32", results[half], x, y), OpClass::fp16)) return false;
    }
    for (size_t half = 0; half < 2; ++half) {
      LOp d = l.pred_dst(in.operands[0].elements[half]);
      if (logic) {
        if (!l.emit("pred.logic", d, results[half], l.pred(in.operands[3]), {}, {},
                    bool_table(logic, false, in.operands[3].negated)))
          return false;
      } else if (!l.emit("pred.mov", d, results[half]))
        return false;
    }
    return true;
  }
  if (!logic && !pair) return compare(l, in, op, t, in.operands[1], in.operands[2], l.pred_dst(po));
  LOp x = l.temp(RegClass::pred);
  if (!compare(l, in, op, t, in.operands[1], in.operands[2], x)) return false;
  LOp c;
  bool neg = false;
  if (logic) {
    if (!need(l, in, 4)) return false;
    c = l.pred(in.operands[3]);
    neg = in.operands[3].negated;
    if (pair) {
      LOp copy = l.temp(RegClass::pred);
      l.emit("pred.mov", copy, c);
      c = copy;
    }  // p may be c
  }
  if (logic ? !l.emit("pred.logic", l.pred_dst(po), x, c, {}, {}, bool_table(logic, false, neg))
            : !l.emit("pred.mov", l.pred_dst(po), x))
    return false;
  if (!pair || in.operands[0].elements[1].kind == Operand::Kind::none) return true;
  LOp q = l.pred_dst(in.operands[0].elements[1]);
  return (logic ? l.emit("pred.logic", q, x, c, {}, {}, bool_table(logic, true, neg))
                : l.emit("pred.mov", q, x, {}, {}, {}, kFullMask)) != nullptr;
}

// set.cmp.dtype.stype: all ones or 1.0 where true
bool lower_set(Lowering& l, const Instruction& in) {
  if (!need(l, in, 3) || in.types.size() < 2) return l.fail("set needs two types");
  const std::string op = compare_name(in);
  const Type d = in.types[0], t = in.types[1];
  const int logic = bool_op(in);
  if (t == Type::f16x2 || t == Type::bf16x2) {
    const Type h = t == Type::f16x2 ? Type::f16 : Type::bf16;
    const char* widen = h == Type::f16 ? "cvt.f32.f16" : "cvt.f32.bf16";
    LOp a = l.src(in.operands[1], Type::b32), b = l.src(in.operands[2], Type::b32), halves[2];
    const uint32_t yes = is_half(d) ? (h == Type::f16 ? 0x3c00u : 0x3f80u) : 0xffffu;
    for (int half = 0; half < 2; ++half) {
      LOp x = l.temp(RegClass::r32), y = l.temp(RegClass::r32);
      if (half) {
        LOp u = l.temp(RegClass::r32), v = l.temp(RegClass::r32);
        l.emit("high.b32", u, a);
        l.emit("high.b32", v, b);
        l.emit(widen, x, u);
        l.emit(widen, y, v);
      } else {
        l.emit(widen, x, a);
        l.emit(widen, y, b);
      }
      LOp p = l.temp(RegClass::pred);
      if (!mark(l.emit("setp." + op + ".f32", p, x, y), OpClass::fp16)) return false;
      if (logic) {
        LOp q = l.temp(RegClass::pred);
        l.emit("pred.logic", q, p, l.pred(in.operands[3]), {}, {},
               bool_table(logic, false, in.operands[3].negated));
        p = q;
      }
      halves[half] = l.temp(RegClass::r32);
      l.emit("selp.b32", halves[half], l.constant32(yes), l.constant32(0), p);
    }
    return l.emit("pack.b32", l.dst(in.operands[0], Type::b32), halves[0], halves[1]) != nullptr;
  }
  LOp p = l.temp(RegClass::pred);
  if (!compare(l, in, op, t, in.operands[1], in.operands[2], p)) return false;
  if (logic) {
    LOp q = l.temp(RegClass::pred);
    l.emit("pred.logic", q, p, l.pred(in.operands[3]), {}, {},
           bool_table(logic, false, in.operands[3].negated));
    p = q;
  }
  uint32_t yes = 0xffffffffu;
  if (d == Type::f32)
    yes = 0x3f800000u;
  else if (d == Type::f16)
    yes = 0x3c00;
  else if (d == Type::bf16)
    yes = 0x3f80;
  else if (bits(d) == 16)
    yes = 0xffff;
  return l.emit("selp.b32", l.dst(in.operands[0], bits(d) == 16 ? Type::b16 : Type::b32), l.constant32(yes),
                l.constant32(0), p) != nullptr;
}

bool lower_selp(Lowering& l, const Instruction& in) {
  if (!need(l, in, 4)) return false;
  const Type t = last_type(in);
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t), p = l.pred(in.operands[3]);
  return l.emit(wide(t) ? "selp.b64" : "selp.b32", l.dst(in.operands[0], t), a, b, p, {},
                in.operands[3].negated ? kFullMask : 0) != nullptr;
}
bool lower_slct(Lowering& l, const Instruction& in) {
  if (!need(l, in, 4) || in.types.size() < 2) return false;
  const Type t = in.types[0], s = in.types[1];
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t), c = l.src(in.operands[3], s);
  if (s == Type::f32 && in.has("ftz")) {
    LOp f = l.temp(RegClass::r32);
    l.emit("flush.f32", f, c);
    c = f;
  }
  return l.emit(std::string("slct.") + (wide(t) ? "b64." : "b32.") + f_key(s), l.dst(in.operands[0], t), a, b,
                c) != nullptr;
}

// The 64-bit halves of a 128-bit register.
static bool halves128(Lowering& l, const Operand& o, LOp& lo, LOp& hi, bool def) {
  if (o.kind != Operand::Kind::reg || l.width_of(o) != 128) return l.fail("128-bit register expected");
  lo = l.dst_any(o, RegClass::r64);
  lo.def = def;
  hi = lo;
  hi.id += 1;
  return true;
}

bool lower_mov(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  const Type t = last_type(in);
  const Operand &d = in.operands[0], &s = in.operands[1];
  if (t == Type::pred)
    return l.emit("pred.mov", l.pred_dst(d), l.pred(s), {}, {}, {}, s.negated ? kFullMask : 0) != nullptr;
  if (bits(t) == 128) {
    LOp lo, hi;
    if (d.kind == Operand::Kind::vector) {
      if (!halves128(l, s, lo, hi, false)) return false;
      if (d.elements.size() == 2) {
        // Through temporaries: a destination may be read later by the same instruction.
        return l.emit("mov.b64", l.dst_any(d.elements[0], RegClass::r64), lo) &&
               l.emit("mov.b64", l.dst_any(d.elements[1], RegClass::r64), hi);
      }
      if (d.elements.size() != 4) return l.fail("mov.b128 with this many parts");
      for (size_t k = 0; k < 4; ++k)
        if (!l.emit(k % 2 ? "high.b64" : "cvt.u32.u64", l.dst_any(d.elements[k], RegClass::r32),
                    k < 2 ? lo : hi))
          return false;
      return true;
    }
    if (!halves128(l, d, lo, hi, true)) return false;
    if (s.kind == Operand::Kind::vector && s.elements.size() == 2)
      return l.emit("mov.b64", lo, l.src(s.elements[0], Type::b64)) &&
             l.emit("mov.b64", hi, l.src(s.elements[1], Type::b64));
    if (s.kind == Operand::Kind::vector && s.elements.size() == 4)
      return l.emit("pack.b64", lo, l.src(s.elements[0], Type::b32), l.src(s.elements[1], Type::b32)) &&
             l.emit("pack.b64", hi, l.src(s.elements[2], Type::b32), l.src(s.elements[3], Type::b32));
    LOp slo, shi;
    if (!halves128(l, s, slo, shi, false)) return false;
    return l.emit("mov.b64", lo, slo) && l.emit("mov.b64", hi, shi);
  }
  if (s.kind == Operand::Kind::vector) {  // pack
    const size_t n = s.elements.size();
    const uint32_t part = bits(t) / static_cast<uint32_t>(n);
    if (part == 32)
      return l.emit("pack.b64", l.dst(d, t), l.src(s.elements[0], Type::b32),
                    l.src(s.elements[1], Type::b32)) != nullptr;
    if (part == 16 && bits(t) == 32)
      return l.emit("pack.b32", l.dst(d, t), l.src(s.elements[0], Type::b16),
                    l.src(s.elements[1], Type::b16)) != nullptr;
    if (part == 16) {
      LOp lo = l.temp(RegClass::r32), hi = l.temp(RegClass::r32);
      return l.emit("pack.b32", lo, l.src(s.elements[0], Type::b16), l.src(s.elements[1], Type::b16)) &&
             l.emit("pack.b32", hi, l.src(s.elements[2], Type::b16), l.src(s.elements[3], Type::b16)) &&
             l.emit("pack.b64", l.dst(d, t), lo, hi);
    }
    if (part == 8) {
      LOp acc = l.temp(RegClass::r32);
      l.emit("cvt.u32.u8", acc, l.src_any(s.elements[0], Type::b16));
      for (uint32_t k = 1; k < n; ++k) {
        LOp next = k + 1 == n ? l.dst(d, t) : l.temp(RegClass::r32);
        if (!l.emit("bfi.b32", next, l.src_any(s.elements[k], Type::b16), acc, l.constant32(8 * k),
                    l.constant32(8)))
          return false;
        acc = next;
        acc.def = false;
      }
      return true;
    }
    return l.fail("mov with this many parts");
  }
  if (d.kind == Operand::Kind::vector) {  // unpack
    const size_t n = d.elements.size();
    const uint32_t part = bits(t) / static_cast<uint32_t>(n);
    LOp v = l.src(s, t);
    // The source must survive the first write.
    LOp copy = l.temp(wide(t) ? RegClass::r64 : RegClass::r32);
    if (n > 2 || part == 16) {
      if (!l.emit(wide(t) ? "mov.b64" : "mov.b32", copy, v)) return false;
      v = copy;
    }
    for (uint32_t k = 0; k < n; ++k) {
      if (d.elements[k].kind == Operand::Kind::none) continue;
      LOp to = l.dst_any(d.elements[k], RegClass::r32);
      bool ok;
      if (part == 32)
        ok = l.emit(k ? "high.b64" : "cvt.u32.u64", to, v);
      else if (part == 16 && !wide(t))
        ok = l.emit(k ? "high.b32" : "cvt.u32.u16", to, v);
      else {
        LOp x = l.temp(wide(t) ? RegClass::r64 : RegClass::r32);
        ok = l.emit(wide(t) ? "bfe.u64" : "bfe.u32", wide(t) ? x : to, v, l.constant32(part * k),
                    l.constant32(part));
        if (wide(t)) ok = ok && l.emit("cvt.u32.u64", to, x);
      }
      if (!ok) return false;
    }
    return true;
  }
  if (bits(t) == 16 && s.kind != Operand::Kind::reg)
    return l.emit("mov.b32", l.dst(d, t), l.src(s, t)) != nullptr;
  return l.emit(wide(t) ? "mov.b64" : "mov.b32", l.dst(d, t), l.src(s, t)) != nullptr;
}

}  // namespace simgpu::exec
