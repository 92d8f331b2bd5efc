// Ranks on simulated devices, for the tests of libnccl.so.2: threads, or with SHUNT_TEST_RANKS=processes a
// process each (then the test itself must not have used CUDA before). Links the build's libcudart and
// libnccl.
#pragma once
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
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

inline bool ranks_are_processes() {
  const char* kind = getenv("SHUNT_TEST_RANKS");
  return kind && std::string_view(kind) == "processes";
}

inline void on_ranks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto live = [=, &body](int r) {
    Rank me;
    me.rank = r;
    me.ranks = ranks;
    ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
    ASSERT_EQ(ncclCommInitRank(&me.comm, ranks, id, r), ncclSuccess) << ncclGetLastError(nullptr);
    ASSERT_EQ(cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking), cudaSuccess);
    body(me);
    cudaStreamDestroy(me.stream);
    ncclCommDestroy(me.comm);
  };
  if (ranks_are_processes()) {
    std::vector<pid_t> children;
    fflush(nullptr);
    for (int r = 0; r < ranks; ++r) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      live(r);
      fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    for (size_t r = 0; r < children.size(); ++r) {
      int status = -1;
      ASSERT_EQ(waitpid(children[r], &status, 0), children[r]);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << r << ": status " << status;
    }
    return;
  }
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(live, r);
  for (auto& t : threads) t.join();
}

}  // namespace simgpu::testing
