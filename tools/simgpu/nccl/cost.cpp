#include "tools/simgpu/nccl/cost.h"

#include <algorithm>
#include <cmath>

namespace simgpu::nccl {

namespace {

double link(const ncclComm& comm, int a, int b) {
  const auto& slots = comm.clique->memory().slot;
  const double rate = driver().link_bytes_per_s(slots[a].cuda_device, slots[b].cuda_device);
  if (rate > 0) return rate * kLinkEfficiency;
  // No peer link: through the host, two hops on the slower of the two host links.
  const double host = std::min(driver().link_bytes_per_s(slots[a].cuda_device, -1),
                               driver().link_bytes_per_s(slots[b].cuda_device, -1));
  return std::max(1e9, host / 2 * kLinkEfficiency);
}

double ring_rate(const ncclComm& comm) {
  double slowest = 1e15;
  for (int r = 0; r < comm.ranks; ++r) slowest = std::min(slowest, link(comm, r, (r + 1) % comm.ranks));
  return slowest;
}

}  // namespace

double sm_fraction(const ncclComm& comm) {
  int sms = 0;
  driver().cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, comm.device);
  return sms > 0 ? std::min(1.0, kBlocks / sms) : 1.0;
}

uint64_t duration_ns(const Operation& o) {
  const ncclComm& comm = *o.comm;
  const double n = comm.ranks, bytes = static_cast<double>(std::max(o.in_bytes, o.out_bytes));
  if (!o.transfers.empty()) {
    double longest = 0;
    for (bool send : {true, false}) {
      double sum = 0;
      for (const Transfer& t : o.transfers) {
        if ((t.function == Function::send) == send && t.peer != comm.rank)
          sum += static_cast<double>(t.bytes) / link(comm, comm.rank, t.peer);
      }
      longest = std::max(longest, sum);
    }
    return static_cast<uint64_t>(kBaseNs + kHopNs + longest * 1e9);
  }
  if (comm.ranks == 1) return static_cast<uint64_t>(kBaseNs);
  const double rate = ring_rate(comm);
  double volume = bytes, hops = n - 1;
  switch (o.function) {
    case Function::all_reduce:
      if (o.choice_bytes() <= kTreeBytes)
        return static_cast<uint64_t>(kBaseNs + 2 * kHopNs * std::ceil(std::log2(n)) + 2 * bytes / rate * 1e9);
      volume = 2 * (n - 1) / n * bytes;
      hops = 2 * (n - 1);
      break;
    case Function::all_gather:
    case Function::reduce_scatter:
    case Function::all_to_all:
    case Function::gather:
    case Function::scatter:
      volume = (n - 1) / n * bytes;
      break;
    default:
      break;
  }
  return static_cast<uint64_t>(kBaseNs + kHopNs * hops + volume / rate * 1e9);
}

}  // namespace simgpu::nccl
