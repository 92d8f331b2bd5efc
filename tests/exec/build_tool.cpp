// Parses and builds PTX files: exec_build_tool file.ptx... prints ok or the reason per file; exit status 1 if
// any failed.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tools/simgpu/exec/exec.h"

int main(int argc, char** argv) {
  int failed = 0;
  for (int k = 1; k < argc; ++k) {
    std::stringstream text;
    text << std::ifstream(argv[k]).rdbuf();
    const auto t0 = std::chrono::steady_clock::now();
    shunt::ptx::Diagnostic d;
    auto m = shunt::ptx::parse(text.str(), d);
    if (!m) {
      std::printf("%s: parse: line %u: %s\n", argv[k], d.line, d.message.c_str());
      failed = 1;
      continue;
    }
    const auto t1 = std::chrono::steady_clock::now();
    std::string error;
    auto p = simgpu::exec::Program::build({m.get()}, error);
    const auto t2 = std::chrono::steady_clock::now();
    const auto ms = [](auto a, auto b) { return std::chrono::duration<double, std::milli>(b - a).count(); };
    if (!p) {
      std::printf("%s: build: %s\n", argv[k], error.c_str());
      failed = 1;
      continue;
    }
    std::printf("%s: ok, %zu kernels, parse %.1f ms, build %.1f ms\n", argv[k], p->kernels().size(),
                ms(t0, t1), ms(t1, t2));
  }
  return failed;
}
