// Calls of the runtime API as records and callbacks: simgpu's libcudart tells its driver of each.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <set>

#include "tests/cupti/cupti_test.h"
#include "tests/cupti/timeline.h"

using namespace cupti_test;

namespace {

struct Runtime : Cupti {
  void SetUp() override {
    Cupti::SetUp();
    ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    Cupti::TearDown();
  }
  static std::string name(uint32_t cbid) {
    const char* text = nullptr;
    EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, &text), CUPTI_SUCCESS);
    return text ? text : "";
  }
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  char host[64] = {};
};

}  // namespace

TEST_F(Runtime, RecordsShareTheirCorrelationWithWhatTheyCause) {
  enable({CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_MEMCPY,
          CUPTI_ACTIVITY_KIND_MEMSET});
  const size_t from = timeline_size();
  ASSERT_EQ(cudaMemsetAsync(memory, 1, 64, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, memory, 64, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(0x77)), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  CUPTI_OK(cuptiActivityFlushAll(0));
  const auto calls = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(calls.size(), 5u);
  const char* const names[] = {"cudaMemsetAsync_v3020", "cudaMemcpyAsync_v3020",
                               "cudaStreamSynchronize_v3020", "cudaStreamSynchronize_v3020",
                               "cudaGetLastError_v3020"};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(name(calls[i].cbid), names[i]);
    EXPECT_LE(calls[i].start, calls[i].end);
    EXPECT_EQ(calls[i].processId, uint32_t(getpid()));
    EXPECT_EQ(calls[i].threadId, uint32_t(pthread_self()));
    if (i == 0) continue;
    EXPECT_GT(calls[i].correlationId, calls[i - 1].correlationId);
    EXPECT_GE(calls[i].start, calls[i - 1].end);
  }
  // Line by line as in the timeline.
  std::vector<nlohmann::json> lines;
  for (const auto& line : timeline(from))
    if (line["kind"] == "runtime") lines.push_back(line);
  ASSERT_EQ(lines.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].start, lines[i]["start_ns"].get<uint64_t>() + kEpoch);
    EXPECT_EQ(calls[i].end, lines[i]["end_ns"].get<uint64_t>() + kEpoch);
    EXPECT_EQ(calls[i].correlationId, lines[i]["correlation"].get<uint64_t>());
    EXPECT_EQ(calls[i].returnValue, lines[i]["result"].get<uint32_t>());
    const std::string plain = lines[i]["name"];
    EXPECT_EQ(name(calls[i].cbid).substr(0, plain.size()), plain);
  }
  EXPECT_EQ(calls[2].returnValue, 0u);
  EXPECT_EQ(calls[3].returnValue, uint32_t(cudaErrorInvalidResourceHandle));
  EXPECT_EQ(calls[4].returnValue, uint32_t(cudaErrorInvalidResourceHandle));
  const auto fills = client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  const auto copies = client.of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  ASSERT_EQ(fills.size(), 1u);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(fills[0].correlationId, calls[0].correlationId);
  EXPECT_EQ(copies[0].correlationId, calls[1].correlationId);
  // The driver's calls inside: within the runtime call's time, with its correlation.
  size_t inside = 0;
  for (const auto& d : client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER))
    for (const auto& r : calls) {
      if (d.correlationId != r.correlationId) continue;
      ++inside;
      EXPECT_GE(d.start, r.start);
      EXPECT_LE(d.end, r.end);
    }
  EXPECT_GE(inside, 4u);
}

TEST_F(Runtime, DriverCallsOfTheProgramKeepTheirOwn) {
  enable({CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER});
  ASSERT_EQ(cudaMemset(memory, 1, 64), cudaSuccess);
  OK(cuCtxSynchronize());
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  const auto runtime = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  std::set<uint32_t> own;
  for (const auto& d : client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER))
    if (d.correlationId != runtime.at(0).correlationId) own.insert(d.correlationId);
  EXPECT_EQ(own.size(), 2u);
}

TEST_F(Runtime, SelectionByFunction) {
  CUPTI_OK(cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020, 1));
  EXPECT_EQ(cuptiActivityEnableRuntimeApi(0, 1), CUPTI_ERROR_INVALID_PARAMETER);
  ASSERT_EQ(cudaMemset(memory, 1, 64), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  CUPTI_OK(cuptiActivityFlushAll(0));
  const auto calls = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(name(calls[0].cbid), "cudaMemset_v3020");
}

TEST_F(Runtime, AnExternalIdIsToldOncePerCall) {
  enable({CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
  CUPTI_OK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 42));
  ASSERT_EQ(cudaMemsetAsync(memory, 1, 64, stream), cudaSuccess);
  CUPTI_OK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, nullptr));
  CUPTI_OK(cuptiActivityFlushAll(0));
  const auto ids = client.of<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  const auto calls = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(ids.size(), 1u);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(ids[0].externalId, 42u);
  EXPECT_EQ(ids[0].correlationId, calls[0].correlationId);
}

TEST_F(Runtime, CallbacksNestAroundTheDrivers) {
  struct Seen {
    std::vector<std::string> words;
    std::vector<uint32_t> correlations;
    std::vector<int> results;
  } seen;
  CUpti_SubscriberHandle subscriber = nullptr;
  const auto note = [](void* user, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
    auto& s = *static_cast<Seen*>(user);
    const auto* d = static_cast<const CUpti_CallbackData*>(data);
    const bool exit = d->callbackSite == CUPTI_API_EXIT;
    s.words.push_back(std::string(exit ? "-" : "+") + d->functionName);
    s.correlations.push_back(d->correlationId);
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
    if (exit) {
      s.results.push_back(int(*static_cast<const cudaError_t*>(d->functionReturnValue)));
      EXPECT_EQ(*d->correlationData, 7u);
    }
    *d->correlationData = 7;
    int device = 0;
    cudaGetDevice(&device);  // the client's own calls are not told
  };
  CUPTI_OK(cuptiSubscribe(&subscriber, note, &seen));
  const auto on = [&](CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    CUPTI_OK(cuptiEnableCallback(1, subscriber, domain, id));
  };
  on(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  on(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);
  on(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async);
  uint32_t state = 0;
  CUPTI_OK(cuptiGetCallbackState(&state, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
                                 CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020));
  EXPECT_EQ(state, 1u);
  ASSERT_EQ(cudaMemsetAsync(memory, 1, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 1, 64, reinterpret_cast<cudaStream_t>(0x77)),
            cudaErrorInvalidResourceHandle);
  CUPTI_OK(cuptiUnsubscribe(subscriber));
  ASSERT_EQ(cudaMemsetAsync(memory, 1, 64, stream), cudaSuccess);
  ASSERT_GE(seen.words.size(), 4u);
  EXPECT_EQ(std::vector<std::string>(seen.words.begin(), seen.words.begin() + 4),
            (std::vector<std::string>{"+cudaMemsetAsync_v3020", "+cuMemsetD8Async", "-cuMemsetD8Async",
                                      "-cudaMemsetAsync_v3020"}));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(seen.correlations[i], seen.correlations[0]);
  EXPECT_EQ(seen.results, (std::vector<int>{cudaSuccess, cudaErrorInvalidResourceHandle}));
}

// Whatever the library exports under a name that CUPTI has an id for is told under exactly that name: it is
// taken from the function that holds the body, so a helper in between would hide it.
TEST_F(Runtime, EveryFunctionIsToldUnderItsOwnName) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  enable({CUPTI_ACTIVITY_KIND_RUNTIME});
  // These succeed with nothing and would end the others' world, or answer something else than a code.
  const std::set<std::string> not_called = {"cudaDeviceReset",
                                            "cudaThreadExit",
                                            "cudaStreamBeginCapture_ptsz",
                                            "cudaStreamBeginCaptureToGraph_ptsz",
                                            "cudaCreateChannelDesc",
                                            "cudaGetErrorString",
                                            "cudaGetErrorName"};
  size_t called = 0;
  for (uint32_t cbid = 1; cbid < CUPTI_RUNTIME_TRACE_CBID_SIZE; ++cbid) {
    const char* text = nullptr;
    if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, cbid, &text) != CUPTI_SUCCESS) continue;
    std::string plain = text;
    plain.resize(std::min(plain.size(), plain.rfind("_v")));
    void* function = plain.rfind("cuda", 0) == 0 ? dlsym(library, plain.c_str()) : nullptr;
    if (!function || not_called.count(plain)) continue;
    client.clear();
    using Blind = cudaError_t (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    reinterpret_cast<Blind>(function)(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                      nullptr, nullptr);
    CUPTI_OK(cuptiActivityFlushAll(0));
    std::string told;
    for (const auto& c : client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME))
      told += name(c.cbid) + " ";
    told.resize(std::min(told.size(), told.rfind("_v")));
    EXPECT_EQ(told, plain);
    ++called;
  }
  printf("%zu runtime functions called\n", called);
  EXPECT_GT(called, 250u);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  OK(cuCtxSetCurrent(context));
  cudaGetLastError();
}
