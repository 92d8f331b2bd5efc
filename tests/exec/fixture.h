// A device for executor tests: allocations with device addresses of their own, launches, PTX from text or
// from nvcc.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tools/simgpu/exec/exec.h"

namespace simgpu::exec::test {

class Memory : public AddressSpace {
 public:
  uint64_t allocate(uint64_t bytes) {
    const uint64_t base = next_;
    next_ += (bytes + 4095) / 4096 * 4096 + 4096;  // a hole after each: overruns fault
    blocks_[base] = std::vector<uint8_t>(bytes, 0);
    return base;
  }
  template <class T>
  T* host(uint64_t address) {
    auto it = --blocks_.upper_bound(address);
    return reinterpret_cast<T*>(it->second.data() + (address - it->first));
  }
  template <class T>
  uint64_t upload(const std::vector<T>& v) {
    const uint64_t p = allocate(v.size() * sizeof(T));
    if (!v.empty()) std::memcpy(host<T>(p), v.data(), v.size() * sizeof(T));
    return p;
  }
  template <class T>
  std::vector<T> download(uint64_t p, size_t n) {
    const T* h = host<T>(p);
    return std::vector<T>(h, h + n);
  }
  bool find(uint64_t address, Region& out) const override {
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin()) return false;
    --it;
    if (address >= it->first + it->second.size()) return false;
    out = Region{};
    out.base = it->first;
    out.end = it->first + it->second.size();
    out.host = const_cast<uint8_t*>(it->second.data());
    return true;
  }

 private:
  std::map<uint64_t, std::vector<uint8_t>> blocks_;
  uint64_t next_ = 0x7f00'0000'0000ull;
};

// Packs kernel arguments with natural alignment.
class Args {
 public:
  template <class T>
  Args& add(const T& v) {
    // Not insert(): g++ 12 at -O3 takes its inlined form for an overflow.
    const size_t at = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &v, sizeof(T));
    return *this;
  }
  const void* data() const { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
};
template <class... T>
Args args(const T&... v) {
  Args a;
  (a.add(v), ...);
  return a;
}

inline std::string nvcc_ptx(const std::string& source, const std::string& flags = "") {
  static int serial = 0;
  const std::string base =
      "/tmp/simgpu_exec_test_" + std::to_string(::getpid()) + "_" + std::to_string(serial++);
  std::ofstream(base + ".cu") << source;
  const std::string arch = flags.find("-arch") == std::string::npos ? " -arch=compute_90" : "";
  const std::string command = std::string(SHUNT_NVCC) + arch + " -std=c++17 -ptx " + flags + " -o " + base +
                              ".ptx " + base + ".cu 2>" + base + ".log";
  const int rc = std::system(command.c_str());
  std::stringstream text;
  if (rc == 0)
    text << std::ifstream(base + ".ptx").rdbuf();
  else {
    std::stringstream log;
    log << std::ifstream(base + ".log").rdbuf();
    ADD_FAILURE() << log.str();
  }
  for (const char* ext : {".cu", ".ptx", ".log"}) std::remove((base + ext).c_str());
  return text.str();
}

struct Result {
  Execution::State state = Execution::State::running;
  FaultInfo fault;
  Stats stats;
  std::vector<Access> accesses;
  std::string printed, error;
};

class Device {
 public:
  Memory memory;
  Launch launch;  // defaults for every run
  std::unique_ptr<Program> program;
  std::vector<uint64_t> globals;

  bool load(const std::vector<std::string>& texts, std::string* error = nullptr) {
    std::vector<const shunt::ptx::Module*> list;
    for (const auto& t : texts) {
      shunt::ptx::Diagnostic d;
      modules_.push_back(shunt::ptx::parse(t, d));
      if (!modules_.back()) {
        if (error)
          *error = d.message;
        else
          ADD_FAILURE() << "parse: line " << d.line << ": " << d.message;
        return false;
      }
      list.push_back(modules_.back().get());
    }
    std::string why;
    program = Program::build(list, why);
    if (!program) {
      if (error)
        *error = why;
      else
        ADD_FAILURE() << why;
      return false;
    }
    globals.clear();
    for (const auto& g : program->globals()) {
      globals.push_back(memory.allocate(g.size ? g.size : 1));
      if (!g.init.empty()) std::memcpy(memory.host<uint8_t>(globals.back()), g.init.data(), g.init.size());
    }
    for (size_t k = 0; k < globals.size(); ++k)
      for (const auto& r : program->globals()[k].relocs) {
        const uint64_t v = (r.is_function ? program->function_address(r.function) : globals[r.global]) +
                           static_cast<uint64_t>(r.addend);
        std::memcpy(memory.host<uint8_t>(globals[k]) + r.offset, &v, r.bytes);
      }
    return true;
  }
  bool load(const std::string& text, std::string* error = nullptr) {
    return load(std::vector<std::string>{text}, error);
  }

  uint64_t global(const std::string& name) {
    for (size_t k = 0; k < globals.size(); ++k)
      if (program->globals()[k].name == name) return globals[k];
    ADD_FAILURE() << "no variable " << name;
    return 0;
  }

  Result run(const std::string& kernel, Dim3 grid, Dim3 block, const Args& a, uint32_t dynamic_shared = 0,
             uint64_t budget = 2'000'000'000) {
    Result r;
    Launch l = launch;
    l.program = program.get();
    l.kernel = find(kernel);
    if (l.kernel < 0) {
      ADD_FAILURE() << "no kernel " << kernel;
      return r;
    }
    l.global_addresses = globals.data();
    l.grid = grid;
    l.block = block;
    l.dynamic_shared = dynamic_shared;
    l.params = a.data();
    l.memory = &memory;
    if (l.limits.max_resident_blocks == 1) l.limits.max_resident_blocks = 256;
    l.limits.sm_count = 8;
    l.print = [&r](const char* t, size_t n) { r.printed.append(t, n); };
    auto e = Execution::create(l, r.error);
    if (!e) {
      ADD_FAILURE() << r.error;
      return r;
    }
    r.state = e->advance(budget);
    r.fault = e->fault();
    r.stats = e->stats();
    r.accesses = e->accesses();
    if (r.state == Execution::State::running) r.error = e->stuck() ? "stuck" : "budget";
    return r;
  }
  Result ok(const std::string& kernel, Dim3 grid, Dim3 block, const Args& a, uint32_t dynamic_shared = 0) {
    Result r = run(kernel, grid, block, a, dynamic_shared);
    EXPECT_EQ(static_cast<int>(r.state), static_cast<int>(Execution::State::done)) << r.fault.text << r.error;
    return r;
  }

 private:
  int find(const std::string& name) {  // exact, or a mangled name that contains it
    int k = program->find_kernel(name);
    for (size_t i = 0; k < 0 && i < program->kernels().size(); ++i)
      if (program->kernels()[i].name.find(std::to_string(name.size()) + name) != std::string::npos)
        k = static_cast<int>(i);
    return k;
  }
  std::vector<std::unique_ptr<shunt::ptx::Module>> modules_;
};

}  // namespace simgpu::exec::test
