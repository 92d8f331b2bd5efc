// Blocks and warps in turn: a warp runs until it waits or used its budget; a block until it is done or only
// spins.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/exec/execution.h"

namespace simgpu::exec {

std::unique_ptr<Cluster> ExecutionImpl::make_cluster() {
  auto cluster = std::make_unique<Cluster>();
  const auto round = [](uint64_t v) { return (v + 255) & ~255ull; };
  const uint64_t rows32 = round(std::max<uint64_t>(code.rows32, 128)),
                 rows64 = round(std::max<uint64_t>(code.rows64, 256)), preds = round(code.preds * 4 + 64);
  const uint64_t special = kWarpRowCount * 128, per_warp = round(rows32 + rows64 + preds + special);
  for (uint32_t r = 0; r < cluster_size; ++r) {
    auto b = std::make_unique<Block>();
    b->cluster = cluster.get();
    b->cluster_rank = r;
    b->shared_bytes = shared_bytes;
    b->shared = static_cast<uint8_t*>(std::aligned_alloc(256, round(shared_bytes + 256)));
    b->memory = static_cast<uint8_t*>(
        std::aligned_alloc(256, round(per_warp * warps_per_block + kBlockRowCount * 128)));
    std::memset(b->memory, 0, per_warp * warps_per_block);
    b->block_rows = b->memory + per_warp * warps_per_block;
    if (local_stride) b->local = static_cast<uint8_t*>(std::calloc(warps_per_block * kLanes, local_stride));
    b->warps.resize(warps_per_block);
    for (uint32_t w = 0; w < warps_per_block; ++w) {
      Warp& warp = b->warps[w];
      uint8_t* p = b->memory + per_warp * w;
      warp.index = w;
      warp.rows32 = p;
      warp.capacity32 = rows32;
      warp.rows64 = p + rows32;
      warp.capacity64 = rows64;
      warp.preds = reinterpret_cast<uint32_t*>(p + rows32 + rows64);
      warp.capacityp = preds / 4;
      warp.special = p + rows32 + rows64 + preds;
      const uint32_t first = w * kLanes, n = std::min(kLanes, threads_per_block - first);
      warp.lanes = n == kLanes ? kFullMask : (1u << n) - 1;
      auto* rows = reinterpret_cast<uint32_t*>(warp.special);
      for (uint32_t l = 0; l < kLanes; ++l) {
        const uint32_t t = first + l;
        rows[kTidX * 32 + l] = t % launch.block.x;
        rows[kTidY * 32 + l] = t / launch.block.x % launch.block.y;
        rows[kTidZ * 32 + l] = t / (launch.block.x * launch.block.y);
        rows[kWarpId * 32 + l] = w;
      }
    }
    cluster->blocks.push_back(std::move(b));
  }
  return cluster;
}

void ExecutionImpl::place_cluster(Cluster& cluster, uint64_t linear) {
  const Dim3 c = launch.cluster, g = launch.grid;
  const uint32_t nx = g.x / c.x, ny = g.y / c.y;
  const uint32_t kx = static_cast<uint32_t>(linear % nx), ky = static_cast<uint32_t>(linear / nx % ny),
                 kz = static_cast<uint32_t>(linear / (static_cast<uint64_t>(nx) * ny));
  cluster.barrier_arrived = 0;
  cluster.barrier_phase = 0;
  cluster.done = false;
  for (uint32_t r = 0; r < cluster_size; ++r) {
    Block& b = *cluster.blocks[r];
    const uint32_t rx = r % c.x, ry = r / c.x % c.y, rz = r / (c.x * c.y);
    b.index = {kx * c.x + rx, ky * c.y + ry, kz * c.z + rz};
    b.done = false;
    b.live_threads = threads_per_block;
    b.next_warp = 0;
    if (shared_bytes) std::memset(b.shared, 0, shared_bytes);
    const auto row = [&](BlockRow n, uint32_t v) {
      auto* p = reinterpret_cast<uint32_t*>(b.block_rows + n * 128);
      for (uint32_t l = 0; l < kLanes; ++l) p[l] = v;
    };
    const uint64_t flat =
        b.index.x + static_cast<uint64_t>(g.x) * (b.index.y + static_cast<uint64_t>(g.y) * b.index.z);
    row(kCtaX, b.index.x);
    row(kCtaY, b.index.y);
    row(kCtaZ, b.index.z);
    row(kClusterIdX, kx);
    row(kClusterIdY, ky);
    row(kClusterIdZ, kz);
    row(kClusterCtaX, rx);
    row(kClusterCtaY, ry);
    row(kClusterCtaZ, rz);
    row(kClusterCtaRank, r);
    row(kSmId, static_cast<uint32_t>(flat % std::max(1u, launch.limits.sm_count)));
    for (Barrier& bar : b.barriers) {
      bar.arrived = bar.expected = 0;
      bar.active = false;
      bar.red_and = 1;
      bar.red_or = bar.red_popc = 0;
      std::fill(bar.warp_arrived.begin(), bar.warp_arrived.end(), 0u);
    }
    for (Warp& w : b.warps) {
      w.live = w.lanes;
      w.done = w.started = false;
      w.runnable.clear();
      w.waiting.clear();
      w.calls.clear();
      while (!w.nodes.empty()) w.drop_node(w.nodes.back());
      w.quiet_turns = 0;
      w.released = 0;
      std::memset(w.cluster_phase, 0, sizeof(w.cluster_phase));
    }
  }
}

Stop run_warp(Ctx* c, Warp& w, Block& b) {
  ExecutionImpl& e = *c->worker->execution;
  c->warp = &w;
  c->block = &b;
  c->base[kWarpRows] = w.special;
  c->base[kBlockRows] = b.block_rows;
  c->shared = b.shared;
  c->shared_bytes = b.shared_bytes;
  c->local = b.local + static_cast<uint64_t>(w.index) * kLanes * c->local_stride;
  c->budget = kTurnBudget;
  c->stop = Stop::none;
  c->spinning = false;
  const Inst* pc;
  if (!w.started) {
    w.started = true;
    set_mask(c, w.live);
    c->node = nullptr;
    c->depth = c->fp32 = c->fp64 = c->fpp = 0;
    c->local_base = 0;
    c->local_sp = e.code.function->local_bytes;
    w.function = e.code.function;
    enter_frame(c);
    pc = e.code.function->start;
  } else {
    pc = next_group(c);
  }
  while (pc) pc = pc->fn[c->mode](c, pc);
  return c->stop;
}

ExecutionImpl::Slice ExecutionImpl::run_cluster(Worker& worker, Cluster& cluster) {
  Ctx* c = &worker.ctx;
  uint64_t passes = 0;
  for (;;) {
    bool any_live = false, moved = false, only_spins = true;
    for (auto& bp : cluster.blocks) {
      Block& b = *bp;
      if (b.done) continue;
      bool block_live = false;
      for (Warp& w : b.warps) {
        if (w.done) continue;
        block_live = true;
        if (w.started && w.runnable.empty()) continue;  // everybody waits
        const Stop s = run_warp(c, w, b);
        const uint64_t used = static_cast<uint64_t>(kTurnBudget - c->budget);
        cost.fetch_add(used, std::memory_order_relaxed);
        remaining.fetch_sub(static_cast<int64_t>(used), std::memory_order_relaxed);
        moved = true;
        if (s == Stop::fault) return Slice::fault;
        if (s == Stop::finished) {
          w.done = true;
          only_spins = false;
        } else if (s == Stop::blocked || !c->spinning)
          only_spins = false;
        if (stop.load(std::memory_order_relaxed)) return Slice::again;
      }
      if (!block_live)
        b.done = true;
      else
        any_live = true;
    }
    if (!any_live) return Slice::done;
    if (!moved) {  // all wait for lanes that are held at meeting points, or for ever
      bool released = false;
      for (auto& b : cluster.blocks)
        for (Warp& w : b->warps)
          if (!w.done) released |= release_held(w);
      if (!released) return Slice::stuck;
      continue;
    }
    if (only_spins) return Slice::waiting;
    if (remaining.load(std::memory_order_relaxed) <= 0) return Slice::again;
    if (++passes > 1u << 14) return Slice::again;
  }
}

}  // namespace simgpu::exec
