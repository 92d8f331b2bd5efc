// Every operand form, and how modifiers and types of instructions come out.
#include <gtest/gtest.h>

#include "runtime/ptx/print.h"
#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;
using Kind = Operand::Kind;

// The first instruction of a kernel with these statements.
Instruction first(const std::string& statements) {
  auto module = ptx_test::parse_ok(ptx_test::kernel(statements));
  const Function* k = ptx_test::find(*module, "k");
  return k->body.empty() ? Instruction() : k->body[0];
}
Operand operand(const std::string& statements, size_t index) {
  Instruction in = first(statements);
  EXPECT_GT(in.operands.size(), index) << statements;
  in.operands.resize(std::max(in.operands.size(), index + 1));
  return in.operands[index];
}

TEST(PtxOperand, Registers) {
  Instruction in = first("@!%p1 add.sat.s32 %r1, %r2, -5;");
  EXPECT_EQ(in.opcode, "add");
  EXPECT_EQ(in.modifiers, (std::vector<std::string>{"sat", "s32"}));
  EXPECT_EQ(in.types, (std::vector<Type>{Type::s32}));
  EXPECT_EQ(in.guard, "%p1");
  EXPECT_TRUE(in.guard_negated);
  EXPECT_EQ(in.line, 7u);
  EXPECT_TRUE(in.has("sat"));
  EXPECT_FALSE(in.has("s3"));
  ASSERT_EQ(in.operands.size(), 3u);
  EXPECT_EQ(in.operands[0].kind, Kind::reg);
  EXPECT_EQ(in.operands[0].symbol, "%r1");
  EXPECT_EQ(in.operands[2].kind, Kind::imm_int);
  EXPECT_EQ(in.operands[2].imm, -5);
}

TEST(PtxOperand, TypesInOrder) {
  EXPECT_EQ(first("cvt.rn.f32.s32 %f1, %r1;").types, (std::vector<Type>{Type::f32, Type::s32}));
  EXPECT_EQ(first("cvt.rn.satfinite.e4m3x2.f32 %r1, %f1, %f2;").types,
            (std::vector<Type>{Type::e4m3x2, Type::f32}));
  EXPECT_EQ(first("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
                  "{%r5,%r6}, "
                  "{%f1,%f2,%f3,%f4};")
                .types,
            (std::vector<Type>{Type::f32, Type::bf16, Type::bf16, Type::f32}));
  EXPECT_EQ(first("ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];").types, (std::vector<Type>{Type::f32}));
  EXPECT_EQ(first("setp.eq.and.u32 %p1, %r1, %r2, !%p2;").types, (std::vector<Type>{Type::u32}));
  EXPECT_EQ(first("or.pred %p1, %p2, %p3;").types, (std::vector<Type>{Type::pred}));
}

TEST(PtxOperand, EveryTypeNameIsKnown) {
  for (int i = 1; i <= static_cast<int>(Type::ue4m3); ++i) {
    const Type type = static_cast<Type>(i);
    EXPECT_EQ(type_from_name(type_name(type)), type) << type_name(type);
  }
  EXPECT_EQ(type_from_name("global"), Type::none);
  EXPECT_EQ(type_from_name(""), Type::none);
  EXPECT_EQ(type_bits(Type::bf16x2), 32u);
  EXPECT_EQ(type_bits(Type::b128), 128u);
  EXPECT_EQ(type_bits(Type::pred), 1u);
  EXPECT_EQ(type_bits(Type::texref), 0u);
}

TEST(PtxOperand, SpecialRegisters) {
  EXPECT_EQ(operand("mov.u32 %r1, %tid.x;", 1).kind, Kind::sreg);
  EXPECT_EQ(operand("mov.u32 %r1, %tid.x;", 1).symbol, "%tid.x");
  for (const char* name : {"%laneid", "%clock", "%clock_hi", "%envreg31", "%pm7", "%dynamic_smem_size",
                           "%nctaid.z", "%cluster_ctarank", "%lanemask_lt", "%globaltimer_lo",
                           "%reserved_smem_offset_1", "%is_explicit_cluster", "%ntid"}) {
    EXPECT_EQ(operand(std::string("mov.u32 %r1, ") + name + ";", 1).symbol, name);
    EXPECT_EQ(operand(std::string("mov.u32 %r1, ") + name + ";", 1).kind, Kind::sreg);
  }
  EXPECT_EQ(operand(".reg .b32 %clock; mov.u32 %r1, %clock;", 1).kind, Kind::reg)
      << "a declaration hides the special register";
}

TEST(PtxOperand, Immediates) {
  EXPECT_EQ(operand("mov.b32 %r1, 0x10;", 1).imm, 16);
  EXPECT_EQ(operand("mov.b64 %rd1, 0xFFFFFFFFFFFFFFFF;", 1).imm, -1);
  EXPECT_EQ(operand("mov.b32 %r1, WARP_SZ;", 1).imm, 32);
  EXPECT_EQ(operand("mov.b32 %r1, WARP_SZ - 1;", 1).imm, 31);
  Operand f = operand("mov.f32 %f1, 0fBF800000;", 1);
  EXPECT_EQ(f.kind, Kind::imm_f32);
  EXPECT_EQ(f.imm, 0xbf800000);
  f = operand("mov.f32 %f1, -1.5;", 1);
  EXPECT_EQ(f.kind, Kind::imm_f64) << "decimal literals are doubles";
  EXPECT_EQ(static_cast<uint64_t>(f.imm), 0xbff8000000000000u);
  EXPECT_EQ(static_cast<uint64_t>(operand("mov.f64 %fd1, 0d7FF0000000000000;", 1).imm), 0x7ff0000000000000u);
}

TEST(PtxOperand, ConstantExpressions) {
  struct {
    const char* text;
    int64_t value;
  } cases[] = {{"1 + 2 * 3", 7},
               {"(1 + 2) * 3", 9},
               {"-7 / 2", -3},
               {"-7 % 3", -1},
               {"7U / 2", 3},
               {"1 << 4 | 3", 19},
               {"~0", -1},
               {"!5", 0},
               {"!0", 1},
               {"3 > 2 && 2 >= 2", 1},
               {"1 == 2 || 1 != 2", 1},
               {"1 ? 2 : 3", 2},
               {"0 ? 2 : 0 ? 4 : 5", 5},
               {"6 & 3 ^ 8", 10},
               {"-1 < 1", 1},
               {"-1 < 1U", 0},
               {"-8 >> 1", -4},
               {"1 << 70", 0},
               {"(.u64) -1 / 2", 0x7fffffffffffffff},
               {"2 - 3 - 4", -5},
               {"0x8000000000000000 / -1", 0},
               {"- - 4", 4}};
  for (const auto& c : cases)
    EXPECT_EQ(operand(std::string("mov.b64 %rd1, ") + c.text + ";", 1).imm, c.value) << c.text;
}

TEST(PtxOperand, Addresses) {
  Operand a = operand("ld.global.u32 %r1, [%rd2+-8];", 1);
  EXPECT_EQ(a.kind, Kind::address);
  EXPECT_EQ(a.symbol, "%rd2");
  EXPECT_TRUE(a.base_register);
  EXPECT_EQ(a.imm, -8);
  a = operand("ld.global.u32 %r1, [sym+4*3];", 1);
  EXPECT_EQ(a.symbol, "sym");
  EXPECT_FALSE(a.base_register);
  EXPECT_EQ(a.imm, 12);
  a = operand("ld.param.u64 %rd1, [a];", 1);
  EXPECT_EQ(a.symbol, "a");
  a = operand("ld.global.u32 %r1, [0x100];", 1);
  EXPECT_EQ(a.symbol, "");
  EXPECT_EQ(a.imm, 0x100);
  a = operand("ld.global.u32 %r1, sym[3];", 1);
  EXPECT_EQ(a.kind, Kind::address);
  EXPECT_EQ(a.imm, 12);
  a = operand("mov.u64 %rd1, sym[2];", 1);
  EXPECT_EQ(a.kind, Kind::symbol);
  EXPECT_EQ(a.imm, 8);
  a = operand("mov.u64 %rd1, sym+4;", 1);
  EXPECT_EQ(a.kind, Kind::symbol);
  EXPECT_EQ(a.imm, 4);
  a = operand(".reg .b64 base; ld.u32 %r1, [base+4];", 1);
  EXPECT_TRUE(a.base_register) << "a register needs no '%'";
}

TEST(PtxOperand, TextureAndTensorAddresses) {
  Operand a = operand("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5, %f6}];", 1);
  EXPECT_EQ(a.kind, Kind::tex_address);
  ASSERT_EQ(a.elements.size(), 2u);
  EXPECT_EQ(a.elements[0].kind, Kind::reg);
  EXPECT_EQ(a.elements[1].kind, Kind::vector);
  EXPECT_EQ(a.elements[1].elements[1].symbol, "%f6");
  EXPECT_EQ(operand("tex.1d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%f5}];", 1).elements.size(), 3u);
  Instruction in = first(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, "
      "%r3}], [%r4];");
  EXPECT_EQ(in.opcode, "cp");
  EXPECT_TRUE(in.has("mbarrier::complete_tx::bytes"));
  EXPECT_TRUE(in.has("shared::cluster"));
  ASSERT_EQ(in.operands.size(), 3u);
  EXPECT_EQ(in.operands[1].kind, Kind::tex_address);
}

TEST(PtxOperand, VectorsPairsAndComponents) {
  Operand v = operand("mov.b64 {%r1, _}, %rd1;", 0);
  EXPECT_EQ(v.kind, Kind::vector);
  EXPECT_EQ(v.elements[1].kind, Kind::none);
  Operand p = operand("setp.lt.s32 %p1|%p2, %r1, %r2;", 0);
  EXPECT_EQ(p.kind, Kind::pair);
  EXPECT_EQ(p.elements[0].symbol, "%p1");
  EXPECT_EQ(p.elements[1].symbol, "%p2");
  p = operand("elect.sync _|%p1, 0xffffffff;", 0);
  EXPECT_EQ(p.elements[0].kind, Kind::none);
  Operand n = operand("setp.eq.and.s32 %p1, %r1, 0, !%p2;", 3);
  EXPECT_TRUE(n.negated);
  Operand c = operand(".reg .v4 .f32 v; mov.f32 %f1, v.z;", 1);
  EXPECT_EQ(c.component, 2);
  EXPECT_EQ(c.selector, 'x');
  EXPECT_EQ(operand(".reg .v4 .f32 v; mov.f32 %f1, v.a;", 1).component, 3);
  c = operand("vadd.s32.s32.s32 %r1, %r2.b3, %r3.h1;", 1);
  EXPECT_EQ(c.component, 3);
  EXPECT_EQ(c.selector, 'b');
  c = operand("vadd4.s32.s32.s32 %r1, %r2.b3210, %r3.b7654, 0;", 2);
  EXPECT_EQ(c.component, 0x7654);
  EXPECT_EQ(c.selector, 'B');
}

TEST(PtxOperand, Calls) {
  const std::string text =
      ".version 9.0\n.target sm_90\n.func (.param .b32 r) f(.param .b64 p, .param .b32 q) { ret; }\n.func "
      "g() { ret; }\n"
      ".entry k() { .reg .b64 x; proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) "
      ".noreturn;\n"
      "many: .calltargets f, g; { .param .b32 r; .param .b64 p; .param .b32 q;\n"
      "call.uni (r), f, (p, q); call g; call g, (); call (r), x, (p, 3), proto; call (r), x, (p, q), many; } "
      "ret; }\n";
  auto module = ptx_test::parse_ok(text);
  const Function* k = ptx_test::find(*module, "k");
  ASSERT_EQ(k->body.size(), 6u);
  EXPECT_EQ(print(k->body[0]), "call.uni (r@1), f, (p@1, q@1);");
  EXPECT_EQ(k->body[0].operands[0].kind, Kind::list);
  EXPECT_EQ(k->body[0].operands[1].kind, Kind::symbol);
  EXPECT_EQ(print(k->body[1]), "call g;");
  EXPECT_EQ(print(k->body[2]), "call g, ();");
  EXPECT_EQ(k->body[3].operands[1].kind, Kind::reg);
  EXPECT_EQ(k->body[3].operands[3].kind, Kind::label);
  EXPECT_EQ(print(k->body[4]), "call (r@1), x, (p@1, q@1), many;");
  ASSERT_EQ(k->prototypes.size(), 1u);
  EXPECT_EQ(k->prototypes[0].name, "proto");
  EXPECT_EQ(k->prototypes[0].params.size(), 2u);
  EXPECT_TRUE(k->prototypes[0].noreturn);
  ASSERT_EQ(k->call_targets.size(), 1u);
  EXPECT_EQ(k->call_targets[0].labels, (std::vector<std::string>{"f", "g"}));
}

}  // namespace
