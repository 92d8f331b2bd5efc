#include "tools/simgpu/nccl/group.h"

#include <algorithm>
#include <thread>
#include <tuple>

#include "tools/simgpu/nccl/cost.h"

namespace simgpu::nccl {

namespace {

struct Pending {
  Operation* operation;
  CUstream stream;
};
struct Init {
  ncclComm* waiter;
  Steps steps;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
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

// Collectives of one kind in a group whose sizes are within four times of the smallest share one choice of
// the algorithm, by their sum: so grouping can change bits.
void choose_together(const std::vector<Operation*>& collectives) {
  std::vector<Operation*> sorted = collectives;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Operation* a, const Operation* b) {
    const auto key = [](const Operation* o) {
      return std::tuple(int(o->function), int(o->type), o->op, o->choice_bytes());
    };
    return key(a) < key(b);
  });
  for (size_t i = 0; i < sorted.size();) {
    const Operation& least = *sorted[i];
    const uint64_t smallest = least.choice_bytes();
    uint64_t sum = 0;
    size_t end = i;
    while (end < sorted.size() && sorted[end]->function == least.function &&
           sorted[end]->type == least.type && sorted[end]->op == least.op &&
           sorted[end]->choice_bytes() < 4 * std::max<uint64_t>(smallest, 1))
      sum += sorted[end++]->choice_bytes();
    if (end == i) ++end;  // of no bytes
    for (size_t k = i; k < end; ++k)
      if (end - i > 1) sorted[k]->group_bytes = sum;
    i = end;
  }
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
    choose_together(collectives);
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

namespace {
ncclResult_t take_steps(const std::vector<Init>& inits) {
  bool more = true;
  for (size_t step = 0; more; ++step) {
    more = false;
    for (const Init& init : inits) {
      if (step >= init.steps.size()) continue;
      more = true;
      if (const ncclResult_t r = init.steps[step](); r != ncclSuccess) return r;
    }
  }
  return ncclSuccess;
}
ncclResult_t start_steps(std::vector<Init> inits) {
  const auto polled = [](const Init& init) { return init.waiter && !init.waiter->blocking; };
  if (inits.empty() || !std::all_of(inits.begin(), inits.end(), polled)) return take_steps(inits);
  for (const Init& init : inits) init.waiter->async_error.store(ncclInProgress);
  std::thread([inits = std::move(inits)] {
    const ncclResult_t r = take_steps(inits);
    for (const Init& init : inits) init.waiter->async_error.store(r);
  }).detach();
  return ncclInProgress;
}

void discard(std::vector<Pending>& pending) {
  for (Pending& p : pending) delete p.operation;
  pending.clear();
}

// All of one kind: enqueue() refuses a mixture.
ncclResult_t defer(std::vector<Pending>& pending) {
  for (const Pending& p : pending) {
    ncclComm* comm = p.operation->comm;
    {
      std::lock_guard lock(comm->mutex);
      comm->deferred.emplace_back(p.operation, p.stream);
    }
    comm->async_error.store(ncclInProgress);
  }
  pending.clear();
  return ncclInProgress;
}

// The group as it was, which is over for this thread.
struct Ended {
  std::vector<Init> inits;
  std::vector<Pending> pending;
  ncclResult_t error = ncclSuccess;
};
Ended end_outermost(Group& g) {
  Ended ended;
  std::swap(ended.inits, g.inits);
  std::swap(ended.pending, g.pending);
  std::swap(ended.error, g.error);
  return ended;
}
}  // namespace

ncclResult_t group_end() {
  Group& g = group();
  if (g.depth == 0) return fail(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--g.depth > 0) return ncclSuccess;
  Ended ended = end_outermost(g);
  ncclResult_t result = ended.error;
  if (result == ncclSuccess) result = start_steps(std::move(ended.inits));
  if (result != ncclSuccess && result != ncclInProgress) {
    discard(ended.pending);
    return result;
  }
  if (ended.pending.empty()) return result;
  return ended.pending.front().operation->comm->blocking ? submit_all(ended.pending) : defer(ended.pending);
}

ncclResult_t group_simulate_end(uint64_t& duration) {
  Group& g = group();
  if (g.depth == 0) return fail(nullptr, ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
  duration = 0;
  if (--g.depth > 0) return ncclSuccess;
  Ended ended = end_outermost(g);
  // One communicator's operations run one after the other, those of different ones side by side.
  for (const Pending& p : ended.pending) {
    uint64_t sum = 0;
    for (const Pending& q : ended.pending)
      if (q.operation->comm == p.operation->comm) sum += duration_ns(*q.operation);
    duration = std::max(duration, sum);
  }
  discard(ended.pending);
  return ended.error;
}

void submit_deferred(ncclComm* comm) {
  std::vector<Pending> pending;
  {
    std::lock_guard lock(comm->mutex);
    for (auto& [operation, stream] : comm->deferred) pending.push_back({operation, stream});
    comm->deferred.clear();
  }
  if (pending.empty()) return;
  const ncclResult_t r = submit_all(pending);
  int expected = ncclInProgress;
  comm->async_error.compare_exchange_strong(expected, r);  // what went wrong meanwhile stays
}

ncclResult_t refuse(ncclResult_t result) {
  Group& g = group();
  if (g.depth > 0 && result != ncclSuccess && result != ncclInProgress && g.error == ncclSuccess)
    g.error = result;
  return result;
}

ncclResult_t enqueue(Operation* operation, CUstream stream) {
  Group& g = group();
  ncclComm* comm = operation->comm;
  if (g.depth == 0) {
    if (comm->blocking) return submit(operation, stream);
    std::vector<Pending> one{{operation, stream}};
    return defer(one);
  }
  if (!g.pending.empty() && g.pending.front().operation->comm->blocking != comm->blocking) {
    delete operation;
    return fail(comm, ncclInvalidArgument, "blocking and non-blocking communicators in one group");
  }
  g.pending.push_back({operation, stream});
  return ncclSuccess;
}

ncclResult_t enqueue_init(ncclComm* waiter, Steps steps) {
  Group& g = group();
  if (g.depth > 0) {
    g.inits.push_back({waiter, std::move(steps)});
    return ncclSuccess;
  }
  std::vector<Init> one;
  one.push_back({waiter, std::move(steps)});
  return start_steps(std::move(one));
}

}  // namespace simgpu::nccl
