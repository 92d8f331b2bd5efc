// Handler tables: one per instruction set, filled once, the best one for this CPU chosen at first use.
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "tools/simgpu/exec/core.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {

struct HandlerTable {
  std::unordered_map<std::string, HandlerPair> handlers;
  struct Pair {
    Resolver r[2];
  };
  std::unordered_map<std::string, Pair> resolvers;
};

void add_handler(HandlerTable* t, const char* key, Fn full, Fn masked) { t->handlers[key] = {full, masked}; }
void add_resolver(HandlerTable* t, const char* key, Resolver full, Resolver masked) {
  t->resolvers[key] = {{full, masked}};
}

namespace {

void fill_isa(HandlerTable* t, const char* isa) {
#define SIMGPU_FILL(ns)                                                                         \
  (ns::register_alu(t), ns::register_float(t), ns::register_convert(t), ns::register_memory(t), \
   ns::register_half(t), ns::register_matrix(t))
#if defined(SIMGPU_HAVE_AVX512)
  if (!std::strcmp(isa, "avx512")) {
    SIMGPU_FILL(isa_avx512);
    return;
  }
#endif
#if defined(SIMGPU_HAVE_AVX2)
  if (!std::strcmp(isa, "avx2")) {
    SIMGPU_FILL(isa_avx2);
    return;
  }
#endif
  SIMGPU_FILL(isa_base);
}

const char* best_isa() {
  const char* forced =
      std::getenv("SIMGPU_ISA");  // for tests: base, avx2, avx512; never above what the CPU has
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (forced && !std::strcmp(forced, "base")) return "base";
  if (forced && !std::strcmp(forced, "avx2") && avx2) return "avx2";
  return avx512 ? "avx512" : avx2 ? "avx2" : "base";
}

HandlerTable* table() {
  static HandlerTable* const t = [] {
    auto* made = new HandlerTable;  // leaked on purpose: handlers may be looked up during exit
    fill_isa(made, best_isa());
    register_rounding(made);
    register_control(made);
    register_sync(made);
    register_atomic(made);
    register_special(made);
    register_fragment(made);
    register_async(made);
    register_video(made);
    register_texture(made);
    return made;
  }();
  return t;
}

}  // namespace

bool find_handler(const char* key, HandlerPair& out) {
  const auto& h = table()->handlers;
  auto it = h.find(key);
  if (it == h.end()) return false;
  out = it->second;
  return true;
}
const Resolver* find_resolver(const char* key) {
  const auto& r = table()->resolvers;
  auto it = r.find(key);
  return it == r.end() ? nullptr : it->second.r;
}

}  // namespace simgpu::exec
