#include "tests/overlap/fixture.h"

#include <string.h>

#include "runtime/exec/driver.h"
#include "runtime/exec/host.h"

namespace shunt::overlap::test {

using model::Model;
using model::Op;
using model::OpClass;
using model::OpKind;

FakeDevice& FakeDevice::get() {
  static auto* d = new FakeDevice();
  return *d;
}

namespace {

FakeDevice& d() { return FakeDevice::get(); }
template <class T>
uint64_t u(T* p) {
  return reinterpret_cast<uint64_t>(p);
}
bool refuses(int& left) {
  if (left == 0) return false;
  if (left > 0) left--;
  return true;
}

// Two kernels: one writes bytes of its first argument that its second counts, one writes where memory says.
constexpr char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 p, .param .u32 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %q, %r2, %r1;
  @%q ret;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
.visible .entry opaque(.param .u64 p) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [p];
  ld.global.u64 %rd2, [%rd1];
  mov.u32 %r1, 1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

CUresult event_create(CUevent* out, unsigned) {
  std::lock_guard lock(d().mutex);
  if (refuses(d().refuse_events)) return CUDA_ERROR_OUT_OF_MEMORY;
  return *out = reinterpret_cast<CUevent>(d().next_handle += 0x10), CUDA_SUCCESS;
}
CUresult event_destroy(CUevent) { return CUDA_SUCCESS; }
void note_stale(CUevent e) {
  if (u(e) >= 0x10000 && u(e) < d().oldest_event) d().stale_events++;
}
CUresult event_record(CUevent e, CUstream s) {
  std::lock_guard lock(d().mutex);
  note_stale(e);
  if (refuses(d().refuse_records)) return CUDA_ERROR_UNKNOWN;
  d().wait_rules(d().key(s));
  d().events[u(e)] = d().streams[d().key(s)];
  d().event_streams[u(e)] = d().key(s);
  d().event_times[u(e)] = d().now;
  return CUDA_SUCCESS;
}
CUresult stream_wait_event(CUstream s, CUevent e, unsigned) {
  std::lock_guard lock(d().mutex);
  note_stale(e);
  if (refuses(d().refuse_waits)) return CUDA_ERROR_UNKNOWN;
  d().wait_rules(d().key(s));
  const WorkSet& of = d().events[u(e)];
  d().streams[d().key(s)].insert(of.begin(), of.end());
  return CUDA_SUCCESS;
}
CUresult event_synchronize(CUevent e) {
  std::lock_guard lock(d().mutex);
  d().host_waits++;
  d().host.insert(d().events[u(e)].begin(), d().events[u(e)].end());
  return CUDA_SUCCESS;
}
CUresult stream_synchronize(CUstream s) {
  std::lock_guard lock(d().mutex);
  d().host_waits++;
  const WorkSet& of = d().streams[d().key(s)];
  d().host.insert(of.begin(), of.end());
  return CUDA_SUCCESS;
}
CUresult elapsed(float* out, CUevent a, CUevent b) {
  std::lock_guard lock(d().mutex);
  if (refuses(d().not_ready)) return CUDA_ERROR_NOT_READY;
  return *out = d().event_times[u(b)] - d().event_times[u(a)], CUDA_SUCCESS;
}
CUresult stream_create(CUstream* out, unsigned, int) {
  std::lock_guard lock(d().mutex);
  if (refuses(d().refuse_streams)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUstream>(d().next_handle += 0x10);
  d().own_streams.insert(u(*out));
  d().live_own_streams.insert(u(*out));
  return CUDA_SUCCESS;
}
CUresult stream_destroy(CUstream s) {
  std::lock_guard lock(d().mutex);
  return d().live_own_streams.erase(u(s)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult get_current(CUcontext* out) { return *out = reinterpret_cast<CUcontext>(0xC0), CUDA_SUCCESS; }
CUresult set_current(CUcontext) { return CUDA_SUCCESS; }
CUresult get_device(CUdevice* out) { return *out = 0, CUDA_SUCCESS; }
// A stream whose creation nobody saw is what the driver says it is.
CUresult stream_flags(CUstream s, unsigned* out) {
  return *out = u(s) == OverlapTest::kUnseen ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, CUDA_SUCCESS;
}
CUresult device_attribute(int* out, CUdevice_attribute a, CUdevice) {
  *out = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 10 : 0;
  return CUDA_SUCCESS;
}
int comm_count(nccl::Comm, int* out) { return *out = 2, 0; }
int comm_rank(nccl::Comm, int* out) { return *out = 0, 0; }

void* find(uint32_t slot) {
  switch (slot) {
#define SHUNT_FAKE(symbol, function) \
  case SHUNT_SLOT_##symbol:          \
    return reinterpret_cast<void*>(static_cast<exec::Fn<SHUNT_SLOT_##symbol>>(function));
    SHUNT_FAKE(cuEventCreate, event_create)
    SHUNT_FAKE(cuEventDestroy_v2, event_destroy)
    SHUNT_FAKE(cuEventRecord, event_record)
    SHUNT_FAKE(cuStreamWaitEvent, stream_wait_event)
    SHUNT_FAKE(cuEventSynchronize, event_synchronize)
    SHUNT_FAKE(cuEventElapsedTime, elapsed)
    SHUNT_FAKE(cuStreamSynchronize, stream_synchronize)
    SHUNT_FAKE(cuStreamCreateWithPriority, stream_create)
    SHUNT_FAKE(cuStreamDestroy_v2, stream_destroy)
    SHUNT_FAKE(cuCtxGetCurrent, get_current)
    SHUNT_FAKE(cuCtxSetCurrent, set_current)
    SHUNT_FAKE(cuCtxGetDevice, get_device)
    SHUNT_FAKE(cuDeviceGetAttribute, device_attribute)
#undef SHUNT_FAKE
    case SHUNT_SLOT_ncclCommCount:
      return reinterpret_cast<void*>(comm_count);
    case SHUNT_SLOT_ncclCommUserRank:
      return reinterpret_cast<void*>(comm_rank);
    default:
      return nullptr;
  }
}
void set_hook(uint32_t, void*) {}
void* find_loaded(const char*, const char*) { return nullptr; }
void set_drain_unknown(int) {}

const ShuntHost* host() {
  static const ShuntHost host = {sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, "libshunt.so", find,
                                 set_hook,          find_loaded,        set_drain_unknown};
  return &host;
}

// The driver at the end of the chain: own ops do what they say, the program's become work.
class Bottom final : public exec::Link {
 public:
  const char* name() const override { return "bottom"; }
  CUresult on_op(Op& op) override {
    if (op.from_engine) return op.result = op.invoke(op);
    op.result = op.invoke ? op.invoke(op) : CUDA_SUCCESS;
    return op.result;
  }
};

}  // namespace

uint64_t FakeDevice::key(CUstream s) const { return u(s) <= 1 ? 1 : u(s); }

void FakeDevice::wait_rules(uint64_t stream) {
  if (stream == 1) {
    for (const uint64_t b : blocking) streams[1].insert(streams[b].begin(), streams[b].end());
  } else if (blocking.count(stream)) {
    streams[stream].insert(streams[1].begin(), streams[1].end());
  }
}

Work FakeDevice::submit(CUstream s) {
  std::lock_guard lock(mutex);
  const uint64_t k = key(s);
  wait_rules(k);
  const Work w = ++next_work;
  before[w] = streams[k];
  before[w].insert(host.begin(), host.end());
  streams[k].insert(w);
  return w;
}

void OverlapTest::start(OverlapLink::Settings settings) {
  exec::g_host = host();
  Model::fork_child();
  model::Questions q;
  q.ctx_get_current = get_current;
  q.ctx_get_device = get_device;
  q.stream_get_flags = stream_flags;
  Model::get().set_questions(q);
  {
    FakeDevice& device = d();
    std::lock_guard lock(device.mutex);
    device.streams.clear(), device.events.clear(), device.event_streams.clear(), device.blocking.clear();
    device.own_streams.clear(), device.live_own_streams.clear(), device.before.clear(), device.calls.clear();
    device.host.clear();
    device.refuse_events = device.refuse_waits = device.refuse_records = device.refuse_streams = 0;
    device.host_waits = device.stale_events = 0;
    device.oldest_event = 0;
    device.now = device.period[0] = device.period[1] = 0;
    device.not_ready = 0;
  }
  first_handle_ = d().next_handle;
  on_own_.clear();
  inside_nccl_ = inside_driver_ = nullptr;
  nccl_answer_ = 0;
  link_ = new OverlapLink(settings);
  exec::Chain::get().build({new exec::ModelLink(), link_, new Bottom()});
  for (nccl::Comm c : {kComm, kComm2}) link_->collectives().communicators().created(c, true, kContext);
  for (const uint64_t base : {kBuffer, kOther}) allocate(base, kBytes);
  allocate(kHost, kBytes, OpKind::alloc_host);
  call(OpKind::module_load, OpClass::module, 0, [](Op& op) {
    op.object = u(kPtx);
    op.out = 0xA0;
  });
  for (const auto& [f, name] : {std::pair{0xF1, "touch"}, std::pair{0xF2, "opaque"}})
    call(OpKind::function_get, OpClass::module, 0, [f = f, name = name](Op& op) {
      op.object = 0xA0;
      op.name = name;
      op.out = static_cast<uint64_t>(f);
    });
}

void OverlapTest::allocate(uint64_t base, uint64_t bytes, OpKind kind) {
  call(kind, OpClass::alloc, 0, [=](Op& op) { op.out = base, op.bytes = bytes; });
}

model::StreamInfo* OverlapTest::stream(uint64_t s, bool non_blocking) {
  model::StreamInfo* info = Model::get().stream(handle(s), false, kContext);
  info->context = kContext;
  if (s > 2) {
    info->non_blocking = non_blocking;
    std::lock_guard lock(d().mutex);
    if (!non_blocking) d().blocking.insert(s);
  }
  return info;
}

Work OverlapTest::call(OpKind kind, OpClass op_class, uint64_t s, const std::function<void(Op&)>& fill) {
  last_ = 0;
  Op op;
  op.op_class = op_class;
  op.kind = kind;
  op.asynchronous = true;
  op.stream = handle(s);
  op.context = kContext;
  op.launch = {};
  // What the driver makes of it. Questions, waits of the host and new objects are no work.
  op.arguments = this;
  op.invoke = [](Op& o) {
    auto* self = static_cast<OverlapTest*>(o.arguments);
    switch (o.kind) {
      case OpKind::event_record:
        return event_record(reinterpret_cast<CUevent>(o.object), o.stream);
      case OpKind::event_wait:
        return stream_wait_event(o.stream, reinterpret_cast<CUevent>(o.object), 0);
      default: {
        if (inside_driver_) inside_driver_();
        const bool looks = o.op_class == OpClass::query || o.op_class == OpClass::sync;
        self->last_ = d().submit(o.stream);
        if (looks) d().streams[d().key(o.stream)].erase(self->last_);
        return CUDA_SUCCESS;
      }
    }
  };
  if (fill) fill(op);
  const uint64_t out = op.out;
  (void)out;
  EXPECT_EQ(exec::Chain::first()->on_op(op), CUDA_SUCCESS);
  return last_;
}

Work OverlapTest::touch(uint64_t s, uint64_t buffer, uint32_t bytes) {
  return call(OpKind::kernel, OpClass::launch, s, [&, n = bytes / 4](Op& op) mutable {
    static thread_local uint64_t p;
    static thread_local uint32_t count;
    static thread_local void* params[2];
    p = buffer, count = n;
    params[0] = &p, params[1] = &count;
    op.object = 0xF1;
    op.launch = {{1, 1, 1}, {count, 1, 1}, 0, 0, nullptr, params, nullptr};
  });
}

Work OverlapTest::opaque(uint64_t s, uint64_t buffer) {
  return call(OpKind::kernel, OpClass::launch, s, [&](Op& op) {
    static thread_local uint64_t p;
    static thread_local void* params[1];
    p = buffer;
    params[0] = &p;
    op.object = 0xF2;
    op.launch = {{1, 1, 1}, {1, 1, 1}, 0, 0, nullptr, params, nullptr};
  });
}

void OverlapTest::record(uint64_t event, uint64_t s) {
  call(OpKind::event_record, OpClass::launch, s, [=](Op& op) { op.object = event; });
}
void OverlapTest::wait(uint64_t s, uint64_t event) {
  call(OpKind::event_wait, OpClass::launch, s, [=](Op& op) { op.object = event; });
}

nccl::Result OverlapTest::member(uint64_t s, uint64_t buffer, Work& out, nccl::Comm comm) {
  Operation o;
  o.function = nccl::Function::all_reduce;
  o.send = o.receive = reinterpret_cast<void*>(buffer);
  o.count = 1024;
  o.type = 7;
  o.comm = comm;
  o.stream = handle(s);
  CUstream used = nullptr;
  auto real = [&](CUstream on) {
    used = on;
    return 0;
  };
  const nccl::Result r = link_->collectives().call(o, real);
  out = static_cast<Work>(u(used) & 0x7fffffff);
  return r;
}

Work OverlapTest::collective(uint64_t s, uint64_t buffer, uint64_t bytes, nccl::Comm comm) {
  stream(s, s <= 2 || !d().blocking.count(s));
  Operation o;
  o.function = nccl::Function::all_reduce;
  o.send = o.receive = reinterpret_cast<void*>(buffer);
  o.count = bytes / 4;
  o.type = 7;
  o.comm = comm;
  o.stream = handle(s);
  Work made = 0;
  auto real = [&](CUstream on) -> nccl::Result {
    if (inside_nccl_) inside_nccl_();
    if (nccl_answer_ != 0) return nccl_answer_;
    made = d().submit(on);
    std::lock_guard lock(d().mutex);
    if (d().own_streams.count(u(on))) on_own_.insert(made);
    return 0;
  };
  EXPECT_EQ(link_->collectives().call(o, real), nccl_answer_);
  return made;
}

void OverlapTest::warm(uint64_t s, nccl::Comm comm) {
  for (int i = 0; i < 2; ++i) collective(s, kBuffer + 0x8'0000, 4096, comm);
  call(OpKind::sync_stream, OpClass::sync, s);
}

bool OverlapTest::stream_after(uint64_t s, Work a) {
  std::lock_guard lock(d().mutex);
  return d().streams[d().key(handle(s))].count(a) != 0;
}

}  // namespace shunt::overlap::test
