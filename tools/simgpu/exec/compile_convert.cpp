// Lowering of cvt into chains of simple conversions.
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"
#include "tools/simgpu/exec/small_floats.h"

namespace simgpu::exec {

namespace {

// Small formats by PTX type; packed forms name their element.
bool small_format(Type t, SmallFormat& f) {
  switch (t) {
    case Type::f16:
    case Type::f16x2:
      f = SmallFormat::f16;
      return true;
    case Type::bf16:
    case Type::bf16x2:
      f = SmallFormat::bf16;
      return true;
    case Type::tf32:
      f = SmallFormat::tf32;
      return true;
    case Type::e4m3:
    case Type::e4m3x2:
      f = SmallFormat::e4m3;
      return true;
    case Type::e5m2:
    case Type::e5m2x2:
      f = SmallFormat::e5m2;
      return true;
    case Type::e2m3x2:
      f = SmallFormat::e2m3;
      return true;
    case Type::e3m2x2:
      f = SmallFormat::e3m2;
      return true;
    case Type::e2m1x2:
      f = SmallFormat::e2m1;
      return true;
    case Type::ue8m0x2:
      f = SmallFormat::ue8m0;
      return true;
    default:
      return false;
  }
}
bool is_packed_small(Type t) {
  return t == Type::e4m3x2 || t == Type::e5m2x2 || t == Type::e2m3x2 || t == Type::e3m2x2 ||
         t == Type::e2m1x2 || t == Type::ue8m0x2;
}

// How a float becomes the format: RN of f16/bf16 has a fast form, everything else names format and mode.
std::string narrow_key(SmallFormat f, uint64_t& imm, int rounding, bool relu, bool satfinite) {
  if (rounding == 0 && !relu && !satfinite) {
    if (f == SmallFormat::f16) return "cvt.f16.f32";
    if (f == SmallFormat::bf16) return "cvt.bf16.f32";
  }
  imm = static_cast<uint64_t>(f) | (static_cast<uint64_t>(rounding) << 8) | (relu ? 1u << 16 : 0) |
        (satfinite ? 1u << 17 : 0);
  return "cvt.small.f32";
}

LOp widen(Lowering& l, Type t, LOp v) {  // 16-bit float in the low half to f32
  LOp r = l.temp(RegClass::r32);
  l.emit(t == Type::f16 ? "cvt.f32.f16" : "cvt.f32.bf16", r, v);
  return r;
}

bool int_to_int(Lowering& l, const Instruction& in, Type d, Type s) {
  LOp v = l.src_any(in.operands[1], s);
  LOp to = l.dst_any(in.operands[0], wide(d) ? RegClass::r64 : RegClass::r32);
  // First the exact source value at 32 or 64 bits, extended by its own sign.
  LOp exact = v;
  if (bits(s) < 32) {
    exact = l.temp(RegClass::r32);
    if (l.is_wide(v)) {
      LOp n = l.temp(RegClass::r32);
      l.emit("cvt.u32.u64", n, v);
      v = n;
    }
    if (!l.emit(std::string("cvt.") + (is_signed_int(s) ? "s32." : "u32.") + su_key(s), exact, v))
      return false;
  } else if (bits(s) == 32 && l.is_wide(v)) {
    exact = l.temp(RegClass::r32);
    l.emit("cvt.u32.u64", exact, v);
  }
  if (in.has("sat")) {
    const std::string from = (is_signed_int(s) ? "s" : "u") + std::string(wide(s) ? "64" : "32");
    LOp c = l.temp(wide(d) ? RegClass::r64 : RegClass::r32);
    if (!l.emit("clamp." + su_key(d) + "." + from, c, exact)) return false;
    exact = c;
    s = d;
  }
  // Then the destination's own width: truncate, or extend.
  LOp value = exact;
  if (bits(d) < 32) {
    LOp n = l.temp(RegClass::r32);
    if (l.is_wide(value)) {
      LOp t = l.temp(RegClass::r32);
      l.emit("cvt.u32.u64", t, value);
      value = t;
    }
    if (!l.emit(std::string("cvt.") + (is_signed_int(d) ? "s32." : "u32.") + su_key(d), n, value))
      return false;
    value = n;
  } else if (wide(d) && !l.is_wide(value)) {
    LOp n = l.temp(RegClass::r64);
    if (!l.emit(is_signed_int(s) ? "cvt.s64.s32" : "cvt.u64.u32", n, value)) return false;
    value = n;
  } else if (!wide(d) && l.is_wide(value)) {
    LOp n = l.temp(RegClass::r32);
    l.emit("cvt.u32.u64", n, value);
    value = n;
  }
  // The register may be wider than the type.
  if (l.is_wide(to) && !l.is_wide(value))
    return l.emit(is_signed_int(d) ? "cvt.s64.s32" : "cvt.u64.u32", to, value) != nullptr;
  const uint32_t width = l.width_of(in.operands[0]);
  if (width == 16) return l.emit("cvt.u32.u16", to, value) != nullptr;  // 16-bit rows are zero-extended
  return l.emit(l.is_wide(to) ? "mov.b64" : "mov.b32", to, value) != nullptr;
}

bool float_to_int(Lowering& l, const Instruction& in, Type d, Type s) {
  LOp v = l.src(in.operands[1], s);
  Type f = s;
  if (is_half(s)) {
    v = widen(l, s, v);
    f = Type::f32;
  }
  if (in.has("ftz") && f == Type::f32) {
    LOp t = l.temp(RegClass::r32);
    l.emit("flush.f32", t, v);
    v = t;
  }
  const RegClass fc = f == Type::f64 ? RegClass::r64 : RegClass::r32;
  if (!in.has("rzi")) {
    const char* mode = in.has("rmi") ? "rmi." : in.has("rpi") ? "rpi." : "rni.";
    LOp t = l.temp(fc);
    if (!l.emit(std::string("round.") + mode + f_key(f), t, v)) return false;
    v = t;
  }
  LOp to = l.dst_any(in.operands[0], wide(d) ? RegClass::r64 : RegClass::r32);
  const std::string key = "f2i." + su_key(d) + "." + f_key(f);
  if (l.is_wide(to) == wide(d)) {
    if (bits(d) == 8 && is_signed_int(d) &&
        l.width_of(in.operands[0]) == 32) {  // sign-extend to the register
      LOp t = l.temp(RegClass::r32);
      return l.emit(key, t, v) && l.emit("cvt.s32.s16", to, t);
    }
    if (bits(d) == 16 && is_signed_int(d) && l.width_of(in.operands[0]) == 32) {
      LOp t = l.temp(RegClass::r32);
      return l.emit(key, t, v) && l.emit("cvt.s32.s16", to, t);
    }
    return l.emit(key, to, v) != nullptr;
  }
  LOp t = l.temp(wide(d) ? RegClass::r64 : RegClass::r32);
  if (!l.emit(key, t, v)) return false;
  return l.emit(l.is_wide(to) ? (is_signed_int(d) ? "cvt.s64.s32" : "cvt.u64.u32") : "cvt.u32.u64", to, t) !=
         nullptr;
}

bool int_to_float(Lowering& l, const Instruction& in, Type d, Type s) {
  LOp v = l.src_any(in.operands[1], s);
  if (bits(s) <= 32 && l.is_wide(v)) {
    LOp n = l.temp(RegClass::r32);
    l.emit("cvt.u32.u64", n, v);
    v = n;
  }
  if (bits(s) < 32) {
    LOp n = l.temp(RegClass::r32);
    if (!l.emit(std::string("cvt.") + (is_signed_int(s) ? "s32." : "u32.") + su_key(s), n, v)) return false;
    v = n;
  }
  const std::string from = (is_signed_int(s) ? "s" : "u") + std::string(wide(s) ? "64" : "32");
  LOp to = l.dst(in.operands[0], d);
  const int rnd = rounding_of(in);
  if (is_half(d)) {
    // Through double, keeping a sticky bit, so that there is one rounding.
    LOp x = l.temp(RegClass::r64), y = l.temp(RegClass::r32);
    if (!l.emit(wide(s) ? "i2f.odd.f64." + from : "i2f.f64." + from, x, v) ||
        !l.emit("cvt.odd.f32.f64", y, x))
      return false;
    uint64_t imm = 0;
    SmallFormat f{};
    small_format(d, f);
    const std::string key = narrow_key(f, imm, rnd, false, false);
    return l.emit(key, to, y, {}, {}, {}, imm) != nullptr;
  }
  LOp r = in.has("sat") ? l.temp(d == Type::f64 ? RegClass::r64 : RegClass::r32) : to;
  if (rnd && !(d == Type::f64 && !wide(s))) {
    if (!l.emit("rnd.i2f." + f_key(d) + "." + from, r, v, {}, {}, {}, static_cast<uint64_t>(rnd)))
      return false;
  } else if (!l.emit("i2f." + f_key(d) + "." + from, r, v)) {
    return false;
  }
  r.def = false;
  return !in.has("sat") || l.emit("sat." + f_key(d), to, r) != nullptr;
}

bool float_to_float(Lowering& l, const Instruction& in, Type d, Type s) {
  LOp v = l.src(in.operands[1], s), to = l.dst(in.operands[0], d);
  const bool integral = in.has("rni") || in.has("rzi") || in.has("rmi") || in.has("rpi");
  Type cur = s;
  if (is_half(s)) {
    v = widen(l, s, v);
    cur = Type::f32;
  }
  if (in.has("ftz") && cur == Type::f32 && !is_half(s)) {
    LOp t = l.temp(RegClass::r32);
    l.emit("flush.f32", t, v);
    v = t;
  }
  if (integral) {
    LOp t = l.temp(cur == Type::f64 ? RegClass::r64 : RegClass::r32);
    const char* mode = in.has("rmi") ? "rmi." : in.has("rpi") ? "rpi." : in.has("rzi") ? "rzi." : "rni.";
    if (!l.emit(std::string("round.") + mode + f_key(cur), t, v)) return false;
    v = t;
  }
  const int rnd = rounding_of(in);
  SmallFormat f{};
  if (small_format(d, f)) {
    if (cur == Type::f64) {
      LOp t = l.temp(RegClass::r32);
      l.emit("cvt.odd.f32.f64", t, v);
      v = t;
    }
    if (in.has("sat")) {
      LOp t = l.temp(RegClass::r32);
      l.emit("sat.f32", t, v);
      v = t;
    }
    uint64_t imm = 0;
    std::string key = narrow_key(f, imm, in.has("rna") ? 4 : rnd, in.has("relu"), in.has("satfinite"));
    return mark(l.emit(key, to, v, {}, {}, {}, imm), OpClass::fp16) != nullptr;
  }
  if (cur != d) {
    LOp t = l.temp(d == Type::f64 ? RegClass::r64 : RegClass::r32);
    if (d == Type::f64)
      l.emit("cvt.f64.f32", t, v);
    else if (rnd)
      l.emit("rnd.cvt.f32.f64", t, v, {}, {}, {}, static_cast<uint64_t>(rnd));
    else
      l.emit("cvt.f32.f64", t, v);
    v = t;
    if (in.has("ftz") && d == Type::f32) {
      LOp u = l.temp(RegClass::r32);
      l.emit("flush.f32", u, v);
      v = u;
    }
  }
  if (in.has("sat")) return l.emit("sat." + f_key(d), to, v) != nullptr;
  return l.emit(d == Type::f64 ? "mov.b64" : "mov.b32", to, v) != nullptr;
}

// Packed destinations: cvt.rn.f16x2.f32 d, a, b (a in the high half); fp8/fp6/fp4 pairs; and the way back.
bool packed(Lowering& l, const Instruction& in, Type d, Type s) {
  SmallFormat fd{}, fs{};
  const int rnd = rounding_of(in);
  const bool relu = in.has("relu"), satfinite = in.has("satfinite");
  if (s == Type::f32 && small_format(d, fd) && in.operands.size() >= 3) {
    uint64_t imm = 0;
    const std::string key =
        narrow_key(fd, imm, rnd, relu, satfinite || (is_packed_small(d) && d != Type::ue8m0x2));
    LOp hi = l.temp(RegClass::r32), lo = l.temp(RegClass::r32);
    if (!l.emit(key, hi, l.src(in.operands[1], s), {}, {}, {}, imm) ||
        !l.emit(key, lo, l.src(in.operands[2], s), {}, {}, {}, imm))
      return false;
    LOp to = l.dst_any(in.operands[0], RegClass::r32);
    if (d == Type::f16x2 || d == Type::bf16x2)
      return mark(l.emit("pack.b32", to, lo, hi), OpClass::fp16) != nullptr;
    if (d == Type::e2m1x2) return l.emit("bfi.b32", to, hi, lo, l.constant32(4), l.constant32(4)) != nullptr;
    return l.emit("bfi.b32", to, hi, lo, l.constant32(8), l.constant32(8)) != nullptr;
  }
  // From packed 16-bit floats to packed small ones and back: element by element through f32.
  if (small_format(d, fd) && small_format(s, fs) && in.operands.size() >= 2) {
    LOp v = l.src_any(in.operands[1], Type::b32);
    const uint32_t sw = is_packed_small(s) ? (s == Type::e2m1x2 ? 4 : 8) : 16,
                   dw = is_packed_small(d) ? (d == Type::e2m1x2 ? 4 : 8) : 16;
    LOp part[2];
    for (uint32_t k = 0; k < 2; ++k) {
      LOp raw = l.temp(RegClass::r32), f = l.temp(RegClass::r32);
      part[k] = l.temp(RegClass::r32);
      if (!l.emit("bfe.u32", raw, v, l.constant32(sw * k), l.constant32(sw))) return false;
      if (sw == 16) {
        if (!l.emit(fs == SmallFormat::f16 ? "cvt.f32.f16" : "cvt.f32.bf16", f, raw)) return false;
      } else if (!l.emit("cvt.f32.small", f, raw, {}, {}, {}, static_cast<uint64_t>(fs)))
        return false;
      uint64_t imm = 0;
      const std::string key =
          narrow_key(fd, imm, rnd, relu, satfinite || (is_packed_small(d) && d != Type::ue8m0x2));
      if (!l.emit(key, part[k], f, {}, {}, {}, imm)) return false;
    }
    return l.emit("bfi.b32", l.dst_any(in.operands[0], RegClass::r32), part[1], part[0], l.constant32(dw),
                  l.constant32(dw)) != nullptr;
  }
  return l.fail("unsupported packed conversion");
}

}  // namespace

bool lower_cvt(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  if (in.opcode == "cvt" && in.has("pack")) {  // cvt.pack.sat.s8.s32.b32 d, a, b, c
    if (in.types.size() < 2) return l.fail("cvt.pack needs types");
    const Type d = in.types[0], s = in.types[1];
    const uint32_t w = bits(d);
    LOp a = l.temp(RegClass::r32), b = l.temp(RegClass::r32);
    const std::string from = is_signed_int(s) ? "s32" : "u32";
    if (w == 4) return l.fail("4-bit cvt.pack is not supported");
    if (!l.emit("clamp." + su_key(d) + "." + from, a, l.src(in.operands[1], s)) ||
        !l.emit("clamp." + su_key(d) + "." + from, b, l.src(in.operands[2], s)))
      return false;
    // a goes above b; the third operand's low bits are shifted up to make room.
    LOp pair = l.temp(RegClass::r32), low = l.temp(RegClass::r32);
    l.emit("bfe.u32", low, b, l.constant32(0), l.constant32(w));
    if (w == 16)
      return l.emit("bfi.b32", l.dst(in.operands[0], Type::b32), a, low, l.constant32(16),
                    l.constant32(16)) != nullptr;
    l.emit("bfi.b32", pair, a, low, l.constant32(8), l.constant32(8));
    if (in.operands.size() < 4) return l.emit("mov.b32", l.dst(in.operands[0], Type::b32), pair) != nullptr;
    return l.emit("bfi.b32", l.dst(in.operands[0], Type::b32), l.src(in.operands[3], Type::b32), pair,
                  l.constant32(16), l.constant32(16)) != nullptr;
  }
  if (in.types.size() < 2) return l.fail("cvt needs two types");
  const Type d = in.types[0], s = in.types[1];
  if (is_packed_small(d) || is_packed_small(s) ||
      ((d == Type::f16x2 || d == Type::bf16x2) && in.operands.size() >= 3))
    return packed(l, in, d, s);
  const bool di = is_integer(d), si = is_integer(s);
  const bool df = is_float(d) || d == Type::f16 || d == Type::bf16 || d == Type::tf32,
             sf = is_float(s) || s == Type::f16 || s == Type::bf16;
  if (di && si) return int_to_int(l, in, d, s);
  if (di && sf) return float_to_int(l, in, d, s);
  if (df && si && d != Type::tf32) return int_to_float(l, in, d, s);
  if (df && sf) return float_to_float(l, in, d, s);
  return l.fail("unsupported conversion");
}

}  // namespace simgpu::exec
