// The graphs engine's figures: the same loops eagerly, under shunt, and as the graphs a careful programmer
// would capture. Time is simgpu's hybrid clock: modelled driver and device, plus the CPU time the caller
// really spends outside simgpu, so shunt is charged for its own work. Children: this program again with
// --child.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>
#include <x86intrin.h>

#include <array>

#include "tests/bench/child.h"

namespace {

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const CUresult r_ = (call);                                                            \
    if (r_ != CUDA_SUCCESS) fprintf(stderr, "graphs_bench: %s: %d\n", #call, r_), exit(2); \
  } while (0)

// One thread that turns `rounds` times: the device time of a kernel is set by its parameter.
const char* const kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 out, .param .u32 rounds, .param .u32 salt) {
  .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [rounds]; ld.param.u32 %r2, [salt];
  mov.u32 %r3, 0;
again:
  mad.lo.u32 %r2, %r2, 1664525, 1013904223;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra again;
  st.global.u32 [%rd1], %r2;
  ret;
}
)";

struct Shape {
  int nodes = 64;      // launches a period
  int sync_every = 1;  // periods between synchronisations
  int dirty = 0;       // launches a period whose parameter changes
  unsigned rounds = 1;
  // random: nothing repeats. transfers: every fourth call is a memset or a copy. ping_pong: buffers swap
  // every period. fork: the second half of a period runs on another stream between two events. branch: one
  // period in four has other launches in its second half.
  enum Kind : int { plain, random, transfers, ping_pong, fork, branch } kind = plain;
};

uint64_t (*g_now)();
uint64_t now() { return g_now(); }

struct Child {
  CUfunction f;
  CUstream s, side;
  CUevent forked, joined;
  CUcontext context;
  CUdeviceptr data;
  Child() {
    CHECK(cuInit(0));
    CUdevice d;
    CUmodule m;
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, d));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&m, kPtx));
    CHECK(cuModuleGetFunction(&f, m, "turn"));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&data, 1 << 16));
    g_now = reinterpret_cast<uint64_t (*)()>(dlsym(RTLD_DEFAULT, "simgpu_host_ns"));
    if (!g_now) fprintf(stderr, "graphs_bench: no simgpu clock\n"), exit(2);
  }
};

// Call number `i` of period `k`, in words both ways of making it understand.
struct Item {
  enum What { launch, fill, copy } what = launch;
  CUdeviceptr to = 0;
  unsigned rounds = 1, salt = 0, grid = 1;
};

bool is_dirty(const Shape& a, int i) { return a.dirty && i % (a.nodes / a.dirty) == 0; }
// One period in four, in no order that repeats.
bool other_branch(int k) { return (static_cast<unsigned>(k) * 2654435761u >> 16) % 4 == 0; }

Item item(const Child& c, const Shape& a, int i, int k) {
  Item it;
  it.rounds = a.rounds;
  it.grid = 1u + static_cast<unsigned>(i % 4);
  it.salt = is_dirty(a, i) ? static_cast<unsigned>(k) : 0u;
  const unsigned half = a.kind == Shape::ping_pong && k % 2 ? 4096 : 0;
  it.to = c.data + half + 4 * static_cast<unsigned>(i % 64);
  if (a.kind == Shape::transfers && i % 4 == 3) it.what = i % 8 == 3 ? Item::fill : Item::copy;
  if (a.kind == Shape::branch && i >= a.nodes / 2 && other_branch(k)) it.grid += 4;
  return it;
}

void make(const Child& c, CUstream s, Item it) {
  void* args[] = {&it.to, &it.rounds, &it.salt};
  if (it.what == Item::fill)
    CHECK(cuMemsetD32Async(it.to, it.salt, 64, s));
  else if (it.what == Item::copy)
    CHECK(cuMemcpyDtoDAsync(it.to + 8192, it.to, 256, s));
  else
    CHECK(cuLaunchKernel(c.f, it.grid, 1, 1, 32, 1, 1, 0, s, args, nullptr));
}

// A straight line of calls as a graph.
struct Hand {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::vector<CUgraphNode> nodes;
  CUDA_KERNEL_NODE_PARAMS params(const Child& c, Item& it, void** args) const {
    args[0] = &it.to, args[1] = &it.rounds, args[2] = &it.salt;
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = c.f, k.gridDimX = it.grid, k.gridDimY = k.gridDimZ = 1;
    k.blockDimX = 32, k.blockDimY = k.blockDimZ = 1, k.kernelParams = args;
    return k;
  }
  CUgraphNode add(const Child& c, Item it, CUgraphNode after, CUgraphNode also = nullptr) {
    const CUgraphNode before[2] = {after, also};
    const size_t count = also ? 2 : after ? 1 : 0;
    CUgraphNode made = nullptr;
    if (it.what == Item::fill) {
      CUDA_MEMSET_NODE_PARAMS m{};
      m.dst = it.to, m.value = it.salt, m.elementSize = 4, m.width = 64, m.height = 1;
      CHECK(cuGraphAddMemsetNode(&made, graph, before, count, &m, c.context));
    } else if (it.what == Item::copy) {
      CUDA_MEMCPY3D m{};
      m.srcMemoryType = m.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      m.srcDevice = it.to, m.dstDevice = it.to + 8192, m.WidthInBytes = 256, m.Height = m.Depth = 1;
      CHECK(cuGraphAddMemcpyNode(&made, graph, before, count, &m, c.context));
    } else {
      void* args[3];
      const CUDA_KERNEL_NODE_PARAMS k = params(c, it, args);
      CHECK(cuGraphAddKernelNode(&made, graph, before, count, &k));
    }
    nodes.push_back(made);
    return made;
  }
  // Calls [from, to) of period `k`; fork: two chains that meet in the last call.
  void build(const Child& c, const Shape& a, int from, int to, int k) {
    CHECK(cuGraphCreate(&graph, 0));
    CUgraphNode last = nullptr, first_half = nullptr, root = nullptr;
    for (int i = from; i < to; ++i) {
      if (a.kind == Shape::fork && i == a.nodes / 2) first_half = last, last = root;
      const bool meets = a.kind == Shape::fork && i == to - 1;
      last = add(c, item(c, a, i, k), last, meets ? first_half : nullptr);
      if (i == from) root = last;
    }
    CHECK(cuGraphInstantiate(&exec, graph, 0));
  }
};

// Prints virtual ns a period.
int loop(const Shape& a, bool hand) {
  Child c;
  // By hand: the period; with two buffers or branches, one graph for each case.
  std::vector<Hand> graphs;
  if (hand) {
    graphs.resize(4);
    const int half = a.kind == Shape::branch ? a.nodes / 2 : a.nodes;
    graphs[0].build(c, a, 0, half, 0);
    if (a.kind == Shape::ping_pong) graphs[1].build(c, a, 0, half, 1);
    if (a.kind == Shape::branch) {
      int with = 0, without = 0;
      while (!other_branch(with)) ++with;
      while (other_branch(without)) ++without;
      graphs[2].build(c, a, half, a.nodes, without), graphs[3].build(c, a, half, a.nodes, with);
    }
  }
  unsigned random = 1;
  const auto period = [&](int k) {
    if (hand) {
      Hand& g = graphs[a.kind == Shape::ping_pong ? static_cast<size_t>(k % 2) : 0];
      for (int i = 0; i < a.nodes; ++i) {
        if (!is_dirty(a, i)) continue;
        Item it = item(c, a, i, k);
        void* args[3];
        const CUDA_KERNEL_NODE_PARAMS n = g.params(c, it, args);
        CHECK(cuGraphExecKernelNodeSetParams(g.exec, g.nodes[static_cast<size_t>(i)], &n));
      }
      CHECK(cuGraphLaunch(g.exec, c.s));
      if (a.kind == Shape::branch) CHECK(cuGraphLaunch(graphs[other_branch(k) ? 3 : 2].exec, c.s));
    } else {
      for (int i = 0; i < a.nodes; ++i) {
        if (a.kind == Shape::random) {
          random = random * 1664525 + 1013904223;
          make(c, c.s, item(c, a, static_cast<int>(random >> 20), k));
          continue;
        }
        const bool side = a.kind == Shape::fork && i >= a.nodes / 2 && i < a.nodes - 1;
        if (a.kind == Shape::fork && i == 1) CHECK(cuEventRecord(c.forked, c.s));
        if (a.kind == Shape::fork && i == a.nodes / 2) CHECK(cuStreamWaitEvent(c.side, c.forked, 0));
        if (a.kind == Shape::fork && i == a.nodes - 1) {
          CHECK(cuEventRecord(c.joined, c.side));
          CHECK(cuStreamWaitEvent(c.s, c.joined, 0));
        }
        make(c, side ? c.side : c.s, item(c, a, i, k));
      }
    }
    if ((k + 1) % a.sync_every == 0) CHECK(cuStreamSynchronize(c.s));
  };
  // Until the engine has learned, built and settled its A/B guard; the builder lives in real time.
  const int warm = 256, measured = 128;
  for (int k = 0; k < warm; ++k) {
    period(k);
    if (k == 64) usleep(20000);
  }
  CHECK(cuStreamSynchronize(c.s));
  const uint64_t start = now();
  for (int k = warm; k < warm + measured; ++k) period(k);
  CHECK(cuStreamSynchronize(c.s));
  printf("%f\n", static_cast<double>(now() - start) / measured);
  return 0;
}

// Real nanoseconds of the launches that were held back (those that submit take the driver's time): median and
// p99.
int held_back() {
  Child c;
  int periods = 0;
  // Seldom synchronised: simgpu then runs the kernels on this very thread and leaves its caches to them,
  // which a device doesn't. Most of the launch after such a call is their refilling.
  const auto period = [&](std::vector<uint64_t>* out) {
    for (int i = 0; i < 64; ++i) {
      CUdeviceptr to = c.data + 4 * static_cast<unsigned>(i);
      unsigned turns = 1, salt = 0;
      void* args[] = {&to, &turns, &salt};
      const unsigned grid = 1u + static_cast<unsigned>(i % 4);
      const uint64_t t = __rdtsc();
      CHECK(cuLaunchKernel(c.f, grid, 1, 1, 32, 1, 1, 0, c.s, args, nullptr));
      if (out) out->push_back(__rdtsc() - t);
    }
    if (++periods % 16 == 0) CHECK(cuStreamSynchronize(c.s));
  };
  for (int k = 0; k < 300; ++k) {
    period(nullptr);
    if (k == 64) usleep(20000);
  }
  std::vector<uint64_t> all, none;
  for (int k = 0; k < 2000; ++k) period(&all);
  for (int k = 0; k < 100000; ++k) {
    const uint64_t t = __rdtsc();
    none.push_back(__rdtsc() - t);
  }
  const uint64_t t0 = __rdtsc(), n0 = shunt::bench::now_ns();
  usleep(20000);
  const double per_ns =
      static_cast<double>(__rdtsc() - t0) / static_cast<double>(shunt::bench::now_ns() - n0);
  std::sort(none.begin(), none.end());
  const uint64_t timer = none[none.size() / 2];
  std::vector<double> held;
  for (const uint64_t t : all) {
    const double ns = static_cast<double>(t - std::min(t, timer)) / per_ns;
    if (ns < 700) held.push_back(ns);
  }
  std::sort(held.begin(), held.end());
  if (held.size() < all.size() / 2)
    return fprintf(stderr, "graphs_bench: %zu of %zu launches held back\n", held.size(), all.size()), 3;
  printf("%f %f\n", held[held.size() / 2], held[held.size() * 99 / 100]);
  return 0;
}

std::string library(const char* name) {
  const char* build = getenv("SHUNT_BUILD");
  return std::string(build ? build : "build") + "/lib/" + name;
}

std::array<double, 2> child(const char* what, const Shape& a, bool shunt, const char* graphs = "on") {
  const std::vector<std::string> words{"--child",
                                       what,
                                       std::to_string(a.nodes),
                                       std::to_string(a.sync_every),
                                       std::to_string(a.dirty),
                                       std::to_string(a.rounds),
                                       std::to_string(a.kind)};
  std::vector<std::string> settings{"SIMGPU_SPEC=b200:1", "SIMGPU_CLOCK=hybrid", "SIMGPU_RACES=off",
                                    "SIMGPU_HOST_PAGES=off", "LD_LIBRARY_PATH=" + library("simgpu")};
  if (shunt) {
    settings.push_back("LD_PRELOAD=" + library("libshunt.so"));
    settings.push_back(std::string("SHUNT_GRAPHS=") + graphs);
    settings.push_back("SHUNT_OOM=off");
    settings.push_back("SHUNT_PLACEMENT=off");
  }
  const shunt::bench::Finished done = shunt::bench::run_again(words, settings, {"SIMGPU_", "SHUNT_", "LD_"});
  std::array<double, 2> v{NAN, NAN};
  if (done.status == 0) sscanf(done.out.c_str(), "%lf %lf", &v[0], &v[1]);
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 8 && !strcmp(argv[1], "--child")) {
    const Shape a{atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), static_cast<unsigned>(atoi(argv[6])),
                  static_cast<Shape::Kind>(atoi(argv[7]))};
    if (!strcmp(argv[2], "held")) return held_back();
    return loop(a, !strcmp(argv[2], "hand"));
  }
  shunt::bench::Rows rows(argc, argv);
  // One case: eager, shunt and by hand in the same run; rows are ratios of throughput.
  // "By hand" for a program in which nothing repeats is the graph of one period, launched again and again: a
  // bound.
  const auto three = [&](const char* name, const Shape& a, const char* words) {
    std::vector<double> of_hand, of_eager, eager_us;
    for (int i = 0; i <= rows.runs(); ++i) {
      const double eager = child("loop", a, false)[0], hand = child("hand", a, false)[0],
                   shunt = child("loop", a, true)[0];
      if (i == 0) continue;
      of_hand.push_back(100 * hand / shunt);
      of_eager.push_back(eager / shunt);
      eager_us.push_back(eager / 1000);
    }
    const std::string text = name;
    std::optional<double> budget;
    if (text == "native") budget = 95;
    if (text == "dirty10") budget = 90;
    rows.emit(
        {text + "_vs_hand_pct", "%",
         std::string("captured by hand; baseline value: eager us a period; ") + words, budget, "higher"},
        of_hand, eager_us);
    rows.emit({text + "_vs_eager", "x", std::string("eager, us a period; ") + words, std::nullopt, "higher"},
              of_eager, eager_us);
    return shunt::bench::median(of_eager);
  };
  double worst = 1e9;
  std::vector<double> medians;
  const auto note = [&](double m) { medians.push_back(m), worst = std::min(worst, m); };
  note(three("native", {.nodes = 64, .sync_every = 1}, "64 launches, sync each period"));
  note(three("dirty10", {.nodes = 60, .sync_every = 1, .dirty = 6}, "6 of 60 parameters change"));
  note(three("dirty50", {.nodes = 64, .sync_every = 1, .dirty = 32}, "32 of 64 parameters change"));
  note(three("dirty100", {.nodes = 64, .sync_every = 1, .dirty = 64}, "all parameters change"));
  note(three("sync16", {.nodes = 64, .sync_every = 16}, "sync every 16 periods"));
  note(three("sync64", {.nodes = 64, .sync_every = 64}, "sync every 64 periods"));
  note(three("short", {.nodes = 4, .sync_every = 1}, "4 launches, sync each period"));
  note(three("long_kernels", {.nodes = 64, .sync_every = 1, .rounds = 5000},
             "kernels of tens of microseconds"));
  note(three("random", {.nodes = 64, .sync_every = 4, .kind = Shape::random}, "nothing repeats"));
  note(three("transfers", {.nodes = 64, .sync_every = 1, .kind = Shape::transfers},
             "every fourth call a memset or a copy"));
  note(three("ping_pong", {.nodes = 16, .sync_every = 4, .kind = Shape::ping_pong}, "two buffers in turn"));
  note(three("fork_join", {.nodes = 64, .sync_every = 1, .kind = Shape::fork}, "half on a second stream"));
  note(three("branches", {.nodes = 64, .sync_every = 1, .kind = Shape::branch},
             "one period in four has another second half"));
  rows.emit({"worst_vs_eager", "x", "the rows above", 0.98, "higher"},
            std::vector<double>(medians.size(), worst));
  std::vector<double> median_ns, p99_ns;
  for (int i = 0; i <= rows.runs(); ++i) {
    const auto v = child("held", {}, true);
    if (i) median_ns.push_back(v[0]), p99_ns.push_back(v[1]);
  }
  rows.emit({"buffered_op_ns", "ns", "real time of a launch that is held back, less the timer's own", 60},
            median_ns);
  rows.emit({"buffered_op_p99_ns", "ns", "", 100}, p99_ns);
  std::vector<double> added, base;
  for (int i = 0; i <= rows.runs(); ++i) {
    const Shape a{.nodes = 64, .sync_every = 4, .kind = Shape::random};
    const double without = child("loop", a, true, "off")[0], with = child("loop", a, true, "on")[0];
    if (i) added.push_back(100 * (with / without - 1)), base.push_back(without / 1000);
  }
  rows.emit({"backed_off_added_pct", "%", "nothing repeats, --graphs=off, us a period", 1}, added, base);
  return rows.finish();
}
