// One piece of device work. An OpBody says what is done (immutable, shared by a graph node and all its
// launches); an Op is one execution of it: a node of the dependency DAG with its virtual times. Two
// independent facts are kept of each op:
//   executed   its functional effect on memory has happened (in some legal order),
//   completed  the discrete-event simulator has given it its virtual end time.
// Both run along the same dependencies, so the progress thread may execute ahead without disturbing virtual
// time. Guarded by the engine mutex; OpBody::execute() runs without it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/cuda_api.h"
#include "tools/simgpu/exec/exec.h"

namespace simgpu::driver {

struct Context;
struct Stream;
struct Op;
struct RaceState;
class Engine;
using OpRef = std::shared_ptr<Op>;

enum class OpKind : uint8_t {
  kernel,
  memcpy,
  memset,
  host_function,
  event_record,
  event_wait,
  memory_wait,
  memory_write,
  alloc,
  free,
  graph_begin,
  graph_end,
  empty,
  prefetch,
  custom,
  ipc_record,
  ipc_wait,
};

// Shared bandwidth of a device that running ops divide among themselves. `share` is the part of it an op uses
// when alone.
enum class Resource : uint8_t { sm, dram, host_in, host_out, peer_in, peer_out, count };
struct ResourceUse {
  int device = 0;
  Resource resource = Resource::sm;
  double share = 0;
};

// What the simulator must know before an op starts, and how long it takes once executed.
struct Demand {
  double sm_fraction = 0;    // SM slots held from start to end, of `device`
  bool all_at_once = false;  // cooperative: wait until the whole fraction is free
  bool copy_engine = false;  // one copy engine of `device`
};
struct Cost {
  uint64_t duration_ns = 0;  // alone on the device
  std::vector<ResourceUse> uses;
};

class OpBody {
 public:
  enum class Step {
    done,
    again /* call again later: spins or needs more budget */,
    waiting /* an outside party decides */
  };
  explicit OpBody(OpKind k) : kind(k) {}
  virtual ~OpBody() = default;
  const OpKind kind;
  virtual std::string name() const = 0;
  virtual Demand demand(const Op&) const { return {}; }
  // The functional effect. Called without the engine mutex by one thread at a time until it says done. A
  // failure goes to op.error (a CUresult that becomes sticky for the context).
  virtual Step execute(Op& op, uint64_t budget) = 0;
  virtual Cost cost(const Op& op) const { return {}; }
  virtual uint64_t bytes() const { return 0; }
  // Bytes touched, for the race detector; kernels report theirs through Execution.
  virtual void accesses(const Op& op, std::vector<exec::Access>& out) const {}
  // True when execute() only looks at memory or an outside party, so that a stall of it alone may be a
  // deadlock.
  virtual bool waits_outside() const { return false; }
  // The outside party is another process that lives: however long it takes, it is no deadlock of this one.
  virtual bool outside_is_alive() const { return false; }
};

struct Op : std::enable_shared_from_this<Op> {
  std::shared_ptr<const OpBody> body;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  int device = 0;
  int priority = 0;               // CUDA's: lower is more urgent
  uint64_t seq = 0;               // submission number, process-wide
  uint64_t correlation = 0;       // of the API call that made it
  uint64_t submit_ns = 0;         // earliest virtual start because of the host
  uint64_t extra_latency_ns = 0;  // launch or graph-node latency added to readiness
  uint64_t ready_ns = 0, start_ns = 0, end_ns = 0;
  uint64_t graph_id = 0, graph_node_id = 0;  // for records; 0 outside graphs
  bool in_graph = false;                     // node of a graph launch: not counted in its stream's queue

  bool linked = false;  // submit() has finished adding dependencies
  bool executed = false, executing = false, completed = false, started = false, abandoned = false;
  uint32_t execute_deps = 0, time_deps = 0;
  std::vector<OpRef> dependents;
  std::vector<OpRef> start_dependents;          // behind this one in the same hardware queue
  std::vector<std::weak_ptr<Op>> dependencies;  // for deadlock reports only

  std::vector<exec::Access> extra_accesses;  // of sibling libraries' work
  std::shared_ptr<RaceState> race;           // only while races are watched

  CUresult error = CUDA_SUCCESS;
  std::string error_text;
  exec::Stats stats;
  uint64_t spent =
      0;  // warp instructions granted so far: how far an unfinished kernel has come in virtual time
  std::unique_ptr<exec::Execution> execution;  // kernels in flight
  std::shared_ptr<void> scratch;               // body-private state of this execution
  std::vector<std::function<void()>>
      on_executed;  // under the engine mutex, right after the functional effect
  std::vector<std::function<void(Op&)>> on_completed;  // under the engine mutex, at the virtual end

  // Simulator state while running.
  Demand demand;
  double held_sm = 0;
  double remaining_ns = 0, rate = 1;
  uint64_t updated_ns = 0, timer_generation = 0;
  std::vector<ResourceUse> uses;
};

}  // namespace simgpu::driver
