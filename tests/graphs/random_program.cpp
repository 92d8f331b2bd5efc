// Runs random programs through the driver API, knowing nothing of shunt, and prints for each what it saw:
// return codes, memory as read back, what host functions saw and in which order.
//   random_program KERNELS.ptx FIRST COUNT [--verbose] [--no-captures] [--turns]
// Exit: 0, or 2 when the driver itself can't be used. A launch that never ends shows as a missing line.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/graphs/random_plan.h"

using namespace random_program;

namespace {

bool g_verbose = false;

uint64_t mixed(uint64_t h, uint64_t v) {
  h = (h + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u ^ v;
  return h ^ h >> 31;
}

struct Odd {
  uint8_t a;
  uint16_t b;
  uint32_t c[5];
};

struct HostFunction {
  std::mutex* mutex;
  std::vector<uint64_t>* seen;
  const uint32_t* word;
  uint64_t id;
};

struct ThreadLog {
  uint64_t codes = 1, host = 1;
  uint64_t calls = 0;
  bool signalled = false;  // the launch that `watch` waits for was made
};

class Run {
 public:
  Run(const Plan& plan, CUcontext context, CUmodule module, const std::string& ptx);
  void execute();
  void print();

 private:
  void thread(int index);
  int call(const Op& op, ThreadLog& log);
  CUresult launch(const Op& op, CUstream s, int how);
  CUresult kernel(CUfunction f, unsigned block, unsigned shared, CUstream s, void** params, int how);
  int capture(const Op& op, bool bad);
  CUstream stream(int i) const { return streams_[static_cast<size_t>(i)]; }
  CUdeviceptr at(int b) const { return b < 0 ? 0 : memory_[static_cast<size_t>(b)]; }
  uint32_t* host_side(int b) const { return static_cast<uint32_t*>(host_[static_cast<size_t>(b)]); }
  CUstream make_stream(Stream role);
  CUfunction get(const char* name) const {
    CUfunction f = nullptr;
    cuModuleGetFunction(&f, module_, name);
    return f;
  }

  const Plan& plan_;
  CUcontext context_;
  CUmodule module_;
  const std::string& ptx_;
  CUmodule extra_ = nullptr;  // what module_load loaded; one a thread
  std::vector<CUmodule> extras_;
  std::vector<CUfunction> extra_functions_;
  std::vector<CUmemoryPool> pools_;  // by thread
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_;
  std::vector<CUdeviceptr> memory_;
  std::vector<void*> host_;
  std::vector<std::unique_ptr<HostFunction>> functions_;
  std::atomic<size_t> accepted_{0};
  std::mutex mutex_;
  std::vector<std::vector<uint64_t>> seen_;  // by stream
  std::vector<ThreadLog> logs_;
  std::atomic<int64_t> turn_{0};
  CUfunction mix_, odd_, shift_, big_, signal_, use_global_;
};

Run::Run(const Plan& plan, CUcontext context, CUmodule module, const std::string& ptx)
    : plan_(plan), context_(context), module_(module), ptx_(ptx) {
  mix_ = get("mix"), odd_ = get("odd"), shift_ = get("shift"), big_ = get("big");
  signal_ = get("signal_host"), use_global_ = get("use_global");
  const auto threads = static_cast<size_t>(plan.threads);
  pools_.resize(threads), extras_.resize(threads), extra_functions_.resize(threads), logs_.resize(threads);
  seen_.resize(plan.streams.size());
  for (Stream role : plan.streams) streams_.push_back(make_stream(role));
  for (int i = 0; i < plan.events; ++i) {
    CUevent event = nullptr;
    cuEventCreate(&event, i % 4 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT);
    events_.push_back(event);
  }
  memory_.resize(static_cast<size_t>(plan.buffers()));
  host_.resize(memory_.size());
  for (int b = 0; b < plan.device_buffers + plan.pinned_buffers; ++b) {
    const auto i = static_cast<size_t>(b);
    if (plan.pinned(b)) {
      if (cuMemHostAlloc(&host_[i], kWords * 4, CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS) continue;
      cuMemHostGetDevicePointer(&memory_[i], host_[i], 0);
      for (uint32_t w = 0; w < kWords; ++w) host_side(b)[w] = w * 77 + static_cast<uint32_t>(b);
    } else {
      if (b % 3 == 2)
        cuMemAllocManaged(&memory_[i], kWords * 4, CU_MEM_ATTACH_GLOBAL);
      else
        cuMemAlloc(&memory_[i], kWords * 4);
      if (memory_[i]) cuMemsetD32(memory_[i], 1000u + static_cast<uint32_t>(b), kWords);
    }
  }
  cuCtxSynchronize();
}

CUstream Run::make_stream(Stream role) {
  if (role == Stream::legacy) return nullptr;
  if (role == Stream::per_thread) return CU_STREAM_PER_THREAD;
  CUstream s = nullptr;
  if (role == Stream::blocking)
    cuStreamCreate(&s, CU_STREAM_DEFAULT);
  else
    cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, role == Stream::high_priority ? -5 : 0);
  return s;
}

CUresult Run::kernel(CUfunction f, unsigned block, unsigned shared, CUstream s, void** params, int how) {
  if (how == 1) {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = block, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared, config.hStream = s;
    return cuLaunchKernelEx(&config, f, params, nullptr);
  }
  return cuLaunchKernel(f, 1, 1, 1, block, 1, 1, shared, s, params, nullptr);
}

CUresult Run::launch(const Op& op, CUstream s, int how) {
  CUdeviceptr out = at(op.buffer[0]), a = at(op.buffer[1]), b = at(op.buffer[2]);
  uint32_t k = op.value;
  switch (static_cast<Kernel>(op.a)) {
    case Kernel::mix: {
      if (how == 2) {
        struct {
          CUdeviceptr out, a, b;
          uint32_t k;
        } packed{out, a, b, k};
        size_t bytes = 28;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                         CU_LAUNCH_PARAM_END};
        return cuLaunchKernel(mix_, 1, 1, 1, kWords, 1, 1, 0, s, nullptr, extra);
      }
      void* params[] = {&out, &a, &b, &k};
      return kernel(mix_, kWords, 0, s, params, how);
    }
    case Kernel::odd: {
      uint8_t x = static_cast<uint8_t>(k);
      uint64_t y = uint64_t{k} << 20 | 5;
      Odd o;
      std::memset(&o, 0, sizeof o);
      o.a = static_cast<uint8_t>(k >> 3), o.b = static_cast<uint16_t>(k >> 1);
      for (uint32_t i = 0; i < 5; ++i) o.c[i] = k + i;
      uint16_t z = static_cast<uint16_t>(k * 3);
      void* params[] = {&out, &x, &y, &o, &z};
      return kernel(odd_, kWords, 0, s, params, how);
    }
    case Kernel::shift: {
      void* params[] = {&out, &a, &k};
      return kernel(shift_, kWords, kWords * 4, s, params, how);
    }
    case Kernel::signal_host: {
      void* params[] = {&out, &a, &k};
      return kernel(signal_, 32, 0, s, params, how);
    }
    default: {
      void* params[] = {&out, &k};
      return kernel(extra_functions_[static_cast<size_t>(op.thread)], kWords, 0, s, params, how);
    }
  }
}

int Run::capture(const Op& op, bool bad) {
  CUstream s = stream(op.stream);
  int code = 0;
  const auto add = [&code](CUresult r) { code = code * 31 + static_cast<int>(r); };
  add(cuStreamBeginCapture(s, static_cast<CUstreamCaptureMode>(bad ? 0 : (op.a >> 8) & 3)));
  Op each = op;
  each.a = 0;
  if (bad) {
    add(launch(each, s, 0));
    CUdeviceptr never = 0;
    add(cuMemAlloc(&never, 4096));
    if (never) cuMemFree(never);
  }
  for (uint32_t i = 0; i < (bad ? 1 : op.a & 255); ++i) {
    each.value = op.value + i;
    add(launch(each, s, 0));
  }
  CUgraph graph = nullptr;
  add(cuStreamEndCapture(s, &graph));
  CUgraphExec exec = nullptr;
  if (graph && !bad) {
    add(cuGraphInstantiate(&exec, graph, 0));
    if (exec) add(cuGraphLaunch(exec, s));
    if (exec) add(cuGraphLaunch(exec, s));
    if (exec) add(cuGraphExecDestroy(exec));
  }
  if (graph) cuGraphDestroy(graph);
  return code;
}

void host_function(void* data) {
  const auto& f = *static_cast<HostFunction*>(data);
  std::lock_guard<std::mutex> lock(*f.mutex);
  f.seen->push_back(f.id << 32 | f.word[0]);
}
void stream_callback(CUstream, CUresult, void* data) { host_function(data); }

// The code the program sees, or -1 for a call that could not be made since its memory is not there.
int Run::call(const Op& op, ThreadLog& log) {
  CUstream s = stream(op.stream);
  for (const int b : op.buffer)
    if (b >= 0 && !at(b) && op.call != Call::alloc && op.call != Call::alloc_async) return -1;
  CUdeviceptr out = at(op.buffer[0]), in = at(op.buffer[1]);
  constexpr size_t kBytes = kWords * 4;
  switch (op.call) {
    case Call::launch:
      return launch(op, s, 0);
    case Call::launch_ex:
      return launch(op, s, 1);
    case Call::launch_extra: {
      Op packed = op;
      packed.a = 0;
      return launch(packed, s, 2);
    }
    case Call::launch_bad: {
      uint32_t k = 0;
      void* params[] = {&out, &in, &in, &k};
      if (op.a == 0) return cuLaunchKernel(mix_, 0, 1, 1, kWords, 1, 1, 0, s, params, nullptr);
      if (op.a == 1) return cuLaunchKernel(mix_, 1, 1, 1, 4096, 1, 1, 0, s, params, nullptr);
      if (op.a == 2) return cuLaunchKernel(mix_, 1, 1, 1, kWords, 1, 1, 4 << 20, s, params, nullptr);
      return cuLaunchKernel(nullptr, 1, 1, 1, kWords, 1, 1, 0, s, params, nullptr);
    }
    case Call::launch_shared: {
      uint32_t k = op.value;
      void* params[] = {&out, &k};
      return cuLaunchKernel(big_, 1, 1, 1, kWords, 1, 1, op.a, s, params, nullptr);
    }
    case Call::memset:
      return cuMemsetD32Async(out, op.value, kWords, s);
    case Call::copy_device:
      return cuMemcpyDtoDAsync(out, in, kBytes, s);
    case Call::copy_in:
      return cuMemcpyHtoDAsync(out, host_side(op.buffer[1]), kBytes, s);
    case Call::copy_out:
      return cuMemcpyDtoHAsync(host_side(op.buffer[0]), in, kBytes, s);
    case Call::copy_pageable: {
      std::vector<uint32_t> source(kWords, op.value);
      const CUresult r = cuMemcpyHtoDAsync(out, source.data(), kBytes, s);
      std::fill(source.begin(), source.end(), 0xdeadu);  // may be used again at once
      return r;
    }
    case Call::copy_sync: {
      uint32_t words[kWords];
      for (uint32_t i = 0; i < kWords; ++i) words[i] = op.value + i;
      if (!op.a) return cuMemcpyHtoD(out, words, kBytes);
      const CUresult r = cuMemcpyDtoH(words, out, kBytes);
      for (const uint32_t w : words) log.host = mixed(log.host, w);
      return r;
    }
    case Call::host_fill:
      for (uint32_t i = 0; i < kWords; ++i) host_side(op.buffer[0])[i] = op.value * 3 + i;
      return 0;
    case Call::host_read:
      for (uint32_t i = 0; i < kWords; ++i) log.host = mixed(log.host, host_side(op.buffer[0])[i]);
      return 0;
    case Call::event_record:
      return cuEventRecord(events_[static_cast<size_t>(op.event)], s);
    case Call::event_wait:
      return cuStreamWaitEvent(s, events_[static_cast<size_t>(op.event)], 0);
    case Call::event_sync:
      return cuEventSynchronize(events_[static_cast<size_t>(op.event)]);
    case Call::event_query: {
      const CUresult r = cuEventQuery(events_[static_cast<size_t>(op.event)]);
      return r == CUDA_ERROR_NOT_READY ? 0 : r;
    }
    case Call::event_poll: {
      CUresult r;
      while ((r = cuEventQuery(events_[static_cast<size_t>(op.event)])) == CUDA_ERROR_NOT_READY)
        sched_yield();
      return r;
    }
    case Call::stream_sync:
      return cuStreamSynchronize(s);
    case Call::stream_query: {
      const CUresult r = cuStreamQuery(s);
      return r == CUDA_ERROR_NOT_READY ? 0 : r;
    }
    case Call::stream_poll: {
      CUresult r;
      while ((r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY) sched_yield();
      return r;
    }
    case Call::context_sync:
      return cuCtxSynchronize();
    case Call::host_function:
    case Call::stream_callback: {
      HostFunction* f;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        functions_.push_back(std::make_unique<HostFunction>(HostFunction{
            &mutex_, &seen_[static_cast<size_t>(op.stream)], host_side(op.buffer[1]), op.value + log.calls}));
        f = functions_.back().get();
      }
      const CUresult r = op.call == Call::host_function ? cuLaunchHostFunc(s, host_function, f)
                                                        : cuStreamAddCallback(s, stream_callback, f, 0);
      if (r == CUDA_SUCCESS) accepted_++;
      return r;
    }
    case Call::watch: {
      if (!log.signalled) return -1;
      const volatile uint32_t* word = host_side(op.buffer[0]);
      const auto start = std::chrono::steady_clock::now();
      while (word[0] != op.value) {
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20)) return 9999;
        sched_yield();
      }
      log.host = mixed(log.host, word[1]);
      return 0;
    }
    case Call::alloc:
      return cuMemAlloc(&memory_[static_cast<size_t>(op.buffer[0])], kBytes);
    case Call::free:
      return cuMemFree(std::exchange(memory_[static_cast<size_t>(op.buffer[0])], 0));
    case Call::alloc_async: {
      // Threads side by side share no pool: which of them gets the other's memory would be chance.
      CUdeviceptr& p = memory_[static_cast<size_t>(op.buffer[0])];
      CUmemoryPool& pool = pools_[static_cast<size_t>(op.thread)];
      if (plan_.strict || op.thread == 0) return cuMemAllocAsync(&p, kBytes, s);
      if (!pool) {
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        if (const CUresult r = cuMemPoolCreate(&pool, &properties)) return r;
      }
      return cuMemAllocFromPoolAsync(&p, kBytes, pool, s);
    }
    case Call::free_async:
      return cuMemFreeAsync(std::exchange(memory_[static_cast<size_t>(op.buffer[0])], 0), s);
    case Call::pool_trim: {
      CUmemoryPool pool = nullptr;
      const CUresult r = cuDeviceGetDefaultMemPool(&pool, 0);
      return r ? r : cuMemPoolTrimTo(pool, 0);
    }
    case Call::function_attribute:
      return cuFuncSetAttribute(big_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                static_cast<int>(op.value));
    case Call::cache_config:
      return cuFuncSetCacheConfig(mix_, static_cast<CUfunc_cache>(op.value % 4));
    case Call::stream_attribute: {
      CUstreamAttrValue value{};
      value.syncPolicy = CU_SYNC_POLICY_YIELD;
      return cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    }
    case Call::stream_new: {
      const CUresult r = cuStreamDestroy(s);
      streams_[static_cast<size_t>(op.stream)] = make_stream(plan_.streams[static_cast<size_t>(op.stream)]);
      return r;
    }
    case Call::module_load: {
      CUmodule& m = extras_[static_cast<size_t>(op.thread)];
      CUresult r = cuModuleLoadData(&m, ptx_.c_str());
      if (r) return m = nullptr, extra_functions_[static_cast<size_t>(op.thread)] = use_global_, r;
      r = cuModuleGetFunction(&extra_functions_[static_cast<size_t>(op.thread)], m, "use_global");
      CUdeviceptr word = 0;
      size_t size = 0;
      if (!r) r = cuModuleGetGlobal(&word, &size, m, "g_module_word");
      return r ? r : cuMemcpyHtoD(word, &op.value, 4);
    }
    case Call::module_unload: {
      CUmodule m = std::exchange(extras_[static_cast<size_t>(op.thread)], nullptr);
      return m ? cuModuleUnload(m) : -1;
    }
    case Call::capture:
      return capture(op, false);
    case Call::capture_bad:
      return capture(op, true);
    case Call::count:
      break;
  }
  return -2;
}

void Run::thread(int index) {
  cuCtxSetCurrent(context_);
  ThreadLog& log = logs_[static_cast<size_t>(index)];
  for (const Op& op : plan_.ops[static_cast<size_t>(index)]) {
    if (op.turn >= 0)
      while (turn_.load(std::memory_order_acquire) != op.turn) sched_yield();
    const int code = call(op, log);
    if (op.call == Call::launch && op.a == static_cast<uint32_t>(Kernel::signal_host))
      log.signalled = code == 0;
    log.calls++;
    log.codes = mixed(log.codes, static_cast<uint64_t>(code) + 2);
    if (g_verbose)
      std::printf("  thread %d call %llu %s stream %d: %d host %llx\n", index, (unsigned long long)log.calls,
                  name(op.call), op.stream, code, (unsigned long long)log.host);
    if (op.turn >= 0) turn_.store(op.turn + 1, std::memory_order_release);
  }
}

void Run::execute() {
  std::vector<std::thread> threads;
  for (int i = 1; i < plan_.threads; ++i) threads.emplace_back([this, i] { thread(i); });
  thread(0);
  for (auto& t : threads) t.join();
}

void Run::print() {
  const CUresult end = cuCtxSynchronize();
  uint64_t memory = 1, callbacks = 1, host = 1, codes = 1, calls = 0;
  for (int b = 0; b < plan_.device_buffers + plan_.pinned_buffers; ++b) {
    std::vector<uint32_t> words(kWords);
    if (!at(b)) continue;
    if (plan_.pinned(b))
      std::memcpy(words.data(), host_side(b), kWords * 4);
    else
      codes = mixed(codes, cuMemcpyDtoH(words.data(), at(b), kWords * 4));
    for (const uint32_t w : words) memory = mixed(memory, w);
    if (g_verbose) std::printf("  buffer %d: %08x %08x\n", b, words[0], words[1]);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    size_t ran = 0;
    for (const auto& list : seen_) ran += list.size();
    // All work is done, so every host function has run.
    if (ran != accepted_) std::printf("  %zu host functions of %zu have run\n", ran, accepted_.load());
  }
  for (const auto& list : seen_)
    for (const uint64_t v : list) callbacks = mixed(callbacks, v);
  for (const ThreadLog& log : logs_)
    host = mixed(host, log.host), codes = mixed(codes, log.codes), calls += log.calls;
  std::printf("seed %llu calls %llu end %d codes %016llx memory %016llx host %016llx callbacks %016llx\n",
              (unsigned long long)plan_.seed, (unsigned long long)calls, end, (unsigned long long)codes,
              (unsigned long long)memory, (unsigned long long)host, (unsigned long long)callbacks);
  std::fflush(stdout);
  for (size_t i = 0; i < memory_.size(); ++i)
    host_[i] ? cuMemFreeHost(host_[i]) : memory_[i] ? cuMemFree(memory_[i]) : CUDA_SUCCESS;
  for (size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i] && streams_[i] != CU_STREAM_PER_THREAD) cuStreamDestroy(streams_[i]);
  for (CUevent e : events_) cuEventDestroy(e);
  for (CUmemoryPool pool : pools_)
    if (pool) cuMemPoolDestroy(pool);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  const std::string ptx = text.str();
  const uint64_t first = strtoull(argv[2], nullptr, 10), count = strtoull(argv[3], nullptr, 10);
  Options options;
  for (int i = 4; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--verbose")) g_verbose = true;
    if (!std::strcmp(argv[i], "--no-captures")) options.captures = false;
    if (!std::strcmp(argv[i], "--turns")) options.side_by_side = false;
  }
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuModuleLoadData(&module, ptx.c_str())) {
    std::fprintf(stderr, "random_program: no driver\n");
    return 2;
  }
  // Each program's pool memory stays where its own order is known to the race detector.
  CUmemoryPool pool = nullptr;
  int no = 0;
  if (cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS) {
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &no);
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
  }
  std::map<std::string, uint64_t> reached;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Plan plan = make_plan(seed, options);
    for (const auto& [what, times] : plan.reached) reached[what] += times;
    auto* run = new Run(plan, context, module, ptx);
    run->execute();
    run->print();
    delete run;
  }
  for (const auto& [what, times] : reached)
    std::printf("reached %llu %s\n", (unsigned long long)times, what.c_str());
  std::printf("memory left %d\n", static_cast<int>(cuCtxSynchronize()));
  return 0;
}
