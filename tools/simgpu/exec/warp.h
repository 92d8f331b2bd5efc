// Run-time state of warps and blocks, and the moves between groups of lanes. One worker thread at a time owns
// a block and everything in it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simgpu/exec/core.h"

namespace simgpu::exec {

constexpr int64_t kTurnBudget = 16384;  // cost of one warp's turn

struct Function;
struct ExecutionImpl;

struct CallRecord {
  const Inst* return_pc;
  uint32_t fp32, fp64, fpp;
  uint64_t local_base, local_sp;
  const Function* function;  // the caller
};

// What a group of lanes waits for.
enum class Wait : uint8_t { none, barrier, warp_sync, sleep, cluster };

// Lanes that run together. The running group lives in Ctx, the others here.
struct Group {
  const Inst* pc = nullptr;
  uint32_t mask = 0;
  Node* node = nullptr;
  uint32_t depth = 0, fp32 = 0, fp64 = 0, fpp = 0;
  uint64_t local_base = 0, local_sp = 0;
  const Function* function = nullptr;
  std::vector<CallRecord> calls;
  Wait wait = Wait::none;
  uint32_t wait_mask = 0;  // warp_sync: lanes named by the instruction
  uint32_t barrier = 0;    // barrier: which
};

struct Warp {
  uint32_t index = 0;  // in its block
  uint32_t live = 0;   // lanes that have not exited
  uint32_t lanes = 0;  // lanes that ever existed
  bool done = false;
  bool started = false;
  uint8_t* rows32 = nullptr;
  uint8_t* rows64 = nullptr;
  uint32_t* preds = nullptr;
  uint8_t* special = nullptr;
  uint64_t capacity32 = 0, capacity64 = 0, capacityp = 0;
  std::vector<Group> runnable, waiting;
  std::vector<CallRecord> calls;       // of the running group
  const Function* function = nullptr;  // of the running group
  std::vector<Node*> nodes;            // all nodes that hold arrived lanes or have pending groups
  std::vector<Node*> free_nodes;
  std::vector<std::unique_ptr<Node>> node_storage;
  uint32_t quiet_turns = 0;             // turns used up since lanes last met or exited
  uint32_t released = 0;                // lanes that need not wait at their next warp-wide instruction
  uint32_t cluster_phase[kLanes] = {};  // cluster barrier phase each lane waits for
  std::vector<uint8_t*> grown;          // rows that outgrew the block's own (deep recursion)

  Warp() = default;
  Warp(Warp&&) = default;
  Warp& operator=(Warp&&) = default;
  ~Warp();
  Node* make_node();
  void drop_node(Node*);
};

struct Barrier {
  uint32_t arrived = 0;                                     // threads
  uint32_t expected = 0;                                    // 0: all live threads
  uint32_t red_and = 1, red_or = 0, red_popc = 0;           // being collected
  uint32_t result_and = 0, result_or = 0, result_popc = 0;  // of the last phase
  bool active = false;                                      // somebody has arrived in this phase
  std::vector<uint32_t> warp_arrived;                       // lanes per warp
};

struct Block {
  Dim3 index;
  uint64_t linear = 0;
  uint32_t cluster_rank = 0;
  uint8_t* shared = nullptr;
  uint32_t shared_bytes = 0;
  std::vector<Warp> warps;
  Barrier barriers[16];
  uint32_t live_threads = 0;
  uint32_t next_warp = 0;
  bool done = false;
  uint8_t* memory = nullptr;          // register rows of all warps
  uint8_t* block_rows = nullptr;      // inside `memory`
  uint8_t* local = nullptr;           // local memory of all threads
  struct Cluster* cluster = nullptr;  // of one block in ordinary launches
  Block() = default;
  Block(const Block&) = delete;
  ~Block();
};

// Blocks that are scheduled together; a cluster of one in ordinary launches.
struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  uint32_t barrier_arrived = 0;
  uint64_t barrier_phase = 0;
  bool done = false;
};

// Moves between groups, used by control and synchronisation handlers.
void save_group(Ctx*, const Inst* pc, Group& out);  // the running group; moves the call stack out
const Inst* load_group(Ctx*, Group&& g);            // becomes the running group; returns its pc
const Inst* next_group(Ctx*);                       // a runnable group, or null with Ctx::stop set
const Inst* wait_group(Ctx*, const Inst* resume_at, Wait, uint32_t wait_mask,
                       uint32_t barrier);  // park it, take another
const Inst* retire_lanes(Ctx*);            // the running group exits
bool release_held(Warp&);                  // let lanes go on past a node others do not reach
void set_mask(Ctx*, uint32_t mask);
void enter_frame(Ctx*);  // base pointers from fp32, fp64, fpp
bool ensure_rows(Ctx*, uint64_t rows32, uint64_t rows64, uint64_t preds);

// Barriers (handlers_sync.cpp).
void barrier_lanes_exited(Ctx*);  // after lanes exited: waiting barriers may be complete
void wake_warp_sync(Ctx*);

const class ProgramImpl* program_of(Ctx*);

// Scheduling (scheduler.cpp): runs one warp until it waits, finishes, faults or used its budget.
Stop run_warp(Ctx*, Warp&, Block&);

}  // namespace simgpu::exec
