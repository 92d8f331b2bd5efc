// Every function of the runtime's headers is exported under the public library's version node, in both
// default-stream forms where the header has them; nothing else is.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> header_names() {
  std::set<std::string> names;
  for (const char* file : {"/cuda_runtime_api.h", "/cuda_profiler_api.h"}) {
    const std::string text = read(std::string(CUDA_INCLUDE_DIR) + file);
    // One line at a time: declarations start with "extern" and name the function right after CUDARTAPI.
    const std::regex declaration(R"(\bCUDARTAPI\s+(cuda\w+)\s*\()");
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
      names.insert((*it)[1]);
    const std::regex form(R"(#define\s+(cuda\w+)\s+__CUDART_API_PT(SZ|DS)\()");
    for (std::sregex_iterator it(text.begin(), text.end(), form), end; it != end; ++it) {
      names.insert(std::string((*it)[1]) + ((*it)[2] == "SZ" ? "_ptsz" : "_ptds"));
    }
  }
  return names;
}

TEST(Exports, EveryDeclaredFunctionWithItsVersion) {
  void* library = dlopen(LIBCUDART, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const std::set<std::string> names = header_names();
  EXPECT_GE(names.size(), 380u);
  for (const std::string& name : names) {
    EXPECT_NE(dlvsym(library, name.c_str(), "libcudart.so.13"), nullptr) << name;
  }
  for (const char* name :
       {"__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary",
        "__cudaRegisterFunction", "__cudaRegisterVar", "__cudaRegisterManagedVar", "__cudaInitModule",
        "__cudaPushCallConfiguration", "__cudaPopCallConfiguration", "__cudaGetKernel", "__cudaLaunchKernel",
        "__cudaLaunchKernel_ptsz"}) {
    EXPECT_NE(dlvsym(library, name, "libcudart.so.13"), nullptr) << name;
  }
}

TEST(Exports, NothingElseAndTheRightSoname) {
  const std::string command = std::string("readelf -W -d --dyn-syms ") + LIBCUDART;
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  ASSERT_EQ(pclose(pipe), 0);
  EXPECT_NE(output.find("Library soname: [libcudart.so.13]"), std::string::npos);
  const std::regex symbol(R"((FUNC|OBJECT|TLS)\s+(GLOBAL|WEAK)\s+\w+\s+(\S+)\s+(\S+)\n)");
  int exported = 0;
  for (std::sregex_iterator it(output.begin(), output.end(), symbol), end; it != end; ++it) {
    if ((*it)[3] == "UND" || (*it)[4] == "libcudart.so.13") continue;  // the node itself
    const std::string name = (*it)[4];
    EXPECT_TRUE(std::regex_match(name, std::regex(R"((__)?cuda[A-Z]\w*@@libcudart\.so\.13)"))) << name;
    ++exported;
  }
  EXPECT_GT(exported, 400);
}

}  // namespace
