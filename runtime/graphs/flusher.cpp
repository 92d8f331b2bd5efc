#include "runtime/graphs/flusher.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/helper_thread.h"
#include "runtime/graphs/graphs_link.h"
#include "runtime/trace/names.h"

namespace shunt::graphs {
namespace {
constexpr long kTickNs = 25'000;        // a buffer is seen by two ticks at most: 50 us
constexpr uint32_t kIdleTicks = 2'000;  // 50 ms without a buffer: sleep
}  // namespace

bool Flusher::begin() {
  return begun_.exchange(true) || start_helper_thread([this] { work(); });
}

void Flusher::wake() {
  if (asleep_.exchange(0) != 0) syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Flusher::work() {
  trace::name_this_thread("shunt-flusher");
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  uint32_t idle = 0;
  for (;;) {
    const timespec tick{0, kTickNs};
    nanosleep(&tick, nullptr);
    if (link_.flush_old()) {
      idle = 0;
      continue;
    }
    if (++idle < kIdleTicks) continue;
    asleep_.store(1);
    // Whoever buffered before seeing this is found here.
    if (link_.holds_anything()) {
      asleep_.store(0);
      continue;
    }
    syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
    idle = 0;
  }
}

}  // namespace shunt::graphs
