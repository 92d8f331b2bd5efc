#include "tools/simgpu/driver/core/host_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memory.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kPage = 4096;
constexpr int kGuards = 512;  // ranges watched at once; more go unwatched

// Read by the fault handler: plain data, published by `base`.
struct Guard {
  std::atomic<uint64_t> base{0}, end{0};  // whole pages; base 0: free
  std::atomic<bool> device_writes{false};
  uint32_t chain = 0, epoch = 0;
  char text[160] = "";
};
Guard g_guards[kGuards];
std::atomic<int> g_live{0};
struct sigaction g_previous;

int protection(uint64_t page) {
  int rights = PROT_READ | PROT_WRITE;
  for (const Guard& g : g_guards) {
    const uint64_t base = g.base.load(std::memory_order_acquire);
    if (!base || page < base || page >= g.end.load(std::memory_order_relaxed)) continue;
    rights &= g.device_writes.load(std::memory_order_relaxed) ? PROT_NONE : PROT_READ;
  }
  return rights;
}
void apply(uint64_t base, uint64_t end) {
  for (uint64_t page = base; page < end;) {
    const int rights = protection(page);
    uint64_t run = page + kPage;
    while (run < end && protection(run) == rights) run += kPage;
    mprotect(reinterpret_cast<void*>(page), run - page, rights);
    page = run;
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  for (Guard& g : g_guards) {
    const uint64_t base = g.base.load(std::memory_order_acquire), end = g.end.load(std::memory_order_relaxed);
    if (!base || address < base || address >= end) continue;
    char line[400];
    const int n = snprintf(
        line, sizeof line,
        "simgpu: race: the host %s 0x%llx while %s; nothing has waited for it: synchronise the stream or an "
        "event recorded after it first\n",
        g.device_writes.load() ? "touches" : "writes", (unsigned long long)address, g.text);
    ssize_t ignored = write(2, line, size_t(n));
    (void)ignored;
    g.base.store(0, std::memory_order_release);
    apply(base, end);
    return;
  }
  // Another thread may just have settled the range; a second fault at the same place is somebody else's.
  static std::atomic<uint64_t> last{0};
  if (g_live.load() && last.exchange(address) != address && MemoryMap::get().find(address)) return;
  if (g_previous.sa_flags & SA_SIGINFO && g_previous.sa_sigaction) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler == SIG_DFL || g_previous.sa_handler == SIG_IGN) {
    ::signal(signal, SIG_DFL);  // the access is repeated and ends the process as it would have
  } else {
    g_previous.sa_handler(signal);
  }
}

void watch(const Op& op, uint64_t base, uint64_t bytes, bool device_writes, bool whole_allocation_counts) {
  const AllocationRef a = MemoryMap::get().find(base);
  if (!a || !a->host_visible() || a->host == reinterpret_cast<uint8_t*>(a->base))
    return;  // no alias: not watchable
  // Whole pages only, since the rest of a page is other data; behind an allocation's end there is none.
  const uint64_t first = (base + kPage - 1) / kPage * kPage;
  uint64_t last = (base + bytes) / kPage * kPage;
  if (whole_allocation_counts && base + bytes == a->end()) last = (base + bytes + kPage - 1) / kPage * kPage;
  if (first >= last) return;
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    return sigaction(SIGSEGV, &action, &g_previous) == 0;
  }();
  if (!installed) return;
  for (Guard& g : g_guards) {
    if (g.base.load()) continue;
    g.device_writes = device_writes;
    g.chain = op.race->chain;
    g.epoch = op.race->epoch;
    snprintf(g.text, sizeof g.text, "'%s' (#%llu, stream %llu) %s it", op.body->name().c_str(),
             (unsigned long long)op.seq, (unsigned long long)(op.stream ? op.stream->id : 0),
             device_writes ? "writes" : "reads");
    g.end.store(last);
    g.base.store(first, std::memory_order_release);
    ++g_live;
    apply(first, last);
    return;
  }
}
}  // namespace

bool host_pages_watched() {
  static const bool on = [] {
    const char* text = getenv("SIMGPU_HOST_PAGES");
    return races_watched() && !(text && !strcmp(text, "off"));
  }();
  return on;
}

void* map_watched_memory(uint64_t bytes, uint8_t*& alias) {
  if (!host_pages_watched()) {
    void* p = map_host_memory(bytes);
    alias = static_cast<uint8_t*>(p);
    return p;
  }
  const uint64_t size = (bytes + kPage - 1) / kPage * kPage;
  const int fd = memfd_create("simgpu-host", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  void *view = MAP_FAILED, *second = MAP_FAILED;
  if (ftruncate(fd, off_t(size)) == 0) {
    view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    second = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  close(fd);
  if (view == MAP_FAILED || second == MAP_FAILED) return nullptr;
  alias = static_cast<uint8_t*>(second);
  return view;
}

void unmap_watched_memory(void* view, uint8_t* alias, uint64_t bytes) {
  const uint64_t base = reinterpret_cast<uint64_t>(view);
  for (Guard& g : g_guards) {
    const uint64_t at = g.base.load();
    if (at >= base && at < base + bytes) {
      g.base.store(0);
      --g_live;
    }
  }
  if (alias && alias != view) unmap_host_memory(alias, bytes);
  unmap_host_memory(view, bytes);
}

void host_pages_guard(const Op& op) {
  if (op.body->kind != OpKind::memcpy && op.body->kind != OpKind::memset) return;
  std::vector<exec::Access> list;
  op.body->accesses(op, list);
  for (const exec::Access& access : list)
    watch(op, access.base, access.end - access.base, access.kind != exec::Access::read, true);
}

void host_pages_executed(const Op& op, const std::vector<exec::Access>& accesses) {
  for (const exec::Access& access : accesses) {
    // Less than a page may be a flag that the host is meant to watch.
    if (access.kind == exec::Access::write) watch(op, access.base, access.end - access.base, true, false);
  }
}

void host_pages_settle(const std::vector<uint32_t>& host_clock) {
  if (!g_live.load()) return;
  for (Guard& g : g_guards) {
    const uint64_t base = g.base.load(), end = g.end.load();
    if (!base || g.chain >= host_clock.size() || host_clock[g.chain] < g.epoch) continue;
    g.base.store(0, std::memory_order_release);
    --g_live;
    apply(base, end);
  }
}
}  // namespace simgpu::driver
