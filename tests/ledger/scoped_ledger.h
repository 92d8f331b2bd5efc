// A ledger of this test's own, removed with it.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/ledger/ledger.h"

namespace ledger_test {

using namespace shunt::ledger;

inline Uuid uuid(uint8_t n) {
  Uuid u{};
  u[0] = 0xAA;
  u[15] = n;
  return u;
}

struct Scope {
  Options options;
  Scope() {
    static int count = 0;
    options.scope = "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  }
  ~Scope() {
    std::string error;
    EXPECT_TRUE(Ledger::remove(options, error)) << error;
  }
  std::unique_ptr<Ledger> open() {
    std::string error;
    std::unique_ptr<Ledger> ledger = Ledger::open(options, error);
    EXPECT_TRUE(ledger) << error;
    return ledger;
  }
};

// Runs f in a child that then stays until it is killed; returns when f has run.
template <class F>
pid_t child_that_stays(F f) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  pid_t pid = fork();
  if (pid == 0) {
    bool ok = f();
    if (write(fds[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  bool ok = false;
  close(fds[1]);
  EXPECT_EQ(read(fds[0], &ok, 1), 1);
  EXPECT_TRUE(ok);
  close(fds[0]);
  return pid;
}
inline void end(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}
template <class F>
int in_child(F f) {
  pid_t pid = fork();
  if (pid == 0) _exit(f());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace ledger_test
