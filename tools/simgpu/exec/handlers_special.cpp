// Clocks, address-space predicates, cluster addresses.
#include "tools/simgpu/exec/registry.h"
#include "tools/simgpu/exec/warp.h"
#include "tools/simgpu/exec/worker.h"

namespace simgpu::exec {
namespace {

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

// imm: 0 clock, 1 global timer, 2 clock's upper half, 3 timer's upper half
template <class T>
struct Special {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    T* d = lanes_of<T>(c, i->dst);
    const uint64_t v = (i->imm & 1) ? global_timer(c) : device_clock(c);
    const T x = static_cast<T>(i->imm >= 2 ? v >> 32 : v);
    for (uint32_t l = 0; l < kLanes; ++l)
      if (!M || ((c->mask >> l) & 1)) d[l] = x;
    c->spinning = true;  // programs wait with clocks
    c->budget -= 64;
    return i + 1;
  }
};
template <bool M>
const Inst* isspacep(Ctx* c, const Inst* i) {
  const uint64_t* a = lanes_of<uint64_t>(c, i->a);
  uint32_t r = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    const uint64_t v = a[l];
    const bool shared = v - kSharedWindow < kWindowSize, local = v - kLocalWindow < kWindowSize,
               param = v - kParamWindow < kWindowSize;
    bool p = false;
    switch (i->imm) {
      case 0:
        p = !shared && !local && !param;
        break;
      case 1:
        p = shared && ((v - kSharedWindow) >> kClusterRankShift) == 0;
        break;
      case 2:
        p = local;
        break;
      case 3:
        p = param;
        break;
      case 4:
        p = is_constant_address(c, v);
        break;
      case 5:
        p = shared;
        break;
    }
    r |= p ? 1u << l : 0u;
  }
  c->pred[i->dst] = (c->pred[i->dst] & ~c->mask) | (r & c->mask);
  return i + 1;
}
template <class T>
struct Mapa {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    T* d = lanes_of<T>(c, i->dst);
    const T* a = lanes_of<T>(c, i->a);
    const uint32_t* rank = lanes_of<uint32_t>(c, i->b);
    constexpr T field = static_cast<T>(0xff) << kClusterRankShift;
    for (uint32_t l = 0; l < kLanes; ++l)
      if (!M || ((c->mask >> l) & 1))
        d[l] = (a[l] & ~field) | (static_cast<T>(rank[l] + 1) << kClusterRankShift);
    return i + 1;
  }
};
template <class T>
struct Rank {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    uint32_t* d = lanes_of<uint32_t>(c, i->dst);
    const T* a = lanes_of<T>(c, i->a);
    for (uint32_t l = 0; l < kLanes; ++l) {
      if (M && !((c->mask >> l) & 1)) continue;
      const uint32_t r = static_cast<uint32_t>(a[l] >> kClusterRankShift) & 0xff;
      d[l] = r ? r - 1 : c->block->cluster_rank;
    }
    return i + 1;
  }
};

}  // namespace

void register_special(HandlerTable* t) {
  add_handler(t, "special.32", &Special<uint32_t>::run<false>, &Special<uint32_t>::run<true>);
  add_handler(t, "special.64", &Special<uint64_t>::run<false>, &Special<uint64_t>::run<true>);
  add_handler(t, "isspacep", &isspacep<false>, &isspacep<true>);
  add_handler(t, "mapa.32", &Mapa<uint32_t>::run<false>, &Mapa<uint32_t>::run<true>);
  add_handler(t, "mapa.64", &Mapa<uint64_t>::run<false>, &Mapa<uint64_t>::run<true>);
  add_handler(t, "getctarank.32", &Rank<uint32_t>::run<false>, &Rank<uint32_t>::run<true>);
  add_handler(t, "getctarank.64", &Rank<uint64_t>::run<false>, &Rank<uint64_t>::run<true>);
}

}  // namespace simgpu::exec
