#include "tools/simgpu/driver/core/ipc.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/hooks.h"
#include "tools/simgpu/driver/core/memcheck.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/shared_charge.h"
#include "tools/simgpu/driver/core/shared_memory.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kMemoryMagic = 0x6d656d63'7069676d, kEventMagic = 0x74767663'7069676d;
constexpr uint64_t kPage = 4096;

struct MemoryTicket {  // in CUipcMemHandle
  uint64_t magic, id, start_time, offset, bytes;
  uint32_t pid;
  int32_t heap_fd, control_fd, box_index;
};
static_assert(sizeof(MemoryTicket) <= sizeof(CUipcMemHandle));
struct EventTicket {  // in CUipcEventHandle
  uint64_t magic, id, start_time;
  uint32_t pid;
  int32_t fd, box_index;
};
static_assert(sizeof(EventTicket) <= sizeof(CUipcEventHandle));

bool alive(uint32_t pid, uint64_t start_time) { return process_start_time(pid) == start_time; }
uint32_t own_pid() { return uint32_t(getpid()); }

// --- memory ---
struct Exported {
  int control_fd;
  MemoryTicket ticket;
};
std::map<uint64_t, Exported>& exported() {  // by allocation
  static auto* instance = new std::map<uint64_t, Exported>;
  return *instance;
}

struct Opened {
  uint32_t references = 0;
  uint32_t exporter = 0;
  int box_index = -1;
  AllocationRef allocation;
  std::shared_ptr<SharedCharge> charge;
};
struct OpenedOfContext {
  std::map<uint64_t, Opened> by_ticket;
};
constexpr const char* kExtra = "ipc";
OpenedOfContext& opened(Context& context) {
  std::shared_ptr<void>& slot = context.extras[kExtra];
  if (!slot) slot = std::make_shared<OpenedOfContext>();
  return *static_cast<OpenedOfContext*>(slot.get());
}
// "Handles from each device in a process may only be opened by one context per device per other process."
bool other_context_has_opened(const Context& context, const MemoryTicket& ticket) {
  for (Device* device : platform()->devices) {
    Context* primary = device->primary.get();
    if (device != context.device || !primary || primary == &context) continue;
    for (const auto& [id, open] : opened(*primary).by_ticket)
      if (open.exporter == ticket.pid && open.box_index == ticket.box_index) return true;
  }
  return false;
}

// --- events ---
struct EventPage {
  uint64_t magic, id;
  std::atomic<uint64_t> recorded, done;  // generations
  std::atomic<uint64_t> end_ns;          // virtual end of the latest one done
  std::atomic<uint64_t> recorder_start;  // of the process that recorded last
  std::atomic<uint32_t> recorder;
};
struct SharedEvent {
  EventPage* page = nullptr;
  int fd = -1;
  ~SharedEvent() {
    if (page) munmap(page, kPage);
    if (fd >= 0) close(fd);
  }
  bool done(uint64_t generation) const {
    if (page->done.load(std::memory_order_acquire) >= generation) return true;
    // Work of a process that has gone will not come any more.
    return !alive(page->recorder.load(), page->recorder_start.load());
  }
  void finish(uint64_t generation, uint64_t end_ns) {
    raise(page->end_ns, end_ns);
    raise(page->done, generation);
  }
  static void raise(std::atomic<uint64_t>& to, uint64_t value) {
    uint64_t seen = to.load();
    while (seen < value && !to.compare_exchange_weak(seen, value)) {
    }
  }
  static std::shared_ptr<SharedEvent> map(int fd) {
    void* p = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return nullptr;
    auto event = std::make_shared<SharedEvent>();
    event->page = static_cast<EventPage*>(p);
    event->fd = fd;
    return event;
  }
};
SharedEvent& shared_event(const Event& event) { return *static_cast<SharedEvent*>(event.ipc.get()); }

class IpcWaitBody : public OpBody {
 public:
  IpcWaitBody(std::shared_ptr<SharedEvent> event, uint64_t generation)
      : OpBody(OpKind::ipc_wait), event_(std::move(event)), generation_(generation) {}
  std::string name() const override { return "wait for interprocess event"; }
  Step execute(Op&, uint64_t) override { return event_->done(generation_) ? Step::done : Step::waiting; }
  Cost cost(const Op& op) const override {
    const uint64_t end = event_->page->end_ns.load();
    return {end > op.start_ns ? end - op.start_ns : 0, {}};
  }
  bool waits_outside() const override { return true; }
  bool outside_is_alive() const override { return true; }  // else execute() is done

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t generation_;
};

// What other processes see of a record: its generation, done when its effect has happened.
void follow(const std::shared_ptr<SharedEvent>& shared_state, const OpRef& op) {
  EventPage& page = *shared_state->page;
  page.recorder_start.store(process_start_time(own_pid()));
  page.recorder.store(own_pid());
  const uint64_t generation = page.recorded.fetch_add(1) + 1;
  if (!op || op->executed) {
    shared_state->finish(generation, op ? op->end_ns : host_now());
    return;
  }
  const std::weak_ptr<Op> weak = op;
  op->on_executed.push_back([shared_state, generation, weak] {
    const OpRef done = weak.lock();
    shared_state->finish(generation, done ? std::max(done->start_ns, done->submit_ns) : 0);
  });
  op->on_completed.push_back(
      [shared_state](Op& done) { SharedEvent::raise(shared_state->page->end_ns, done.end_ns); });
}

CUresult query(Lock& lock, Event& event, bool wait) {
  const auto keep = std::static_pointer_cast<SharedEvent>(event.ipc);
  auto context = event.context.lock();
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  EventPage& page = *keep->page;
  const uint64_t generation = page.recorded.load();
  if (!generation) return CUDA_SUCCESS;  // never recorded
  if (page.recorder.load() == own_pid() && event.record) {
    if (wait) return wait_for(lock, *context, {event.record}, &event);
    const bool done = Engine::get().query(lock, event.record);
    if (context->sticky.load() != CUDA_SUCCESS) return context->sticky.load();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  while (!keep->done(generation)) {
    if (!wait) return CUDA_ERROR_NOT_READY;
    // This process's own work goes on meanwhile: the other may wait for it.
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    lock.lock();
    if (context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context->sticky.load() != CUDA_SUCCESS) return context->sticky.load();
  }
  if (wait) raise_host_clock(page.end_ns.load());
  return context->sticky.load();
}
[[maybe_unused]] const bool installed = [] {
  g_ipc_event_query = query;
  return true;
}();
}  // namespace

CUresult ipc_export_memory(CUdeviceptr address, CUipcMemHandle& out) {
  const AllocationRef a = MemoryMap::get().find(address);
  // Pinned, managed, pool, mapped, imported memory and arrays have no such handle.
  SIMGPU_REQUIRE(a && a->base == address && a->kind == MemoryKind::device, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_TRY(fault_point("ipc_export", CUDA_ERROR_MAP_FAILED));
  auto it = exported().find(a->id);
  if (it == exported().end()) {
    const Device& device = *device_at(a->device);
    ControlPage page;
    page.magic = kMemoryMagic;
    page.id = platform()->box->unique_id();
    page.bytes =
        (device.heap->block_bytes(a->base) + DeviceHeap::kPage - 1) / DeviceHeap::kPage * DeviceHeap::kPage;
    page.box_index = device.box_index;
    page.payer_pid = own_pid();  // by the heap's own count
    page.payer_start = process_start_time(page.payer_pid);
    const int fd = memfd_create("simgpu-ipc", MFD_CLOEXEC);
    SIMGPU_REQUIRE(fd >= 0 && pwrite(fd, &page, sizeof page, 0) == ssize_t(sizeof page),
                   CUDA_ERROR_OUT_OF_MEMORY);
    MemoryTicket t = {};
    t.magic = kMemoryMagic;
    t.id = page.id;
    t.start_time = page.payer_start;
    t.offset = a->base - device.heap->window();
    t.bytes = a->size;
    t.pid = page.payer_pid;
    t.heap_fd = device.heap->fd();
    t.control_fd = fd;
    t.box_index = device.box_index;
    it = exported().emplace(a->id, Exported{fd, t}).first;
    memcheck_trust(a->base);
  }
  out = {};
  memcpy(&out, &it->second.ticket, sizeof(MemoryTicket));
  return CUDA_SUCCESS;
}

void ipc_forget(const Allocation& allocation) {
  auto it = exported().find(allocation.id);
  if (it == exported().end()) return;
  close(it->second.control_fd);
  exported().erase(it);
}

CUresult ipc_open_memory(Context& context, const CUipcMemHandle& handle, CUdeviceptr& out) {
  MemoryTicket t;
  memcpy(&t, &handle, sizeof t);
  SIMGPU_REQUIRE(t.magic == kMemoryMagic && t.bytes, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(t.pid != own_pid(), CUDA_ERROR_INVALID_CONTEXT);
  OpenedOfContext& mine = opened(context);
  if (auto it = mine.by_ticket.find(t.id); it != mine.by_ticket.end()) {
    ++it->second.references;
    out = it->second.allocation->base;
    return CUDA_SUCCESS;
  }
  SIMGPU_TRY(fault_point("ipc_open", CUDA_ERROR_MAP_FAILED));
  const int ordinal = ordinal_of_box(t.box_index);
  SIMGPU_REQUIRE(ordinal >= 0, CUDA_ERROR_INVALID_VALUE);  // hidden from this process
  SIMGPU_REQUIRE(ordinal == context.device->ordinal || context.device->can_access_peer(*device_at(ordinal)),
                 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  SIMGPU_REQUIRE(!other_context_has_opened(context, t), CUDA_ERROR_INVALID_CONTEXT);
  const int control = open_remote(t.pid, t.start_time, t.control_fd);
  SIMGPU_REQUIRE(control >= 0, CUDA_ERROR_MAP_FAILED);  // freed, or its process has gone
  const auto charge = SharedCharge::join(control, 0, kMemoryMagic);
  close(control);
  SIMGPU_REQUIRE(charge && charge->page().id == t.id, CUDA_ERROR_MAP_FAILED);
  const int heap = open_remote(t.pid, t.start_time, t.heap_fd);
  SIMGPU_REQUIRE(heap >= 0, CUDA_ERROR_MAP_FAILED);
  const uint64_t start = t.offset / kPage * kPage, skip = t.offset - start;
  const auto range = map_range(heap, start, (skip + t.bytes + kPage - 1) / kPage * kPage);
  close(heap);
  SIMGPU_REQUIRE(range, CUDA_ERROR_MAP_FAILED);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = range->address + skip;
  allocation->size = t.bytes;
  allocation->kind = MemoryKind::imported;
  allocation->device = ordinal;
  allocation->context_id = context.id;
  allocation->host = range->alias + skip;
  allocation->rights.assign(platform()->devices.size(), 0);
  allocation->rights[size_t(ordinal)] = 3;
  allocation->rights[size_t(context.device->ordinal)] = 3;
  allocation->backing = range;
  MemoryMap::get().insert(allocation);
  mine.by_ticket[t.id] = {1, t.pid, t.box_index, allocation, charge};
  out = allocation->base;
  return CUDA_SUCCESS;
}

CUresult ipc_close_memory(Lock& lock, Context& context, CUdeviceptr address) {
  auto& mine = opened(context).by_ticket;
  auto find = [&] {
    auto it = mine.begin();
    while (it != mine.end() && it->second.allocation->base != address) ++it;
    return it;
  };
  auto it = find();
  SIMGPU_REQUIRE(it != mine.end(), CUDA_ERROR_INVALID_VALUE);
  if (it->second.references > 1) {
    --it->second.references;
    return CUDA_SUCCESS;
  }
  SIMGPU_TRY(wait_for(lock, context, context_targets(context)));
  it = find();  // another thread may have closed it meanwhile
  SIMGPU_REQUIRE(it != mine.end(), CUDA_ERROR_INVALID_VALUE);
  if (--it->second.references) return CUDA_SUCCESS;
  MemoryMap::get().erase(address);
  mine.erase(it);
  return CUDA_SUCCESS;
}

CUresult ipc_export_event(Event& event, CUipcEventHandle& out) {
  SIMGPU_REQUIRE((event.flags & CU_EVENT_INTERPROCESS) && (event.flags & CU_EVENT_DISABLE_TIMING),
                 CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_TRY(fault_point("ipc_export", CUDA_ERROR_MAP_FAILED));
  if (!event.ipc) {
    const int fd = memfd_create("simgpu-event", MFD_CLOEXEC);
    SIMGPU_REQUIRE(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    std::shared_ptr<SharedEvent> made;
    if (ftruncate(fd, kPage) == 0) made = SharedEvent::map(fd);
    if (!made) close(fd);
    SIMGPU_REQUIRE(made, CUDA_ERROR_MAP_FAILED);
    made->page->magic = kEventMagic;
    made->page->id = platform()->box->unique_id();
    event.ipc = made;
    if (event.recorded) follow(made, event.record);
  }
  const SharedEvent& shared_state = shared_event(event);
  EventTicket t = {};
  t.magic = kEventMagic;
  t.id = shared_state.page->id;
  t.pid = own_pid();
  t.start_time = process_start_time(t.pid);
  t.fd = shared_state.fd;
  t.box_index = device_at(event.device)->box_index;
  out = {};
  memcpy(&out, &t, sizeof t);
  return CUDA_SUCCESS;
}

CUresult ipc_open_event(Context& context, const CUipcEventHandle& handle, CUevent& out) {
  EventTicket t;
  memcpy(&t, &handle, sizeof t);
  SIMGPU_REQUIRE(t.magic == kEventMagic, CUDA_ERROR_INVALID_HANDLE);
  SIMGPU_REQUIRE(t.pid != own_pid(), CUDA_ERROR_INVALID_CONTEXT);
  SIMGPU_TRY(fault_point("ipc_open", CUDA_ERROR_MAP_FAILED));
  const int ordinal = ordinal_of_box(t.box_index);
  SIMGPU_REQUIRE(ordinal >= 0, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(ordinal == context.device->ordinal || context.device->can_access_peer(*device_at(ordinal)),
                 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  const int fd = open_remote(t.pid, t.start_time, t.fd);
  SIMGPU_REQUIRE(fd >= 0, CUDA_ERROR_MAP_FAILED);
  uint64_t head[2] = {};
  std::shared_ptr<SharedEvent> shared_state;
  if (pread(fd, head, sizeof head, 0) == ssize_t(sizeof head) && head[0] == kEventMagic && head[1] == t.id)
    shared_state = SharedEvent::map(fd);
  if (!shared_state) close(fd);
  SIMGPU_REQUIRE(shared_state, CUDA_ERROR_MAP_FAILED);
  auto event = std::make_shared<Event>();
  event->context = shared(&context);
  event->device = context.device->ordinal;
  event->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  event->ipc = shared_state;
  make_handle(event);
  context.events.insert(event.get());
  out = handle_of<CUevent>(*event);
  return CUDA_SUCCESS;
}

CUresult ipc_record_event(Lock& lock, const std::shared_ptr<Stream>& stream, Event& event, OpRef* op) {
  SIMGPU_TRY(submit(lock, stream, std::make_shared<MarkerBody>(OpKind::ipc_record, "event record"), op));
  follow(std::static_pointer_cast<SharedEvent>(event.ipc), *op);
  return CUDA_SUCCESS;
}

CUresult ipc_wait_event(Lock& lock, const std::shared_ptr<Stream>& stream, const Event& event) {
  auto shared_state = std::static_pointer_cast<SharedEvent>(event.ipc);
  const uint64_t generation = shared_state->page->recorded.load();
  if (!generation) return CUDA_SUCCESS;
  if (shared_state->page->recorder.load() == own_pid() && event.record)
    return submit(lock, stream, std::make_shared<MarkerBody>(OpKind::event_wait, "event wait"), nullptr,
                  {event.record});
  return submit(lock, stream, std::make_shared<IpcWaitBody>(std::move(shared_state), generation));
}
}  // namespace simgpu::driver
