// Launch set-up, worker threads, and the services that need the launch: regions, faults, clocks, printing.
#include "tools/simgpu/exec/execution.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/simgpu/exec/heap.h"
#include "tools/simgpu/exec/pool.h"

namespace simgpu::exec {

namespace {
uint8_t* aligned(uint64_t bytes) {
  return static_cast<uint8_t*>(std::aligned_alloc(256, (bytes + 511) & ~255ull));
}
void splat32(uint8_t* rows, uint32_t index, uint32_t v) {
  auto* p = reinterpret_cast<uint32_t*>(rows + index * 128);
  for (uint32_t l = 0; l < kLanes; ++l) p[l] = v;
}
void splat64(uint8_t* row, uint64_t v) {
  auto* p = reinterpret_cast<uint64_t*>(row);
  for (uint32_t l = 0; l < kLanes; ++l) p[l] = v;
}
}  // namespace

std::unique_ptr<Execution> Execution::create(const Launch& l, std::string& error) {
  error.clear();
  const auto* p = static_cast<const ProgramImpl*>(l.program);
  const auto refuse = [&](const char* why) {
    error = why;
    return std::unique_ptr<Execution>();
  };
  if (!p || l.kernel < 0 || static_cast<size_t>(l.kernel) >= p->kernel_infos.size())
    return refuse("no such kernel");
  if (!l.memory) return refuse("no address space");
  const uint64_t threads = static_cast<uint64_t>(l.block.x) * l.block.y * l.block.z;
  if (threads == 0 || threads > 1024) return refuse("block size out of range");
  if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) return refuse("empty grid");
  const KernelInfo& k = p->kernel_infos[static_cast<size_t>(l.kernel)];
  if (k.param_bytes && !l.params) return refuse("no parameters");
  if (!p->global_variables.empty() && !l.global_addresses) return refuse("no addresses of module variables");
  Launch launch = l;
  Dim3& c = launch.cluster;
  if (c.x <= 1 && c.y <= 1 && c.z <= 1 && k.cluster[0])
    c = {k.cluster[0], k.cluster[1], k.cluster[2]};  // the kernel's own
  for (uint32_t* d : {&c.x, &c.y, &c.z})
    if (*d == 0) *d = 1;
  if (l.grid.x % c.x || l.grid.y % c.y || l.grid.z % c.z)
    return refuse("grid is not a multiple of the cluster");
  if (static_cast<uint64_t>(c.x) * c.y * c.z > 64) return refuse("cluster too large");
  return std::make_unique<ExecutionImpl>(launch);
}

ExecutionImpl::ExecutionImpl(const Launch& l)
    : launch(l),
      program(*static_cast<const ProgramImpl*>(l.program)),
      info(program.kernel_infos[static_cast<size_t>(l.kernel)]),
      code(program.kernel_codes[static_cast<size_t>(l.kernel)]) {
  const Dim3 c = launch.cluster;
  if (info.param_bytes > 256) params = static_cast<uint8_t*>(std::malloc(info.param_bytes + 32));
  if (info.param_bytes) std::memcpy(params, l.params, info.param_bytes);
  std::memset(params + info.param_bytes, 0, 32);
  threads_per_block = l.block.x * l.block.y * l.block.z;
  warps_per_block = (threads_per_block + kLanes - 1) / kLanes;
  cluster_size = c.x * c.y * c.z;
  const uint64_t blocks = static_cast<uint64_t>(l.grid.x) * l.grid.y * l.grid.z;
  cluster_count = blocks / cluster_size;
  shared_bytes = code.dynamic_shared_base + l.dynamic_shared;
  if (!l.dynamic_shared) shared_bytes = info.static_shared;
  // Recursion: what the hardware's default would hold, and then some; deeper is the stack fault.
  local_stride = (code.local_bytes + (code.open_stack ? 64 * 1024 : 0) + 15) & ~15ull;
  resident_limit =
      launch.cooperative ? cluster_count : std::max<uint64_t>(1, l.limits.max_resident_blocks / cluster_size);

  parts_key = {program.generation, l.kernel, l.block, cluster_size, shared_bytes, local_stride};
  Parts parts = take_parts(parts_key);
  launch_rows = parts.launch_rows.release();
  if (!launch_rows)
    launch_rows = aligned(kLaunchRow64Start + (kLaunchRow64Count + program.symbol_rows.size()) * 256);
  if (parts.cluster) spare.push_back(std::move(parts.cluster));
  if (parts.worker) {
    free_workers.push_back(parts.worker.get());
    workers.push_back(std::move(parts.worker));
  }
  static std::atomic<uint64_t> grid_serial{0};
  const uint64_t grid_id = grid_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto row = [&](LaunchRow r, uint32_t v) { splat32(launch_rows, r, v); };
  row(kNtidX, l.block.x);
  row(kNtidY, l.block.y);
  row(kNtidZ, l.block.z);
  row(kNctaX, l.grid.x);
  row(kNctaY, l.grid.y);
  row(kNctaZ, l.grid.z);
  row(kNclusterX, l.grid.x / c.x);
  row(kNclusterY, l.grid.y / c.y);
  row(kNclusterZ, l.grid.z / c.z);
  row(kClusterNctaX, c.x);
  row(kClusterNctaY, c.y);
  row(kClusterNctaZ, c.z);
  row(kClusterNctaRank, cluster_size);
  row(kNwarpId, 64);
  row(kNsmId, std::max(1u, l.limits.sm_count));
  row(kGridIdLo, static_cast<uint32_t>(grid_id));
  row(kDynamicSharedBase, code.dynamic_shared_base);
  row(kDynamicSharedSize, l.dynamic_shared);
  row(kTotalSharedSize, shared_bytes);
  row(kIsExplicitCluster, cluster_size > 1);
  if (info.uses_grid_sync && launch.cooperative) {
    workspace = static_cast<uint8_t*>(std::calloc(1, 4096));
    workspace_address = kInternalWindow + (grid_id & 0xffffff) * 4096;
  }
  row(kEnvReg1, static_cast<uint32_t>(workspace_address >> 32));
  row(kEnvReg2, static_cast<uint32_t>(workspace_address));
  splat64(launch_rows + kLaunchRow64Start + kGridId64 * 256, grid_id);
  splat64(launch_rows + kLaunchRow64Start + kDynamicSharedBase64 * 256, code.dynamic_shared_base);
  for (size_t k = 0; k < program.symbol_rows.size(); ++k)
    splat64(launch_rows + kLaunchRow64Start + (kLaunchRow64Count + k) * 256,
            l.global_addresses[program.symbol_rows[k].global] +
                static_cast<uint64_t>(program.symbol_rows[k].addend));
}

ExecutionImpl::~ExecutionImpl() {
  std::free(launch_rows);
  std::free(workspace);
  if (params != few_params) std::free(params);
}

uint64_t ExecutionImpl::block_order(uint64_t k) const {
  if (!info.order_dependent || launch.seed == 0 || cluster_count < 3) return k;
  // An affine permutation: cheap, and every block comes once.
  const uint64_t n = cluster_count;
  uint64_t a = (launch.seed * 0x9e3779b97f4a7c15ull) % n, b = (launch.seed ^ 0xbf58476d1ce4e5b9ull) % n;
  const auto gcd = [](uint64_t x, uint64_t y) {
    while (y) {
      const uint64_t t = x % y;
      x = y;
      y = t;
    }
    return x;
  };
  if (a == 0) a = 1;
  while (gcd(a, n) != 1) a = a % n + 1;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * k + b) % n);
}

void ExecutionImpl::start_worker(Worker& w) {
  w.execution = this;
  w.regions.assign(1, RegionEntry{~0ull, 0, nullptr, false, false, false, false});
  w.regions.reserve(64);
  w.region_of.assign(code.inst_end - code.inst_begin, 0);
  if (w.block_threads.empty()) {
    w.block_threads.assign(code.block_end - code.block_begin, 0);
    w.block_warps.assign(code.block_end - code.block_begin, 0);
  }
  Ctx& c = w.ctx;
  c.base[kConstants] = program.constants;
  c.base[kLaunchRows] = launch_rows;
  c.params = params;
  c.param_bytes = info.param_bytes;
  c.regions = w.regions.data();
  c.region_of = w.region_of.data() - code.inst_begin;  // indexed by Inst::id
  c.block_threads = w.block_threads.data() - code.block_begin;
  c.block_warps = w.block_warps.data() - code.block_begin;
  c.record = launch.record_accesses || launch.check_uninitialised;
  c.stats = &w.stats;
  c.worker = &w;
  c.local_stride = local_stride;
}

std::unique_ptr<Cluster> ExecutionImpl::take() {
  std::lock_guard lock(mutex);
  // Blocks that were put aside get a turn each before another one starts; a cooperative grid wants all of
  // them there.
  const bool room = next_cluster < cluster_count && resident < resident_limit;
  if (room && (launch.cooperative || suspended.empty() || rotation >= suspended.size())) {
    rotation = 0;
    std::unique_ptr<Cluster> c;
    if (!spare.empty()) {
      c = std::move(spare.back());
      spare.pop_back();
    } else
      c = make_cluster();
    place_cluster(*c, block_order(next_cluster++));
    resident += 1;
    return c;
  }
  if (suspended.empty()) return nullptr;
  rotation += 1;
  return suspended.pop_front();
}

void ExecutionImpl::work(Worker& w, bool caller) {
  using clock = std::chrono::steady_clock;
  const auto begun = clock::now();
  const bool may_help = caller && launch.threads > 1 && !info.order_dependent && !code.serial;
  bool asked = false;
  while (!stop.load(std::memory_order_relaxed) && remaining.load(std::memory_order_relaxed) > 0) {
    auto c = take();
    if (!c) break;
    const Slice s = run_cluster(w, *c);
    std::unique_lock lock(mutex);
    if (s == Slice::fault) {
      stop.store(true);
      suspended.push_back(std::move(c));
      break;
    }
    if (s == Slice::done) {
      finished_clusters += 1;
      resident -= 1;
      stuck_in_a_row = 0;
      spare.push_back(std::move(c));
    } else {
      if (s == Slice::stuck)
        stuck_in_a_row += 1;
      else
        stuck_in_a_row = 0;
      suspended.push_back(std::move(c));
      if (stuck_in_a_row > suspended.size() + resident &&
          (next_cluster == cluster_count || resident >= resident_limit)) {
        stuck_ = true;
        stop.store(true);
        break;
      }
    }
    // Threads cost a wake-up: only when the launch turned out to be worth it.
    if (may_help && !asked && next_cluster + 1 < cluster_count &&
        clock::now() - begun > std::chrono::microseconds(150)) {
      asked = true;
      const uint64_t left = cluster_count - next_cluster;
      const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(launch.threads - 1, left));
      for (uint32_t k = 0; k < n; ++k) {
        if (free_workers.empty()) {
          workers.push_back(std::make_unique<Worker>());
          free_workers.push_back(workers.back().get());
        }
        Worker* helper = free_workers.back();
        free_workers.pop_back();
        helpers += 1;
        lock.unlock();
        pool_run(1, [this, helper](uint32_t) {
          start_worker(*helper);
          work(*helper, false);
          std::lock_guard done(mutex);
          free_workers.push_back(helper);
          helpers -= 1;
          idle.notify_all();
        });
        lock.lock();
      }
    }
  }
}

Execution::State ExecutionImpl::advance(uint64_t max_warp_instructions) {
  if (state_ != State::running) return state_;
  stuck_ = false;
  stuck_in_a_row = 0;
  stop.store(false);
  remaining.store(static_cast<int64_t>(std::min<uint64_t>(max_warp_instructions, INT64_MAX)));
  Worker* mine;
  {
    std::lock_guard lock(mutex);
    if (free_workers.empty()) {
      workers.push_back(std::make_unique<Worker>());
      free_workers.push_back(workers.back().get());
    }
    mine = free_workers.back();
    free_workers.pop_back();
  }
  start_worker(*mine);
  work(*mine, true);
  std::unique_lock lock(mutex);
  free_workers.push_back(mine);
  idle.wait(lock, [this] { return helpers == 0; });
  if (fault_.fault != Fault::none)
    state_ = State::faulted;
  else if (finished_clusters == cluster_count)
    state_ = State::done;
  if (state_ != State::running) finish();
  return state_;
}

void ExecutionImpl::finish() {
  Stats& t = total_;
  for (auto& w : workers) {
    const Stats& s = w->stats;
    t.bytes_read += s.bytes_read;
    t.bytes_written += s.bytes_written;
    t.host_bytes += s.host_bytes;
    t.peer_bytes += s.peer_bytes;
    t.shared_bytes += s.shared_bytes;
    for (size_t b = 0; b < w->block_threads.size(); ++b) {
      const uint64_t n = w->block_threads[b];
      if (n == 0) continue;
      const BlockInfo& k = program.blocks[code.block_begin + b];
      const auto ops = [&](OpClass c) { return n * k.ops[static_cast<size_t>(c)]; };
      t.thread_instructions += n * k.instructions;
      t.warp_instructions += w->block_warps[b] * k.instructions;
      t.atomics += n * k.atomics;
      t.ops_fp64 += ops(OpClass::fp64);
      t.ops_fp32 += ops(OpClass::fp32);
      t.ops_fp16 += ops(OpClass::fp16);
      t.ops_int += ops(OpClass::integer);
      t.ops_special += ops(OpClass::special);
      t.ops_tensor_fp16 += n * k.tensor_flops[0];
      t.ops_tensor_bf16 += n * k.tensor_flops[1];
      t.ops_tensor_tf32 += n * k.tensor_flops[2];
      t.ops_tensor_fp64 += n * k.tensor_flops[3];
      t.ops_tensor_int8 += n * k.tensor_flops[4];
      t.ops_tensor_fp8 += n * k.tensor_flops[5];
    }
    if (launch.record_accesses) w->accesses.merge_into(accesses_);
  }
  if (launch.record_accesses) normalise(accesses_, 65536);
  // A faulted launch leaves nothing (its blocks stopped anywhere), nor does one whose blocks are large.
  const uint64_t block_bytes = shared_bytes + local_stride * warps_per_block * kLanes;
  if (state_ == State::done && !workers.empty() && block_bytes * cluster_size <= 1 << 20) {
    Worker& w = *workers.front();
    w.stats = {};
    std::fill(w.block_threads.begin(), w.block_threads.end(), 0);
    std::fill(w.block_warps.begin(), w.block_warps.end(), 0);
    if (launch.record_accesses) w.accesses.clear();
    Parts parts;
    parts.worker = std::move(workers.front());
    if (!spare.empty()) parts.cluster = std::move(spare.back());
    parts.launch_rows.reset(std::exchange(launch_rows, nullptr));
    leave_parts(parts_key, std::move(parts));
  }
  suspended.clear();
  spare.clear();
  workers.clear();
  free_workers.clear();
}

// ---- services
// -----------------------------------------------------------------------------------------------------
const ProgramImpl* program_of(Ctx* c) { return &c->worker->execution->program; }

RegionEntry* find_region(Ctx* c, const Inst* i, uint64_t address, uint64_t bytes) {
  Worker& w = *c->worker;
  ExecutionImpl& e = *w.execution;
  for (size_t k = 1; k < w.regions.size(); ++k) {
    RegionEntry& r = w.regions[k];
    if (address >= r.base && address < r.end) {
      if (bytes > r.end - address) return nullptr;
      if (i) c->region_of[i->id] = static_cast<uint16_t>(k);
      return &r;
    }
  }
  Region found;
  if (e.workspace && address - e.workspace_address < 4096) {
    found.base = e.workspace_address;
    found.end = found.base + 4096;
    found.host = e.workspace;
  } else if (address - kHeapWindow < kWindowSize) {
    if (!heap_region(found)) return nullptr;
  } else if (!e.launch.memory->find(address, found)) {
    return nullptr;
  }
  if (address < found.base || address >= found.end || bytes > found.end - address) return nullptr;
  const RegionEntry entry{found.base, found.end, found.host, found.writable, found.remote, found.peer, true};
  size_t slot;
  if (w.regions.size() < 64) {
    slot = w.regions.size();
    w.regions.push_back(entry);
  } else {  // the table is full: start again, instructions find their regions anew
    std::fill(w.region_of.begin(), w.region_of.end(), uint16_t{0});
    w.regions.resize(2);
    slot = 1;
    w.regions[1] = entry;
  }
  c->regions = w.regions.data();
  if (i) c->region_of[i->id] = static_cast<uint16_t>(slot);
  return &w.regions[slot];
}

static void check_written(Ctx* c, const Inst* i, uint64_t address, uint64_t bytes, uint32_t lanes,
                          uint32_t first_lane, uint32_t access) {
  const ExecutionImpl& e = *c->worker->execution;
  WriteWatch& watch = *e.launch.writes;
  uint64_t first = 0;
  // An atomic update reads what it updates.
  if ((access & (kRead | kAtomic)) && !watch.is_written(address, bytes * lanes, first)) {
    UnwrittenRead read;
    read.kernel = e.info.name;
    read.line = i ? e.program.line_of(i->id) : 0;
    read.address = first;
    Dim3 block, thread;
    thread_of(c, first_lane + static_cast<uint32_t>((first - address) / bytes), block, thread);
    read.block = {block.x, block.y, block.z};
    read.thread = {thread.x, thread.y, thread.z};
    watch.unwritten_read(read);
  }
  if (access & kWrite) watch.written(address, bytes * lanes);
}

void record_access(Ctx* c, const Inst* i, uint64_t address, uint64_t bytes, uint32_t lanes,
                   uint32_t first_lane, uint32_t access) {
  const Launch& launch = c->worker->execution->launch;
  if (launch.check_uninitialised) check_written(c, i, address, bytes, lanes, first_lane, access);
  if (!launch.record_accesses) return;
  bytes *= lanes;
  AccessLog& log = c->worker->accesses;
  if (access & kAtomic) {
    log.add(address, bytes, Access::atomic);
    return;
  }
  log.add(address, bytes, (access & kWrite) ? Access::write : Access::read);
}

uint8_t* cluster_shared(Ctx* c, uint32_t offset, uint32_t bytes) {
  const uint32_t rank = offset >> kClusterRankShift, off = offset & ((1u << kClusterRankShift) - 1);
  Block* b = c->block;
  if (rank) {
    if (!b->cluster || rank > b->cluster->blocks.size()) return nullptr;
    b = b->cluster->blocks[rank - 1].get();
  }
  if (static_cast<uint64_t>(off) + bytes > b->shared_bytes) return nullptr;
  return b->shared + off;
}

void thread_of(Ctx* c, uint32_t lane, Dim3& block, Dim3& thread) {
  const Dim3 d = c->worker->execution->launch.block;
  const uint32_t t = c->warp->index * kLanes + lane;
  block = c->block->index;
  thread = {t % d.x, t / d.x % d.y, t / (d.x * d.y)};
}

static const char* fault_name(Fault f) {
  switch (f) {
    case Fault::illegal_address:
      return "illegal address";
    case Fault::misaligned_address:
      return "misaligned address";
    case Fault::assert_failed:
      return "assertion failed";
    case Fault::hardware_stack:
      return "stack overflow";
    case Fault::illegal_instruction:
      return "illegal instruction";
    case Fault::invalid_pc:
      return "invalid program counter";
    case Fault::launch_failed:
      return "trap";
    default:
      return "fault";
  }
}

const Inst* raise_fault(Ctx* c, const Inst* i, Fault f, uint64_t address, uint32_t lane, const char* text) {
  ExecutionImpl& e = *c->worker->execution;
  c->stop = Stop::fault;
  std::lock_guard lock(e.mutex);
  if (e.fault_.fault != Fault::none) return nullptr;  // the first one counts
  FaultInfo& r = e.fault_;
  r.fault = f;
  r.address = address;
  r.line = i ? e.program.line_of(i->id) : 0;
  thread_of(c, lane, r.block, r.thread);
  char buffer[160];
  std::snprintf(buffer, sizeof(buffer), "%s%s%s in kernel '", fault_name(f), text ? ": " : "",
                text ? text : "");
  r.text = buffer + e.info.name + "'";
  std::snprintf(buffer, sizeof(buffer),
                " at PTX line %u, address 0x%llx, block (%u,%u,%u), thread (%u,%u,%u)", r.line,
                static_cast<unsigned long long>(address), r.block.x, r.block.y, r.block.z, r.thread.x,
                r.thread.y, r.thread.z);
  r.text += buffer;
  return nullptr;
}

uint64_t device_clock(Ctx* c) {
  const ExecutionImpl& e = *c->worker->execution;
  const double ghz = e.launch.limits.sm_clock_ghz > 0 ? e.launch.limits.sm_clock_ghz : 1.0;
  return static_cast<uint64_t>(static_cast<double>(e.launch.start_ns) * ghz) +
         e.cost.load(std::memory_order_relaxed) + static_cast<uint64_t>(kTurnBudget - c->budget);
}
uint64_t global_timer(Ctx* c) {
  const ExecutionImpl& e = *c->worker->execution;
  const double ghz = e.launch.limits.sm_clock_ghz > 0 ? e.launch.limits.sm_clock_ghz : 1.0;
  return e.launch.start_ns +
         static_cast<uint64_t>(static_cast<double>(e.cost.load(std::memory_order_relaxed) +
                                                   static_cast<uint64_t>(kTurnBudget - c->budget)) /
                               ghz);
}

bool is_constant_address(Ctx* c, uint64_t address) {
  const ExecutionImpl& e = *c->worker->execution;
  const auto& g = e.program.global_variables;
  for (size_t k = 0; k < g.size(); ++k)
    if (g[k].constant && address - e.launch.global_addresses[k] < g[k].size) return true;
  return false;
}

uint8_t* host_pointer(Ctx* c, uint64_t address, uint64_t bytes, uint32_t lane) {
  if (address - kSharedWindow < kWindowSize)
    return cluster_shared(c, static_cast<uint32_t>(address - kSharedWindow), static_cast<uint32_t>(bytes));
  if (address - kLocalWindow < kWindowSize) {
    const uint64_t off = address - kLocalWindow;
    return off + bytes <= c->local_stride ? c->local + lane * c->local_stride + off : nullptr;
  }
  if (address - kParamWindow < kWindowSize) {
    const uint64_t off = address - kParamWindow;
    return off + bytes <= c->param_bytes ? const_cast<uint8_t*>(c->params) + off : nullptr;
  }
  RegionEntry* r = find_region(c, nullptr, address, bytes);
  return r ? r->host + (address - r->base) : nullptr;
}
uint8_t* checked_pointer(Ctx* c, const Inst* i, Window window, uint64_t address, uint32_t bytes,
                         uint32_t lane, uint32_t access) {
  const uint32_t unit = bytes & (0 - bytes);  // odd sizes (bulk copies) check their own alignment
  if (unit && unit <= 16 && (address & (unit - 1))) {
    raise_fault(c, i, Fault::misaligned_address, address, lane, nullptr);
    return nullptr;
  }
  uint8_t* p = nullptr;
  if (window == Window::shared || (window == Window::generic && address - kSharedWindow < kWindowSize)) {
    p = cluster_shared(c, static_cast<uint32_t>(window == Window::shared ? address : address - kSharedWindow),
                       bytes);
    c->stats->shared_bytes += bytes;
  } else if (window == Window::generic && address >= kSharedWindow && address < kFunctionWindow) {
    p = host_pointer(c, address, bytes, lane);
  } else if (RegionEntry* r = find_region(c, nullptr, address, bytes);
             r && (r->writable || !(access & kWrite))) {
    p = r->host + (address - r->base);
    if (c->record) record_access(c, i, address, bytes, 1, lane, access);
    Stats& s = *c->stats;
    if (r->remote)
      (r->peer ? s.peer_bytes : s.host_bytes) += bytes;
    else {
      if (access & kRead) s.bytes_read += bytes;
      if (access & kWrite) s.bytes_written += bytes;
    }
  }
  if (!p) raise_fault(c, i, Fault::illegal_address, address, lane, nullptr);
  return p;
}
bool read_string(Ctx* c, uint64_t address, uint32_t lane, std::string& out) {
  out.clear();
  for (;;) {
    const uint8_t* p = host_pointer(c, address + out.size(), 1, lane);
    if (!p || out.size() > 1u << 20) return false;
    if (*p == 0) return true;
    out.push_back(static_cast<char>(*p));
  }
}
void print_text(Ctx* c, const char* text, size_t bytes) {
  ExecutionImpl& e = *c->worker->execution;
  if (!e.launch.print) return;
  std::lock_guard lock(e.print_mutex);
  e.launch.print(text, bytes);
}

}  // namespace simgpu::exec
