// The race detector. SIMGPU_RACES=report|error|off (default off): two accesses to the same bytes, at least
// one of them a write and not both atomic, by pieces of device work that nothing orders. Order comes from the
// dependency DAG (streams, events, legacy rules, graphs) and from host waits; host threads count as one.
// `error` also fails the context with LAUNCH_FAILED. Reports begin with "simgpu: race" and name both sites.
// Engine mutex held in every call.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/op.h"

namespace simgpu::driver {

bool races_watched();

// An op's place in the partial order: a vector clock over chains, chains being runs of ops that follow each
// other.
struct RaceState {
  std::vector<uint32_t> clock;
  std::vector<uint32_t> met;  // of ops it waits for while it runs: before its followers, not before itself
  uint32_t chain = 0, epoch = 0;  // of the op itself; epoch 0 until linked
};

void race_order(Op& later, const Op& earlier);  // `earlier` has executed and `later` depends on it
void race_linked(Op& op);                       // dependencies known
void race_executed(Op& op);                     // functional effect happened: its accesses are judged
void race_meet(Op& a,
               Op& b);  // two ops that wait for each other (a collective): what follows one follows both
void race_host_waited(const Op& op);  // a host thread knows that it has completed
// The same knowledge when the ops themselves are gone: the last of a stream, everything completed of a
// context.
void race_host_synced(const Stream& stream);
void race_host_synced(const Context& context);
void race_completed(Op& op, bool last_of_stream);
// Device order through a stream whose last op has completed and left.
void race_after_stream(Op& later, const Stream& stream);
void race_forget(uint64_t base, uint64_t bytes);  // memory was freed
// What the host knows to be complete; and mapped memory (its first view) it takes away knowing only so much:
// a use it had not waited for is reported.
std::vector<uint32_t> race_host_clock();
void race_unmapped(uint64_t base, uint64_t bytes, const std::vector<uint32_t>& known);

struct RaceCounts {
  uint64_t reports = 0, segments = 0;
};
RaceCounts race_counts();
}  // namespace simgpu::driver
