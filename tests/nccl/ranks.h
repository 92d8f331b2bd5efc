// Ranks as threads on simulated devices, for the tests of libnccl.so.2. Links the build's libcudart and
// libnccl.
#pragma once
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>
#include <vector>

namespace simgpu::testing {

struct Rank {
  int rank = 0, ranks = 1;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  void* upload(const void* data, size_t bytes) const {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, bytes ? bytes : 1), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(p, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
  }
  template <class T>
  std::vector<T> download(const void* p, size_t count) const {
    std::vector<T> v(count);
    EXPECT_EQ(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return v;
  }
};

inline void on_ranks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([=, &body] {
      Rank me;
      me.rank = r;
      me.ranks = ranks;
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      ASSERT_EQ(ncclCommInitRank(&me.comm, ranks, id, r), ncclSuccess) << ncclGetLastError(nullptr);
      ASSERT_EQ(cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking), cudaSuccess);
      body(me);
      cudaStreamDestroy(me.stream);
      ncclCommDestroy(me.comm);
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace simgpu::testing
