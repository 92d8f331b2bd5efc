// Explicit graphs: every node type, edges, clones, child graphs, executables, updates, memory nodes, user
// objects, and what launches promise.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/driver/driver_test.h"
#include "tools/simgpu/driver/private_api.h"

namespace {
class Graphs : public driver_test::Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    load();
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD8(p, 0, 4096));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    set = kernel("set_value");
    add = kernel("add_value");
    OK(cuGraphCreate(&graph, 0));
    OK(cuCtxSynchronize());
  }
  // kernel(p, value)
  CUgraphNode kernel_node(CUgraph g, CUfunction f, CUdeviceptr where, int value,
                          std::vector<CUgraphNode> after = {}) {
    void* args[] = {&where, &value};
    CUDA_KERNEL_NODE_PARAMS k = {};
    k.func = f;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = args;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode(&node, g, after.data(), after.size(), &k), CUDA_SUCCESS);
    return node;
  }
  CUgraphExec instantiate(CUgraph g, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, g, flags), CUDA_SUCCESS);
    return exec;
  }
  void launch_and_wait(CUgraphExec exec) {
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
  }
  static CUDA_MEMCPY3D flat(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
    CUDA_MEMCPY3D c = {};
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = src;
    c.dstDevice = dst;
    c.WidthInBytes = bytes;
    c.Height = c.Depth = 1;
    return c;
  }
  CUgraph graph = nullptr;
  CUdeviceptr p = 0;
  CUstream s = nullptr, t = nullptr;
  CUfunction set = nullptr, add = nullptr;
};

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

TEST_F(Graphs, UpdateResults) {
  auto build = [&](CUdeviceptr where, int value) {
    CUgraph g = nullptr;
    EXPECT_EQ(cuGraphCreate(&g, 0), CUDA_SUCCESS);
    CUgraphNode a = kernel_node(g, set, where, value), fill, copy;
    CUDA_MEMSET_NODE_PARAMS m = {where + 8, 0, 1, 4, 2, 1};
    EXPECT_EQ(cuGraphAddMemsetNode(&fill, g, &a, 1, &m, context), CUDA_SUCCESS);
    CUDA_MEMCPY3D c = flat(where + 16, where, 4);
    EXPECT_EQ(cuGraphAddMemcpyNode(&copy, g, &fill, 1, &c, context), CUDA_SUCCESS);
    return g;
  };
  auto node = [&](CUgraph g, size_t i) {
    std::vector<CUgraphNode> nodes(8);
    size_t count = 8;
    EXPECT_EQ(cuGraphGetNodes(g, nodes.data(), &count), CUDA_SUCCESS);
    return nodes[i];
  };
  CUgraph base = build(p, 1);
  CUgraphExec exec = instantiate(base);
  CUgraphExecUpdateResultInfo info;
  CUgraph good = build(p + 256, 2);
  OK(cuGraphExecUpdate(exec, good, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p + 256 + 16), 2);
  EXPECT_EQ(read_int(p), 0);

  auto expect = [&](CUgraph g, CUgraphExecUpdateResult result, CUgraphNode error_node) {
    FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, g, &info));
    EXPECT_EQ(info.result, result);
    EXPECT_EQ(info.errorNode, error_node);
  };
  CUgraph g = build(p, 3);
  kernel_node(g, add, p, 1);
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  g = build(p, 3);
  CUgraphNode from = node(g, 1), to = node(g, 2);
  OK(cuGraphRemoveDependencies(g, &from, &to, nullptr, 1));
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, to);
  CUgraphNode elsewhere = node(g, 0);
  OK(cuGraphAddDependencies(g, &elsewhere, &to, nullptr, 1));
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, to);
  EXPECT_EQ(info.errorFromNode, elsewhere);
  OK(cuGraphCreate(&g, 0));
  CUgraphNode a = kernel_node(g, set, p, 1), b = kernel_node(g, set, p, 1, {a}),
              c = kernel_node(g, set, p, 1, {b});
  (void)c;
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b);
  // A copy between other kinds of memory.
  int host = 0;
  g = build(p, 3);
  CUDA_MEMCPY3D up = flat(p, 0, 4);
  up.srcMemoryType = CU_MEMORYTYPE_HOST;
  up.srcHost = &host;
  OK(cuGraphMemcpyNodeSetParams(node(g, 2), &up));
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node(g, 2));
  g = build(p, 3);
  CUkernelNodeAttrValue v = {};
  v.cooperative = 1;
  OK(cuGraphKernelNodeSetAttribute(node(g, 0), CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &v));
  expect(g, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, node(g, 0));
  // Nothing of the failed updates stuck.
  OK(cuMemsetD8(p, 0, 1024));
  OK(cuCtxSynchronize());
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p + 256 + 16), 2);
  EXPECT_EQ(read_int(p), 0);
  info.result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecUpdate(exec, nullptr, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
}

TEST_F(Graphs, KernelUpdateLeavesPendingLaunchesAlone) {
  int* flag = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *flag = 0;
  CUdeviceptr flag_device, seen = p + 64;
  OK(cuMemHostGetDevicePointer(&flag_device, flag, 0));
  CUgraphNode a = kernel_node(graph, add, p, 1);
  CUgraphExec exec = instantiate(graph);
  OK(run(kernel("wait_flag"), {&flag_device, &seen}, s));
  OK(cuGraphLaunch(exec, s));
  CUDA_KERNEL_NODE_PARAMS k = {};
  OK(cuGraphKernelNodeGetParams(a, &k));
  int value = 100;
  void* args[] = {&p, &value};
  k.kernelParams = args;
  OK(cuGraphExecKernelNodeSetParams(exec, a, &k));
  OK(cuGraphLaunch(exec, t));  // another stream, the same executable: one after the other
  FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
  OK(cuGraphExecDestroy(exec));  // lives on until its launches end
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, s));
  *flag = 1;
  OK(cuStreamSynchronize(t));
  EXPECT_EQ(read_int(p), 101);
  OK(cuMemFreeHost(flag));
}

TEST_F(Graphs, NodesCanBeDisabled) {
  CUgraphNode a = kernel_node(graph, set, p, 1), b = kernel_node(graph, add, p, 5, {a}), c;
  OK(cuGraphAddEmptyNode(&c, graph, &b, 1));
  CUgraphExec exec = instantiate(graph);
  unsigned enabled = 7;
  OK(cuGraphNodeGetEnabled(exec, b, &enabled));
  EXPECT_EQ(enabled, 1u);
  OK(cuGraphNodeSetEnabled(exec, b, 0));
  OK(cuGraphNodeGetEnabled(exec, b, &enabled));
  EXPECT_EQ(enabled, 0u);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 1);
  OK(cuGraphNodeSetEnabled(exec, b, 1));
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 6);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, c, 0));
  OK(cuGraphDestroyNode(b));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, b, 0));
}

TEST_F(Graphs, InstantiationFlags) {
  kernel_node(graph, add, p, 1);
  CUgraphExec exec = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 1u << 20));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
  FAILS(CUDA_ERROR_NOT_SUPPORTED,
        cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph,
                                                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                                         CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  params.hUploadStream = s;
  OK(cuGraphInstantiateWithParams(&exec, graph, &params));
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  cuuint64_t flags = 0;
  OK(cuGraphExecGetFlags(exec, &flags));
  EXPECT_EQ(flags, cuuint64_t(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  OK(cuGraphUpload(exec, t));
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 1);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
  OK(cuCtxSynchronize());
  EXPECT_EQ(read_int(p), 3);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(nullptr, s));
  OK(cuGraphExecDestroy(exec));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
}

TEST_F(Graphs, FaultInANodeIsSticky) {
  long long far_away = 1ll << 40;
  void* args[] = {&p, &far_away};
  CUDA_KERNEL_NODE_PARAMS k = {};
  k.func = kernel("out_of_bounds");
  k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = args;
  CUgraphNode node;
  OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &k));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, s));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuGraphLaunch(exec, s));
}

class GraphMemory : public Graphs {
 protected:
  CUgraphNode alloc(CUgraph g, size_t bytes, CUdeviceptr& out, std::vector<CUgraphNode> after = {}) {
    CUDA_MEM_ALLOC_NODE_PARAMS a = {};
    a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    a.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    a.bytesize = bytes;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, g, after.data(), after.size(), &a), CUDA_SUCCESS);
    out = a.dptr;
    return node;
  }
  cuuint64_t attribute(CUgraphMem_attribute which) {
    cuuint64_t value = 0;
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, which, &value), CUDA_SUCCESS);
    return value;
  }
};

TEST_F(GraphMemory, AllocatedUsedAndFreedInside) {
  CUdeviceptr q = 0;
  CUgraphNode a = alloc(graph, 4096, q);
  ASSERT_NE(q, 0u);
  CUgraphNode w = kernel_node(graph, set, q, 9, {a});
  CUDA_MEMCPY3D c = flat(p, q, 4);
  CUgraphNode copy, free_node;
  OK(cuGraphAddMemcpyNode(&copy, graph, &w, 1, &c, context));
  OK(cuGraphAddMemFreeNode(&free_node, graph, &copy, 1, q));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&free_node, graph, &copy, 1, q));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&free_node, graph, &copy, 1, p));
  CUDA_MEM_ALLOC_NODE_PARAMS got = {};
  OK(cuGraphMemAllocNodeGetParams(a, &got));
  EXPECT_EQ(got.dptr, q);
  EXPECT_EQ(got.bytesize, 4096u);
  CUdeviceptr freed = 0;
  OK(cuGraphMemFreeNodeGetParams(free_node, &freed));
  EXPECT_EQ(freed, q);
  // Restrictions of graphs with memory nodes.
  CUgraph clone = nullptr;
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(copy));
  CUgraphExec exec = instantiate(graph), second = nullptr;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&second, graph, 0));
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
  for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, s));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(read_int(p), 9);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_GE(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4096u);
  EXPECT_GE(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4096u);
  OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
  cuuint64_t zero = 0;
  OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0u);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGraphMemTrim(99));
  OK(cuMemsetD8(p, 0, 16));
  OK(cuCtxSynchronize());
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 9);
  OK(cuGraphExecDestroy(exec));
  exec = instantiate(graph);  // again possible
  OK(cuGraphExecDestroy(exec));
}

TEST_F(GraphMemory, OutlivesItsGraphUntilFreed) {
  CUdeviceptr q = 0;
  CUgraphNode a = alloc(graph, 1000, q);
  kernel_node(graph, set, q, 21, {a});
  CUgraphExec exec = instantiate(graph);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(q));  // not there yet
  launch_and_wait(exec);
  EXPECT_EQ(read_int(q), 21);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, s));  // still allocated
  OK(cuMemFree(q));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(q));
  OK(cuGraphLaunch(exec, s));
  // Freed by a node of another graph.
  CUgraph other = nullptr;
  OK(cuGraphCreate(&other, 0));
  CUgraphNode f;
  OK(cuGraphAddMemFreeNode(&f, other, nullptr, 0, q));
  CUgraphExec freeing = instantiate(other);
  OK(cuGraphLaunch(freeing, s));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(freeing, s));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  OK(cuGraphLaunch(exec, s));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(read_int(q), 21);  // neither graph nor executable is left
  OK(cuMemFree(q));
}

TEST_F(GraphMemory, AutoFreeOnLaunch) {
  CUdeviceptr q = 0;
  CUgraphNode a = alloc(graph, 64, q);
  CUgraphNode b = kernel_node(graph, set, q, 1, {a});
  kernel_node(graph, add, q, 1, {b});
  CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int i = 0; i < 4; ++i) OK(cuGraphLaunch(exec, s));
  OK(cuStreamSynchronize(s));
  EXPECT_EQ(read_int(q), 2);
  OK(cuMemFree(q));
}

TEST_F(GraphMemory, StreamOrderedCallsBecomeNodes) {
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr q = 0, kept = 0;
  int value = 17;
  OK(cuMemAllocAsync(&q, 256, s));
  OK(run(set, {&q, &value}, s));
  OK(cuMemcpyDtoDAsync(p, q, 4, s));
  OK(cuMemFreeAsync(q, s));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));  // not of this graph
  OK(cuMemAllocAsync(&kept, 256, s));
  OK(run(set, {&kept, &value}, s));
  CUgraph captured = nullptr;
  OK(cuStreamEndCapture(s, &captured));
  CUgraphNode nodes[8];
  size_t count = 8;
  OK(cuGraphGetNodes(captured, nodes, &count));
  ASSERT_EQ(count, 6u);
  CUgraphNodeType type;
  OK(cuGraphNodeGetType(nodes[0], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  OK(cuGraphNodeGetType(nodes[3], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
  CUgraphExec exec = instantiate(captured);
  launch_and_wait(exec);
  EXPECT_EQ(read_int(p), 17);
  EXPECT_EQ(read_int(kept), 17);
  OK(cuMemFreeAsync(kept, s));
  launch_and_wait(exec);
  OK(cuMemFreeAsync(kept, s));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(kept, s));
  OK(cuStreamSynchronize(s));
}

TEST_F(GraphMemory, FreedInsideMeansGone) {
  CUdeviceptr q = 0;
  CUgraphNode a = alloc(graph, 64, q), f;
  OK(cuGraphAddMemFreeNode(&f, graph, &a, 1, q));
  kernel_node(graph, set, q, 1, {f});
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, s));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
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

// Independent nodes overlap in virtual time, dependent ones do not.
TEST_F(Graphs, BranchesOverlap) {
  const size_t bytes = size_t{64} << 20;
  CUdeviceptr q[2];
  void* host[2];
  for (int i = 0; i < 2; ++i) {
    OK(cuMemAlloc(&q[i], bytes));
    OK(cuMemHostAlloc(&host[i], bytes, 0));
  }
  auto copy = [&](int i, bool up) {
    CUDA_MEMCPY3D c = flat(q[i], q[i], bytes);
    (up ? c.srcMemoryType : c.dstMemoryType) = CU_MEMORYTYPE_HOST;
    if (up)
      c.srcHost = host[i];
    else
      c.dstHost = host[i];
    return c;
  };
  CUevent start, stop;
  OK(cuEventCreate(&start, 0));
  OK(cuEventCreate(&stop, 0));
  auto time = [&](bool chained) {
    CUgraph g = nullptr;
    EXPECT_EQ(cuGraphCreate(&g, 0), CUDA_SUCCESS);
    CUgraphNode a, b;
    CUDA_MEMCPY3D up = copy(0, true), down = copy(1, false);
    EXPECT_EQ(cuGraphAddMemcpyNode(&a, g, nullptr, 0, &up, context), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphAddMemcpyNode(&b, g, &a, chained ? 1 : 0, &down, context), CUDA_SUCCESS);
    CUgraphExec exec = instantiate(g);
    EXPECT_EQ(cuEventRecord(start, s), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, s), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(stop, s), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(stop), CUDA_SUCCESS);
    float ms = 0;
    EXPECT_EQ(cuEventElapsedTime(&ms, start, stop), CUDA_SUCCESS);
    return ms;
  };
  const float side_by_side = time(false), one_by_one = time(true);
  EXPECT_GT(one_by_one, side_by_side * 1.8f);
  for (int i = 0; i < 2; ++i) {
    OK(cuMemFree(q[i]));
    OK(cuMemFreeHost(host[i]));
  }
}

// One record for the launch and one for each node inside it.
TEST_F(Graphs, TimelineAtBothLevels) {
  struct Seen {
    std::string kind, name;
    uint64_t start_ns, end_ns, graph, node, correlation;
  };
  static std::vector<Seen> seen;
  seen.clear();
  auto subscribe = reinterpret_cast<decltype(&simgpu_subscribe)>(dlsym(RTLD_DEFAULT, "simgpu_subscribe"));
  auto unsubscribe =
      reinterpret_cast<decltype(&simgpu_unsubscribe)>(dlsym(RTLD_DEFAULT, "simgpu_unsubscribe"));
  auto id_of = reinterpret_cast<decltype(&simgpu_graph_id)>(dlsym(RTLD_DEFAULT, "simgpu_graph_id"));
  auto node_id_of =
      reinterpret_cast<decltype(&simgpu_graph_node_id)>(dlsym(RTLD_DEFAULT, "simgpu_graph_node_id"));
  ASSERT_TRUE(subscribe && unsubscribe && id_of && node_id_of);
  CUgraphNode a = kernel_node(graph, set, p, 1), b = kernel_node(graph, add, p, 1, {a});
  CUgraphExec exec = instantiate(graph);
  const int id = subscribe(
      [](void*, const simgpu_record* r) {
        if (strcmp(r->kind, "api") && strcmp(r->kind, "sync"))
          seen.push_back(
              {r->kind, r->name, r->start_ns, r->end_ns, r->graph_id, r->graph_node_id, r->correlation});
      },
      nullptr);
  launch_and_wait(exec);
  unsubscribe(id);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].name, "set_value");
  EXPECT_EQ(seen[0].node, node_id_of(a));
  EXPECT_EQ(seen[1].node, node_id_of(b));
  EXPECT_EQ(seen[2].kind, "graph");
  EXPECT_EQ(seen[2].node, 0u);
  for (const Seen& record : seen) {
    EXPECT_EQ(record.graph, id_of(graph));
    EXPECT_EQ(record.correlation, seen[2].correlation);
  }
  EXPECT_LE(seen[2].start_ns, seen[0].start_ns);
  EXPECT_LE(seen[0].end_ns, seen[1].start_ns);
  EXPECT_GE(seen[2].end_ns, seen[1].end_ns);
}

// A chain of short kernels takes less virtual time as a graph than launched one by one.
TEST_F(Graphs, CheaperThanLaunches) {
  CUgraphNode last = kernel_node(graph, set, p, 0);
  for (int i = 0; i < 99; ++i) last = kernel_node(graph, add, p, 1, {last});
  CUgraphExec exec = instantiate(graph);
  CUevent start, stop;
  OK(cuEventCreate(&start, 0));
  OK(cuEventCreate(&stop, 0));
  float eager = 0, graphed = 0;
  OK(cuEventRecord(start, s));
  int zero = 0, one = 1;
  OK(run(set, {&p, &zero}, s));
  for (int i = 0; i < 99; ++i) OK(run(add, {&p, &one}, s));
  OK(cuEventRecord(stop, s));
  OK(cuEventSynchronize(stop));
  OK(cuEventElapsedTime(&eager, start, stop));
  OK(cuEventRecord(start, s));
  OK(cuGraphLaunch(exec, s));
  OK(cuEventRecord(stop, s));
  OK(cuEventSynchronize(stop));
  OK(cuEventElapsedTime(&graphed, start, stop));
  printf("100 short kernels: %.1f us launched one by one, %.1f us as a graph\n", double(eager) * 1e3,
         double(graphed) * 1e3);
  EXPECT_LT(graphed, eager);
  EXPECT_EQ(read_int(p), 99);
}

TEST_F(Graphs, TenThousandNodes) {
  CUgraphNode last = kernel_node(graph, set, p, 0);
  for (int i = 0; i < 9999; ++i) last = kernel_node(graph, add, p, 1, {last});
  CUgraphExec exec = instantiate(graph);
  double best_ms = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    OK(cuGraphLaunch(exec, s));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best_ms = std::min(best_ms, took.count());
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(read_int(p), 9999);
  }
  printf("10 000 nodes: launch %.2f ms of host time\n", best_ms);
  EXPECT_LT(best_ms, 100);
}
}  // namespace
