// observed_launch_added_ns: a kernel launch through hook, model and trace (one CALL record) against the same
// call made directly. runtime_hook_off_added_ns: the runtime's real hook while no engine is on.
// device_query_mapped_added_ns: a device call through an active map.
#include <ftw.h>
#include <sys/stat.h>

#include "runtime/exec/chain.h"
#include "runtime/exec/hook_tables.h"
#include "runtime/exec/links/driver_link.h"
#include "runtime/exec/links/model_link.h"
#include "runtime/exec/links/trace_link.h"
#include "tests/bench/bench_rows.h"

namespace {

using namespace shunt;
using namespace shunt::exec;

CUresult launch(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                void**, void**) {
  bench::keep(f);
  return CUDA_SUCCESS;
}
CUresult get_current(CUcontext* out) { return *out = reinterpret_cast<CUcontext>(0xC0), CUDA_SUCCESS; }
CUresult can_access(int* out, CUdevice a, CUdevice b) { return *out = a + b, CUDA_SUCCESS; }
void* find(uint32_t slot) {
  if (slot == SHUNT_SLOT_cuLaunchKernel) return reinterpret_cast<void*>(launch);
  if (slot == SHUNT_SLOT_cuDeviceCanAccessPeer) return reinterpret_cast<void*>(can_access);
  return nullptr;
}
void set_hook(uint32_t, void*) {}
void* find_loaded(const char*, const char*) { return nullptr; }
void set_drain(int) {}
const ShuntHost kHost{sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, "", find,
                      set_hook,          find_loaded,        set_drain};

}  // namespace

int main(int argc, char** argv) {
  bench::Rows rows(argc, argv);
  g_host = &kHost;
  install(SHUNT_SLOT_cuLaunchKernel, all_hooks()[SHUNT_SLOT_cuLaunchKernel]);
  install(SHUNT_SLOT_cuDeviceCanAccessPeer, all_hooks()[SHUNT_SLOT_cuDeviceCanAccessPeer]);
  using Launch = Fn<SHUNT_SLOT_cuLaunchKernel>;
  Launch hooked = reinterpret_cast<Launch>(all_hooks()[SHUNT_SLOT_cuLaunchKernel]), direct = launch;
  bench::keep(hooked);
  bench::keep(direct);
  void* params[1] = {nullptr};
  const auto f = reinterpret_cast<CUfunction>(0xF00);
  const auto stream = reinterpret_cast<CUstream>(0x5000);
  constexpr uint64_t kCalls = 1'000'000;
  auto through = [&](Launch l) {
    return bench::ns_per_call(kCalls, [&] { l(f, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr); });
  };

  auto off = rows.alternate([&] { return through(hooked); }, [&] { return through(direct); });
  rows.emit({"runtime_hook_off_added_ns", "ns", "direct call", 10}, off.added(), off.baseline);

  char folder[] = "/tmp/shunt-bench-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  trace::FileOptions options;
  options.directory = std::string(folder) + "/run.shunt";
  options.ring_bytes = 16 << 20;
  if (!trace::start(options)) return 1;
  model::Questions q;
  q.ctx_get_current = get_current;
  model::Model::get().set_questions(q);
  Chain::get().build({new ModelLink(), new TraceLink(false), new DriverLink()});
  auto observed = rows.alternate([&] { return through(hooked); }, [&] { return through(direct); });
  rows.emit({"observed_launch_added_ns", "ns", "direct call", 50}, observed.added(), observed.baseline);
  Chain::get().build({new ModelLink(), new DriverLink()});
  auto shadowed = rows.alternate([&] { return through(hooked); }, [&] { return through(direct); });
  rows.emit({"model_only_launch_added_ns", "ns", "direct call"}, shadowed.added(), shadowed.baseline);
  Chain::get().build({});
  trace::stop();
  nftw(
      folder, [](const char* path, const struct stat*, int, struct FTW*) { return remove(path); }, 16,
      FTW_DEPTH | FTW_PHYS);

  auto* map = new placement::OrdinalMap();
  map->assign({1, 0});
  detail::ordinal_map = map;
  using Peer = Fn<SHUNT_SLOT_cuDeviceCanAccessPeer>;
  Peer peer = reinterpret_cast<Peer>(all_hooks()[SHUNT_SLOT_cuDeviceCanAccessPeer]), plain = can_access;
  bench::keep(peer);
  bench::keep(plain);
  int answer = 0;
  auto mapped = rows.alternate([&] { return bench::ns_per_call(kCalls, [&] { peer(&answer, 0, 1); }); },
                               [&] { return bench::ns_per_call(kCalls, [&] { plain(&answer, 0, 1); }); });
  rows.emit({"device_query_mapped_added_ns", "ns", "direct call", 10}, mapped.added(), mapped.baseline);
  return rows.finish();
}
