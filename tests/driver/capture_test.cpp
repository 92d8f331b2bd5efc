// Stream capture: the three modes, fork and join, and every error code of capture (900 to 908) provoked.
#include <thread>

#include "tests/driver/driver_test.h"

namespace {
class Capture : public driver_test::Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD8(p, 0, 64));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    set = kernel("set_value");
    add = kernel("add_value");
    OK(cuCtxSynchronize());
  }
  CUresult set_to(int value, CUstream stream, CUdeviceptr where = 0) {
    CUdeviceptr q = where ? where : p;
    return run(set, {&q, &value}, stream);
  }
  CUresult add_to(int value, CUstream stream, CUdeviceptr where = 0) {
    CUdeviceptr q = where ? where : p;
    return run(add, {&q, &value}, stream);
  }
  CUstreamCaptureStatus status(CUstream stream) {
    CUstreamCaptureStatus s = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &s), CUDA_SUCCESS);
    return s;
  }
  // The capture of `stream` must be broken; afterwards the stream is usable again.
  void expect_lost(CUstream stream) {
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = reinterpret_cast<CUgraph>(1);
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  }
  void expect_intact(CUstream stream) {
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
  }
  CUresult begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
    return cuStreamBeginCapture(stream, mode);
  }
  CUdeviceptr p = 0;
  CUstream a = nullptr, b = nullptr, blocking = nullptr;
  CUevent e = nullptr, f = nullptr;
  CUfunction set = nullptr, add = nullptr;
};

TEST_F(Capture, RecordsInsteadOfRunning) {
  OK(begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(set_to(5, a));
  OK(add_to(2, a));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  EXPECT_EQ(status(a), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(read_int(p), 0);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(p), 7);
  size_t nodes = 0, edges = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 2u);
  EXPECT_EQ(edges, 1u);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, ForkAndJoinByEvents) {
  CUdeviceptr q = p + 16;
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  EXPECT_EQ(status(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(set_to(10, b, q));
  OK(add_to(1, a));
  OK(cuEventRecord(f, b));
  OK(cuStreamWaitEvent(a, f, 0));
  CUfunction copy = kernel("copy_value");
  CUdeviceptr r = p + 32;
  OK(run(copy, {&r, &q}, a));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  EXPECT_EQ(status(b), CU_STREAM_CAPTURE_STATUS_NONE);
  size_t nodes = 0, edges = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(edges, 4u);  // set→add, set→set q, add→copy, set q→copy
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, b));
  OK(cuStreamSynchronize(b));
  EXPECT_EQ(read_int(p), 2);
  EXPECT_EQ(read_int(r), 10);
  // The event still belongs to that capture.
  FAILS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(b, e, 0));
  OK(cuEventRecord(e, b));
  OK(cuEventSynchronize(e));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, BeginAndEndArguments) {
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, begin(nullptr));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, begin(CU_STREAM_LEGACY));
  FAILS(CUDA_ERROR_INVALID_VALUE, begin(a, CUstreamCaptureMode(3)));
  CUgraph graph = nullptr;
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph));
  OK(begin(a));
  FAILS(CUDA_ERROR_ILLEGAL_STATE, begin(a));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamEndCapture(a, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamIsCapturing(a, nullptr));
  expect_intact(a);
  OK(begin(CU_STREAM_PER_THREAD));
  expect_intact(CU_STREAM_PER_THREAD);
  CUstreamCaptureMode mode = CUstreamCaptureMode(9);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(&mode));
}

// 900
TEST_F(Capture, UnsupportedOnACapturingStream) {
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a));
  expect_lost(a);
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(a));
  expect_lost(a);
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
  expect_lost(a);
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamAddCallback(
                                                   a, [](CUstream, CUresult, void*) {}, nullptr, 0));
  expect_lost(a);
  CUgraph graph = nullptr;
  OK(cuGraphCreate(&graph, 0));
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphLaunch(exec, a));
  expect_lost(a);
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphUpload(exec, a));
  expect_lost(a);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

// 901
TEST_F(Capture, InvalidatedStaysInvalidated) {
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, set_to(1, a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(e, a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamSynchronize(a));
  expect_lost(a);
  OK(set_to(1, a));
}

// 902
TEST_F(Capture, TwoCapturesMayNotMerge) {
  OK(begin(a));
  OK(begin(b));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, e, 0));
  expect_lost(a);
  expect_lost(b);
}

// 903
TEST_F(Capture, EndOnlyWhereItBegan) {
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  CUgraph graph = nullptr;
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &graph));
  expect_intact(a);
}

// 904
TEST_F(Capture, ForksMustJoin) {
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  OK(set_to(2, b));
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status(a), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(status(b), CU_STREAM_CAPTURE_STATUS_NONE);
  // A fork that did nothing needs no join.
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  expect_intact(a);
}

// 905
TEST_F(Capture, NoDependencyOnWorkOutside) {
  OK(set_to(1, b));
  OK(cuEventRecord(e, b));
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, e, 0));
  expect_lost(a);
}

// 906
TEST_F(Capture, LegacyStreamAgainstABlockingCapture) {
  OK(begin(blocking));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, set_to(1, nullptr));
  expect_lost(blocking);
  OK(begin(blocking));
  CUstreamCaptureStatus s;
  FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &s));
  EXPECT_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // asking breaks nothing
  int x = 0;
  FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyDtoH(&x, p, 4));
  expect_lost(blocking);
  // Non-blocking streams have no such tie.
  OK(begin(a));
  OK(cuStreamIsCapturing(CU_STREAM_LEGACY, &s));
  OK(set_to(4, nullptr));
  expect_intact(a);
}

// 907
TEST_F(Capture, CapturedEventsCannotBeAsked) {
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  FAILS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
  expect_lost(a);
  OK(begin(a));
  OK(cuEventRecord(e, a));
  FAILS(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(e));
  expect_lost(a);
}

// 908
TEST_F(Capture, EndInTheThreadThatBegan) {
  OK(begin(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUresult other = CUDA_SUCCESS;
  std::thread([&] {
    CUgraph graph = nullptr;
    cuCtxSetCurrent(context);
    other = cuStreamEndCapture(a, &graph);
  }).join();
  EXPECT_EQ(other, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  expect_intact(a);
  OK(begin(a, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUgraph graph = nullptr;
  std::thread([&] {
    cuCtxSetCurrent(context);
    other = cuStreamEndCapture(a, &graph);
  }).join();
  EXPECT_EQ(other, CUDA_SUCCESS);
  OK(cuGraphDestroy(graph));
}

// What each pair of capture mode and thread mode forbids, on the capturing thread and on another.
TEST_F(Capture, UnsafeCallsByMode) {
  const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                       CU_STREAM_CAPTURE_MODE_RELAXED};
  OK(cuEventRecord(f, b));
  OK(cuEventSynchronize(f));
  for (CUstreamCaptureMode capture_mode : modes) {
    for (CUstreamCaptureMode thread_mode : modes) {
      for (bool same_thread : {true, false}) {
        const bool forbidden = thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                               (same_thread ? capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                            : thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                                  capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
        for (int what = 0; what < 3; ++what) {
          OK(begin(a, capture_mode));
          auto unsafe = [&]() -> CUresult {
            CUstreamCaptureMode mode = thread_mode;
            EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
            CUresult result;
            if (what == 0) {
              CUdeviceptr q = 0;
              result = cuMemAlloc(&q, 16);
              if (result == CUDA_SUCCESS) cuMemFree(q);
            } else if (what == 1) {
              result = cuEventQuery(f);
            } else {
              CUmodule m = nullptr;
              const std::string ptx = driver_test::read_file(KERNELS ".ptx");
              result = cuModuleLoadData(&m, ptx.c_str());
              if (result == CUDA_SUCCESS) cuModuleUnload(m);
            }
            EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
            EXPECT_EQ(mode, thread_mode);
            return result;
          };
          CUresult result = CUDA_SUCCESS;
          if (same_thread) {
            result = unsafe();
          } else {
            std::thread([&] {
              cuCtxSetCurrent(context);
              result = unsafe();
            }).join();
          }
          EXPECT_EQ(result, forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS)
              << "capture " << capture_mode << " thread " << thread_mode << " same " << same_thread
              << " call " << what;
          if (forbidden)
            expect_lost(a);
          else
            expect_intact(a);
        }
      }
    }
  }
}

TEST_F(Capture, InfoAndDependencySurgery) {
  OK(begin(a));
  CUstreamCaptureStatus s;
  cuuint64_t id = 0, second = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 9;
  OK(cuStreamGetCaptureInfo(a, &s, &id, &graph, &nodes, nullptr, &count));
  EXPECT_EQ(s, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(count, 0u);
  EXPECT_NE(id, 0u);
  OK(set_to(3, a));
  OK(cuStreamGetCaptureInfo(a, &s, nullptr, nullptr, &nodes, nullptr, &count));
  ASSERT_EQ(count, 1u);
  const CUgraphNode first = nodes[0];
  // A node added by hand, put in place of the stream's last one.
  CUgraphNode mine = nullptr;
  OK(cuGraphAddEmptyNode(&mine, graph, nodes, count));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(mine));
  CUgraphExec exec = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0));
  OK(cuStreamUpdateCaptureDependencies(a, &mine, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(add_to(4, a));
  OK(cuStreamGetCaptureInfo(a, &s, nullptr, nullptr, &nodes, nullptr, &count));
  ASSERT_EQ(count, 1u);
  CUgraphNode last = nodes[0], before = nullptr;
  count = 1;
  OK(cuGraphNodeGetDependencies(last, &before, nullptr, &count));
  EXPECT_EQ(before, mine);
  CUgraphNode more = first;
  OK(cuStreamUpdateCaptureDependencies(a, &more, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  OK(cuStreamGetCaptureInfo(a, &s, &second, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(second, id);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamUpdateCaptureDependencies(a, &more, nullptr, 1, 7));
  FAILS(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(b, &more, nullptr, 1, 0));
  CUgraph captured = nullptr;
  OK(cuStreamEndCapture(a, &captured));
  EXPECT_EQ(captured, graph);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(p), 7);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, IntoAnExistingGraph) {
  CUgraph graph = nullptr;
  OK(cuGraphCreate(&graph, 0));
  CUgraphNode root = nullptr;
  CUDA_MEMSET_NODE_PARAMS fill = {p, 0, 20, 4, 1, 1};
  OK(cuGraphAddMemsetNode(&root, graph, nullptr, 0, &fill, context));
  OK(cuStreamBeginCaptureToGraph(a, graph, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(add_to(1, a));
  CUgraph same = nullptr;
  OK(cuStreamEndCapture(a, &same));
  EXPECT_EQ(same, graph);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(p), 21);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, ExternalEventsBecomeNodes) {
  FAILS(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
  OK(cuEventRecord(f, b));
  OK(begin(a));
  OK(cuStreamWaitEvent(a, f, CU_EVENT_WAIT_EXTERNAL));
  OK(set_to(8, a));
  OK(cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  CUgraphNode nodes[3];
  size_t count = 3;
  OK(cuGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 3u);
  CUgraphNodeType type;
  OK(cuGraphNodeGetType(nodes[0], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  OK(cuGraphNodeGetType(nodes[2], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuEventSynchronize(e));  // recorded by the launch
  EXPECT_EQ(read_int(p), 8);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, EveryAsynchronousKindIsCaptured) {
  int host[4] = {1, 2, 3, 4}, back[4] = {};
  int calls = 0;
  OK(begin(a));
  OK(cuMemcpyHtoDAsync(p, host, 16, a));
  OK(cuMemcpyDtoDAsync(p + 16, p, 16, a));
  OK(cuMemsetD32Async(p + 16, 9, 1, a));
  OK(cuLaunchHostFunc(
      a, [](void* n) { ++*static_cast<int*>(n); }, &calls));
  OK(cuStreamWriteValue32(a, p + 20, 77, 0));
  OK(cuMemcpyDtoHAsync(back, p + 16, 16, a));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  const CUgraphNodeType wanted[] = {CU_GRAPH_NODE_TYPE_MEMCPY,       CU_GRAPH_NODE_TYPE_MEMCPY,
                                    CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,
                                    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_MEMCPY};
  CUgraphNode nodes[8];
  size_t count = 8;
  OK(cuGraphGetNodes(graph, nodes, &count));
  ASSERT_EQ(count, 6u);
  for (size_t i = 0; i < count; ++i) {
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(nodes[i], &type));
    EXPECT_EQ(type, wanted[i]) << i;
  }
  EXPECT_EQ(back[0], 0);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  host[2] = 33;  // captured copies read their source when the graph runs
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(back[0], 9);
  EXPECT_EQ(back[1], 77);
  EXPECT_EQ(back[2], 33);
  EXPECT_EQ(calls, 1);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, BatchIsOneNode) {
  CUstreamBatchMemOpParams ops[2] = {};
  for (unsigned i = 0; i < 2; ++i) {
    ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[i].writeValue.address = p + 4 * i;
    ops[i].writeValue.value = 50 + i;
  }
  OK(begin(a));
  OK(cuStreamBatchMemOp(a, 2, ops, 0));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  size_t nodes = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1u);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(p), 50);
  EXPECT_EQ(read_int(p + 4), 51);
}

TEST_F(Capture, ManagedMemoryCallsHaveNoNode) {
  CUdeviceptr m = 0;
  OK(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
  OK(begin(a));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamAttachMemAsync(a, m, 0, CU_MEM_ATTACH_GLOBAL));
  expect_lost(a);
  OK(cuMemFree(m));
}

TEST_F(Capture, NodesTakeTheStreamsPriority) {
  CUstream urgent = nullptr;
  OK(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -3));
  OK(begin(urgent));
  OK(set_to(1, urgent));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(urgent, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  OK(cuGraphGetNodes(graph, &node, &count));
  CUkernelNodeAttrValue value = {};
  OK(cuGraphKernelNodeGetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
  EXPECT_EQ(value.priority, -3);
  // With USE_NODE_PRIORITY an update may not change it.
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  OK(begin(a));
  OK(set_to(2, a));
  CUgraph plain = nullptr;
  OK(cuStreamEndCapture(a, &plain));
  CUgraphExecUpdateResultInfo info;
  FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, plain, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
}

TEST_F(Capture, AcrossDevices) {
  CUcontext second = nullptr;
  OK(cuDevicePrimaryCtxRetain(&second, 1));
  OK(cuCtxSetCurrent(second));
  CUstream far_stream = nullptr;
  CUevent far_event = nullptr;
  CUdeviceptr q = 0;
  OK(cuStreamCreate(&far_stream, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&far_event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemAlloc(&q, 16));
  OK(cuCtxSetCurrent(context));
  OK(begin(a));
  OK(set_to(6, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(far_stream, e, 0));
  OK(cuMemcpyPeerAsync(q, second, p, context, 4, far_stream));
  OK(cuCtxSetCurrent(second));
  OK(cuEventRecord(far_event, far_stream));
  OK(cuCtxSetCurrent(context));
  OK(cuStreamWaitEvent(a, far_event, 0));
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(a, &graph));
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, a));
  OK(cuStreamSynchronize(a));
  EXPECT_EQ(read_int(q), 6);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

TEST_F(Capture, StreamsThatGoAwayWhileCapturing) {
  CUstream s = nullptr;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(set_to(1, s));
  OK(cuStreamDestroy(s));
  CUdeviceptr q = 0;
  OK(cuMemAlloc(&q, 16));  // no capture is left to object
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(begin(a));
  OK(set_to(1, a));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(s, e, 0));
  OK(set_to(2, s));
  OK(cuStreamDestroy(s));
  CUgraph graph = nullptr;
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
}
}  // namespace
