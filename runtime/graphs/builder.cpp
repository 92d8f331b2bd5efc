#include "runtime/graphs/builder.h"

#include "runtime/base/helper_thread.h"
#include "runtime/exec/driver.h"
#include "runtime/trace/names.h"

namespace shunt::graphs {

void Builder::request(std::shared_ptr<Pattern> pattern) {
  std::lock_guard lock(mutex_);
  if (!started_ && !(started_ = start_helper_thread([this] { work(); }))) {
    pattern->build_state.store(Pattern::Build::failed, std::memory_order_release);
    return;
  }
  queue_.push_back(std::move(pattern));
  wake_.notify_one();
}

void Builder::settle() {
  std::unique_lock lock(mutex_);
  for (auto& waiting : queue_) waiting->build_state.store(Pattern::Build::cancelled);
  queue_.clear();
  settled_.wait(lock, [this] { return !busy_; });
}

void Builder::work() {
  trace::name_this_thread("shunt-graphs");
  const exec::Driver& driver = exec::Driver::get();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver.thread_exchange_capture_mode(&mode);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !queue_.empty(); });
    std::shared_ptr<Pattern> pattern = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    pattern->build_state.store(Pattern::Build::running);
    bool ok = driver.ctx_set_current(pattern->context) == CUDA_SUCCESS;
    try {
      ok = ok && pattern->build();
    } catch (...) {
      ok = false;
    }
    pattern->build_state.store(ok ? Pattern::Build::ready : Pattern::Build::failed,
                               std::memory_order_release);
    pattern.reset();  // perhaps the last owner: the executables go here, not under the lock
    driver.ctx_set_current(nullptr);
    lock.lock();
    busy_ = false;
    if (queue_.empty()) settled_.notify_all();
  }
}

}  // namespace shunt::graphs
