// Memory nodes: allocations inside graphs, how long they live, what is given back.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/driver/graph_fixture.h"
#include "tools/simgpu/driver/private_api.h"

namespace {
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
}  // namespace

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
