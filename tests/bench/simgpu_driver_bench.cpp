// Speed of simgpu's driver around the interpreter: empty launches, a graph of ten thousand nodes, the price
// of race checking, and process start. Each sample is a process of its own (this program again), since
// settings are read once.
#include <cuda.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/bench/child.h"

extern char** environ;

namespace {

using shunt::bench::now_ns;

constexpr const char* kPtx = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry empty() { ret; }
.visible .entry scale(.param .u64 p, .param .u32 rounds)
{
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .pred %p;
  ld.param.u64 %rd0, [p]; ld.param.u32 %r4, [rounds];
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
  mul.wide.u32 %rd1, %r3, 4; add.u64 %rd2, %rd0, %rd1;
again:
  ld.global.f32 %f0, [%rd2]; add.f32 %f1, %f0, 0f3F800000; st.global.f32 [%rd2], %f1;
  sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra again;
  ret;
}
)";

struct Cuda {
  void* lib = dlopen(
      (std::string(getenv("SHUNT_BUILD") ? getenv("SHUNT_BUILD") : "build") + "/lib/simgpu/libcuda.so.1")
          .c_str(),
      RTLD_NOW);
  template <class F>
  F* get(const char* name) const {
    void* p = lib ? dlsym(lib, name) : nullptr;
    if (!p)
      fprintf(stderr, "simgpu_driver_bench: %s is missing: %s\n", name, lib ? "not exported" : dlerror()),
          exit(1);
    return reinterpret_cast<F*>(p);
  }
};
#define USE(name) auto* name = cuda.get<decltype(::name)>(#name)
#define CHECK(call)                                                                \
  do {                                                                             \
    if (const CUresult r = (call)) fprintf(stderr, "%s: %d\n", #call, r), exit(1); \
  } while (0)

// The work of one child: prints a figure on stdout.
int child(const std::string& what, long n) {
  Cuda cuda;
  USE(cuInit);
  auto* primary = cuda.get<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  USE(cuCtxSetCurrent);
  USE(cuModuleLoadData);
  USE(cuModuleGetFunction);
  USE(cuLaunchKernel);
  auto* synchronize = cuda.get<CUresult()>("cuCtxSynchronize");
  auto* alloc = cuda.get<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  CUcontext context;
  CUmodule module;
  CUfunction empty, scale;
  CHECK(cuInit(0));
  CHECK(primary(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&empty, module, "empty"));
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  auto launch = [&] { CHECK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr)); };
  uint64_t took = 0;
  if (what == "launches") {
    for (int i = 0; i < 1000; ++i) launch();
    CHECK(synchronize());
    const uint64_t start = now_ns();
    for (long i = 0; i < n; ++i) launch();
    CHECK(synchronize());
    took = now_ns() - start;
  } else if (what == "graph") {
    auto* create = cuda.get<CUresult(CUgraph*, unsigned)>("cuGraphCreate");
    auto* add =
        cuda.get<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS*)>(
            "cuGraphAddKernelNode_v2");
    auto* instantiate =
        cuda.get<CUresult(CUgraphExec*, CUgraph, unsigned long long)>("cuGraphInstantiateWithFlags");
    auto* run = cuda.get<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch");
    auto* stream_create = cuda.get<CUresult(CUstream*, unsigned)>("cuStreamCreate");
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last = nullptr;
    CUstream stream;
    CHECK(stream_create(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(create(&graph, 0));
    for (long i = 0; i < n; ++i) {
      CUDA_KERNEL_NODE_PARAMS params{};
      params.func = empty;
      params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY =
          params.blockDimZ = 1;
      CUgraphNode node;
      CHECK(add(&node, graph, i ? &last : nullptr, i ? 1 : 0, &params));
      last = node;
    }
    CHECK(instantiate(&exec, graph, 0));
    CHECK(run(exec, stream));
    CHECK(synchronize());
    const uint64_t start = now_ns();
    CHECK(run(exec, stream));  // the host's part: until the call returns
    took = now_ns() - start;
    CHECK(synchronize());
  } else if (what == "kernels") {
    CUdeviceptr data;
    unsigned rounds = 64;
    CHECK(alloc(&data, 4 * 256 * 64));
    void* parameters[] = {&data, &rounds};
    auto work = [&] { CHECK(cuLaunchKernel(scale, 64, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr)); };
    for (int i = 0; i < 4; ++i) work();
    CHECK(synchronize());
    const uint64_t start = now_ns();
    for (long i = 0; i < n; ++i) work();
    CHECK(synchronize());
    took = now_ns() - start;
  } else if (what == "memory") {  // n floats are read and written; the peak of the process in bytes
    CUdeviceptr data;
    unsigned rounds = 1;
    CHECK(alloc(&data, 4 * static_cast<size_t>(n)));
    CHECK(
        cuda.get<CUresult(CUdeviceptr, unsigned, size_t)>("cuMemsetD32_v2")(data, 0, static_cast<size_t>(n)));
    void* parameters[] = {&data, &rounds};
    CHECK(cuLaunchKernel(scale, static_cast<unsigned>(n / 256), 1, 1, 256, 1, 1, 0, nullptr, parameters,
                         nullptr));
    CHECK(synchronize());
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    took = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  } else {
    launch();  // "start": one launch, then out
    CHECK(synchronize());
  }
  printf("%llu\n", static_cast<unsigned long long>(took));
  return 0;
}

// Runs this program as a child; its figure in ns, or with `whole` the time of the process.
double sample(const char* what, const char* n, std::vector<std::string> settings, bool whole = false) {
  settings.push_back("SIMGPU_SPEC=b200:1");
  const shunt::bench::Finished done = shunt::bench::run_again({"--child", what, n}, settings, {"SIMGPU_"});
  if (done.out.empty() || done.status != 0)
    fprintf(stderr, "simgpu_driver_bench: child %s failed\n", what), exit(1);
  return whole ? static_cast<double>(done.took_ns) : atof(done.out.c_str());
}

double process_start_ns(const char* path) {
  const uint64_t start = now_ns();
  pid_t pid;
  char* argv[] = {const_cast<char*>(path), nullptr};
  if (posix_spawn(&pid, path, nullptr, nullptr, argv, environ)) exit(1);
  int status;
  waitpid(pid, &status, 0);
  return static_cast<double>(now_ns() - start);
}

std::vector<double> scaled(std::vector<double> v, double by) {
  for (double& x : v) x *= by;
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && !strcmp(argv[1], "--child")) return child(argv[2], atol(argv[3]));
  shunt::bench::Rows rows(argc, argv);
  const char* launches = rows.quick() ? "100000" : "1000000";
  const auto empty =
      rows.alternate([&] { return sample("launches", launches, {"SIMGPU_RACES=off"}); },
                     [&] {
                       return sample("launches", launches, {"SIMGPU_RACES=off", "SIMGPU_CLOCK=null"});
                     });
  const double per = 1e-3 / atof(launches);
  rows.emit({"empty_launch_us", "us", "the same launches with SIMGPU_CLOCK=null", 1.5},
            scaled(empty.subject, per), scaled(empty.baseline, per));
  if (!rows.quick())  // --quick launches a tenth of that
    rows.emit({"launches_1m_s", "s", "the same launches with SIMGPU_CLOCK=null", 1.5},
              scaled(empty.subject, 1e-9), scaled(empty.baseline, 1e-9));
  const auto graph = rows.alternate([&] { return sample("graph", "10000", {"SIMGPU_RACES=off"}); },
                                    [&] { return sample("launches", "10000", {"SIMGPU_RACES=off"}); });
  rows.emit({"graph_10k_nodes_ms", "ms", "10,000 single launches, ms", 5}, scaled(graph.subject, 1e-6),
            scaled(graph.baseline, 1e-6));
  const char* kernels = rows.quick() ? "20" : "100";
  const auto races = rows.alternate([&] { return sample("kernels", kernels, {"SIMGPU_RACES=report"}); },
                                    [&] { return sample("kernels", kernels, {"SIMGPU_RACES=off"}); });
  rows.emit({"race_check_slowdown", "x", "SIMGPU_RACES=off, ms", 5}, races.ratio(),
            scaled(races.baseline, 1e-6));
  // What checking adds to the process, as a part of the device memory that a kernel reads and writes whole.
  constexpr double kTouched = 4.0 * (16 << 20);
  const std::string floats = std::to_string(16 << 20);
  for (const auto& [name, setting] : {std::pair{"shadow_races_pct", "SIMGPU_RACES=report"},
                                      std::pair{"shadow_memcheck_pct", "SIMGPU_MEMCHECK=report"}}) {
    const auto memory = rows.alternate([&] { return sample("memory", floats.c_str(), {setting}); },
                                       [&] { return sample("memory", floats.c_str(), {}); });
    rows.emit({name, "%", "the same process without checking, MiB", 30},
              scaled(memory.added(), 100 / kTouched), scaled(memory.baseline, 1.0 / (1 << 20)));
  }
  const auto start = rows.alternate([&] { return sample("start", "1", {}, true); },
                                    [&] { return process_start_ns("/bin/true"); });
  rows.emit({"start_ms", "ms", "/bin/true, ms", 30}, scaled(start.added(), 1e-6),
            scaled(start.baseline, 1e-6));
  return rows.finish();
}
