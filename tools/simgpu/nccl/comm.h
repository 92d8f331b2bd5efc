// A communicator: one rank's end of a clique. Handles are checked by a registry, so that freed and foreign
// pointers are answered and not followed. Owned by the program until destroy or abort; freed memory is kept
// (a stale handle stays safe).
#pragma once
#include <nccl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/simgpu/nccl/clique.h"
#include "tools/simgpu/nccl/driver.h"

namespace simgpu::nccl {
struct Operation;
}

// A window as its owner's rank knows it; the handle is its address. Kept after deregistration, so that a
// stale handle is answered and not followed.
struct ncclWindow_vidmem {
  uint64_t address = 0, bytes = 0;
  bool symmetric = false, live = false;
};

struct ncclComm {
  static constexpr uint64_t kAlive = 0x6d6d6f634c43434eull;  // "NCCLcomm"
  uint64_t alive = kAlive;
  simgpu::nccl::Clique* clique = nullptr;
  int rank = 0, ranks = 1, device = 0;
  CUcontext context = nullptr;
  bool blocking = true, revoked = false;
  std::atomic<uint64_t> collective_sequence{0};
  std::vector<uint64_t> send_sequence, recv_sequence;  // by peer
  uint64_t splits = 0;
  std::atomic<int> pending{0};  // works begun and not finished
  std::atomic<bool> aborted{false}, finalized{false};
  std::atomic<int> async_error{ncclSuccess};
  std::mutex mutex;
  std::string last_error;
  struct CustomOp {
    bool live = false, device_scalar = false;
    ncclDataType_t type{};
    uint8_t scalar[8] = {};
    uint64_t address = 0;
  };
  std::vector<CustomOp> custom_ops;
  // Non-blocking: asked for, not in the stream yet. Under the mutex.
  std::vector<std::pair<simgpu::nccl::Operation*, CUstream>> deferred;
  std::vector<std::pair<uint64_t, size_t>> registered;      // index + 1 is the handle; under the mutex
  std::vector<std::unique_ptr<ncclWindow_vidmem>> windows;  // under the mutex
};

namespace simgpu::nccl {

bool is_comm(const ncclComm* comm);
void remember(ncclComm* comm);
void forget(ncclComm* comm);

// Reports to NCCL_DEBUG-style stderr (when NCCL_DEBUG is WARN or more) and keeps the text for
// ncclGetLastError.
ncclResult_t fail(ncclComm* comm, ncclResult_t result, const std::string& text);
const char* last_error(const ncclComm* comm);

// simgpu's own findings go to stderr always: mismatches, ranks that never come, dead ranks.
void report(const std::string& text);

}  // namespace simgpu::nccl
