// `shunt ptx` from outside.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <string>

namespace {

struct Output {
  std::string text;
  int status = -1;
};
Output shunt_ptx(const std::string& arguments) {
  Output result;
  FILE* pipe = popen((std::string(SHUNT_TOOL) + " ptx " + arguments + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) result.text.append(buffer, n);
  result.status = WEXITSTATUS(pclose(pipe));
  return result;
}
bool contains(const Output& output, const std::string& text) {
  return output.text.find(text) != std::string::npos;
}
const std::string kPtx = std::string(PTX_TEST_DIR) + "/access_90.ptx";

TEST(CmdPtx, Table) {
  const Output o = shunt_ptx(kPtx);
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_TRUE(contains(o, "copy_guarded(float const*, float*, int)")) << o.text;
  EXPECT_TRUE(contains(o, "bounded by the launch"));
  EXPECT_TRUE(contains(o, "address depends on a value read from memory")) << "why gather is a barrier";
  EXPECT_TRUE(contains(o, "module variable: a barrier"));
  EXPECT_TRUE(contains(o, "32 kernels: 27 proven"))
      << o.text.substr(o.text.size() > 200 ? o.text.size() - 200 : 0);
}

TEST(CmdPtx, OneKernelAsJson) {
  const Output o = shunt_ptx("--kernel histogram --json " + kPtx);
  EXPECT_EQ(o.status, 0);
  EXPECT_TRUE(contains(o, "\"access\": \"read\", \"bounded\": true, \"pointers\": [0]")) << o.text;
  EXPECT_TRUE(contains(o, "\"access\": \"read-written\""));
  EXPECT_FALSE(contains(o, "copy_guarded"));
}

TEST(CmdPtx, ProgramsAndFatBinaries) {
  const Output program = shunt_ptx(std::string(BINARY_TEST_DIR) + "/program");
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_TRUE(contains(program, "vector_add(")) << program.text;
  const Output fatbin = shunt_ptx("--sm 75 " + std::string(BINARY_TEST_DIR) + "/size.fatbin");
  EXPECT_EQ(fatbin.status, 0) << fatbin.text;
  EXPECT_TRUE(contains(fatbin, "1 kernels: 1 proven")) << fatbin.text;
  const Output none = shunt_ptx("--sm 80 " + std::string(BINARY_TEST_DIR) + "/size.fatbin");
  EXPECT_EQ(none.status, 125);
  EXPECT_TRUE(contains(none, "holds no PTX for sm_80")) << none.text;
}

TEST(CmdPtx, Print) {
  const Output o = shunt_ptx("--print " + kPtx);
  EXPECT_EQ(o.status, 0);
  EXPECT_TRUE(contains(o, ".visible .entry _Z12copy_guardedPKfPfi("));
}

TEST(CmdPtx, Errors) {
  EXPECT_TRUE(contains(shunt_ptx(""), "give a PTX file, a fat binary or a program"));
  EXPECT_TRUE(contains(shunt_ptx("/nonexistent"), "cannot open '/nonexistent'"));
  EXPECT_TRUE(contains(shunt_ptx("--frobnicate x"), "unknown or incomplete flag '--frobnicate'"));
  EXPECT_TRUE(contains(shunt_ptx("/etc/passwd"), "is neither PTX nor a fat binary nor an ELF file"));
  const Output o = shunt_ptx(std::string(PTX_SEED_DIR) + "/undeclared_register.ptx");
  EXPECT_EQ(o.status, 125);
  EXPECT_TRUE(contains(o, "undeclared_register.ptx:3:39: register '%r2' is not declared")) << o.text;
}

}  // namespace
