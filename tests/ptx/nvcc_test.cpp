// PTX as nvcc emits it: all of it parses, and what is in it is understood.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/ptx/support.h"

namespace {

using namespace shunt::ptx;
using ptx_test::count;
using ptx_test::find;

std::unique_ptr<Module> compiled(const std::string& name) {
  return ptx_test::parse_ok(ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + name + ".ptx"));
}
size_t kernels(const Module& module) {
  size_t n = 0;
  for (const Function& f : module.functions) n += f.is_entry && !f.is_declaration;
  return n;
}
const Variable* variable(const Module& module, const std::string& name) {
  for (const Variable& v : module.variables) {
    if (v.name == name) return &v;
  }
  ADD_FAILURE() << "no variable " << name;
  static const Variable* const empty = new Variable();
  return empty;
}

TEST(PtxNvcc, EveryFileParses) {
  const auto files = ptx_test::files_in(PTX_TEST_DIR, ".ptx");
  EXPECT_EQ(files.size(), 28u);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string text = ptx_test::read_file(file);
    auto module = ptx_test::parse_ok(text);
    EXPECT_GT(kernels(*module), 0u);
    // Each instruction ends in ';' outside of declarations: none was lost.
    for (const Function& f : module->functions) {
      if (f.is_declaration) continue;
      ASSERT_FALSE(f.body.empty()) << f.name;
      for (const Label& label : f.labels) EXPECT_LE(label.index, f.body.size());
    }
  }
}

TEST(PtxNvcc, InstructionsAreCounted) {
  // An independent count on the text: lines of a body that end in ';' and begin with no '.', '{' or '//'.
  for (const char* name : {"basic_75", "basic_90", "basic_100"}) {
    SCOPED_TRACE(name);
    const std::string text = ptx_test::read_file(std::string(PTX_TEST_DIR) + "/" + name + ".ptx");
    size_t lines = 0, at = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const size_t begin = line.find_first_not_of(" \t");
      if (begin == std::string::npos || line.back() != ';' || line[begin] == '.' ||
          line.compare(begin, 2, "//") == 0)
        continue;
      for (size_t i = begin; i < line.size(); ++i)
        lines += line[i] == ';';  // inline assembly puts several on a line
      if (line[begin] == '{') {
        for (size_t i = line.find(".reg"); i != std::string::npos; i = line.find(".reg", i + 1)) --lines;
      }
    }
    size_t instructions = 0;
    auto module = ptx_test::parse_ok(text);
    for (const Function& f : module->functions) instructions += f.body.size();
    EXPECT_EQ(instructions, lines);
  }
}

TEST(PtxNvcc, BasicKernels) {
  for (const char* name : {"basic_75", "basic_90", "basic_100", "basic_90_debug"}) {
    SCOPED_TRACE(name);
    auto module = compiled(name);
    EXPECT_EQ(kernels(*module), 7u);
    EXPECT_EQ(module->target, std::string("sm_") + std::string(name).substr(6).substr(
                                                       0, std::string(name).substr(6).find('_')));
    EXPECT_EQ(module->version_major, 9u);

    const Function* add = find(*module, "vector_add");
    ASSERT_EQ(add->params.size(), 4u);
    EXPECT_EQ(add->params[0].size_bytes(), 8u);
    EXPECT_EQ(add->params[3].type, Type::u32);
    EXPECT_EQ(add->linkage, Linkage::visible);
    EXPECT_EQ(count(*add, "ret"), 1u);

    const Function* by_value = find(*module, "by_value");
    ASSERT_EQ(by_value->params.size(), 5u);
    EXPECT_EQ(by_value->params[0].size_bytes(), 32u);
    EXPECT_EQ(by_value->params[0].align, 8u);
    EXPECT_EQ(by_value->params[1].type, Type::u8);
    EXPECT_EQ(by_value->params[2].type, Type::u16);
    EXPECT_EQ(by_value->params[3].size_bytes(), 16u);
    EXPECT_EQ(by_value->params[3].align, 16u);
    EXPECT_EQ(by_value->maxntid[0], 256u);
    EXPECT_EQ(by_value->minnctapersm, 2u);

    EXPECT_EQ(variable(*module, "dynamic_shared")->linkage, Linkage::external);
    EXPECT_EQ(variable(*module, "dynamic_shared")->size_bytes(), 0u);
    const Function* sum = find(*module, "tile_sum");
    EXPECT_GE(count(*sum, "bar") + count(*sum, "barrier"), 2u);
    EXPECT_EQ(count(*sum, "atom") + count(*sum, "red"), std::string(name) == "basic_90_debug" ? 0u : 1u);
    EXPECT_NE(find(*module, "5saxpyIf")->params[0].type, find(*module, "5saxpyId")->params[0].type);
    EXPECT_EQ(find(*module, "5empty")->body.size(), 1u);
  }
}

TEST(PtxNvcc, Globals) {
  for (const char* name : {"globals_75", "globals_90", "globals_100"}) {
    SCOPED_TRACE(name);
    auto module = compiled(name);
    EXPECT_EQ(kernels(*module), 4u);
    const Variable* table = variable(*module, "table");
    EXPECT_EQ(table->size_bytes(), 24u);
    EXPECT_EQ(table->init.elements.size(), 21u) << "trailing zeros are left out";
    EXPECT_EQ(table->init.elements[20].bits, 6u);
    EXPECT_EQ(variable(*module, "pi")->space, Space::constant);
    EXPECT_EQ(variable(*module, "pi")->init.elements[0].bits, 0x400921fb54442d18u);
    const Variable* pointer = variable(*module, "pointer_into_table");
    EXPECT_EQ(pointer->init.elements[0].symbol, "table");
    EXPECT_EQ(pointer->init.elements[0].addend, 16);
    EXPECT_TRUE(pointer->init.elements[0].generic);
    EXPECT_TRUE(variable(*module, "managed_counter")->managed);
    EXPECT_EQ(variable(*module, "operations")->init.elements[1].symbol, "_Z6thricef");
    const Function* use = find(*module, "use_globals");
    EXPECT_EQ(use->prototypes.size(), 1u);
    const Function* print = find(*module, "print_and_assert");
    EXPECT_EQ(count(*print, "call"), 2u);
    bool vprintf_declared = false;
    for (const Function& f : module->functions)
      vprintf_declared |= f.is_declaration && f.name == "vprintf" && f.returns.size() == 1;
    EXPECT_TRUE(vprintf_declared);
    EXPECT_GE(count(*find(*module, "fibonacci"), "call"), 1u);
  }
}

TEST(PtxNvcc, InlineAssembly) {
  auto module = compiled("inline_asm_90");
  const Function* scopes = find(*module, "6scopes");
  size_t predicates = 0, labels = 0;
  for (const Variable& v : scopes->locals) predicates += v.name.compare(0, 2, "p@") == 0;
  for (const Label& l : scopes->labels) labels += l.name.compare(0, 4, "BIG@") == 0;
  EXPECT_EQ(predicates, 2u);
  EXPECT_EQ(labels, 2u);
  const Function* specials = find(*module, "8specials");
  size_t found = 0;
  for (const Instruction& in : specials->body) {
    for (const Operand& o : in.operands) {
      found += o.kind == Operand::Kind::sreg &&
               (o.symbol == "%laneid" || o.symbol == "%dynamic_smem_size" || o.symbol == "%envreg3" ||
                o.symbol == "%globaltimer" || o.symbol == "%clock64");
    }
  }
  EXPECT_EQ(found, 5u);
  const Function* bulk = find(*module, "bulk_copies");
  EXPECT_EQ(count(*bulk, "cp"), 5u);
  EXPECT_EQ(count(*bulk, "elect"), 1u);
}

TEST(PtxNvcc, Textures) {
  auto module = compiled("textures_90");
  const Function* f = find(*module, "read_textures");
  EXPECT_EQ(count(*f, "tex"), 7u);
  EXPECT_EQ(count(*f, "tld4"), 1u);
  EXPECT_EQ(count(*f, "suld"), 1u);
  EXPECT_EQ(count(*f, "sust"), 2u);
  for (const Instruction& in : f->body) {
    if (in.opcode == "tex") {
      EXPECT_EQ(in.operands[1].kind, Operand::Kind::tex_address);
    }
  }
}

TEST(PtxNvcc, SeparateCompilation) {
  auto module = compiled("separate_90");
  bool declared = false;
  for (const Function& f : module->functions)
    declared |= f.is_declaration && f.name.find("other_function") != std::string::npos;
  EXPECT_TRUE(declared);
  EXPECT_EQ(variable(*module, "other_variable")->linkage, Linkage::external);
  EXPECT_EQ(find(*module, "exported")->linkage, Linkage::visible);
}

TEST(PtxNvcc, MatrixInstructions) {
  auto module = compiled("halves_90");
  const Function* f = find(*module, "wmma_tile");
  size_t mma = 0;
  for (const Instruction& in : f->body) {
    if (in.opcode != "wmma" || !in.has("mma")) continue;
    ++mma;
    EXPECT_EQ(in.operands.size(), 4u);
    EXPECT_EQ(in.operands[0].elements.size(), 8u);
    EXPECT_EQ(in.types, (std::vector<Type>{Type::f32, Type::f32}));
  }
  EXPECT_EQ(mma, 1u);
}

TEST(PtxNvcc, Library) {
  auto module = compiled("library_90");
  EXPECT_GE(kernels(*module), 15u);
  size_t instructions = 0;
  for (const Function& f : module->functions) instructions += f.body.size();
  EXPECT_GT(instructions, 10000u);
}

TEST(PtxNvcc, SpeedIsFarBelowASecondPerMegabyte) {
  const std::string text = ptx_test::read_file(std::string(PTX_TEST_DIR) + "/library_90.ptx");
  ASSERT_GT(text.size(), 300000u);
  const auto begin = std::chrono::steady_clock::now();
  ptx_test::parse_ok(text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LT(seconds / (static_cast<double>(text.size()) / 1e6), 1.0);  // about 0.01 when nothing else runs
}

}  // namespace
