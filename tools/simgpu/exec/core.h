// The interpreter's innermost types: one instruction, the context of the warp being run, and the services
// that handlers call. Plain data only: this header is compiled several times with different instruction-set
// flags, so it must contain no inline function that the linker could share between those copies. Everything
// here belongs to one worker thread.
#pragma once
#include <cstdint>

#include "tools/simgpu/exec/exec.h"

namespace simgpu::exec {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kFullMask = 0xffffffffu;

// Generic-address windows. They lie above the 47 bits of user space and below bit 48, so no allocation can
// collide.
constexpr uint64_t kSharedWindow = 0x0000'f000'0000'0000ull;
constexpr uint64_t kParamWindow = 0x0000'f200'0000'0000ull;
constexpr uint64_t kLocalWindow = 0x0000'f400'0000'0000ull;
constexpr uint64_t kWindowSize = 1ull << 32;
// Memory the executor itself owns: the workspace of a cooperative grid, the device heap. Global memory to
// programs.
constexpr uint64_t kInternalWindow = 0x0000'e000'0000'0000ull;
constexpr uint64_t kHeapWindow = 0x0000'e800'0000'0000ull;
constexpr uint64_t kFunctionWindow =
    0x0000'f600'0000'0000ull;  // function addresses: serial << 24 | index << 4
// A shared::cluster offset carries the owner's rank + 1 above the block's own offsets; 0 there means "this
// block".
constexpr uint32_t kClusterRankShift = 24;

struct Ctx;
struct Inst;
using Fn = const Inst* (*)(Ctx*, const Inst*);

// One decoded instruction. Operand slots are row offsets: the top three bits pick Ctx::base, the rest is a
// byte offset. Predicate operands are indices into Ctx::pred.
struct Inst {
  Fn fn[2];  // [0] every lane active, [1] under Ctx::mask
  uint32_t dst, a, b, c, d;
  uint32_t id;  // index in the program: line table, memory cache
  uint64_t imm;
  const void* aux;        // branch target, resolver, call description, ...
  const uint32_t* extra;  // further operand slots
};
static_assert(sizeof(Inst) == 64);

enum Base : uint32_t {
  kRow32 = 0,
  kRow64 = 1,
  kConstants = 2,
  kLaunchRows = 3,
  kWarpRows = 4,
  kBlockRows = 5
};
constexpr uint32_t kBaseShift = 29;
constexpr uint32_t kOffsetMask = (1u << kBaseShift) - 1;

// How many rows each special area holds and where. All are 32-bit rows unless said otherwise.
enum WarpRow : uint32_t { kTidX, kTidY, kTidZ, kWarpId, kWarpRowCount };
enum BlockRow : uint32_t {
  kCtaX,
  kCtaY,
  kCtaZ,
  kClusterIdX,
  kClusterIdY,
  kClusterIdZ,
  kClusterCtaX,
  kClusterCtaY,
  kClusterCtaZ,
  kClusterCtaRank,
  kSmId,
  kBlockRowCount
};
enum LaunchRow : uint32_t {
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaX,
  kNctaY,
  kNctaZ,
  kNclusterX,
  kNclusterY,
  kNclusterZ,
  kClusterNctaX,
  kClusterNctaY,
  kClusterNctaZ,
  kClusterNctaRank,
  kNwarpId,
  kNsmId,
  kGridIdLo,
  kDynamicSharedBase,
  kDynamicSharedSize,
  kTotalSharedSize,
  kIsExplicitCluster,
  kEnvReg1,
  kEnvReg2,
  kLaunchRowCount
};
// Launch rows continue with 64-bit rows: %gridid, dynamic shared base as 64 bits, then one per referenced
// global symbol.
constexpr uint32_t kLaunchRow64Start = ((kLaunchRowCount * 128 + 255) / 256) * 256;
enum LaunchRow64 : uint32_t { kGridId64, kDynamicSharedBase64, kLaunchRow64Count };

struct RegionEntry {
  uint64_t base, end;
  uint8_t* host;  // host address of byte `base`
  bool writable, remote, peer, valid;
};

struct Warp;
struct Block;
struct Worker;

// How a resolver left the addresses of one access.
enum Resolved : uint32_t {
  kFault = 0,
  kContiguous = 1 /* ascending from Ctx::host */,
  kUniform = 2 /* all at Ctx::host */,
  kScattered = 3 /* Ctx::ptrs */
};
using Resolver = Resolved (*)(Ctx*, const Inst*, uint32_t address_row, uint32_t bytes, uint32_t access);
enum AccessFlag : uint32_t { kRead = 1, kWrite = 2, kAtomic = 4, kScatterOnly = 8 };

// A reconvergence point of diverged lanes: those that arrive wait here until every group split off below it
// has arrived or exited. Groups that wait for others in a spin loop get past it when the scheduler releases
// the node.
struct Node {
  const Inst* pc;    // where lanes meet
  uint32_t depth;    // call depth at that place
  uint32_t pending;  // groups that are still on their way
  uint32_t arrived;  // lanes that wait here
  Node* parent;
};

enum class Stop : uint32_t { none, yield, blocked, finished, fault };

struct Ctx {
  uint8_t* base[8];
  uint32_t* pred;
  uint32_t mask;   // active lanes
  uint32_t mode;   // 0: mask is full
  int64_t budget;  // cost left before the scheduler wants the worker back
  Stop stop;
  Node* node;                // innermost reconvergence point of the running lanes
  uint32_t depth;            // call depth
  uint32_t fp32, fp64, fpp;  // frame starts, bytes (fpp: words)
  uint64_t local_base;       // current frame's local memory, offset in the thread's local window
  uint64_t local_sp;         // first free byte
  // counters, one per basic block
  uint64_t* block_threads;
  uint64_t* block_warps;
  // memory
  uint8_t* host;
  alignas(64) uint8_t* ptrs[kLanes];
  RegionEntry* regions;
  uint16_t* region_of;  // per Inst::id
  uint8_t* shared;
  uint32_t shared_bytes;
  uint8_t* local;
  uint64_t local_stride;  // bytes of local memory per thread
  const uint8_t* params;
  uint32_t param_bytes;
  bool record;
  bool spinning;  // a load or atomic that programs wait with was executed since the last turn
  Stats* stats;
  Warp* warp;
  Block* block;
  Worker* worker;
};

// Services (not inline: compiled once, for the baseline).
const Inst* diverge(Ctx*, const Inst* next, const Inst* target, const Inst* reconverge, uint32_t taken);
const Inst* arrive_at_node(Ctx*, const Inst* at);  // the running lanes reached Ctx::node
const Inst* take_turns(Ctx*, const Inst* at);      // budget used up
const Inst* raise_fault(Ctx*, const Inst*, Fault, uint64_t address, uint32_t lane, const char* text);
RegionEntry* find_region(Ctx*, const Inst*, uint64_t address, uint64_t bytes);  // null: illegal address
// `lanes` accesses of `bytes` each, one behind the other from `first_lane` on.
void record_access(Ctx*, const Inst*, uint64_t address, uint64_t bytes, uint32_t lanes, uint32_t first_lane,
                   uint32_t access);
uint8_t* cluster_shared(Ctx*, uint32_t offset, uint32_t bytes);  // null: out of bounds

// Handlers are found by name at build time only.
struct HandlerTable;
void add_handler(HandlerTable*, const char* key, Fn full, Fn masked);
struct HandlerPair {
  Fn full = nullptr, masked = nullptr;
};
bool find_handler(const char* key, HandlerPair& out);
const Resolver* find_resolver(const char* key);  // [0] every lane active, [1] masked
void add_resolver(HandlerTable*, const char* key, Resolver full, Resolver masked);

}  // namespace simgpu::exec
