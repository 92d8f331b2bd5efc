// SIGKILL at every step of every operation: survivors go on at once, and nothing stays promised or used.
#include <sys/mman.h>

#include <chrono>

#include "runtime/ledger/layout.h"
#include "tests/ledger/scoped_ledger.h"

using namespace ledger_test;

namespace {

long steps_left = -1;
void count_down() {
  if (steps_left > 0 && --steps_left == 0) kill(getpid(), SIGKILL);
}

void script(const Options& options) {
  std::string error;
  auto ledger = Ledger::open(options, error);
  if (!ledger) _exit(3);
  int a = ledger->device(uuid(1)), b = ledger->device(uuid(2)), c = ledger->device(uuid(3));
  ledger->sweep();
  Request gang[] = {{c, 100, 1000}, {a, 100, 1000}};
  Reservation r;
  if (ledger->reserve(gang, r) != Grant::granted) _exit(4);
  ledger->commit(r);
  Request one{b, 50, 1000};
  if (ledger->reserve({&one, 1}, r) != Grant::granted) _exit(5);
  ledger->cancel(r);
  ledger->want(b, 10);
  ledger->sub_used(a, 60);
  ledger->want(b, 0);
  if (ledger->reserve({&one, 1}, r) != Grant::granted) _exit(6);
  // ... and ends with memory and a promise.
}

// `fresh`: the victim also makes the file. `with_corpse`: it finds a dead neighbour to sweep.
void sweep_steps(bool fresh, bool with_corpse, int least) {
  int kills = 0;
  for (long step = 1;; ++step) {
    ASSERT_LT(step, 5000);
    Scope scope;
    scope.options.lock_timeout_ms = 2000;
    std::unique_ptr<Ledger> survivor;
    if (!fresh) {
      survivor = scope.open();
      survivor->add_used(survivor->device(uuid(1)), 77);
    }
    if (with_corpse) {
      EXPECT_EQ(in_child([&] {
                  auto* mine = scope.open().release();
                  mine->add_used(mine->device(uuid(1)), 4000);
                  mine->want(0, 5);
                  return 0;
                }),
                0);
    }
    int status = in_child([&] {
      steps_left = step;
      ledger_step = count_down;
      script(scope.options);
      return 0;
    });
    bool killed = status == 1000 + SIGKILL;
    ASSERT_TRUE(killed || status == 0) << "step " << step << " status " << status;
    kills += killed;
    auto start = std::chrono::steady_clock::now();
    if (fresh) survivor = scope.open();
    ASSERT_TRUE(survivor) << "step " << step;
    int a = survivor->device(uuid(1));
    uint64_t own = fresh ? 0 : 77;
    survivor->sweep();
    for (int d = 0; d < survivor->device_count(); ++d) {
      DeviceView v = survivor->view(d);
      ASSERT_EQ(v.used, d == a ? own : 0u) << "step " << step << " device " << d;
      ASSERT_EQ(v.reserved + v.spilled + v.wanted, 0u) << "step " << step << " device " << d;
    }
    ASSERT_EQ(survivor->processes().size(), 1u) << "step " << step;
    if (with_corpse) {
      ASSERT_GE(survivor->freed_by_others(a), 4000u) << "step " << step << ": a waiter must hear of it";
    }
    Request all[] = {
        {a, 1000, 1000}, {survivor->device(uuid(2)), 1000, 1000}, {survivor->device(uuid(3)), 1000, 1000}};
    Reservation r;
    ASSERT_EQ(survivor->reserve(all, r), Grant::granted) << "step " << step;
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500)) << "step " << step;
    if (!killed) break;
  }
  EXPECT_GT(kills, least);
}

TEST(LedgerKill, AtEveryStepOfAUser) { sweep_steps(false, false, 30); }
TEST(LedgerKill, AtEveryStepOfTheMaker) { sweep_steps(true, false, 30); }
TEST(LedgerKill, AtEveryStepOfTheSweeper) { sweep_steps(false, true, 35); }

}  // namespace
