// Subscribers and callbacks; settings that are read once, in processes of their own.
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sstream>

#include "tests/cupti/cupti_test.h"

using namespace cupti_test;

namespace {

struct Call {
  CUpti_CallbackDomain domain;
  uint32_t id;
  int site = -1;
  std::string function;
  uint32_t correlation = 0, context = 0;
  int result = -1;
  uint64_t data = 0;
};
std::vector<Call> calls;

void CUPTIAPI on_call(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  EXPECT_EQ(user, &calls);
  Call call{domain, id};
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    const auto* d = static_cast<const CUpti_CallbackData*>(data);
    call.site = d->callbackSite;
    call.function = d->functionName;
    call.correlation = d->correlationId;
    call.context = d->contextUid;
    if (d->callbackSite == CUPTI_API_ENTER) *d->correlationData = 4711 + d->correlationId;
    call.data = *d->correlationData;
    if (d->callbackSite == CUPTI_API_EXIT) call.result = *static_cast<CUresult*>(d->functionReturnValue);
    int count = 0;
    cuDeviceGetCount(&count);  // a client's own call makes no callback
  }
  calls.push_back(call);
}

struct Callbacks : Cupti {
  void SetUp() override {
    Cupti::SetUp();
    calls.clear();
    CUPTI_OK(cuptiSubscribe(&subscriber, on_call, &calls));
  }
  CUpti_SubscriberHandle subscriber = nullptr;
};

// Runs this binary again with a setting; the named test there does the checking.
int again(const char* filter, const char* variable, const char* value) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    setenv("CUPTI_TEST_CHILD", "1", 1);
    const std::string argument = std::string("--gtest_filter=") + filter;
    execl("/proc/self/exe", "cupti_callback_test", argument.c_str(), "--gtest_also_run_disabled_tests",
          static_cast<char*>(nullptr));
    _exit(99);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

}  // namespace

TEST_F(Callbacks, EnterAndExitOfDriverCalls) {
  CUPTI_OK(
      cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2));
  CUdeviceptr p = 0;
  OK(cuMemAlloc(&p, 64));
  EXPECT_EQ(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(p));
  ASSERT_EQ(calls.size(), 4u);
  uint32_t id = 0;
  CUPTI_OK(cuptiGetContextId(context, &id));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(calls[size_t(i)].site, i % 2 ? CUPTI_API_EXIT : CUPTI_API_ENTER);
    EXPECT_EQ(calls[size_t(i)].function, "cuMemAlloc_v2");
    EXPECT_EQ(calls[size_t(i)].context, id);
    EXPECT_EQ(calls[size_t(i)].data, 4711 + calls[size_t(i)].correlation);
  }
  EXPECT_EQ(calls[0].correlation, calls[1].correlation);
  EXPECT_NE(calls[0].correlation, calls[2].correlation);
  EXPECT_EQ(calls[1].result, CUDA_SUCCESS);
  EXPECT_EQ(calls[3].result, CUDA_ERROR_INVALID_VALUE);
  calls.clear();
  CUPTI_OK(
      cuptiEnableCallback(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2));
  OK(cuMemAlloc(&p, 64));
  EXPECT_TRUE(calls.empty());
}

TEST_F(Callbacks, SynchroniseAndResourceDomains) {
  CUPTI_OK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_SYNCHRONIZE));
  CUPTI_OK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE));
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, 0));
  OK(cuStreamSynchronize(stream));
  OK(cuCtxSynchronize());
  std::vector<std::pair<int, uint32_t>> seen;
  for (const Call& call : calls) seen.emplace_back(call.domain, call.id);
  EXPECT_EQ(seen, (std::vector<std::pair<int, uint32_t>>{
                      {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED},
                      {CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED},
                      {CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED}}));
  EXPECT_EQ(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_NVTX), CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_INVALID), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(Callbacks, OneSubscriberWhoHasAName) {
  CUpti_SubscriberHandle second = nullptr;
  EXPECT_EQ(cuptiSubscribe(&second, on_call, nullptr), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  CUPTI_OK(cuptiUnsubscribe(subscriber));
  EXPECT_EQ(cuptiUnsubscribe(subscriber), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiUnsubscribe(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API), CUPTI_ERROR_INVALID_PARAMETER);
  CUpti_SubscriberParams params{};
  EXPECT_EQ(cuptiSubscribe_v2(&second, on_call, &calls, &params), CUPTI_ERROR_INVALID_PARAMETER);  // no size
  params.structSize = sizeof params;
  params.subscriberName = "first tool";
  CUPTI_OK(cuptiSubscribe_v2(&second, on_call, &calls, &params));
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  params.subscriberName = "second tool";
  params.oldSubscriberName = name;
  params.oldSubscriberSize = sizeof name;
  CUpti_SubscriberHandle third = nullptr;
  EXPECT_EQ(cuptiSubscribe_v2(&third, on_call, &calls, &params),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_STREQ(name, "CUPTI for first tool");
  params.oldSubscriberSize = 9;
  EXPECT_EQ(cuptiSubscribe_v2(&third, on_call, &calls, &params),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_STREQ(name, "CUPTI fo");
  CUPTI_OK(cuptiFinalize());  // gives the slot up
  CUPTI_OK(cuptiSubscribe(&third, on_call, &calls));
}

TEST_F(Callbacks, NamesStringsVersion) {
  const char* text = nullptr;
  CUPTI_OK(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &text));
  EXPECT_STREQ(text, "cuLaunchKernelEx");
  CUPTI_OK(
      cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &text));
  EXPECT_STREQ(text, "cudaMalloc_v3020");
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, 0, &text), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE, &text),
            CUPTI_ERROR_INVALID_PARAMETER);
  CUPTI_OK(cuptiGetResultString(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, &text));
  EXPECT_STREQ(text, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
  EXPECT_EQ(cuptiGetResultString(CUptiResult(4000), &text), CUPTI_ERROR_INVALID_PARAMETER);
  uint32_t version = 0;
  CUPTI_OK(cuptiGetVersion(&version));
  EXPECT_EQ(version, uint32_t(CUPTI_API_VERSION));
  int supported = 0;
  CUPTI_OK(cuptiDeviceSupported(0, &supported));
  EXPECT_EQ(supported, 1);
  EXPECT_EQ(cuptiDeviceSupported(99, &supported), CUPTI_ERROR_INVALID_DEVICE);
  uint32_t device = 9;
  CUPTI_OK(cuptiGetDeviceId(nullptr, &device));
  EXPECT_EQ(device, 0u);
  CUstream other = nullptr;
  OK(cuStreamCreate(&other, 0));
  uint32_t a = 0, b = 0;
  CUPTI_OK(cuptiGetStreamIdEx(context, other, 0, &a));
  CUPTI_OK(cuptiGetStreamIdEx(context, nullptr, 0, &b));
  EXPECT_NE(a, b);
  EXPECT_EQ(cuptiGetStreamId(nullptr, reinterpret_cast<CUstream>(0x1234), &a), CUPTI_ERROR_INVALID_STREAM);
  EXPECT_EQ(cuptiGetContextId(nullptr, &a), CUPTI_ERROR_INVALID_CONTEXT);
}

TEST_F(Callbacks, EverythingDeclaredIsExported) {
  // The build's list of what the toolkit's headers declare.
  std::istringstream list(driver_test::read_file(CUPTI_STUBS));
  int declared = 0;
  for (std::string line; std::getline(list, line);) {
    const size_t at = line.find("int cupti");
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + 4, line.find('(', at) - at - 4);
    EXPECT_NE(dlsym(RTLD_DEFAULT, name.c_str()), nullptr) << name;
    ++declared;
  }
  EXPECT_GT(declared, 150);
  // From corners of the headers: what is not offered says so.
  for (const char* name : {"cuptiProfilerInitialize", "cuptiEventGetIdFromName", "cuptiPCSamplingStart",
                           "cuptiActivityEnableHWTrace", "cuptiMetricGetValue", "cuptiPmSamplingStart"}) {
    auto* function = reinterpret_cast<CUptiResult (*)(...)>(dlsym(RTLD_DEFAULT, name));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_EQ(function(nullptr), CUPTI_ERROR_NOT_SUPPORTED) << name;
  }
}

// --- in processes with settings of their own ---

TEST(Child, DISABLED_HeldByATool) {
  if (!getenv("CUPTI_TEST_CHILD")) GTEST_SKIP();
  CUpti_SubscriberHandle s = nullptr;
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  CUpti_SubscriberParams params{};
  params.structSize = sizeof params;
  params.oldSubscriberName = name;
  params.oldSubscriberSize = sizeof name;
  EXPECT_EQ(cuptiSubscribe_v2(&s, on_call, nullptr, &params), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_STREQ(name, "Nsight Systems");
}
TEST(Settings, HeldByATool) {
  EXPECT_EQ(again("Child.DISABLED_HeldByATool", "SIMGPU_CUPTI_HOLDER", "Nsight Systems"), 0);
}

TEST(Child, DISABLED_WithoutV2) {
  void* library = dlopen("libcupti.so.13", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  EXPECT_NE(dlsym(library, "cuptiSubscribe"), nullptr);
  EXPECT_EQ(dlsym(library, "cuptiSubscribe_v2"), nullptr);
}
TEST(Settings, V2IsThereUnlessSwitchedOff) {
  EXPECT_NE(dlsym(RTLD_DEFAULT, "cuptiSubscribe_v2"), nullptr);
  EXPECT_EQ(again("Child.DISABLED_WithoutV2", "SIMGPU_CUPTI_V2", "0"), 0);
}

struct Faulty : Cupti {
  void work() {
    enable({CUPTI_ACTIVITY_KIND_MEMSET});
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, 64));
    for (unsigned i = 1; i <= 5; ++i) OK(cuMemsetD32(p, i, 4));
    OK(cuCtxSynchronize());
    CUPTI_OK(cuptiActivityFlushAll(0));
    CUPTI_OK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    fills = client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  }
  std::vector<CUpti_ActivityMemset4> fills;
  size_t dropped = 99;
};
struct ChildFaults : Faulty {};
TEST_F(ChildFaults, DISABLED_Drops) {
  work();
  EXPECT_EQ(dropped, 1u);
  ASSERT_EQ(fills.size(), 4u);
  EXPECT_EQ(fills[1].value, 2u);
  EXPECT_EQ(fills[2].value, 4u);
}
TEST_F(ChildFaults, DISABLED_ZeroStamps) {
  work();
  EXPECT_EQ(dropped, 0u);
  ASSERT_EQ(fills.size(), 5u);
  for (const auto& fill : fills) {
    EXPECT_EQ(fill.start == 0, fill.value >= 4);
    EXPECT_EQ(fill.end == 0, fill.value >= 4);
  }
}
TEST(Settings, InjectedDropsAndZeroStamps) {
  EXPECT_EQ(again("ChildFaults.DISABLED_Drops", "SIMGPU_FAULTS", "cupti_drop@3"), 0);
  EXPECT_EQ(again("ChildFaults.DISABLED_ZeroStamps", "SIMGPU_FAULTS", "cupti_zero_stamp@4+"), 0);
}

TEST(Child, DISABLED_Realtime) {
  const auto real = [] {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
  };
  const uint64_t before = real();
  uint64_t now = 0;
  CUPTI_OK(cuptiGetTimestamp(&now));
  EXPECT_LE(before, now);
  EXPECT_LE(now, real());
}
TEST(Settings, FirstStampIsRealTime) { EXPECT_EQ(again("Child.DISABLED_Realtime", "SIMGPU_SEED", "1"), 0); }
