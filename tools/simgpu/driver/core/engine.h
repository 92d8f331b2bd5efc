// The discrete-event simulator: dependency DAG of ops, virtual clock, resources, waits. One per process,
// leaked.
//
// Locking: `mutex()` guards everything in the driver except the memory map (own lock) and OpBody::execute(),
// which runs unlocked under the pump token, so one thread at a time executes device work while others may
// submit and query. Time: every host thread has a virtual clock (thread_state.h); device events happen at
// virtual times ≥ their causes.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/op.h"

namespace simgpu::driver {

using Lock = std::unique_lock<std::mutex>;

class Engine {
 public:
  static Engine& get();
  std::mutex& mutex() { return mutex_; }

  // --- building work (engine mutex held) ---
  OpRef make_op(std::shared_ptr<const OpBody> body, std::shared_ptr<Context> context,
                std::shared_ptr<Stream> stream);
  void depend(Op& op, const OpRef& on);           // op runs after `on`; null and finished ones are fine
  void depend_on_start(Op& op, const OpRef& on);  // op starts no earlier than `on` does (one hardware queue)
  void link(const OpRef& op);                     // all dependencies added: the op may now run

  // --- waiting (engine mutex held through `lock`, given up while device work executes) ---
  enum class Wait { done, deadlock };
  // Simulates until every op of the list is complete; raises the calling thread's clock to the last end.
  Wait wait(Lock& lock, const std::vector<OpRef>& targets);
  // Simulates up to the calling thread's clock; true when the op is complete at that time.
  bool query(Lock& lock, const OpRef& target);
  // Simulates until `ready()` is true or nothing more can happen. Used by private_api and memory waits.
  Wait wait_until(Lock& lock, const std::function<bool()>& ready);
  // An outside party (host function, NCCL peer, another process) changed something: look again.
  void poke();
  // Called with the mutex held by OpBodies that answered `waiting` once their party has answered.
  void resume(const OpRef& op);

  uint64_t now() const { return now_ns_; }
  uint64_t pending() const { return unfinished_.size(); }
  // Abandons every unfinished op of a context (sticky error, destruction): they complete without effect.
  void abandon(Context& context);
  // All unfinished ops of a context, oldest first.
  std::vector<OpRef> unfinished(const Context& context) const;
  template <class F>
  void for_unfinished(F&& f) const {
    for (const auto& [seq, op] : unfinished_) f(*op);
  }

  void note_api_call() { ++api_calls_; }
  void after_fork_in_child();
  bool execution_disabled() const { return null_clock_; }

 private:
  Engine();
  struct Event {
    uint64_t time_ns;
    uint64_t tie;   // seq, or a seeded value: the legal order among equals
    bool complete;  // completion before readiness at equal times
    uint64_t generation;
    OpRef op;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
      if (a.complete != b.complete) return b.complete;
      return a.tie > b.tie;
    }
  };
  enum class Stepped {
    progressed,
    idle /* nothing up to the limit */,
    stalled /* only ops that wait for somebody */
  };
  // SM slots and copy engines of one device. The times say when the free amounts last changed: a
  // later-submitted op whose causes lie further back may start then, but not earlier.
  struct DeviceQueue {
    double free_sm = 1.0, sm_quantum = 0.01;
    int free_copy_engines = 2;
    uint64_t sm_time_ns = 0, copy_time_ns = 0;
    std::vector<OpRef> waiting;  // ready, not started for want of slots; by priority, readiness, seq
  };

  Stepped step(Lock& lock, uint64_t limit_ns, bool may_block);
  void dispatch(Lock& lock, int device, uint64_t at_ns);
  bool can_start(const Op& op);
  void start(Lock& lock, const OpRef& op, uint64_t at_ns);
  bool run_slice(Lock& lock, const OpRef& op, uint64_t budget);  // true: executed
  void finish_execution(const OpRef& op);
  void begin_timing(const OpRef& op);
  void change_rates(uint64_t at_ns, const std::vector<ResourceUse>& uses);
  void complete(Lock& lock, const OpRef& op);
  void push_ready(const OpRef& op);
  uint64_t tie(const Op& op);
  DeviceQueue& queue(int device);
  bool poll_set_aside(Lock& lock);  // asks waiting ops again; true when one finished
  bool execute_ahead(Lock& lock);   // progress thread: functional effects only
  void start_progress_thread();
  void progress_main();
  void report_deadlock(const char* why);
  uint64_t random(const Op& about, uint64_t decision) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool pumping_ = false, pumping_ahead_ = false;
  uint64_t now_ns_ = 0;
  uint64_t next_seq_ = 1;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<DeviceQueue> queues_;
  std::vector<OpRef> set_aside_;          // started, functional effect not finished (spinning or waiting)
  std::vector<OpRef> running_;            // started, with a known remaining time and shared resources
  std::map<uint64_t, OpRef> executable_;  // execute_deps == 0 and not executed, by seq
  std::map<uint64_t, OpRef> unfinished_;  // linked and not completed, by seq
  uint64_t api_calls_ = 0, changes_ = 0;
  uint64_t seed_ = 0;
  bool null_clock_ = false, progress_running_ = false;
  int64_t deadlock_ms_ = 10000;
};

}  // namespace simgpu::driver
