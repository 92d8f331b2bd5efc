// The driver's callback thread: runs applications' host functions one after another, without any lock of
// ours.
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "runtime/base/helper_thread.h"
#include "tools/simgpu/driver/core/handles.h"
#include "tools/simgpu/driver/core/ops.h"
#include "tools/simgpu/driver/core/race.h"
#include "tools/simgpu/driver/core/schedule.h"
#include "tools/simgpu/driver/core/thread_state.h"

namespace simgpu::driver {
namespace {
struct CallbackThread {
  std::mutex mutex;
  std::condition_variable more;
  std::deque<OpRef> queue;
  bool running = false;
};
CallbackThread& callback_thread() {
  static CallbackThread* instance = new CallbackThread;
  return *instance;
}

void callback_main() {
  pthread_setname_np(pthread_self(), "simgpu-callback");
  if (schedule_active()) schedule_own_thread();
  CallbackThread& self = callback_thread();
  thread_state().in_callback = true;
  while (true) {
    OpRef op;
    {
      std::unique_lock<std::mutex> lock(self.mutex);
      self.more.wait(lock, [&] { return !self.queue.empty(); });
      op = std::move(self.queue.front());
      self.queue.pop_front();
    }
    thread_state().clock_ns = std::max(thread_state().clock_ns, op->start_ns);
    if (races_watched()) {
      // The function runs after the work before it: that is as good as waiting for it.
      Lock lock(Engine::get().mutex());
      race_host_waited(*op);
    }
    const auto& body = static_cast<const HostFunctionBody&>(*op->body);
    if (body.function) body.function(body.user);
    if (body.callback)
      body.callback(body.stream, op->context ? op->context->sticky.load() : CUDA_SUCCESS, body.user);
    Lock lock(Engine::get().mutex());
    Engine::get().resume(op);
  }
}
}  // namespace

OpBody::Step HostFunctionBody::execute(Op& op, uint64_t) {
  if (op.scratch) return Step::waiting;  // handed over before
  op.scratch = std::make_shared<int>(1);
  CallbackThread& self = callback_thread();
  std::lock_guard<std::mutex> lock(self.mutex);
  if (!self.running) {
    if (!shunt::start_helper_thread(callback_main)) {
      op.error = CUDA_ERROR_OPERATING_SYSTEM;
      op.error_text = "host function: cannot start the callback thread";
      return Step::done;
    }
    self.running = true;
  }
  self.queue.push_back(op.shared_from_this());
  self.more.notify_one();
  return Step::waiting;
}
}  // namespace simgpu::driver
