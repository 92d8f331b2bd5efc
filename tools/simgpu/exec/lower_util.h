// Small helpers of the lower_* functions.
#pragma once
#include <string>

#include "tools/simgpu/exec/lower.h"

namespace simgpu::exec {

inline uint32_t bits(Type t) { return shunt::ptx::type_bits(t); }
inline bool is_float(Type t) { return t == Type::f32 || t == Type::f64; }
inline bool is_half(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f16x2 || t == Type::bf16x2;
}
inline bool is_signed_int(Type t) {
  return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64;
}
inline bool is_integer(Type t) {
  return is_signed_int(t) || t == Type::u8 || t == Type::u16 || t == Type::u32 || t == Type::u64;
}
inline std::string b_key(Type t) { return "b" + std::to_string(bits(t)); }
inline std::string su_key(Type t) {  // untyped bits behave as unsigned
  return (is_signed_int(t) ? "s" : "u") + std::to_string(bits(t));
}
inline std::string f_key(Type t) { return std::string(shunt::ptx::type_name(t)); }
inline bool wide(Type t) { return bits(t) == 64; }
inline Type first_type(const Instruction& in) { return in.types.empty() ? Type::none : in.types[0]; }
inline Type last_type(const Instruction& in) { return in.types.empty() ? Type::none : in.types.back(); }
inline LInst* mark(LInst* i, OpClass c) {
  if (i) i->cls = c;
  return i;
}
inline OpClass class_for(Type t) {
  switch (t) {
    case Type::f64:
      return OpClass::fp64;
    case Type::f32:
    case Type::f32x2:
      return OpClass::fp32;
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2:
      return OpClass::fp16;
    default:
      return OpClass::integer;
  }
}
inline bool need(Lowering& l, const Instruction& in, size_t n) {
  return in.operands.size() >= n || l.fail("too few operands for '" + in.opcode + "'");
}
// 0 nearest, 1 down, 2 up, 3 zero: the order of the host's rounding field.
inline int rounding_of(const Instruction& in) {
  if (in.has("rm")) return 1;
  if (in.has("rp")) return 2;
  if (in.has("rz")) return 3;
  return 0;
}

}  // namespace simgpu::exec
