// Divergence: groups of lanes, reconvergence nodes, and who runs next inside one warp.
#include "tools/simgpu/exec/warp.h"

#include <cstdlib>
#include <cstring>
#include <tuple>

#include "tools/simgpu/exec/program.h"

namespace simgpu::exec {

Block::~Block() {
  std::free(shared);
  std::free(memory);
  std::free(local);
}
Warp::~Warp() {
  for (uint8_t* g : grown) std::free(g);
}

Node* Warp::make_node() {
  Node* n;
  if (!free_nodes.empty()) {
    n = free_nodes.back();
    free_nodes.pop_back();
  } else {
    node_storage.push_back(std::make_unique<Node>());
    n = node_storage.back().get();
  }
  *n = Node{};
  nodes.push_back(n);
  return n;
}
void Warp::drop_node(Node* n) {
  for (size_t k = nodes.size(); k-- > 0;)
    if (nodes[k] == n) {
      nodes.erase(nodes.begin() + static_cast<long>(k));
      break;
    }
  free_nodes.push_back(n);
}

void set_mask(Ctx* c, uint32_t mask) {
  c->mask = mask;
  c->mode = mask != kFullMask;
}

void enter_frame(Ctx* c) {
  Warp& w = *c->warp;
  c->base[kRow32] = w.rows32 + c->fp32;
  c->base[kRow64] = w.rows64 + c->fp64;
  c->pred = w.preds + c->fpp;
}

void save_group(Ctx* c, const Inst* pc, Group& g) {
  g.pc = pc;
  g.mask = c->mask;
  g.node = c->node;
  g.depth = c->depth;
  g.fp32 = c->fp32;
  g.fp64 = c->fp64;
  g.fpp = c->fpp;
  g.local_base = c->local_base;
  g.local_sp = c->local_sp;
  g.function = c->warp->function;
  g.calls = c->warp->calls;
}
const Inst* load_group(Ctx* c, Group&& g) {
  set_mask(c, g.mask);
  c->node = g.node;
  c->depth = g.depth;
  c->fp32 = g.fp32;
  c->fp64 = g.fp64;
  c->fpp = g.fpp;
  c->local_base = g.local_base;
  c->local_sp = g.local_sp;
  c->warp->function = g.function;
  c->warp->calls = std::move(g.calls);
  enter_frame(c);
  return g.pc;
}

const Inst* next_group(Ctx* c) {
  Warp& w = *c->warp;
  if (w.runnable.empty()) {
    c->mask = 0;
    c->stop = w.live == 0 ? Stop::finished : Stop::blocked;
    return nullptr;
  }
  Group g = std::move(w.runnable.back());
  w.runnable.pop_back();
  return load_group(c, std::move(g));
}

const Inst* wait_group(Ctx* c, const Inst* resume_at, Wait wait, uint32_t wait_mask, uint32_t barrier) {
  Group g;
  save_group(c, resume_at, g);
  g.wait = wait;
  g.wait_mask = wait_mask;
  g.barrier = barrier;
  c->warp->waiting.push_back(std::move(g));
  return next_group(c);
}

const Inst* diverge(Ctx* c, const Inst* next, const Inst* target, const Inst* reconverge, uint32_t taken) {
  Warp& w = *c->warp;
  const uint32_t t = taken & c->mask, f = c->mask & ~taken;
  uint32_t meet_depth = c->depth;
  if (!reconverge && c->depth > 0) {
    reconverge = w.calls.back().return_pc;
    meet_depth = c->depth - 1;
  }
  // The two sides: run the one that falls through first unless it is the meeting point itself.
  const bool target_is_meeting = meet_depth == c->depth && target == reconverge;
  const bool next_is_meeting = meet_depth == c->depth && next == reconverge;
  if (reconverge) {
    Node* n = c->node;
    if (!(n && n->pc == reconverge && n->depth == meet_depth)) {
      n = w.make_node();
      n->pc = reconverge;
      n->depth = meet_depth;
      n->pending = 1;
      n->parent = c->node;
      c->node = n;
    }
    if (target_is_meeting) {
      n->arrived |= t;
      set_mask(c, f);
      return next;
    }
    if (next_is_meeting) {
      n->arrived |= f;
      set_mask(c, t);
      return target;
    }
    n->pending += 1;
  } else if (c->node) {
    c->node->pending += 1;
  }
  Group g;
  save_group(c, target, g);
  g.mask = t;
  w.runnable.push_back(std::move(g));
  set_mask(c, f);
  return next;
}

// Undo calls until the running group is at `depth`.
static void unwind(Ctx* c, uint32_t depth) {
  Warp& w = *c->warp;
  while (c->depth > depth && !w.calls.empty()) {
    const CallRecord& r = w.calls.back();
    c->fp32 = r.fp32;
    c->fp64 = r.fp64;
    c->fpp = r.fpp;
    c->local_base = r.local_base;
    c->local_sp = r.local_sp;
    w.function = r.function;
    w.calls.pop_back();
    c->depth -= 1;
  }
  enter_frame(c);
}

// A group reached (arrived lanes) or left (all exited) the node; returns where the running group goes on, or
// another's.
static const Inst* settle(Ctx* c, Node* n) {
  Warp& w = *c->warp;
  for (;;) {
    n->pending -= 1;
    if (n->pending != 0) return next_group(c);
    Node* parent = n->parent;
    const uint32_t lanes = n->arrived & w.live;
    if (lanes != 0) {
      const Inst* pc = n->pc;
      if (c->depth > n->depth) unwind(c, n->depth);  // the last group exited inside a call
      c->node = parent;
      set_mask(c, lanes);
      w.drop_node(n);
      w.quiet_turns = 0;
      return pc;
    }
    w.drop_node(n);
    if (!parent) return next_group(c);
    n = parent;
  }
}

const Inst* arrive_at_node(Ctx* c, const Inst* at) {
  (void)at;
  Node* n = c->node;
  n->arrived |= c->mask;
  // All lanes of one node share frame and call stack: whoever arrives last still has them loaded.
  return settle(c, n);
}

const Inst* retire_lanes(Ctx* c) {
  Warp& w = *c->warp;
  w.live &= ~c->mask;
  w.quiet_turns = 0;
  Node* n = c->node;
  const uint32_t exited = c->mask;
  c->block->live_threads -= static_cast<uint32_t>(__builtin_popcount(exited));
  barrier_lanes_exited(c);
  wake_warp_sync(c);
  if (!n) return next_group(c);
  return settle(c, n);
}

bool release_held(Warp& w) {
  // The innermost node first: its lanes go on alone, one level up.
  for (size_t k = w.nodes.size(); k-- > 0;) {
    Node* n = w.nodes[k];
    if ((n->arrived & w.live) == 0 || n->pending == 0) continue;
    // Frame and calls: any group below the node shares them up to the node's depth.
    const Group* like = nullptr;
    const auto below = [n](const Group& g) {
      for (Node* p = g.node; p; p = p->parent)
        if (p == n) return true;
      return false;
    };
    for (const Group& g : w.runnable)
      if (below(g)) like = &g;
    for (const Group& g : w.waiting)
      if (below(g)) like = &g;
    if (!like) continue;
    Group g = *like;
    while (g.depth > n->depth && !g.calls.empty()) {
      const CallRecord& r = g.calls.back();
      g.fp32 = r.fp32;
      g.fp64 = r.fp64;
      g.fpp = r.fpp;
      g.local_base = r.local_base;
      g.local_sp = r.local_sp;
      g.function = r.function;
      g.calls.pop_back();
      g.depth -= 1;
    }
    g.pc = n->pc;
    g.mask = n->arrived & w.live;
    g.node = n->parent;
    g.wait = Wait::none;
    n->arrived = 0;
    if (n->parent) n->parent->pending += 1;
    w.runnable.push_back(std::move(g));
    return true;
  }
  return false;
}

const Inst* take_turns(Ctx* c, const Inst* at) {
  Warp& w = *c->warp;
  Group g;
  save_group(c, at, g);
  w.runnable.insert(w.runnable.begin(), std::move(g));  // at the far end: the others come first
  w.quiet_turns += 1;
  if (c->spinning || w.quiet_turns > 64) release_held(w);  // else it is just a long computation
  c->mask = 0;
  c->stop = Stop::yield;
  return nullptr;
}

bool ensure_rows(Ctx* c, uint64_t rows32, uint64_t rows64, uint64_t preds) {
  Warp& w = *c->warp;
  constexpr uint64_t limit = 512ull << 20;
  if (rows32 > limit || rows64 > limit || preds > limit) return false;
  // Grown rows live until the warp goes: other groups may still hold offsets, never pointers.
  const auto grow = [&w](void* old, uint64_t old_bytes, uint64_t need) {
    const uint64_t size = ((old_bytes * 2 > need ? old_bytes * 2 : need) + 255) & ~255ull;
    auto* fresh = static_cast<uint8_t*>(std::aligned_alloc(256, size));
    std::memcpy(fresh, old, old_bytes);
    std::memset(fresh + old_bytes, 0, size - old_bytes);
    for (auto& g : w.grown)
      if (g == old) {
        std::free(g);
        g = fresh;
        return std::pair(fresh, size);
      }
    w.grown.push_back(fresh);
    return std::pair(fresh, size);
  };
  if (rows32 > w.capacity32) std::tie(w.rows32, w.capacity32) = grow(w.rows32, w.capacity32, rows32);
  if (rows64 > w.capacity64) std::tie(w.rows64, w.capacity64) = grow(w.rows64, w.capacity64, rows64);
  if (preds > w.capacityp) {
    auto [p, bytes] = grow(w.preds, w.capacityp * 4, preds * 4);
    w.preds = reinterpret_cast<uint32_t*>(p);
    w.capacityp = bytes / 4;
  }
  return true;
}

}  // namespace simgpu::exec
