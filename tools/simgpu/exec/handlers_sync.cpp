// Barriers and warp-wide exchanges. An instruction with a lane mask waits until every live lane it names has
// come to it.
#include <algorithm>
#include <cstring>

#include "tools/simgpu/exec/registry.h"
#include "tools/simgpu/exec/warp.h"

namespace simgpu::exec {
namespace {

uint32_t* row32(Ctx* c, uint32_t slot) {
  return reinterpret_cast<uint32_t*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}
uint64_t* row64(Ctx* c, uint32_t slot) {
  return reinterpret_cast<uint64_t*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}
uint32_t first_lane(uint32_t m) { return static_cast<uint32_t>(__builtin_ctz(m)); }
void set_pred(Ctx* c, uint32_t index, uint32_t value) {
  c->pred[index] = (c->pred[index] & ~c->mask) | (value & c->mask);
}

// ---- block barriers
// ----------------------------------------------------------------------------------------------
bool complete(const Block& b, const Barrier& bar) {
  if (bar.expected) return bar.arrived >= bar.expected;
  uint32_t threads = 0;
  for (uint32_t w = 0; w < bar.warp_arrived.size(); ++w)
    threads += static_cast<uint32_t>(__builtin_popcount(bar.warp_arrived[w] & b.warps[w].live));
  return threads >= b.live_threads;
}
void release(Block& b, uint32_t id) {
  Barrier& bar = b.barriers[id];
  bar.result_and = bar.red_and;
  bar.result_or = bar.red_or;
  bar.result_popc = bar.red_popc;
  bar.red_and = 1;
  bar.red_or = 0;
  bar.red_popc = 0;
  bar.arrived = 0;
  bar.expected = 0;
  bar.active = false;
  std::fill(bar.warp_arrived.begin(), bar.warp_arrived.end(), 0u);
  for (Warp& w : b.warps) {
    for (size_t k = 0; k < w.waiting.size();) {
      Group& g = w.waiting[k];
      if (g.wait == Wait::barrier && g.barrier == id) {
        g.wait = Wait::none;
        w.runnable.push_back(std::move(g));
        w.waiting.erase(w.waiting.begin() + static_cast<long>(k));
      } else {
        ++k;
      }
    }
  }
}
// The running lanes arrive. With a thread count a whole warp counts as 32, however many lanes it was created
// with.
void arrive(Ctx* c, uint32_t id, uint32_t count) {
  Block& b = *c->block;
  Barrier& bar = b.barriers[id];
  if (bar.warp_arrived.size() != b.warps.size()) bar.warp_arrived.resize(b.warps.size());
  bar.active = true;
  bar.expected = count;
  uint32_t& lanes = bar.warp_arrived[c->warp->index];
  bar.arrived += static_cast<uint32_t>(__builtin_popcount(c->mask));
  lanes |= c->mask;
  if (count && (lanes & c->warp->live) == c->warp->live) {
    bar.arrived += kLanes - static_cast<uint32_t>(__builtin_popcount(lanes));
    lanes = 0;  // the warp may arrive again at a counted barrier it does not wait at
  }
}

bool barrier_operands(Ctx* c, const Inst* i, uint32_t& id, uint32_t& count) {
  const uint32_t l = first_lane(c->mask);
  id = row32(c, i->a)[l];
  count = row32(c, i->b)[l];
  if (id < 16 && (count % kLanes) == 0) return true;
  raise_fault(c, i, Fault::illegal_instruction, id, l,
              id >= 16 ? "barrier number out of range" : "barrier count is not a multiple of the warp size");
  return false;
}

template <bool M>
const Inst* bar_sync(Ctx* c, const Inst* i) {
  uint32_t id, count;
  if (!barrier_operands(c, i, id, count)) return nullptr;
  Block& b = *c->block;
  // A single warp needs nobody else.
  if (!M && b.warps.size() == 1 && !b.barriers[id].active && (count == 0 || count == kLanes)) return i + 1;
  arrive(c, id, count);
  if (complete(b, b.barriers[id])) {
    release(b, id);
    return i + 1;
  }
  return wait_group(c, i + 1, Wait::barrier, 0, id);
}
template <bool M>
const Inst* bar_arrive(Ctx* c, const Inst* i) {
  uint32_t id, count;
  if (!barrier_operands(c, i, id, count)) return nullptr;
  arrive(c, id, count);
  if (complete(*c->block, c->block->barriers[id])) release(*c->block, id);
  return i + 1;
}
template <bool M>
const Inst* bar_red(Ctx* c, const Inst* i) {
  uint32_t id, count;
  if (!barrier_operands(c, i, id, count)) return nullptr;
  Barrier& bar = c->block->barriers[id];
  const uint32_t p = c->pred[i->c] & c->mask;
  bar.red_popc += static_cast<uint32_t>(__builtin_popcount(p));
  bar.red_or |= p != 0;
  if (p != c->mask) bar.red_and = 0;
  arrive(c, id, count);
  if (complete(*c->block, bar)) {
    release(*c->block, id);
    return i + 1;
  }
  return wait_group(c, i + 1, Wait::barrier, 0, id);
}
template <int What>
struct BarResult {  // 0 popc 1 and 2 or
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    const Barrier& bar = c->block->barriers[row32(c, i->a)[first_lane(c->mask)]];
    if constexpr (What == 0) {
      uint32_t* d = row32(c, i->dst);
      for (uint32_t l = 0; l < kLanes; ++l)
        if ((c->mask >> l) & 1) d[l] = bar.result_popc;
    } else {
      set_pred(c, i->dst, (What == 1 ? bar.result_and : bar.result_or) ? kFullMask : 0);
    }
    return i + 1;
  }
};

// ---- cluster barrier
// ------------------------------------------------------------------------------------------------
void cluster_check(Cluster& cl) {
  if (cl.barrier_arrived == 0) return;
  uint32_t live = 0;
  for (auto& b : cl.blocks) live += b->live_threads;
  if (cl.barrier_arrived < live) return;
  cl.barrier_arrived = 0;
  cl.barrier_phase += 1;
  for (auto& b : cl.blocks)
    for (Warp& w : b->warps)
      for (size_t k = 0; k < w.waiting.size();) {
        Group& g = w.waiting[k];
        if (g.wait == Wait::cluster) {
          g.wait = Wait::none;
          w.runnable.push_back(std::move(g));
          w.waiting.erase(w.waiting.begin() + static_cast<long>(k));
        } else {
          ++k;
        }
      }
}
template <bool M>
const Inst* cluster_arrive(Ctx* c, const Inst* i) {
  Cluster& cl = *c->block->cluster;
  cl.barrier_arrived += static_cast<uint32_t>(__builtin_popcount(c->mask));
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) c->warp->cluster_phase[l] = static_cast<uint32_t>(cl.barrier_phase) + 1;
  cluster_check(cl);
  return i + 1;
}
template <bool M>
const Inst* cluster_wait(Ctx* c, const Inst* i) {
  Cluster& cl = *c->block->cluster;
  if (static_cast<int32_t>(static_cast<uint32_t>(cl.barrier_phase) -
                           c->warp->cluster_phase[first_lane(c->mask)]) >= 0)
    return i + 1;
  return wait_group(c, i, Wait::cluster, 0, 0);
}

// ---- lane masks
// -------------------------------------------------------------------------------------------------------
// Runs `body` for all lanes that must take part. Lanes of other groups that wait at the same place join for
// this one instruction; their registers are columns of the same rows.
template <class Body>
const Inst* with_lanes(Ctx* c, const Inst* i, uint32_t mask_row, bool sync, Body body) {
  if (!sync) {
    body(c->mask);
    return i + 1;
  }
  const uint32_t* named = row32(c, mask_row);
  uint32_t wanted = 0;
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) wanted |= named[l];
  Warp& w = *c->warp;
  wanted &= w.live;
  if (__builtin_expect((wanted & ~c->mask) == 0, 1)) {
    body(c->mask);
    return i + 1;
  }
  if ((c->mask & ~w.released) == 0) {  // those it waited for were at another instruction of this kind
    w.released &= ~c->mask;
    body(c->mask);
    return i + 1;
  }
  // Who else is here, and is everybody at some instruction of this kind?
  uint32_t here = c->mask, anywhere = c->mask;
  for (const Group& g : w.waiting) {
    if (g.wait != Wait::warp_sync) continue;
    anywhere |= g.mask;
    if (g.pc == i && g.fp32 == c->fp32 && g.fp64 == c->fp64 && g.fpp == c->fpp) {
      here |= g.mask;
      wanted |= g.wait_mask & w.live;
    }
  }
  if ((wanted & ~here) != 0 && (wanted & ~anywhere) != 0) return wait_group(c, i, Wait::warp_sync, wanted, 0);
  const uint32_t mask = c->mask, mode = c->mode;
  c->mask = here;
  c->mode = here != kFullMask;
  body(here);
  c->mask = mask;
  c->mode = mode;
  for (size_t k = 0; k < w.waiting.size();) {
    Group& g = w.waiting[k];
    if (g.wait == Wait::warp_sync) {
      const bool joined = g.pc == i && g.fp32 == c->fp32 && g.fp64 == c->fp64 && g.fpp == c->fpp;
      // Groups at another instruction were waited for as well: they try again, and find the same lanes gone
      // on.
      g.wait = Wait::none;
      if (joined)
        g.pc = i + 1;
      else if ((g.wait_mask & mask) != 0)
        w.released |= g.mask;
      w.runnable.push_back(std::move(g));
      w.waiting.erase(w.waiting.begin() + static_cast<long>(k));
    } else {
      ++k;
    }
  }
  return i + 1;
}

template <bool M>
const Inst* bar_warp_sync(Ctx* c, const Inst* i) {
  return with_lanes(c, i, i->a, true, [](uint32_t) {});
}

enum ShuffleMode { kUp, kDown, kBfly, kIdx };
template <int Mode>
struct Shuffle {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    return with_lanes(c, i, i->d, i->imm & 1, [c, i](uint32_t active) {
      uint32_t* d = row32(c, i->dst);
      uint32_t a[kLanes];
      std::memcpy(a, row32(c, i->a), sizeof(a));
      const uint32_t *b = row32(c, i->b), *e = row32(c, i->c);
      uint32_t r[kLanes], ok = 0;
      for (uint32_t l = 0; l < kLanes; ++l) {
        const uint32_t bv = b[l] & 31, clamp = e[l] & 31, seg = (e[l] >> 8) & 31;
        const uint32_t max_lane = (l & seg) | (clamp & ~seg), min_lane = l & seg;
        uint32_t j;
        bool p;
        if constexpr (Mode == kUp) {
          j = l - bv;
          p = static_cast<int32_t>(j) >= static_cast<int32_t>(max_lane);
        } else if constexpr (Mode == kDown) {
          j = l + bv;
          p = j <= max_lane;
        } else if constexpr (Mode == kBfly) {
          j = l ^ bv;
          p = j <= max_lane;
        } else {
          j = min_lane | (bv & ~seg);
          p = j <= max_lane;
        }
        if (!p) j = l;
        r[l] = a[j & 31];
        ok |= p ? 1u << l : 0u;
      }
      if (active == kFullMask)
        std::memcpy(d, r, sizeof(r));
      else
        for (uint32_t l = 0; l < kLanes; ++l)
          if ((active >> l) & 1) d[l] = r[l];
      set_pred(c, i->extra[0], ok);
    });
  }
};

enum VoteMode { kAll, kAny, kUni, kBallot };
template <int Mode>
struct Vote {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    return with_lanes(c, i, i->b, i->imm & 1, [c, i](uint32_t active) {
      const uint32_t p = c->pred[i->a] ^ ((i->imm & 2) ? kFullMask : 0);
      const uint32_t* named = row32(c, i->b);
      const bool sync = i->imm & 1;
      uint32_t r = 0;
      for (uint32_t l = 0; l < kLanes; ++l) {
        if (!((active >> l) & 1)) continue;
        const uint32_t m = sync ? named[l] & active : active, yes = p & m;
        if constexpr (Mode == kBallot)
          row32(c, i->dst)[l] = yes;
        else
          r |= (Mode == kAll ? yes == m : Mode == kAny ? yes != 0 : yes == 0 || yes == m) ? 1u << l : 0u;
      }
      if constexpr (Mode != kBallot) set_pred(c, i->dst, r);
    });
  }
};

template <class T, bool All>
struct Match {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    return with_lanes(c, i, i->b, true, [c, i](uint32_t active) {
      const T* a = reinterpret_cast<const T*>(row32(c, i->a));
      const uint32_t* named = row32(c, i->b);
      uint32_t r[kLanes] = {}, ok = 0;
      for (uint32_t l = 0; l < kLanes; ++l) {
        if (!((active >> l) & 1)) continue;
        const uint32_t m = named[l] & active;
        uint32_t same = 0;
        for (uint32_t k = 0; k < kLanes; ++k)
          if (((m >> k) & 1) && a[k] == a[l]) same |= 1u << k;
        if constexpr (All) {
          if (same == m) {
            r[l] = m;
            ok |= 1u << l;
          }
        } else
          r[l] = same;
      }
      uint32_t* d = row32(c, i->dst);
      for (uint32_t l = 0; l < kLanes; ++l)
        if ((active >> l) & 1) d[l] = r[l];
      set_pred(c, i->extra[0], ok);
    });
  }
};

template <class T, class F>
struct Redux {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    return with_lanes(c, i, i->b, true, [c, i](uint32_t active) {
      T a[kLanes];
      std::memcpy(a, row32(c, i->a), sizeof(a));
      const uint32_t* named = row32(c, i->b);
      T* d = reinterpret_cast<T*>(row32(c, i->dst));
      uint32_t last = 0;
      T value{};
      for (uint32_t l = 0; l < kLanes; ++l) {
        if (!((active >> l) & 1)) continue;
        const uint32_t m = named[l] & active;
        if (m != last) {
          bool any = false;
          for (uint32_t k = 0; k < kLanes; ++k) {
            if (!((m >> k) & 1)) continue;
            value = any ? F{}(value, a[k], i->imm) : F::lift(a[k], i->imm);
            any = true;
          }
          last = m;
        }
        d[l] = value;
      }
    });
  }
};
struct Lift {
  template <class T>
  static T lift(T v, uint64_t) {
    return v;
  }
};
struct Add : Lift {
  uint32_t operator()(uint32_t a, uint32_t b, uint64_t) const { return a + b; }
};
struct And : Lift {
  uint32_t operator()(uint32_t a, uint32_t b, uint64_t) const { return a & b; }
};
struct Or : Lift {
  uint32_t operator()(uint32_t a, uint32_t b, uint64_t) const { return a | b; }
};
struct Xor : Lift {
  uint32_t operator()(uint32_t a, uint32_t b, uint64_t) const { return a ^ b; }
};
template <class T>
struct Min : Lift {
  T operator()(T a, T b, uint64_t) const { return a < b ? a : b; }
};
template <class T>
struct Max : Lift {
  T operator()(T a, T b, uint64_t) const { return a > b ? a : b; }
};
template <bool IsMax>
struct FloatExtreme {
  static float lift(float v, uint64_t imm) { return (imm & 2) ? __builtin_fabsf(v) : v; }
  float operator()(float a, float b, uint64_t imm) const {
    b = lift(b, imm);
    if (a != a || b != b) {
      if ((imm & 4) || (a != a && b != b)) return __builtin_bit_cast(float, 0x7fffffffu);
      return a != a ? b : a;
    }
    if (a == b) {
      const bool neg = __builtin_signbit(a);
      return neg != IsMax ? a : b;
    }
    return (a < b) != IsMax ? a : b;
  }
};

template <bool M>
const Inst* activemask(Ctx* c, const Inst* i) {
  uint32_t* d = row32(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) d[l] = c->mask;
  return i + 1;
}
template <bool M>
const Inst* elect(Ctx* c, const Inst* i) {
  return with_lanes(c, i, i->b, true, [c, i](uint32_t active) {
    const uint32_t* named = row32(c, i->b);
    uint32_t* d = row32(c, i->dst);
    uint32_t p = 0;
    for (uint32_t l = 0; l < kLanes; ++l) {
      if (!((active >> l) & 1)) continue;
      const uint32_t leader = first_lane(named[l] & active);
      d[l] = leader;
      if (leader == l) p |= 1u << l;
    }
    set_pred(c, i->extra[0], p);
  });
}
template <bool M>
const Inst* fence(Ctx*, const Inst* i) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return i + 1;
}
template <bool M>
const Inst* nanosleep(Ctx* c, const Inst* i) {
  c->budget -= 4096;  // somebody else's turn soon
  c->spinning = true;
  return i + 1;
}

}  // namespace

void barrier_lanes_exited(Ctx* c) {
  Block& b = *c->block;
  for (uint32_t id = 0; id < 16; ++id) {
    Barrier& bar = b.barriers[id];
    if (!bar.active) continue;
    if (bar.expected && (c->warp->live & ~bar.warp_arrived[c->warp->index]) == 0 &&
        bar.warp_arrived[c->warp->index] != 0) {
      bar.arrived += kLanes - static_cast<uint32_t>(__builtin_popcount(bar.warp_arrived[c->warp->index]));
      bar.warp_arrived[c->warp->index] = 0;
    }
    if (complete(b, bar)) release(b, id);
  }
  cluster_check(*b.cluster);
}
void wake_warp_sync(Ctx* c) {
  Warp& w = *c->warp;
  for (size_t k = 0; k < w.waiting.size();) {
    Group& g = w.waiting[k];
    if (g.wait == Wait::warp_sync) {
      g.wait = Wait::none;
      w.runnable.push_back(std::move(g));
      w.waiting.erase(w.waiting.begin() + static_cast<long>(k));
    } else {
      ++k;
    }
  }
}

void register_sync(HandlerTable* t) {
#define BOTH(key, ...) add_handler(t, key, &__VA_ARGS__<false>, &__VA_ARGS__<true>)
  BOTH("bar.sync", bar_sync);
  BOTH("bar.arrive", bar_arrive);
  BOTH("bar.red", bar_red);
  BOTH("bar.red.popc", BarResult<0>::run);
  BOTH("bar.red.and", BarResult<1>::run);
  BOTH("bar.red.or", BarResult<2>::run);
  BOTH("cluster.arrive", cluster_arrive);
  BOTH("cluster.wait", cluster_wait);
  BOTH("bar.warp.sync", bar_warp_sync);
  BOTH("shfl.up", Shuffle<kUp>::run);
  BOTH("shfl.down", Shuffle<kDown>::run);
  BOTH("shfl.bfly", Shuffle<kBfly>::run);
  BOTH("shfl.idx", Shuffle<kIdx>::run);
  BOTH("vote.all", Vote<kAll>::run);
  BOTH("vote.any", Vote<kAny>::run);
  BOTH("vote.uni", Vote<kUni>::run);
  BOTH("vote.ballot", Vote<kBallot>::run);
  add_handler(t, "match.any.b32", &Match<uint32_t, false>::run<false>, &Match<uint32_t, false>::run<true>);
  add_handler(t, "match.any.b64", &Match<uint64_t, false>::run<false>, &Match<uint64_t, false>::run<true>);
  add_handler(t, "match.all.b32", &Match<uint32_t, true>::run<false>, &Match<uint32_t, true>::run<true>);
  add_handler(t, "match.all.b64", &Match<uint64_t, true>::run<false>, &Match<uint64_t, true>::run<true>);
#define REDUX(key, T, F) add_handler(t, key, &Redux<T, F>::run<false>, &Redux<T, F>::run<true>)
  REDUX("redux.add.b32", uint32_t, Add);
  REDUX("redux.and.b32", uint32_t, And);
  REDUX("redux.or.b32", uint32_t, Or);
  REDUX("redux.xor.b32", uint32_t, Xor);
  REDUX("redux.min.u32", uint32_t, Min<uint32_t>);
  REDUX("redux.max.u32", uint32_t, Max<uint32_t>);
  REDUX("redux.min.s32", int32_t, Min<int32_t>);
  REDUX("redux.max.s32", int32_t, Max<int32_t>);
  REDUX("redux.min.f32", float, FloatExtreme<false>);
  REDUX("redux.max.f32", float, FloatExtreme<true>);
  BOTH("activemask", activemask);
  BOTH("elect", elect);
  BOTH("fence", fence);
  BOTH("nanosleep", nanosleep);
  (void)row64;
}

}  // namespace simgpu::exec
