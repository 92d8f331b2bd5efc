// Executable graphs: updates, flags, faults, and what launches promise of time and order.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/driver/graph_fixture.h"
#include "tools/simgpu/driver/private_api.h"

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
