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
  bool random = false;  // nothing repeats
};

uint64_t (*g_now)();
uint64_t now() { return g_now(); }

struct Child {
  CUfunction f[8];
  CUstream s;
  CUdeviceptr data;
  void launch(int i, unsigned rounds, unsigned salt) {
    CUdeviceptr p = data + 4 * static_cast<unsigned>(i % 64);
    void* args[] = {&p, &rounds, &salt};
    CHECK(cuLaunchKernel(f[0], 1u + static_cast<unsigned>(i % 4), 1, 1, 32, 1, 1, 0, s, args, nullptr));
  }
  Child() {
    CHECK(cuInit(0));
    CUdevice d;
    CUcontext c;
    CUmodule m;
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuDevicePrimaryCtxRetain(&c, d));
    CHECK(cuCtxSetCurrent(c));
    CHECK(cuModuleLoadData(&m, kPtx));
    CHECK(cuModuleGetFunction(&f[0], m, "turn"));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&data, 4096));
    g_now = reinterpret_cast<uint64_t (*)()>(dlsym(RTLD_DEFAULT, "simgpu_host_ns"));
    if (!g_now) fprintf(stderr, "graphs_bench: no simgpu clock\n"), exit(2);
  }
};

bool is_dirty(const Shape& a, int i) { return a.dirty && i % (a.nodes / a.dirty) == 0; }

// Prints virtual ns a period.
int loop(const Shape& a, bool hand) {
  Child c;
  CUgraphExec exec = nullptr;
  std::vector<CUgraphNode> nodes(static_cast<size_t>(a.nodes));
  if (hand) {
    CUgraph g;
    CHECK(cuGraphCreate(&g, 0));
    CUgraphNode last = nullptr;
    for (int i = 0; i < a.nodes; ++i) {
      CUdeviceptr p = c.data + 4 * static_cast<unsigned>(i % 64);
      unsigned rounds = a.rounds, salt = 0;
      void* args[] = {&p, &rounds, &salt};
      CUDA_KERNEL_NODE_PARAMS k{};
      k.func = c.f[0], k.gridDimX = 1u + static_cast<unsigned>(i % 4), k.gridDimY = k.gridDimZ = 1;
      k.blockDimX = 32, k.blockDimY = k.blockDimZ = 1, k.kernelParams = args;
      CHECK(
          cuGraphAddKernelNode(&nodes[static_cast<size_t>(i)], g, last ? &last : nullptr, last ? 1 : 0, &k));
      last = nodes[static_cast<size_t>(i)];
    }
    CHECK(cuGraphInstantiate(&exec, g, 0));
  }
  unsigned random = 1;
  const auto period = [&](int k) {
    if (hand) {
      for (int i = 0; i < a.nodes; ++i) {
        if (!is_dirty(a, i)) continue;
        CUdeviceptr p = c.data + 4 * static_cast<unsigned>(i % 64);
        unsigned rounds = a.rounds, salt = static_cast<unsigned>(k);
        void* args[] = {&p, &rounds, &salt};
        CUDA_KERNEL_NODE_PARAMS n{};
        n.func = c.f[0], n.gridDimX = 1u + static_cast<unsigned>(i % 4), n.gridDimY = n.gridDimZ = 1;
        n.blockDimX = 32, n.blockDimY = n.blockDimZ = 1, n.kernelParams = args;
        CHECK(cuGraphExecKernelNodeSetParams(exec, nodes[static_cast<size_t>(i)], &n));
      }
      CHECK(cuGraphLaunch(exec, c.s));
    } else {
      for (int i = 0; i < a.nodes; ++i) {
        if (a.random) random = random * 1664525 + 1013904223;
        c.launch(a.random ? static_cast<int>(random >> 20) : i, a.rounds,
                 is_dirty(a, i) ? static_cast<unsigned>(k) : 0u);
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
      const uint64_t t = __rdtsc();
      c.launch(i, 1, 0);
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
                                       std::to_string(a.random)};
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
                  atoi(argv[7]) != 0};
    if (!strcmp(argv[2], "held")) return held_back();
    return loop(a, !strcmp(argv[2], "hand"));
  }
  shunt::bench::Rows rows(argc, argv);
  // One case: eager, shunt and by hand in the same run; rows are ratios of throughput.
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
    if (text == "native" || text == "dirty10")
      rows.emit({text + "_vs_hand_pct", "%",
                 std::string("captured by hand; baseline value: eager us a period; ") + words,
                 text == "native" ? 95.0 : 90.0, "higher"},
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
  note(three("random", {.nodes = 64, .sync_every = 4, .random = true}, "nothing repeats"));
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
    const Shape a{.nodes = 64, .sync_every = 4, .random = true};
    const double without = child("loop", a, true, "off")[0], with = child("loop", a, true, "on")[0];
    if (i) added.push_back(100 * (with / without - 1)), base.push_back(without / 1000);
  }
  rows.emit({"backed_off_added_pct", "%", "nothing repeats, --graphs=off, us a period", 1}, added, base);
  return rows.finish();
}
