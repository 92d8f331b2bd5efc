#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/cupti/cupti_test.h"
#include "tests/cupti/timeline.h"

using namespace cupti_test;

namespace {

struct Activity : Cupti {
  void SetUp() override {
    Cupti::SetUp();
    OK(cuMemAlloc(&buffer, 1 << 20));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  void launch(CUstream where, int value = 1) {
    CUdeviceptr p = buffer;
    OK(run(kernel("add_value"), {&p, &value}, where));
  }
  CUdeviceptr buffer = 0;
  CUstream stream = nullptr;
};

}  // namespace

TEST_F(Activity, AgreesWithTheTimelineRecordByRecord) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
          CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
  const size_t from = timeline_size();
  std::vector<char> host(4096);
  for (int i = 0; i < 5; ++i) {
    OK(cuMemsetD32Async(buffer, 7 + unsigned(i), 100, stream));
    launch(stream, i);
    launch(nullptr, i);
    OK(cuMemcpyHtoD(buffer + 4096, host.data(), host.size()));
    OK(cuMemcpyDtoHAsync(host.data(), buffer, 512, stream));
    OK(cuStreamSynchronize(stream));
  }
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));

  std::map<std::string, std::vector<nlohmann::json>> expected;
  for (auto& line : timeline(from)) expected[line["kind"]].push_back(line);
  const auto check = [](const nlohmann::json& line, const auto& r) {
    EXPECT_EQ(kEpoch + line["start_ns"].get<uint64_t>(), r.start);
    EXPECT_EQ(kEpoch + line["end_ns"].get<uint64_t>(), r.end);
    EXPECT_EQ(line["correlation"].get<uint64_t>(), r.correlationId);
  };
  const auto check_device = [&](const nlohmann::json& line, const auto& r) {
    check(line, r);
    EXPECT_EQ(line["stream"].get<uint64_t>(), r.streamId);
    EXPECT_EQ(line["context"].get<uint64_t>(), r.contextId);
    EXPECT_EQ(line["device"].get<int>(), int(r.deviceId));
  };
  auto kernels = client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), expected["kernel"].size());
  ASSERT_EQ(kernels.size(), 10u);
  for (size_t i = 0; i < kernels.size(); ++i) {
    check_device(expected["kernel"][i], kernels[i]);
    EXPECT_EQ(expected["kernel"][i]["name"].get<std::string>(), kernels[i].name);
    EXPECT_STREQ(kernels[i].name, "add_value");
    EXPECT_EQ(kernels[i].completed, kernels[i].end);
    EXPECT_EQ(kernels[i].gridX, 1);
    EXPECT_EQ(kernels[i].graphNodeId, 0u);
  }
  auto copies = client.of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  ASSERT_EQ(copies.size(), expected["memcpy"].size());
  ASSERT_EQ(copies.size(), 10u);
  for (size_t i = 0; i < copies.size(); ++i) {
    check_device(expected["memcpy"][i], copies[i]);
    EXPECT_EQ(expected["memcpy"][i]["bytes"].get<uint64_t>(), copies[i].bytes);
    const bool up = copies[i].copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    EXPECT_EQ(copies[i].bytes, up ? 4096u : 512u);
    EXPECT_EQ(copies[i].srcKind,
              up ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    EXPECT_EQ(copies[i].dstKind,
              up ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
    EXPECT_EQ(copies[i].flags, up ? CUPTI_ACTIVITY_FLAG_NONE : CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  }
  auto fills = client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  ASSERT_EQ(fills.size(), expected["memset"].size());
  ASSERT_EQ(fills.size(), 5u);
  for (size_t i = 0; i < fills.size(); ++i) {
    check_device(expected["memset"][i], fills[i]);
    EXPECT_EQ(fills[i].value, 7 + i);
    EXPECT_EQ(fills[i].bytes, 400u);
    EXPECT_EQ(fills[i].memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  }
  auto calls = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  ASSERT_EQ(calls.size(), expected["api"].size());
  uint32_t last = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    check(expected["api"][i], calls[i]);
    const char* name = nullptr;
    CUPTI_OK(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, calls[i].cbid, &name));
    const std::string plain = expected["api"][i]["name"];
    EXPECT_EQ(std::string(name).substr(0, plain.size()), plain);
    EXPECT_GT(calls[i].correlationId, last);
    last = calls[i].correlationId;
    EXPECT_EQ(calls[i].processId, uint32_t(getpid()));
    EXPECT_EQ(calls[i].threadId, uint32_t(pthread_self()));
    EXPECT_EQ(calls[i].returnValue, 0u);
  }
  auto waits = client.of<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  ASSERT_EQ(waits.size(), 6u);  // those inside copies do not count
  uint32_t id = 0;
  CUPTI_OK(cuptiGetStreamIdEx(nullptr, stream, 0, &id));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(waits[i].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    EXPECT_EQ(waits[i].streamId, id);
  }
  // Line by line: the timeline has those inside copies too.
  std::map<uint32_t, nlohmann::json> lines;
  for (const auto& line : expected["sync"]) lines[line["correlation"]] = line;
  for (const auto& w : waits) {
    ASSERT_TRUE(lines.count(w.correlationId));
    const nlohmann::json& line = lines[w.correlationId];
    EXPECT_EQ(w.start, line["start_ns"].get<uint64_t>() + kEpoch);
    EXPECT_EQ(w.end, line["end_ns"].get<uint64_t>() + kEpoch);
    EXPECT_EQ(w.contextId, line["context"].get<uint64_t>());
  }
  EXPECT_EQ(waits[5].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
  EXPECT_EQ(waits[5].streamId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  EXPECT_EQ(client.bytes_back, client.bytes_lent);
}

TEST_F(Activity, NothingIsRecordedUnasked) {
  launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  EXPECT_TRUE(client.records.empty());
  EXPECT_EQ(client.requests, 0u);
}

TEST_F(Activity, SelectionByContextAndByFunction) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  CUPTI_OK(cuptiActivityDisableContext(context, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  CUPTI_OK(cuptiActivityEnableContext(context, CUPTI_ACTIVITY_KIND_MEMSET));
  CUPTI_OK(cuptiActivityEnableDriverApi(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 1));
  launch(stream);
  OK(cuMemsetD8(buffer, 1, 16));
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(), 0u);
  EXPECT_EQ(client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET).size(), 1u);
  auto calls = client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].cbid, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
}

TEST_F(Activity, KindsThatAreRefused) {
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_PC_SAMPLING), CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_COUNT), CUPTI_ERROR_INVALID_KIND);
  enable({CUPTI_ACTIVITY_KIND_KERNEL});
  EXPECT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_ERROR_NOT_COMPATIBLE);
  EXPECT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(cuptiActivityEnableLatencyTimestamps(1), CUPTI_ERROR_NOT_SUPPORTED);
}

TEST_F(Activity, ExternalIdsNestAndPrecedeTheirCall) {
  enable({CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_DRIVER});
  uint64_t last = 0;
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last),
            CUPTI_ERROR_QUEUE_EMPTY);
  EXPECT_EQ(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1),
            CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_SIZE, 1),
            CUPTI_ERROR_INVALID_PARAMETER);
  CUPTI_OK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 10));
  launch(stream);  // 10
  CUPTI_OK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 20));
  CUPTI_OK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN, 5));
  launch(stream);                                         // UNKNOWN 5, CUSTOM2 20
  std::thread([&] { cuCtxSetCurrent(context); }).join();  // another thread has its own stacks
  CUPTI_OK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last));
  EXPECT_EQ(last, 20u);
  CUPTI_OK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN, nullptr));
  launch(stream);  // 10
  CUPTI_OK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last));
  EXPECT_EQ(last, 10u);
  launch(stream);  // none
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  // Per launch: the external records right before it, with its correlation.
  std::vector<std::string> seen;
  std::string waiting;
  for (const auto& bytes : client.records) {
    const auto* r = reinterpret_cast<const CUpti_Activity*>(bytes.data());
    if (r->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      const auto* e = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(r);
      waiting += std::to_string(e->externalKind) + ":" + std::to_string(e->externalId) + "@" +
                 std::to_string(e->correlationId) + " ";
    } else if (r->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
      const auto* a = reinterpret_cast<const CUpti_ActivityAPI*>(r);
      const std::string at = "@" + std::to_string(a->correlationId) + " ";
      for (size_t p; (p = waiting.find(at)) != std::string::npos;) waiting.replace(p, at.size(), " ");
      if (a->cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) seen.push_back(waiting);
      waiting.clear();
    }
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"5:10 ", "1:5 5:20 ", "5:10 ", ""}));
}

TEST_F(Activity, BuffersFillAndGoBack) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  client.buffer_bytes = 3 * sizeof(CUpti_ActivityKernel10) + 8;
  for (int i = 0; i < 10; ++i) launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(), 10u);
  EXPECT_EQ(client.requests, 4u);
  EXPECT_EQ(client.completions, 4u);
  client.clear();
  client.buffer_bytes = 1 << 20;
  client.max_records = 2;
  for (int i = 0; i < 5; ++i) launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.completions, 3u);
  size_t dropped = 1;
  CUPTI_OK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 0u);
}

TEST_F(Activity, NoBufferOrTooSmallDrops) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  client.refuse = true;
  for (int i = 0; i < 3; ++i) launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  client.refuse = false;
  client.buffer_bytes = 64;
  for (int i = 0; i < 2; ++i) launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  size_t dropped = 0;
  CUPTI_OK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 5u);
  CUPTI_OK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(dropped, 0u);
  EXPECT_TRUE(client.records.empty());
  EXPECT_EQ(client.bytes_back, client.bytes_lent);
}

TEST_F(Activity, ForcedFlushDeliversUnfinishedWorkOnce) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  // A kernel that waits for the host, so that it is surely running.
  int* flag = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 8, CU_MEMHOSTALLOC_DEVICEMAP));
  flag[0] = flag[1] = 0;
  int *where = flag, *seen = flag + 1;
  OK(run(kernel("wait_flag"), {&where, &seen}, stream));
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_TRUE(client.records.empty());  // its buffer stays until it is done
  CUPTI_OK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  auto kernels = client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_STREQ(kernels[0].name, "wait_flag");
  EXPECT_EQ(kernels[0].start, 0u);
  EXPECT_EQ(kernels[0].end, 0u);
  __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
  OK(cuStreamSynchronize(stream));
  launch(stream);
  OK(cuStreamSynchronize(stream));
  CUPTI_OK(cuptiActivityFlushAll(0));
  kernels = client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_STREQ(kernels[1].name, "add_value");
  EXPECT_GT(kernels[1].start, kEpoch);
  OK(cuMemFreeHost(flag));
}

TEST_F(Activity, GraphsWholeOrByNode) {
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch(stream);
  OK(cuMemsetD8Async(buffer, 3, 64, stream));
  launch(stream);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMSET});
  OK(cuGraphLaunch(exec, stream));
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  auto kernels = client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET).size(), 1u);
  uint32_t id = 0;
  CUPTI_OK(cuptiGetGraphExecId(exec, &id));
  EXPECT_EQ(kernels[0].graphId, id);
  EXPECT_NE(kernels[0].graphNodeId, 0u);
  EXPECT_NE(kernels[0].graphNodeId, kernels[1].graphNodeId);
  EXPECT_EQ(kernels[0].correlationId, kernels[1].correlationId);
  client.clear();
  enable({CUPTI_ACTIVITY_KIND_GRAPH_TRACE});
  OK(cuGraphLaunch(exec, stream));
  launch(stream);
  OK(cuCtxSynchronize());
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(),
            1u);  // the plain one
  auto graphs = client.of<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_EQ(graphs[0].graphId, id);
  EXPECT_GE(graphs[0].end, graphs[0].start);
  EXPECT_GT(graphs[0].start, kEpoch);
  EXPECT_EQ(cuptiGetGraphExecId(nullptr, &id), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(Activity, DevicesAndContexts) {
  CUPTI_OK(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE));
  CUPTI_OK(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_CONTEXT));
  CUPTI_OK(cuptiActivityFlushAll(0));
  int count = 0;
  OK(cuDeviceGetCount(&count));
  auto devices = client.of<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
  ASSERT_EQ(int(devices.size()), count);
  for (int i = 0; i < count; ++i) {
    char name[256];
    OK(cuDeviceGetName(name, sizeof name, i));
    EXPECT_STREQ(devices[size_t(i)].name, name);
    int processors = 0;
    OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i));
    EXPECT_EQ(int(devices[size_t(i)].numMultiprocessors), processors);
  }
  auto contexts = client.of<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  ASSERT_GE(contexts.size(), 1u);
  uint32_t id = 0;
  CUPTI_OK(cuptiGetContextId(context, &id));
  EXPECT_EQ(contexts[0].contextId, id);
  EXPECT_EQ(contexts[0].deviceId, 0u);
}

TEST_F(Activity, AttributesAndZeroedBuffers) {
  size_t value = 0, size = sizeof value;
  CUPTI_OK(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &value));
  EXPECT_EQ(value, 250u);
  value = 4;
  CUPTI_OK(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &value));
  value = 0;
  CUPTI_OK(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &value));
  EXPECT_EQ(value, 4u);
  size = 2;
  EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &value),
            CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  size = sizeof value;
  EXPECT_EQ(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE, &size, &value),
            CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuptiActivityGetAttribute(CUpti_ActivityAttribute(77), &size, &value),
            CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(Activity, TimestampsLieBetweenRecords) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  uint64_t before = 0, after = 0;
  CUPTI_OK(cuptiGetTimestamp(&before));
  launch(stream);
  OK(cuStreamSynchronize(stream));
  CUPTI_OK(cuptiGetTimestamp(&after));
  CUPTI_OK(cuptiActivityFlushAll(0));
  auto kernels = client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_LE(before, kernels[0].start);
  EXPECT_LT(kernels[0].start, kernels[0].end);
  EXPECT_LE(kernels[0].end, after);
  EXPECT_EQ(cuptiGetTimestamp(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(Activity, OwnClock) {
  static std::atomic<uint64_t> ticks{5000000};
  EXPECT_EQ(cuptiActivityRegisterTimestampCallback(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  CUPTI_OK(cuptiActivityRegisterTimestampCallback([]() -> uint64_t { return ticks += 1000; }));
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_DRIVER});
  for (int i = 0; i < 4; ++i) {
    launch(stream);
    OK(cuStreamSynchronize(stream));
  }
  CUPTI_OK(cuptiActivityFlushAll(0));
  for (const auto& k : client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    EXPECT_GT(k.start, 5000000u);
    EXPECT_LE(k.start, k.end);
    EXPECT_LT(k.end, 5100000u);
  }
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(), 4u);
}

TEST_F(Activity, PeriodicFlushReturnsFullBuffersOnly) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  client.buffer_bytes = 2 * sizeof(CUpti_ActivityKernel10);
  CUPTI_OK(cuptiActivityFlushPeriod(1));
  for (int i = 0; i < 5; ++i) launch(stream);
  OK(cuCtxSynchronize());
  for (int i = 0; i < 200; ++i) {
    {
      std::lock_guard lock(client.mutex);
      if (client.completions >= 2) break;
    }
    usleep(5000);
  }
  {
    std::lock_guard lock(client.mutex);
    EXPECT_EQ(client.completions, 2u);
  }
  CUPTI_OK(cuptiActivityFlushPeriod(0));
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(), 5u);
}

TEST_F(Activity, FlushNeedsCallbacks) {
  CUPTI_OK(cuptiFinalize());
  EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
  EXPECT_EQ(cuptiActivityRegisterCallbacks(request, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(Activity, AForkedChildIsDead) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  launch(stream);
  const pid_t child = fork();
  if (child == 0) {
    uint64_t now = 0;
    size_t dropped = 0;
    alarm(10);
    const bool dead =
        cuptiActivityFlushAll(1) == CUPTI_ERROR_NOT_INITIALIZED &&
        cuptiGetTimestamp(&now) == CUPTI_ERROR_NOT_INITIALIZED &&
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) == CUPTI_ERROR_NOT_INITIALIZED &&
        cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_ERROR_NOT_INITIALIZED &&
        cuptiFinalize() == CUPTI_ERROR_NOT_INITIALIZED && client.completions == 0;
    _exit(dead ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  OK(cuCtxSynchronize());  // the parent goes on
  CUPTI_OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size(), 1u);
}
