#include "tools/simgpu/nccl/group.h"

#include <algorithm>

namespace simgpu::nccl {

namespace {

struct Pending {
  Operation* operation;
  CUstream stream;
};
struct Init {
  std::function<ncclResult_t()> begin, complete;
};
struct Group {
  int depth = 0;
  std::vector<Pending> pending;
  std::vector<Init> inits;
};
Group& group() {
  static thread_local Group g;
  return g;
}

// What runs on `on` next waits for everything in `of` so far.
void join(CUstream on, CUstream of) {
  CUevent event = nullptr;
  if (driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return;
  driver().cuEventRecord(event, of);
  driver().cuStreamWaitEvent(on, event, 0);
  driver().cuEventDestroy_v2(event);
}

ncclResult_t submit_all(std::vector<Pending>& pending) {
  ncclResult_t result = ncclSuccess;
  std::vector<ncclComm*> comms;
  for (const Pending& p : pending) {
    if (std::find(comms.begin(), comms.end(), p.operation->comm) == comms.end())
      comms.push_back(p.operation->comm);
  }
  for (ncclComm* comm : comms) {
    CUstream first = nullptr;
    std::vector<CUstream> others;
    bool have = false;
    Operation* together = nullptr;
    std::vector<Operation*> collectives;
    for (Pending& p : pending) {
      if (p.operation->comm != comm) continue;
      if (!have)
        first = p.stream, have = true;
      else if (p.stream != first && std::find(others.begin(), others.end(), p.stream) == others.end())
        others.push_back(p.stream);
      if (p.operation->transfers.empty()) {
        collectives.push_back(p.operation);
      } else if (!together) {
        together = p.operation;
      } else {
        together->transfers.insert(together->transfers.end(), p.operation->transfers.begin(),
                                   p.operation->transfers.end());
        delete p.operation;
      }
    }
    for (CUstream other : others) join(first, other);
    if (together) collectives.push_back(together);
    for (Operation* o : collectives) {
      const ncclResult_t r = submit(o, first);
      if (result == ncclSuccess) result = r;
    }
    for (CUstream other : others) join(other, first);
  }
  pending.clear();
  return result;
}

}  // namespace

bool in_group() { return group().depth > 0; }

ncclResult_t group_start() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  Group& g = group();
  if (g.depth == 0) return fail(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--g.depth > 0) return ncclSuccess;
  std::vector<Init> inits;
  std::swap(inits, g.inits);
  ncclResult_t result = ncclSuccess;
  for (Init& init : inits) {
    const ncclResult_t r = init.begin();
    if (result == ncclSuccess) result = r;
  }
  for (Init& init : inits) {
    if (result == ncclSuccess) result = init.complete();
  }
  std::vector<Pending> pending;
  std::swap(pending, g.pending);
  if (result != ncclSuccess) {
    for (Pending& p : pending) delete p.operation;
    return result;
  }
  return submit_all(pending);
}

ncclResult_t enqueue(Operation* operation, CUstream stream) {
  Group& g = group();
  if (g.depth == 0) return submit(operation, stream);
  ncclComm* comm = operation->comm;
  if (!g.pending.empty() && g.pending.front().operation->comm->blocking != comm->blocking) {
    delete operation;
    return fail(comm, ncclInvalidArgument, "blocking and non-blocking communicators in one group");
  }
  g.pending.push_back({operation, stream});
  return ncclSuccess;
}

ncclResult_t enqueue_init(std::function<ncclResult_t()> begin, std::function<ncclResult_t()> complete) {
  Group& g = group();
  if (g.depth > 0) {
    g.inits.push_back({std::move(begin), std::move(complete)});
    return ncclSuccess;
  }
  const ncclResult_t r = begin();
  return r == ncclSuccess ? complete() : r;
}

}  // namespace simgpu::nccl
