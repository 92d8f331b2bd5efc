// From lowered instructions to code: basic blocks, post-dominators (where diverged lanes meet), register rows
// by linear scan over live intervals, emission.
#include <algorithm>
#include <cstring>

#include "tools/simgpu/exec/lower.h"

namespace simgpu::exec {

namespace {

struct BasicBlock {
  uint32_t begin = 0, end = 0;
  std::vector<uint32_t> successors, predecessors;
  bool leaves = false;  // an edge to the function's exit
  bool reachable = false;
};

struct FlowGraph {
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_at;  // instruction -> block
  std::vector<int> meeting;        // immediate post-dominator, -1: none inside the function
};

FlowGraph flow_graph(const std::vector<LInst>& code, const std::vector<uint32_t>& label_at) {
  FlowGraph g;
  std::vector<bool> leader(code.size() + 1, false);
  if (!code.empty()) leader[0] = true;
  for (size_t k = 0; k < code.size(); ++k) {
    if (code[k].flow == Flow::none) continue;
    for (uint32_t t : code[k].targets) leader[label_at[t]] = true;
    leader[k + 1] = true;
  }
  g.block_at.assign(code.size() + 1, 0);
  for (size_t k = 0; k < code.size(); ++k) {
    if (leader[k]) {
      g.blocks.push_back({});
      g.blocks.back().begin = static_cast<uint32_t>(k);
    }
    g.block_at[k] = static_cast<uint32_t>(g.blocks.size() - 1);
    g.blocks.back().end = static_cast<uint32_t>(k + 1);
  }
  for (uint32_t b = 0; b < g.blocks.size(); ++b) {
    BasicBlock& block = g.blocks[b];
    const LInst& last = code[block.end - 1];
    const auto to = [&](uint32_t inst) {
      if (inst >= code.size()) {
        block.leaves = true;
        return;
      }
      const uint32_t s = g.block_at[inst];
      if (std::find(block.successors.begin(), block.successors.end(), s) == block.successors.end())
        block.successors.push_back(s);
    };
    if (last.flow != Flow::none)
      for (uint32_t t : last.targets) to(label_at[t]);
    if (last.flow == Flow::none || last.flow == Flow::branch) to(block.end);
    if (last.flow == Flow::leave && !last.dead_end) block.leaves = true;
  }
  std::vector<uint32_t> stack = {0};
  if (!g.blocks.empty()) g.blocks[0].reachable = true;
  while (!stack.empty()) {
    const uint32_t b = stack.back();
    stack.pop_back();
    for (uint32_t s : g.blocks[b].successors) {
      g.blocks[s].predecessors.push_back(b);
      if (!g.blocks[s].reachable) {
        g.blocks[s].reachable = true;
        stack.push_back(s);
      }
    }
  }
  return g;
}

// Cooper, Harvey and Kennedy's iteration on the reversed graph. Blocks that cannot reach the exit (traps,
// endless loops) take no part, so a check that traps does not spoil where the others meet.
void post_dominators(FlowGraph& g) {
  const uint32_t n = static_cast<uint32_t>(g.blocks.size()), exit = n;
  std::vector<int> order(n + 1, -1), dom(n + 1, -1);
  std::vector<uint32_t> post;
  std::vector<std::pair<uint32_t, size_t>> stack;
  std::vector<std::vector<uint32_t>> back(n + 1);  // edges of the reversed graph
  for (uint32_t b = 0; b < n; ++b) {
    if (!g.blocks[b].reachable) continue;
    for (uint32_t s : g.blocks[b].successors) back[s].push_back(b);
    if (g.blocks[b].leaves) back[exit].push_back(b);
  }
  std::vector<bool> seen(n + 1, false);
  stack.push_back({exit, 0});
  seen[exit] = true;
  while (!stack.empty()) {
    auto& [b, k] = stack.back();
    if (k < back[b].size()) {
      const uint32_t s = back[b][k++];
      if (!seen[s]) {
        seen[s] = true;
        stack.push_back({s, 0});
      }
    } else {
      order[b] = static_cast<int>(post.size());
      post.push_back(b);
      stack.pop_back();
    }
  }
  dom[exit] = static_cast<int>(exit);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = post.size(); k-- > 0;) {
      const uint32_t b = post[k];
      if (b == exit) continue;
      int best = -1;
      const auto consider = [&](uint32_t s) {
        if (dom[s] < 0) return;
        if (best < 0) {
          best = static_cast<int>(s);
          return;
        }
        int x = best, y = static_cast<int>(s);
        while (x != y) {
          while (order[static_cast<size_t>(x)] < order[static_cast<size_t>(y)])
            x = dom[static_cast<size_t>(x)];
          while (order[static_cast<size_t>(y)] < order[static_cast<size_t>(x)])
            y = dom[static_cast<size_t>(y)];
        }
        best = x;
      };
      for (uint32_t s : g.blocks[b].successors)
        if (seen[s]) consider(s);
      if (g.blocks[b].leaves) consider(exit);
      if (best != dom[b]) {
        dom[b] = best;
        changed = true;
      }
    }
  }
  g.meeting.assign(n, -1);
  for (uint32_t b = 0; b < n; ++b)
    if (dom[b] >= 0 && dom[b] != static_cast<int>(exit)) g.meeting[b] = dom[b];
}

template <class F>
void each_operand(LInst& i, F f) {
  f(i.dst);
  f(i.a);
  f(i.b);
  f(i.c);
  f(i.d);
  for (auto& o : i.extra) f(o);
}

struct Interval {
  uint32_t vreg, begin, end;
};

// Live intervals over the linear order; two positions per instruction (reads, then writes).
std::vector<Interval> intervals(std::vector<LInst>& code, FlowGraph& g, size_t vreg_count) {
  constexpr uint32_t none = ~0u;
  std::vector<uint32_t> begin(vreg_count, none), end(vreg_count, 0), home(vreg_count, none);
  std::vector<bool> crosses(vreg_count, false);
  for (uint32_t b = 0; b < g.blocks.size(); ++b) {
    for (uint32_t k = g.blocks[b].begin; k < g.blocks[b].end; ++k) {
      const bool early = code[k].early || !code[k].extra.empty();
      const auto visit = [&](const LOp& o) {
        if (home[o.id] == none) {
          home[o.id] = b;
          if (o.use) crosses[o.id] = true;
        }  // read before any write here
        else if (home[o.id] != b)
          crosses[o.id] = true;
      };
      each_operand(code[k], [&](LOp& o) {
        if (o.kind == LOp::Kind::vreg && o.use) visit(o);
      });
      each_operand(code[k], [&](LOp& o) {
        if (o.kind != LOp::Kind::vreg) return;
        visit(o);
        const uint32_t lo = o.use ? 2 * k : early ? 2 * k : 2 * k + 1;
        const uint32_t hi = o.def ? 2 * k + 1 : early ? 2 * k + 1 : 2 * k;
        begin[o.id] = std::min(begin[o.id], lo);
        end[o.id] = std::max(end[o.id], hi);
      });
    }
  }
  // A register of one block that is read first in it (around a loop) was marked as crossing above only if the
  // read came first in program order; the data flow below covers those that cross.
  std::vector<uint32_t> dense(vreg_count, none), name;
  for (uint32_t v = 0; v < vreg_count; ++v)
    if (crosses[v]) {
      dense[v] = static_cast<uint32_t>(name.size());
      name.push_back(v);
    }
  const size_t words = (name.size() + 63) / 64;
  if (words) {
    const size_t n = g.blocks.size();
    std::vector<uint64_t> use(n * words), def(n * words), in(n * words), out(n * words);
    for (uint32_t b = 0; b < n; ++b) {
      for (uint32_t k = g.blocks[b].begin; k < g.blocks[b].end; ++k) {
        each_operand(code[k], [&](LOp& o) {
          if (o.kind != LOp::Kind::vreg || !o.use || dense[o.id] == none) return;
          const uint32_t d = dense[o.id];
          if (!((def[b * words + d / 64] >> (d % 64)) & 1)) use[b * words + d / 64] |= 1ull << (d % 64);
        });
        each_operand(code[k], [&](LOp& o) {
          if (o.kind != LOp::Kind::vreg || !o.def || dense[o.id] == none) return;
          const uint32_t d = dense[o.id];
          def[b * words + d / 64] |= 1ull << (d % 64);
        });
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = n; b-- > 0;) {
        for (size_t w = 0; w < words; ++w) {
          uint64_t o = 0;
          for (uint32_t s : g.blocks[b].successors) o |= in[s * words + w];
          const uint64_t i = use[b * words + w] | (o & ~def[b * words + w]);
          if (o != out[b * words + w] || i != in[b * words + w]) {
            out[b * words + w] = o;
            in[b * words + w] = i;
            changed = true;
          }
        }
      }
    }
    for (uint32_t b = 0; b < n; ++b) {
      for (size_t w = 0; w < words; ++w) {
        for (uint64_t m = in [b * words + w]; m; m &= m - 1) {
          const uint32_t v = name[w * 64 + static_cast<uint32_t>(__builtin_ctzll(m))];
          begin[v] = std::min(begin[v], 2 * g.blocks[b].begin);
          end[v] = std::max(end[v], 2 * g.blocks[b].begin);
        }
        for (uint64_t m = out[b * words + w]; m; m &= m - 1) {
          const uint32_t v = name[w * 64 + static_cast<uint32_t>(__builtin_ctzll(m))];
          begin[v] = std::min(begin[v], 2 * (g.blocks[b].end - 1) + 1);
          end[v] = std::max(end[v], 2 * (g.blocks[b].end - 1) + 1);
        }
      }
    }
  }
  std::vector<Interval> r;
  for (uint32_t v = 0; v < vreg_count; ++v)
    if (begin[v] != none) r.push_back({v, begin[v], end[v]});
  std::sort(r.begin(), r.end(), [](const Interval& x, const Interval& y) {
    return x.begin != y.begin ? x.begin < y.begin : x.vreg < y.vreg;
  });
  return r;
}

}  // namespace

bool Lowering::finish(ProgramImpl& program) {
  for (size_t id = 0; id < label_at.size(); ++id) {
    if (label_at[id] != ~0u) continue;
    for (const auto& [n, i] : label_ids)
      if (i == id) return fail("undefined label '" + n + "' in '" + source.name + "'");
    return fail("undefined label in '" + source.name + "'");
  }
  FlowGraph g = flow_graph(code, label_at);
  post_dominators(g);

  // An atomic whose old value is read makes the result depend on block order.
  std::vector<uint32_t> reads(vregs.size(), 0);
  for (auto& i : code)
    each_operand(i, [&](LOp& o) {
      if (o.kind == LOp::Kind::vreg && o.use) reads[o.id]++;
    });
  for (auto& i : code) {
    if (!i.atomic || i.dst.kind != LOp::Kind::vreg || !i.aux) continue;
    const bool shared = i.aux == find_resolver("shared.32") || i.aux == find_resolver("shared.64");
    if (reads[i.dst.id] == 0)
      i.d.id = 0;  // nobody looks: a reduction
    else if (i.d.id == 1 && !shared)
      order_dependent = true;
  }

  std::vector<uint32_t> where(vregs.size(), 0);  // row offset or predicate index
  std::vector<bool> fixed(vregs.size(), false);
  uint32_t rows32 = 0, rows64 = 0, preds = 0;
  for (const auto* list : {&formal_words, &return_words})
    for (const LOp& o : *list) {
      where[o.id] = rows32++ * 128;
      fixed[o.id] = true;
    }
  std::vector<uint32_t> free_rows[3];
  struct Active {
    uint32_t end, vreg;
    bool operator<(const Active& o) const { return end > o.end; }
  };
  std::vector<Active> active;  // heap by end
  for (const Interval& v : intervals(code, g, vregs.size())) {
    while (!active.empty() && active.front().end < v.begin) {
      std::pop_heap(active.begin(), active.end());
      const uint32_t r = active.back().vreg;
      active.pop_back();
      free_rows[static_cast<size_t>(vregs[r])].push_back(where[r]);
    }
    if (fixed[v.vreg]) continue;
    auto& pool = free_rows[static_cast<size_t>(vregs[v.vreg])];
    if (!pool.empty()) {
      where[v.vreg] = pool.back();
      pool.pop_back();
    } else
      switch (vregs[v.vreg]) {
        case RegClass::r32:
          where[v.vreg] = rows32++ * 128;
          break;
        case RegClass::r64:
          where[v.vreg] = rows64++ * 256;
          break;
        case RegClass::pred:
          where[v.vreg] = preds++;
          break;
      }
    active.push_back({v.end, v.vreg});
    std::push_heap(active.begin(), active.end());
  }
  function.frame32 = rows32 * 128;
  function.frame64 = rows64 * 256;
  function.framep = preds;
  function.out_words = max_out;
  function.param_words = static_cast<uint32_t>(formal_words.size());
  function.return_words = static_cast<uint32_t>(return_words.size());
  function.local_bytes = local_bytes;
  function.defined = true;
  if (function.frame32 + max_out * 128 > kOffsetMask || function.frame64 > kOffsetMask)
    return fail("'" + source.name + "' needs too many registers");

  const auto slot = [&](const LOp& o) -> uint32_t {
    switch (o.kind) {
      case LOp::Kind::none:
        return 0;
      case LOp::Kind::slot:
        return o.id;
      case LOp::Kind::out:
        return (static_cast<uint32_t>(kRow32) << kBaseShift) | (function.frame32 + o.id * 128);
      case LOp::Kind::vreg:
        if (vregs[o.id] == RegClass::pred) return where[o.id];
        return (static_cast<uint32_t>(vregs[o.id] == RegClass::r64 ? kRow64 : kRow32) << kBaseShift) |
               where[o.id];
    }
    return 0;
  };

  HandlerPair head;
  find_handler("head", head);
  std::vector<uint32_t> head_at(g.blocks.size());
  struct Jump {
    uint32_t inst;
    uint32_t block;
    bool meeting;
  };
  std::vector<Jump> jumps;
  std::vector<Fixups::Table> tables;
  const uint32_t first = static_cast<uint32_t>(program.insts.size());
  function.inst_begin = first;
  function.block_begin = static_cast<uint32_t>(program.blocks.size());
  for (uint32_t b = 0; b < g.blocks.size(); ++b) {
    const BasicBlock& block = g.blocks[b];
    head_at[b] = static_cast<uint32_t>(program.insts.size());
    Inst h{};
    h.fn[0] = head.full;
    h.fn[1] = head.masked;
    h.id = head_at[b];
    h.a = static_cast<uint32_t>(program.blocks.size());
    program.lines.push_back(code[block.begin].line);
    BlockInfo info;
    const size_t head_index = program.insts.size();
    program.insts.push_back(h);
    uint32_t counted = 0;
    for (uint32_t k = block.begin; k < block.end; ++k) {
      const LInst& l = code[k];
      Inst i{};
      i.fn[0] = l.handler.full;
      i.fn[1] = l.handler.masked;
      i.dst = slot(l.dst);
      i.a = slot(l.a);
      i.b = slot(l.b);
      i.c = slot(l.c);
      i.d = slot(l.d);
      i.imm = l.imm;
      i.aux = l.aux;
      i.id = static_cast<uint32_t>(program.insts.size());
      if (!l.extra.empty()) {
        auto e = std::make_unique<uint32_t[]>(l.extra.size());
        for (size_t n = 0; n < l.extra.size(); ++n) e[n] = slot(l.extra[n]);
        i.extra = e.get();
        program.extras.push_back(std::move(e));
      }
      if (l.flow == Flow::branch || l.flow == Flow::jump)
        jumps.push_back({i.id, g.block_at[label_at[l.targets[0]]], false});
      if (l.flow == Flow::table) {
        tables.push_back({i.id, {}});
        for (uint32_t t : l.targets) tables.back().targets.push_back(g.block_at[label_at[t]]);
      }
      if ((l.flow == Flow::branch || l.flow == Flow::table) && g.meeting[b] >= 0)
        jumps.push_back({i.id, static_cast<uint32_t>(g.meeting[b]), true});
      if (l.counted) counted++;
      if (l.cls != OpClass::other) {
        info.ops[static_cast<size_t>(l.cls)]++;
        if (l.flops)
          info.tensor_flops[static_cast<size_t>(l.cls) - static_cast<size_t>(OpClass::tensor_fp16)] +=
              l.flops;
      }
      if (l.atomic) info.atomics++;
      program.lines.push_back(l.line);
      program.insts.push_back(i);
    }
    info.instructions = counted;
    program.insts[head_index].imm = counted ? counted : 1;
    program.blocks.push_back(info);
  }
  function.inst_end = static_cast<uint32_t>(program.insts.size());
  function.block_end = static_cast<uint32_t>(program.blocks.size());
  Fixups& fix = linker.fixups;
  for (const Jump& j : jumps) fix.jumps.push_back({j.inst, head_at[j.block], j.meeting});
  for (auto& t : tables) {
    for (uint32_t& b : t.targets) b = head_at[b];
    fix.tables.push_back(std::move(t));
  }
  fix.starts.push_back({function.index, first});
  return true;
}

}  // namespace simgpu::exec
