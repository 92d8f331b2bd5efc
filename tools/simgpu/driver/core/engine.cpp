#include "tools/simgpu/driver/core/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "runtime/base/helper_thread.h"
#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memcheck.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/schedule.h"
#include "tools/simgpu/driver/core/thread_state.h"

namespace simgpu::driver {
namespace {
constexpr uint64_t kForever = UINT64_MAX;
constexpr uint64_t kSliceBudget = 1u << 20;  // warp instructions between two looks at the rest of the world
constexpr uint64_t kHangVirtualNs = 2000000000;  // one kernel this long while others starve behind it: a hang
constexpr auto kTick = std::chrono::milliseconds(1);
constexpr auto kHostFunctionPatience = std::chrono::milliseconds(100);

uint64_t environment_number(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, nullptr, 0) : fallback;
}
uint64_t saturating_round(double ns) { return ns <= 0 ? 0 : uint64_t(std::ceil(ns)); }
}  // namespace

Engine& Engine::get() {
  static Engine* engine = new Engine;
  return *engine;
}

Engine::Engine() {
  seed_ = environment_number("SIMGPU_SEED", 0);
  deadlock_ms_ = int64_t(environment_number("SIMGPU_DEADLOCK_MS", 10000));
  null_clock_ = clock_mode() == ClockMode::null;
}

// A value of its own for each decision about each op: how often the progress thread was there first must not
// shift what comes later, or one seed would give several timelines.
uint64_t Engine::random(const Op& about, uint64_t decision) const {
  uint64_t z = seed_ * 0x9E3779B97F4A7C15u + about.seq * 0xD1342543DE82EF95u + decision + 1;
  z = (z ^ (z >> 32)) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t Engine::tie(const Op& op) {
  if (!seed_) return op.seq;
  return random(op, op.started ? 1 : 0);
}

Engine::DeviceQueue& Engine::queue(int device) {
  if (device < 0) device = 0;
  while (int(queues_.size()) <= device) {
    DeviceQueue q;
    if (const Device* d = device_at(int(queues_.size()))) {
      q.sm_quantum = 1.0 / std::max(1, d->sm_count());
      if (d->profile->copy_engines.value >= 1) q.free_copy_engines = int(d->profile->copy_engines.value);
    }
    queues_.push_back(std::move(q));
  }
  return queues_[device];
}

OpRef Engine::make_op(std::shared_ptr<const OpBody> body, std::shared_ptr<Context> context,
                      std::shared_ptr<Stream> stream) {
  OpRef op = std::make_shared<Op>();
  op->body = std::move(body);
  op->context = std::move(context);
  op->stream = std::move(stream);
  if (op->context && op->context->device) op->device = op->context->device->ordinal;
  if (op->stream) op->priority = op->stream->priority;
  op->seq = next_seq_++;
  op->submit_ns = host_now();
  return op;
}

void Engine::depend(Op& op, const OpRef& on) {
  if (!on || on.get() == &op) return;
  if (races_watched() && on->executed) race_order(op, *on);
  if (on->completed) {
    op.ready_ns = std::max(op.ready_ns, on->end_ns);
    return;
  }
  on->dependents.push_back(op.shared_from_this());
  op.dependencies.push_back(on);
  ++op.time_deps;
  if (!on->executed) ++op.execute_deps;
}

void Engine::depend_on_start(Op& op, const OpRef& on) {
  if (!on || on.get() == &op) return;
  if (on->started || on->completed) {
    op.ready_ns = std::max(op.ready_ns, on->start_ns);
    return;
  }
  on->start_dependents.push_back(op.shared_from_this());
  op.dependencies.push_back(on);
  ++op.time_deps;
}

void Engine::link(const OpRef& op) {
  op->linked = true;
  if (races_watched()) race_linked(*op);
  unfinished_.emplace_hint(unfinished_.end(), op->seq, op);
  if (op->context && op->context->sticky.load() != CUDA_SUCCESS) op->abandoned = true;
  if (op->execute_deps == 0) executable_.emplace_hint(executable_.end(), op->seq, op);
  if (op->time_deps == 0) push_ready(op);
  if (!progress_running_) start_progress_thread();
}

void Engine::push_ready(const OpRef& op) {
  op->ready_ns = std::max(op->ready_ns, op->submit_ns + op->extra_latency_ns);
  if (null_clock_) op->ready_ns = 0;
  events_.push({op->ready_ns, tie(*op), false, 0, op});
}

bool Engine::can_start(const Op& op) {
  const DeviceQueue& q = queue(op.device);
  if (op.demand.copy_engine && q.free_copy_engines <= 0) return false;
  if (op.demand.sm_fraction > 0) {
    const double need =
        op.demand.all_at_once ? op.demand.sm_fraction : std::min(op.demand.sm_fraction, q.sm_quantum);
    if (q.free_sm + 1e-9 < need) return false;
  }
  return true;
}

// Starts what now fits, most urgent first. A kernel that does not fit holds back later kernels of the same or
// lesser urgency (the hardware's block scheduler is in order), but never copies.
void Engine::dispatch(Lock& lock, int device, uint64_t at_ns) {
  bool again = true;
  while (again) {
    again = false;
    bool kernels_blocked = false, copies_blocked = false;
    std::vector<OpRef>& waiting = queue(device).waiting;
    for (size_t i = 0; i < waiting.size(); ++i) {
      OpRef op = waiting[i];
      bool& blocked = op->demand.copy_engine ? copies_blocked : kernels_blocked;
      if (blocked) continue;
      if (!can_start(*op)) {
        blocked = true;
        continue;
      }
      waiting.erase(waiting.begin() + long(i));
      start(lock, op, std::max(at_ns, op->ready_ns));  // gives up the lock: `waiting` may have changed
      again = true;
      break;
    }
  }
}

void Engine::start(Lock& lock, const OpRef& op, uint64_t at_ns) {
  DeviceQueue& q = queue(op->device);
  if (op->demand.sm_fraction > 0) {
    op->held_sm = std::min(op->demand.sm_fraction, q.free_sm);
    q.free_sm -= op->held_sm;
    at_ns = std::max(at_ns, q.sm_time_ns);
    q.sm_time_ns = at_ns;
  }
  if (op->demand.copy_engine) {
    --q.free_copy_engines;
    at_ns = std::max(at_ns, q.copy_time_ns);
    q.copy_time_ns = at_ns;
  }
  op->started = true;
  op->start_ns = at_ns;
  now_ns_ = std::max(now_ns_, at_ns);
  for (const OpRef& next : op->start_dependents) {
    next->ready_ns = std::max(next->ready_ns, at_ns);
    if (--next->time_deps == 0 && next->linked) push_ready(next);
  }
  op->start_dependents.clear();
  // A seed picks another legal functional order: anything whose dependencies have executed may come first.
  for (int tries = 0; seed_ && !op->executed && tries < 64 && executable_.size() > 1; ++tries) {
    auto pick = executable_.begin();
    std::advance(pick, long(random(*op, uint64_t(tries) + 2) % std::min<size_t>(executable_.size(), 64)));
    const OpRef chosen = pick->second;
    if (chosen == op) break;
    if (chosen->body->waits_outside() || chosen->body->kind == OpKind::host_function) continue;
    run_slice(lock, chosen, kSliceBudget);
  }
  if (op->executed || run_slice(lock, op, kSliceBudget)) {
    begin_timing(op);
    return;
  }
  executable_.erase(op->seq);
  set_aside_.push_back(op);
}

bool Engine::run_slice(Lock& lock, const OpRef& op, uint64_t budget) {
  if (op->executed) return true;
  executable_.erase(op->seq);
  OpBody::Step step = OpBody::Step::done;
  if (!op->abandoned) {
    op->executing = true;
    lock.unlock();
    step = const_cast<OpBody*>(op->body.get())->execute(*op, budget);
    lock.lock();
    op->executing = false;
  }
  if (op->executed) return true;  // resume() came first
  if (step == OpBody::Step::done || op->abandoned) {
    finish_execution(op);
    return true;
  }
  if (!op->started) executable_.emplace(op->seq, op);
  return false;
}

void Engine::finish_execution(const OpRef& op) {
  if (op->executed) return;
  op->executed = true;
  ++changes_;
  executable_.erase(op->seq);
  if (memcheck_on()) memcheck_executed(*op);
  if (races_watched()) race_executed(*op);
  op->execution.reset();
  if (op->error != CUDA_SUCCESS && op->context) poison(*op->context, op->error, op->error_text);
  for (auto& callback : op->on_executed) callback();
  op->on_executed.clear();
  for (const OpRef& next : op->dependents) {
    if (--next->execute_deps == 0 && next->linked && !next->executed) executable_.emplace(next->seq, next);
  }
}

// Called by outside parties whose answer an op waited for.
void Engine::resume(const OpRef& op) {
  if (op->executed) return;
  finish_execution(op);
  auto place = std::find(set_aside_.begin(), set_aside_.end(), op);
  if (place != set_aside_.end()) {
    set_aside_.erase(place);
    begin_timing(op);
  }
  changed_.notify_all();
}

void Engine::begin_timing(const OpRef& op) {
  Cost cost;
  if (!op->abandoned && !null_clock_) cost = op->body->cost(*op);
  op->remaining_ns = double(cost.duration_ns);
  op->updated_ns = op->start_ns;
  op->uses = std::move(cost.uses);
  op->rate = 1;
  if (op->uses.empty()) {
    events_.push({op->start_ns + cost.duration_ns, tie(*op), true, op->timer_generation, op});
    return;
  }
  running_.push_back(op);
  op->rate = 0;  // change_rates() sets it and schedules the end
  change_rates(op->start_ns, op->uses);
}

// Ops that share a resource slow each other down once its total exceeds what the device has.
void Engine::change_rates(uint64_t at_ns, const std::vector<ResourceUse>& uses) {
  for (const OpRef& op : running_) {
    bool touched = false;
    for (const ResourceUse& mine : op->uses) {
      for (const ResourceUse& theirs : uses)
        touched |= mine.device == theirs.device && mine.resource == theirs.resource;
    }
    if (!touched) continue;
    double slowdown = 1;
    for (const ResourceUse& mine : op->uses) {
      double total = 0;
      for (const OpRef& other : running_) {
        for (const ResourceUse& theirs : other->uses) {
          if (mine.device == theirs.device && mine.resource == theirs.resource) total += theirs.share;
        }
      }
      if (total > 1) slowdown = std::max(slowdown, 1 + mine.share * (total - 1));
    }
    const double rate = 1 / slowdown;
    if (rate == op->rate) continue;
    const uint64_t at = std::max(at_ns, op->updated_ns);
    op->remaining_ns = std::max(0.0, op->remaining_ns - double(at - op->updated_ns) * op->rate);
    op->updated_ns = at;
    op->rate = rate;
    events_.push({at + saturating_round(op->remaining_ns / rate), op->seq, true, ++op->timer_generation, op});
  }
}

void Engine::complete(Lock& lock, const OpRef& op) {
  op->completed = true;
  ++changes_;
  now_ns_ = std::max(now_ns_, op->end_ns);
  unfinished_.erase(op->seq);
  if (!op->uses.empty()) {
    running_.erase(std::find(running_.begin(), running_.end(), op));
    change_rates(op->end_ns, op->uses);
  }
  DeviceQueue& q = queue(op->device);
  if (op->held_sm > 0) {
    q.free_sm = std::min(1.0, q.free_sm + op->held_sm);
    if (q.free_sm > 1 - 1e-9) q.free_sm = 1;
    q.sm_time_ns = std::max(q.sm_time_ns, op->end_ns);
  }
  if (op->demand.copy_engine) {
    ++q.free_copy_engines;
    q.copy_time_ns = std::max(q.copy_time_ns, op->end_ns);
  }
  for (auto& callback : op->on_completed) callback(*op);
  op->on_completed.clear();
  record_op(*op);
  for (const OpRef& next : op->dependents) {
    next->ready_ns = std::max(next->ready_ns, op->end_ns);
    if (--next->time_deps == 0 && next->linked) push_ready(next);
  }
  op->dependents.clear();
  op->scratch.reset();
  if (op->stream) {
    Stream& stream = *op->stream;
    if (stream.pending && !op->in_graph) --stream.pending;
    if (races_watched()) race_completed(*op, stream.tail == op);
    if (stream.tail == op) stream.tail.reset();
  }
  if (!q.waiting.empty()) dispatch(lock, op->device, op->end_ns);
}

// One event, or one slice of a kernel that lies behind it in virtual time.
Engine::Stepped Engine::step(Lock& lock, uint64_t limit_ns, bool may_block) {
  poll_set_aside(lock);
  while (!events_.empty() && events_.top().complete &&
         events_.top().generation != events_.top().op->timer_generation)
    events_.pop();
  const uint64_t next_ns = events_.empty() ? kForever : events_.top().time_ns;

  OpRef behind;
  uint64_t behind_ns = kForever;
  bool host_function = false;
  for (const OpRef& op : set_aside_) {
    if (op->body->kind == OpKind::kernel) {
      const uint64_t position = op->start_ns + op->body->cost(*op).duration_ns;
      if (position < behind_ns) {
        behind_ns = position;
        behind = op;
      }
    }
    host_function |= op->body->kind == OpKind::host_function;
  }
  if (behind && behind_ns <= next_ns) {
    if (behind_ns > limit_ns) return Stepped::idle;
    if (behind_ns - behind->start_ns > kHangVirtualNs && !queue(behind->device).waiting.empty()) {
      report_deadlock("a kernel runs on while others starve behind it");
      poison(*behind->context, CUDA_ERROR_LAUNCH_TIMEOUT, "kernel hangs");
    }
    if (run_slice(lock, behind, kSliceBudget)) {
      auto place = std::find(set_aside_.begin(), set_aside_.end(), behind);
      if (place != set_aside_.end()) {
        set_aside_.erase(place);
        begin_timing(behind);
      }
    }
    return Stepped::progressed;
  }
  if (host_function && may_block) {
    // Later events should see what the application's function does; it gets a moment of real time first.
    const uint64_t before = changes_;
    pumping_ = false;
    changed_.wait_for(lock, kHostFunctionPatience, [&] { return changes_ != before; });
    while (pumping_) changed_.wait(lock);
    pumping_ = true;
    if (changes_ != before) return Stepped::progressed;
  }
  if (events_.empty()) return set_aside_.empty() ? Stepped::idle : Stepped::stalled;
  if (next_ns > limit_ns) return Stepped::idle;
  const Event event = events_.top();
  events_.pop();
  const OpRef& op = event.op;
  if (event.complete) {
    if (op->completed) return Stepped::progressed;
    op->end_ns = event.time_ns;
    complete(lock, op);
    return Stepped::progressed;
  }
  op->demand = op->abandoned || null_clock_ ? Demand{} : op->body->demand(*op);
  if (op->demand.sm_fraction <= 0 && !op->demand.copy_engine) {
    start(lock, op, op->ready_ns);
    return Stepped::progressed;
  }
  std::vector<OpRef>& waiting = queue(op->device).waiting;
  auto place = std::find_if(waiting.begin(), waiting.end(),
                            [&](const OpRef& other) { return other->priority > op->priority; });
  waiting.insert(place, op);
  dispatch(lock, op->device, op->ready_ns);
  return Stepped::progressed;
}

bool Engine::poll_set_aside(Lock& lock) {
  bool finished = false;
  for (size_t i = 0; i < set_aside_.size();) {
    OpRef op = set_aside_[i];
    if (op->body->kind == OpKind::kernel && !op->abandoned) {
      ++i;
      continue;
    }
    if (op->body->kind == OpKind::host_function && !op->abandoned) {  // its thread calls resume()
      ++i;
      continue;
    }
    if (!run_slice(lock, op, kSliceBudget)) {
      ++i;
      continue;
    }
    auto place = std::find(set_aside_.begin(), set_aside_.end(), op);
    if (place == set_aside_.end()) continue;
    set_aside_.erase(place);
    if (!op->abandoned) op->start_ns = std::max(op->start_ns, std::min(now_ns_, latest_host_clock()));
    begin_timing(op);
    finished = true;
  }
  return finished;
}

Engine::Wait Engine::wait_until(Lock& lock, const std::function<bool()>& ready) {
  using Clock = std::chrono::steady_clock;
  uint64_t seen_changes = changes_, seen_calls = api_calls_;
  auto quiet_since = Clock::now();
  while (!ready()) {
    if (pumping_) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
      continue;
    }
    pumping_ = true;
    const Stepped stepped = step(lock, kForever, true);
    pumping_ = false;
    changed_.notify_all();
    if (stepped == Stepped::progressed || ready()) continue;
    const bool outside = std::any_of(set_aside_.begin(), set_aside_.end(), [](const OpRef& op) {
      return op->body->waits_outside() || op->body->kind == OpKind::host_function;
    });
    if (stepped == Stepped::idle || !outside) {
      report_deadlock("nothing left that could run");
      return Wait::deadlock;
    }
    if (schedule_active()) {  // another host thread may have to act first
      lock.unlock();
      schedule_step_aside();
      lock.lock();
    }
    changed_.wait_for(lock, std::chrono::microseconds(200));
    if (seen_changes != changes_ || seen_calls != api_calls_) {
      seen_changes = changes_;
      seen_calls = api_calls_;
      quiet_since = Clock::now();
    } else if (deadlock_ms_ > 0 && Clock::now() - quiet_since > std::chrono::milliseconds(deadlock_ms_) &&
               std::none_of(set_aside_.begin(), set_aside_.end(), [](const OpRef& op) {
                 return op->body->kind == OpKind::host_function || op->body->outside_is_alive();
               })) {
      report_deadlock("no host thread and no device work can release it");
      return Wait::deadlock;
    }
  }
  return Wait::done;
}

Engine::Wait Engine::wait(Lock& lock, const std::vector<OpRef>& targets) {
  size_t next = 0;
  const Wait result = wait_until(lock, [&] {
    while (next < targets.size() && (!targets[next] || targets[next]->completed)) ++next;
    return next == targets.size();
  });
  for (const OpRef& op : targets) {
    if (!op || !op->completed) continue;
    raise_host_clock(op->end_ns);
    if (races_watched()) race_host_waited(*op);
  }
  return result;
}

bool Engine::query(Lock& lock, const OpRef& target) {
  if (!target) return true;
  const uint64_t limit = host_now();
  for (int turns = 0; !target->completed && turns < 100000; ++turns) {
    if (pumping_) {
      // The progress thread is done in a moment; a thread that simulates a long wait is not worth waiting
      // for.
      if (!pumping_ahead_) break;
      changed_.wait_for(lock, std::chrono::milliseconds(10));
      continue;
    }
    pumping_ = true;
    const Stepped stepped = step(lock, limit, false);
    pumping_ = false;
    changed_.notify_all();
    if (stepped != Stepped::progressed) break;
  }
  if (!target->completed || target->end_ns > limit) return false;
  if (races_watched()) race_host_waited(*target);
  return true;
}

void Engine::poke() { changed_.notify_all(); }

std::vector<OpRef> Engine::unfinished(const Context& context) const {
  std::vector<OpRef> result;
  for (const auto& [seq, op] : unfinished_) {
    if (op->context.get() == &context) result.push_back(op);
  }
  return result;
}

void Engine::abandon(Context& context) {
  for (const auto& [seq, op] : unfinished_) {
    if (op->context.get() == &context && !op->executed) op->abandoned = true;
  }
  changed_.notify_all();
}

bool Engine::execute_ahead(Lock& lock) {
  std::vector<OpRef> batch;
  bool custom = false;
  for (const auto& [seq, op] : executable_) {
    // Work of sibling libraries meets its partners in virtual time only.
    if (op->body->kind == OpKind::custom) {
      custom = true;
      continue;
    }
    batch.push_back(op);
    if (batch.size() == 32) break;
  }
  for (const OpRef& op : set_aside_) {
    if (op->body->kind != OpKind::host_function) batch.push_back(op);
  }
  const uint64_t before = changes_;
  for (const OpRef& op : batch) {
    if (op->executed || op->executing) continue;
    if (op->body->kind == OpKind::host_function && op->scratch) continue;  // handed over already
    if (!run_slice(lock, op, kSliceBudget / 4) || !op->started) continue;
    auto place = std::find(set_aside_.begin(), set_aside_.end(), op);
    if (place != set_aside_.end()) {
      set_aside_.erase(place);
      begin_timing(op);
    }
  }
  if (changes_ == before && custom) step(lock, kForever, false);
  return changes_ != before;
}

void Engine::start_progress_thread() {
  progress_running_ = true;
  if (!shunt::start_helper_thread([this] { progress_main(); })) progress_running_ = false;
}

// Executes pending work while the host neither waits nor calls: a program that polls mapped memory gets
// there. Ends after a second without work; link() starts another.
void Engine::progress_main() {
  pthread_setname_np(pthread_self(), "simgpu-progress");
  if (schedule_active()) schedule_own_thread();
  Lock lock(mutex_);
  uint64_t seen_calls = api_calls_;
  int quiet_ticks = 0, idle_ticks = 0;
  while (true) {
    lock.unlock();
    std::this_thread::sleep_for(kTick);
    lock.lock();
    if (unfinished_.empty()) {
      if (++idle_ticks < 1000) continue;
      progress_running_ = false;
      return;
    }
    idle_ticks = 0;
    if (api_calls_ != seen_calls) {
      seen_calls = api_calls_;
      quiet_ticks = 0;
      continue;
    }
    if (++quiet_ticks < 3 || pumping_) continue;
    bool more = true;
    while (more && api_calls_ == seen_calls && !pumping_) {
      pumping_ = pumping_ahead_ = true;
      more = execute_ahead(lock);
      pumping_ = pumping_ahead_ = false;
      changed_.notify_all();
    }
  }
}

void Engine::report_deadlock(const char* why) {
  log_line(LogLevel::error, "deadlock: %s; pending work:", why);
  int lines = 0;
  for (const auto& [seq, op] : unfinished_) {
    if (++lines > 16) {
      log_line(LogLevel::error, "deadlock:   ... and %zu more", unfinished_.size() - 16);
      break;
    }
    std::string waits;
    for (const auto& weak : op->dependencies) {
      const OpRef on = weak.lock();
      if (on && !on->completed) waits += " #" + std::to_string(on->seq);
    }
    const char* state = op->started && !op->executed ? "running"
                        : op->started                ? "finishing"
                        : op->time_deps              ? "waits for"
                                                     : "waits for a free SM or copy engine";
    log_line(LogLevel::error, "deadlock:   #%llu %s on device %d stream %llu %s%s",
             (unsigned long long)op->seq, op->body->name().c_str(), op->device,
             (unsigned long long)(op->stream ? op->stream->id : 0), state, waits.c_str());
  }
}

void Engine::after_fork_in_child() {}
}  // namespace simgpu::driver
