// Lowering of floating-point arithmetic.
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

namespace {

// Immediate of the "rnd.*" handlers: rounding, flush, saturate.
uint64_t rounding_flags(const Instruction& in) {
  return static_cast<uint64_t>(rounding_of(in)) | (in.has("ftz") ? 4 : 0) | (in.has("sat") ? 8 : 0);
}
// Immediate of the half-precision handlers.
uint64_t half_flags(const Instruction& in) {
  return (in.has("sat") ? 1u : 0u) | (in.has("relu") ? 2u : 0u) | (in.has("ftz") ? 4u : 0u) |
         (in.has("NaN") ? 8u : 0u) | (in.has("xorsign") ? 16u : 0u) | (in.has("oob") ? 32u : 0u);
}

bool packed_f32x2(Lowering& l, const Instruction& in, size_t n) {
  // Two independent single-precision operations in one 64-bit register.
  LOp lo[3], hi[3];
  for (size_t k = 0; k < n; ++k) {
    LOp v = l.src(in.operands[k + 1], Type::b64);
    lo[k] = l.temp(RegClass::r32);
    hi[k] = l.temp(RegClass::r32);
    if (!l.emit("cvt.u32.u64", lo[k], v) || !l.emit("high.b64", hi[k], v)) return false;
  }
  std::string key = in.opcode;
  const int rnd = rounding_of(in);
  key = rnd ? "rnd." + key + ".f32" : key + (in.has("ftz") ? ".ftz.f32" : ".f32");
  LOp rl = l.temp(RegClass::r32), rh = l.temp(RegClass::r32);
  if (!mark(l.emit(key, rl, lo[0], lo[1], n > 2 ? lo[2] : LOp{}, {}, rounding_flags(in)), OpClass::fp32))
    return false;
  if (!mark(l.emit(key, rh, hi[0], hi[1], n > 2 ? hi[2] : LOp{}, {}, rounding_flags(in)), OpClass::fp32))
    return false;
  return l.emit("pack.b64", l.dst(in.operands[0], Type::b64), rl, rh) != nullptr;
}

}  // namespace

bool lower_float_arith(Lowering& l, const Instruction& in) {
  const Type t = last_type(in);
  std::string op = in.opcode == "mad" ? "fma" : in.opcode;
  const size_t n = op == "fma" ? 3 : in.operands.size() - 1;
  if (!need(l, in, op == "fma" ? 4 : 3)) return false;
  if (t == Type::f32x2) return packed_f32x2(l, in, n);
  // Mixed precision: the wide type comes first, the narrow one is converted.
  Type narrow = Type::none;
  if (in.types.size() == 2 && in.types[0] == Type::f32 && is_half(in.types[1])) narrow = in.types[1];
  const Type w = narrow == Type::none ? t : Type::f32;
  LOp v[3];
  for (size_t k = 0; k < n && k < 3; ++k) {
    const bool is_narrow =
        narrow != Type::none && !(k == n - 1);  // add/sub: a narrow, c wide; fma: a, b narrow
    if (is_narrow) {
      v[k] = l.temp(RegClass::r32);
      if (!l.emit(narrow == Type::f16 ? "cvt.f32.f16" : "cvt.f32.bf16", v[k],
                  l.src(in.operands[k + 1], narrow)))
        return false;
    } else {
      v[k] = l.src(in.operands[k + 1], w);
    }
  }
  LOp d = l.dst(in.operands[0], w);
  if (is_half(w))
    return mark(l.emit(op + "." + f_key(w), d, v[0], v[1], v[2], {}, half_flags(in)), OpClass::fp16) !=
           nullptr;
  std::string key = op + ".";
  if (op == "min" || op == "max") {
    if (in.has("ftz")) key += "ftz.";
    if (in.has("NaN")) key += "NaN.";
    if (in.has("xorsign")) key += "xorsign.";
    if (n == 3) {  // three-input form
      LOp m = l.temp(RegClass::r32);
      return mark(l.emit(key + f_key(w), m, v[0], v[1]), class_for(w)) &&
             mark(l.emit(key + f_key(w), d, m, v[2]), class_for(w));
    }
    return mark(l.emit(key + f_key(w), d, v[0], v[1]), class_for(w)) != nullptr;
  }
  if (op == "div" && (in.has("approx") || in.has("full"))) {
    key = std::string("div.") + (in.has("approx") ? "approx." : "full.") + (in.has("ftz") ? "ftz." : "") +
          f_key(w);
    return mark(l.emit(key, d, v[0], v[1]), OpClass::special) != nullptr;
  }
  if (rounding_of(in) != 0 || (op == "div" && in.has("sat")))
    return mark(l.emit("rnd." + op + "." + f_key(w), d, v[0], v[1], v[2], {}, rounding_flags(in)),
                class_for(w)) != nullptr;
  if (in.has("ftz")) key += "ftz.";
  if (in.has("sat")) key += "sat.";
  return mark(l.emit(key + f_key(w), d, v[0], v[1], v[2]), class_for(w)) != nullptr;
}

// rcp sqrt rsqrt sin cos lg2 ex2 tanh
bool lower_float_function(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  const Type t = last_type(in);
  LOp a = l.src(in.operands[1], t), d = l.dst(in.operands[0], t);
  if (is_half(t))
    return mark(l.emit(in.opcode + "." + f_key(t), d, a, {}, {}, {}, half_flags(in)), OpClass::special) !=
           nullptr;
  if (in.has("approx"))
    return mark(l.emit(in.opcode + ".approx." + (in.has("ftz") ? "ftz." : "") + f_key(t), d, a),
                OpClass::special) != nullptr;
  if (rounding_of(in) != 0)
    return mark(l.emit("rnd." + in.opcode + "." + f_key(t), d, a, {}, {}, {}, rounding_flags(in)),
                class_for(t)) != nullptr;
  return mark(l.emit(in.opcode + (in.has("ftz") ? ".ftz." : ".") + f_key(t), d, a), class_for(t)) != nullptr;
}

bool lower_half_unary(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2)) return false;
  const Type t = last_type(in);
  return mark(l.emit(in.opcode + "." + f_key(t), l.dst(in.operands[0], t), l.src(in.operands[1], t), {}, {},
                     {}, half_flags(in)),
              OpClass::fp16) != nullptr;
}

bool lower_testp(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2) || in.modifiers.empty()) return false;
  const Type t = last_type(in);
  LOp a = l.src(in.operands[1], t);
  return l.emit("testp." + in.modifiers[0] + "." + f_key(t), l.pred_dst(in.operands[0]), a, a) != nullptr;
}
bool lower_copysign(Lowering& l, const Instruction& in) {
  if (!need(l, in, 3)) return false;
  const Type t = last_type(in);
  LOp a = l.src(in.operands[1], t), b = l.src(in.operands[2], t);
  return l.emit("copysign." + f_key(t), l.dst(in.operands[0], t), a, b) != nullptr;
}

}  // namespace simgpu::exec
