// How long an operation takes: ring and tree formulas over the slowest link between neighbours. Marks: K
// assumed, S from NCCL's public planner constants (research/overlap.md section 5: 80 % of a link's rate is
// what its tables count on).
#pragma once
#include "tools/simgpu/nccl/operation.h"

namespace simgpu::nccl {

inline constexpr double kLinkEfficiency = 0.8;     // S
inline constexpr double kBaseNs = 6000;            // K: launch to first byte
inline constexpr double kHopNs = 900;              // K: per ring or tree step
inline constexpr double kBlocks = 16;              // S: thread blocks (channels) of a collective
inline constexpr uint64_t kTreeBytes = 32 * 1024;  // K: up to here the tree order is used

uint64_t duration_ns(const Operation& operation);
double sm_fraction(const ncclComm& comm);

}  // namespace simgpu::nccl
