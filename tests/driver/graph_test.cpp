// Explicit graphs: every node type, edges, clones, child graphs, user objects, the printed form.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/driver/graph_fixture.h"
#include "tools/simgpu/driver/private_api.h"

TEST_F(Graphs, EdgesAndEnumeration) {
  CUgraphNode n[4];
  OK(cuGraphAddEmptyNode(&n[0], graph, nullptr, 0));
  OK(cuGraphAddEmptyNode(&n[1], graph, n, 1));
  OK(cuGraphAddEmptyNode(&n[2], graph, n, 1));
  const CUgraphNode both[] = {n[1], n[2]};
  OK(cuGraphAddEmptyNode(&n[3], graph, both, 2));
  const CUgraphNode twice[] = {n[1], n[1]};
  CUgraphNode bad = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&bad, graph, twice, 2));
  size_t count = 0;
  OK(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 4u);
  CUgraphNode many[6];
  count = 6;
  OK(cuGraphGetNodes(graph, many, &count));
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(many[3], n[3]);
  EXPECT_EQ(many[5], nullptr);
  count = 6;
  OK(cuGraphGetRootNodes(graph, many, &count));
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(many[0], n[0]);
  OK(cuGraphNodeGetDependentNodes(n[0], nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &n[0], &n[1], nullptr, 1));  // exists
  OK(cuGraphAddDependencies(graph, &n[0], &n[3], nullptr, 1));
  OK(cuGraphRemoveDependencies(graph, &n[0], &n[3], nullptr, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &n[0], &n[3], nullptr, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &n[0], &n[0], nullptr, 1));
  CUgraphNode from[8], to[8];
  CUgraphEdgeData data[8];
  count = 8;
  OK(cuGraphGetEdges(graph, from, to, data, &count));
  EXPECT_EQ(count, 4u);
  OK(cuGraphDestroyNode(n[1]));
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(n[1]));
  CUgraphNodeType type;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(n[1], &type));
  // A cycle is found when the graph is instantiated.
  OK(cuGraphAddDependencies(graph, &n[3], &n[0], nullptr, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  CUgraphExec exec = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_NE(params.hErrNode_out, nullptr);
  OK(cuGraphDestroy(graph));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(n[0], &type));
}

TEST_F(Graphs, EdgeDataSurvivesAndIsNotLost) {
  CUgraphNode a = kernel_node(graph, set, p, 1), b = kernel_node(graph, add, p, 1);
  CUgraphEdgeData data = {};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  OK(cuGraphAddDependencies(graph, &a, &b, &data, 1));
  CUgraphNode from, to;
  CUgraphEdgeData out = {};
  size_t count = 1;
  FAILS(CUDA_ERROR_LOSSY_QUERY, cuGraphGetEdges(graph, &from, &to, nullptr, &count));
  count = 1;
  OK(cuGraphGetEdges(graph, &from, &to, &out, &count));
  EXPECT_EQ(out.from_port, data.from_port);
  EXPECT_EQ(out.type, data.type);
  count = 1;
  FAILS(CUDA_ERROR_LOSSY_QUERY, cuGraphNodeGetDependencies(b, &from, nullptr, &count));
  data.to_port = 1;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &b, &a, &data, 1));
  CUgraphNode empty;
  OK(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  data.to_port = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &empty, &b, &data, 1));  // kernels only
  CUgraphExec exec = instantiate(graph);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 2);
}

TEST_F(Graphs, KernelNodeParametersAndAttributes) {
  CUgraphNode a = kernel_node(graph, set, p, 1);
  CUDA_KERNEL_NODE_PARAMS k = {};
  OK(cuGraphKernelNodeGetParams(a, &k));
  EXPECT_EQ(k.func, set);
  ASSERT_NE(k.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(k.kernelParams[0]), p);
  EXPECT_EQ(*static_cast<int*>(k.kernelParams[1]), 1);
  int value = 12;
  void* args[] = {&p, &value};
  k.kernelParams = args;
  OK(cuGraphKernelNodeSetParams(a, &k));
  // The packed form.
  struct {
    CUdeviceptr p;
    int v;
  } buffer = {p, 13};
  size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS packed = k;
  packed.extra = extra;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams(a, &packed));  // both
  packed.kernelParams = nullptr;
  OK(cuGraphKernelNodeSetParams(a, &packed));
  OK(cuGraphKernelNodeGetParams(a, &k));
  EXPECT_EQ(k.kernelParams, nullptr);
  EXPECT_NE(k.extra, nullptr);
  CUgraphExec exec = instantiate(graph);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 13);

  CUkernelNodeAttrValue v = {}, got = {};
  v.priority = -2;
  OK(cuGraphKernelNodeSetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v));
  OK(cuGraphKernelNodeGetAttribute(a, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &got));
  EXPECT_EQ(got.priority, -2);
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
  CUgraphNode b = kernel_node(graph, add, p, 1, {a});
  OK(cuGraphKernelNodeCopyAttributes(b, a));
  OK(cuGraphKernelNodeGetAttribute(b, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &got));
  EXPECT_EQ(got.priority, -2);
  k.gridDimX = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams(a, &k));
  k.gridDimX = 1;
  k.blockDimX = 2048;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams(a, &k));
}

TEST_F(Graphs, CopiesFillsAndHostFunctions) {
  std::vector<int> in(64), out(64, 0);
  for (int i = 0; i < 64; ++i) in[size_t(i)] = i;
  CUDA_MEMCPY3D up = flat(p, 0, 256);
  up.srcMemoryType = CU_MEMORYTYPE_HOST;
  up.srcHost = in.data();
  CUgraphNode a, b, c, d, e;
  OK(cuGraphAddMemcpyNode(&a, graph, nullptr, 0, &up, context));
  // Two rows of the box, shifted.
  CUDA_MEMCPY3D box = flat(p + 1024, p, 32);
  box.srcPitch = box.dstPitch = 64;
  box.Height = 2;
  box.srcXInBytes = 16;
  OK(cuGraphAddMemcpyNode(&b, graph, &a, 1, &box, context));
  CUDA_MEMSET_NODE_PARAMS fill = {p + 1024 + 64, 0, 0xAB, 1, 4, 1};
  OK(cuGraphAddMemsetNode(&c, graph, &b, 1, &fill, context));
  CUDA_MEMCPY3D down = flat(0, p + 1024, 128);
  down.dstMemoryType = CU_MEMORYTYPE_HOST;
  down.dstHost = out.data();
  OK(cuGraphAddMemcpyNode(&d, graph, &c, 1, &down, context));
  static std::atomic<int> seen;
  seen = 0;
  CUDA_HOST_NODE_PARAMS host = {[](void* data) { seen = static_cast<int*>(data)[0]; }, out.data()};
  OK(cuGraphAddHostNode(&e, graph, &d, 1, &host));
  CUgraphExec exec = instantiate(graph);
  launch_and_wait(exec);
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[7], 11);
  EXPECT_EQ(out[16], int(0xABABABABu));
  EXPECT_EQ(out[17], 4 + 16 + 1);
  EXPECT_EQ(seen.load(), 4);

  CUDA_MEMCPY3D got_copy;
  OK(cuGraphMemcpyNodeGetParams(b, &got_copy));
  EXPECT_EQ(got_copy.srcXInBytes, 16u);
  CUDA_MEMSET_NODE_PARAMS got_fill;
  OK(cuGraphMemsetNodeGetParams(c, &got_fill));
  EXPECT_EQ(got_fill.value, 0xABu);
  CUDA_HOST_NODE_PARAMS got_host;
  OK(cuGraphHostNodeGetParams(e, &got_host));
  EXPECT_EQ(got_host.userData, out.data());
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeGetParams(c, &got_host));  // wrong type
  fill.elementSize = 3;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(c, &fill));
  fill.elementSize = 4;
  fill.width = 1 << 20;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(c, &fill));  // past the allocation
  // Executables: 1-D copies may move, boxes may not; memsets may change value and place.
  CUDA_MEMCPY3D moved = down;
  std::vector<int> other(64, 0);
  moved.dstHost = other.data();
  OK(cuGraphExecMemcpyNodeSetParams(exec, d, &moved, context));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, b, &box, context));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, d, &box, context));
  fill = {p + 1024, 0, 5, 4, 2, 1};
  OK(cuGraphExecMemsetNodeSetParams(exec, c, &fill, context));
  launch_and_wait(exec);
  EXPECT_EQ(other[0], 5);
  EXPECT_EQ(other[1], 5);
  EXPECT_EQ(other[2], 6);
}

TEST_F(Graphs, GenericNodes) {
  CUgraphNodeParams k = {};
  k.type = CU_GRAPH_NODE_TYPE_KERNEL;
  int value = 30;
  void* args[] = {&p, &value};
  k.kernel.func = set;
  k.kernel.gridDimX = k.kernel.gridDimY = k.kernel.gridDimZ = 1;
  k.kernel.blockDimX = k.kernel.blockDimY = k.kernel.blockDimZ = 1;
  k.kernel.kernelParams = args;
  CUgraphNode a, b;
  OK(cuGraphAddNode(&a, graph, nullptr, nullptr, 0, &k));
  CUgraphNodeParams m = {};
  m.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  m.memcpy.copyCtx = context;
  m.memcpy.copyParams = flat(p + 8, p, 4);
  OK(cuGraphAddNode(&b, graph, &a, nullptr, 1, &m));
  CUgraphExec exec = instantiate(graph);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p + 8), 30);
  value = 31;
  OK(cuGraphExecNodeSetParams(exec, a, &k));
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p + 8), 31);
  value = 32;
  OK(cuGraphNodeSetParams(a, &k));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(b, &k));  // another type
  m.reserved2 = 1;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&b, graph, &a, nullptr, 1, &m));
  CUgraphNodeParams c = {};
  c.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&b, graph, nullptr, nullptr, 0, &c));
  CUgraphConditionalHandle handle;
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphConditionalHandleCreate(&handle, graph, context, 0, 0));
  CUDA_EXT_SEM_SIGNAL_NODE_PARAMS semaphores = {};
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddExternalSemaphoresSignalNode(&b, graph, nullptr, 0, &semaphores));
}

TEST_F(Graphs, BatchMemoryOperations) {
  CUstreamBatchMemOpParams ops[2] = {};
  ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[0].waitValue.address = p;
  ops[0].waitValue.value = 3;
  ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  ops[1].writeValue.address = p + 8;
  ops[1].writeValue.value64 = 44;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 2, ops, 0};
  CUgraphNode node;
  OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &batch));
  CUDA_BATCH_MEM_OP_NODE_PARAMS got = {};
  OK(cuGraphBatchMemOpNodeGetParams(node, &got));
  ASSERT_EQ(got.count, 2u);
  EXPECT_EQ(got.paramArray[1].writeValue.value64, 44u);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, s));
  FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
  OK(cuMemsetD32Async(p, 5, 1, t));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(read_int(p + 8), 44);
  ops[1].writeValue.value64 = 45;
  OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &batch));
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p + 8), 45);
  batch.count = 1;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecBatchMemOpNodeSetParams(exec, node, &batch));
  ops[0].flushRemoteWrites.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphBatchMemOpNodeSetParams(node, &batch));
}

TEST_F(Graphs, EventNodes) {
  CUevent before, after;
  OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
  CUgraphNode wait, record;
  OK(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, before));
  CUgraphNode work = kernel_node(graph, add, p, 5, {wait});
  OK(cuGraphAddEventRecordNode(&record, graph, &work, 1, after));
  CUevent got = nullptr;
  OK(cuGraphEventWaitNodeGetEvent(wait, &got));
  EXPECT_EQ(got, before);
  OK(cuGraphEventRecordNodeGetEvent(record, &got));
  EXPECT_EQ(got, after);
  CUgraphExec exec = instantiate(graph);
  int* flag = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *flag = 0;
  CUdeviceptr flag_device, seen = p + 64;
  OK(cuMemHostGetDevicePointer(&flag_device, flag, 0));
  OK(run(kernel("wait_flag"), {&flag_device, &seen}, t));
  OK(cuEventRecord(before, t));
  OK(cuGraphLaunch(exec, s));
  FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(after));
  *flag = 1;
  OK(cuEventSynchronize(after));
  EXPECT_EQ(read_int(p), 5);
  CUevent third;
  OK(cuEventCreate(&third, CU_EVENT_DISABLE_TIMING));
  OK(cuGraphExecEventRecordNodeSetEvent(exec, record, third));
  OK(cuGraphExecEventWaitNodeSetEvent(exec, wait, third));
  OK(cuGraphLaunch(exec, s));
  OK(cuEventSynchronize(third));
  EXPECT_EQ(read_int(p), 10);
  OK(cuMemFreeHost(flag));
}

TEST_F(Graphs, ChildGraphsAndClones) {
  CUgraph inner = nullptr;
  OK(cuGraphCreate(&inner, 0));
  CUgraphNode i1 = kernel_node(inner, add, p, 2), i2 = kernel_node(inner, add, p, 3, {i1});
  CUgraphNode first = kernel_node(graph, set, p, 10), child, last;
  OK(cuGraphAddChildGraphNode(&child, graph, &first, 1, inner));
  last = kernel_node(graph, add, p, 100, {child});
  (void)last;
  OK(cuGraphDestroy(inner));  // the node has its own copy
  CUgraph embedded = nullptr;
  OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(embedded));
  size_t count = 0;
  OK(cuGraphGetNodes(embedded, nullptr, &count));
  EXPECT_EQ(count, 2u);
  CUgraph clone = nullptr;
  OK(cuGraphClone(&clone, graph));
  CUgraphNode found = nullptr;
  OK(cuGraphNodeFindInClone(&found, first, clone));
  EXPECT_NE(found, first);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, i2, clone));
  CUgraphExec exec = instantiate(graph), cloned = instantiate(clone);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 115);
  // Changes to the original leave the clone alone.
  OK(cuGraphDestroyNode(last));
  OK(cuGraphGetNodes(clone, nullptr, &count));
  EXPECT_EQ(count, 3u);
  OK(cuGraphDestroy(graph));
  launch_and_wait(cloned);
  EXPECT_EQ(read_int(p), 115);
  // The child of an executable takes new parameters from a graph of the same shape.
  CUgraph other = nullptr;
  OK(cuGraphCreate(&other, 0));
  CUgraphNode o1 = kernel_node(other, add, p, 20), o2 = kernel_node(other, add, p, 30, {o1});
  (void)o2;
  CUgraphNode child_in_clone = nullptr;
  CUgraphNode nodes[3];
  count = 3;
  OK(cuGraphGetNodes(clone, nodes, &count));
  child_in_clone = nodes[1];
  OK(cuGraphExecChildGraphNodeSetParams(cloned, child_in_clone, other));
  launch_and_wait(cloned);
  EXPECT_EQ(read_int(p), 160);
  kernel_node(other, add, p, 1, {o1});
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(cloned, child_in_clone, other));
}

TEST_F(Graphs, UserObjectsLiveAsLongAsTheirGraphs) {
  static std::atomic<int> destroyed;
  destroyed = 0;
  auto wait_destroyed = [&] {
    for (int i = 0; i < 2000 && !destroyed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return destroyed.load();
  };
  CUuserObject object = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(
                                      &object, nullptr, [](void*) {}, 1, 0));
  OK(cuUserObjectCreate(
      &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuUserObjectRetain(object, 1));
  OK(cuUserObjectRelease(object, 1));
  OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  kernel_node(graph, set, p, 1);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphDestroy(graph));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(destroyed.load(), 0);
  OK(cuGraphLaunch(exec, s));
  OK(cuGraphExecDestroy(exec));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(wait_destroyed(), 1);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));
}

TEST_F(Graphs, DotFile) {
  CUgraphNode a = kernel_node(graph, set, p, 1);
  kernel_node(graph, add, p, 1, {a});
  char path[] = "/tmp/simgpu_graph_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  OK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  const std::string text = driver_test::read_file(path);
  EXPECT_NE(text.find("digraph"), std::string::npos);
  EXPECT_NE(text.find("set_value"), std::string::npos);
  EXPECT_NE(text.find("->"), std::string::npos);
  unlink(path);
  FAILS(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph, "/nonexistent/x.dot", 0));
}
