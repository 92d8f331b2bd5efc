// Lowering of mma, wmma, ldmatrix, stmatrix, movmatrix.
#include <cstdio>

#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/matrix.h"
#include "tools/simgpu/exec/opcodes.h"

namespace simgpu::exec {

namespace {

bool matrix_type(Type t, MatrixType& m) {
  switch (t) {
    case Type::f16:
      m = MatrixType::f16;
      return true;
    case Type::bf16:
      m = MatrixType::bf16;
      return true;
    case Type::tf32:
      m = MatrixType::tf32;
      return true;
    case Type::f32:
      m = MatrixType::f32;
      return true;
    case Type::f64:
      m = MatrixType::f64;
      return true;
    case Type::s8:
      m = MatrixType::s8;
      return true;
    case Type::u8:
      m = MatrixType::u8;
      return true;
    case Type::s4:
      m = MatrixType::s4;
      return true;
    case Type::u4:
      m = MatrixType::u4;
      return true;
    case Type::s32:
      m = MatrixType::s32;
      return true;
    case Type::e4m3:
      m = MatrixType::e4m3;
      return true;
    case Type::e5m2:
      m = MatrixType::e5m2;
      return true;
    default:
      return false;
  }
}
bool shape_of(const Instruction& in, uint32_t& m, uint32_t& n, uint32_t& k) {
  for (const auto& s : in.modifiers)
    if (s.size() > 4 && s[0] == 'm' && std::sscanf(s.c_str(), "m%un%uk%u", &m, &n, &k) == 3) return true;
  return false;
}
bool append(Lowering& l, LInst* i, const Operand& o, MatrixType t, bool def, uint32_t want) {
  const RegClass cls = t == MatrixType::f64 ? RegClass::r64 : RegClass::r32;
  const auto one = [&](const Operand& e) {
    LOp r = def ? l.dst_any(e, cls) : l.src_any(e, t == MatrixType::f64 ? Type::b64 : Type::b32);
    if (!r) return false;
    r.def = def;
    r.use = !def;
    i->extra.push_back(r);
    return true;
  };
  const size_t before = i->extra.size();
  if (o.kind == Operand::Kind::vector) {
    for (const auto& e : o.elements)
      if (!one(e)) return false;
  } else if (!one(o))
    return false;
  return i->extra.size() - before == want || l.fail("wrong number of fragment registers");
}
OpClass tensor_class(MatrixType t) {
  switch (t) {
    case MatrixType::f16:
      return OpClass::tensor_fp16;
    case MatrixType::bf16:
      return OpClass::tensor_bf16;
    case MatrixType::tf32:
      return OpClass::tensor_tf32;
    case MatrixType::f64:
      return OpClass::tensor_fp64;
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return OpClass::tensor_fp8;
    default:
      return OpClass::tensor_int8;
  }
}

bool multiply(Lowering& l, const Instruction& in, bool wmma) {
  uint32_t m = 0, n = 0, k = 0;
  if (!need(l, in, 4) || !shape_of(in, m, n, k)) return l.fail("matrix shape expected");
  for (const auto& s : in.modifiers)
    if (s == "sp" || s == "sp::ordered_metadata" || s.rfind("kind::", 0) == 0 || s == "block_scale")
      return l.fail("sparse and block-scaled matrix instructions are not supported");
  MatrixType d, a, b, c;
  bool known;
  if (in.types.size() == 2) {  // wmma of half precision: d and c only
    known = matrix_type(in.types[0], d) && matrix_type(in.types[1], c);
    a = b = MatrixType::f16;
  } else {
    known = in.types.size() == 4 && matrix_type(in.types[0], d) && matrix_type(in.types[1], a) &&
            matrix_type(in.types[2], b) && matrix_type(in.types[3], c);
  }
  if (!known) return l.fail("unsupported matrix types");
  std::string key = in.opcode;
  for (const auto& s : in.modifiers) key += "." + s;
  const MatrixOp* op = matrix_op(key, m, n, k, a, b, c, d, wmma, in.has("satfinite"), in.has("and"));
  if (!op) return l.fail("unsupported matrix shape");
  LInst* i = l.emit(c == MatrixType::s32 ? "mma.integer" : "mma.real");
  if (!i) return false;
  // Operands may emit conversions of their own, so the instruction is built aside.
  LInst built = std::move(l.code.back());
  l.code.pop_back();
  built.aux = op;
  built.early = true;
  built.cls = tensor_class(a);
  built.flops = 2 * m * n * k / kLanes;
  if (!append(l, &built, in.operands[0], d, true, op->d_regs) ||
      !append(l, &built, in.operands[1], a, false, op->a_regs) ||
      !append(l, &built, in.operands[2], b, false, op->b_regs) ||
      !append(l, &built, in.operands[3], c, false, op->c_regs))
    return false;
  l.code.push_back(std::move(built));
  return true;
}

Window window_of(const Instruction& in) {
  for (const auto& s : in.modifiers) {
    if (s.rfind("shared", 0) == 0) return Window::shared;
    if (s == "global") return Window::global;
  }
  return Window::generic;
}

}  // namespace

bool lower_mma(Lowering& l, const Instruction& in) { return multiply(l, in, false); }

bool lower_wmma(Lowering& l, const Instruction& in) {
  if (in.has("mma")) return multiply(l, in, true);
  const bool load = in.has("load");
  if (!load && !in.has("store")) return l.fail("unknown wmma operation");
  uint32_t m = 0, n = 0, k = 0;
  MatrixType t;
  if (!need(l, in, 2) || !shape_of(in, m, n, k) || !matrix_type(last_type(in), t))
    return l.fail("unsupported fragment");
  uint32_t rows = m, cols = n;
  if (in.modifiers.size() > 1 && in.modifiers[1] == "a") cols = k;
  if (in.modifiers.size() > 1 && in.modifiers[1] == "b") rows = k;
  const bool column = in.has("col");
  const Operand& regs = in.operands[load ? 0 : 1];
  const uint32_t n_regs =
      regs.kind == Operand::Kind::vector ? static_cast<uint32_t>(regs.elements.size()) : 1;
  const uint32_t count = t == MatrixType::f64 ? n_regs : n_regs * 32 / matrix_bits(t);
  std::string key = in.opcode + std::to_string(n_regs);
  for (const auto& s : in.modifiers) key += "." + s;
  const FragmentOp* op = matrix_bits(t) < 8 ? nullptr : fragment_op(key, rows, cols, t, count, column);
  if (!op) return l.fail("unsupported fragment");
  auto access = std::make_shared<FragmentAccess>();
  access->op = op;
  access->window = window_of(in);
  LOp base;
  uint64_t offset;
  bool is_wide;
  if (!l.address(in.operands[load ? 1 : 0], Space::none, base, offset, is_wide)) return false;
  base = l.as64(base);
  LOp stride = in.operands.size() > 2 ? l.src(in.operands[2], Type::u32) : l.constant32(column ? rows : cols);
  LInst* i = l.emit(load ? "wmma.load" : "wmma.store", {}, base, stride, {}, {}, offset);
  if (!i) return false;
  LInst built = std::move(l.code.back());
  l.code.pop_back();
  built.aux = access.get();
  built.early = true;
  l.linker.program.attachments.push_back(access);
  if (!append(l, &built, regs, t, load, n_regs)) return false;
  l.code.push_back(std::move(built));
  return true;
}

// ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 {r..}, [p]; stmatrix the other way round
bool lower_ldmatrix(Lowering& l, const Instruction& in) {
  const bool load = in.opcode == "ldmatrix";
  if (!need(l, in, 2)) return false;
  if (!in.has("m8n8") || last_type(in) != Type::b16) return l.fail("only m8n8.b16 is supported");
  const uint32_t n = in.has("x4") ? 4 : in.has("x2") ? 2 : 1;
  LOp base;
  uint64_t offset;
  bool is_wide;
  if (!l.address(in.operands[load ? 1 : 0], Space::shared, base, offset, is_wide)) return false;
  base = l.as64(base);
  auto access = std::make_shared<MatrixRows>();
  access->count = n;
  access->transposed = in.has("trans");
  access->window = window_of(in);
  LInst* i = l.emit(load ? "ldmatrix" : "stmatrix", {}, base, {}, {}, {}, offset);
  if (!i) return false;
  LInst built = std::move(l.code.back());
  l.code.pop_back();
  built.aux = access.get();
  built.early = true;
  l.linker.program.attachments.push_back(access);
  if (!append(l, &built, in.operands[load ? 0 : 1], MatrixType::f16, load, n)) return false;
  l.code.push_back(std::move(built));
  return true;
}
bool lower_movmatrix(Lowering& l, const Instruction& in) {
  if (!need(l, in, 2) || !in.has("m8n8") || last_type(in) != Type::b16)
    return l.fail("only m8n8.b16 is supported");
  LInst* i = l.emit("movmatrix", l.dst(in.operands[0], Type::b32), l.src(in.operands[1], Type::b32));
  if (i) i->early = true;
  return i != nullptr;
}

}  // namespace simgpu::exec
