#include "runtime/model/thread_state.h"

#include <pthread.h>

#include <atomic>

namespace shunt::model {

thread_local ThreadState* detail::thread_state __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {
pthread_key_t g_key;
pthread_once_t g_once = PTHREAD_ONCE_INIT;
std::atomic<int> g_next_index{1};

void destroy(void* state) {
  detail::thread_state = nullptr;
  delete static_cast<ThreadState*>(state);
}
}  // namespace

ThreadState& detail::create_thread_state() {
  pthread_once(&g_once, [] { pthread_key_create(&g_key, destroy); });
  auto* state = new ThreadState();
  state->index = g_next_index.fetch_add(1, std::memory_order_relaxed);
  thread_state = state;
  pthread_setspecific(g_key, state);
  return *state;
}

void thread_states_after_fork() {
  if (!detail::thread_state) return;
  const int index = detail::thread_state->index;  // still this thread's own
  *detail::thread_state = ThreadState{};
  detail::thread_state->index = index;
}

}  // namespace shunt::model
