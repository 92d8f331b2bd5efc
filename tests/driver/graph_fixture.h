// A graph under construction with two kernels, a buffer and two streams.
#pragma once
#include <vector>

#include "tests/driver/driver_test.h"

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
