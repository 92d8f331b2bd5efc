// fork, exec, exit and the rest, each with and without the preload; plus what only the preload can get wrong.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "tests/interpose/run_program.h"

namespace shunt::test {
namespace {

std::string letters(const Probe& probe) {
  std::string path = testing::TempDir() + "shunt_life_" + std::to_string(getpid());
  std::remove(path.c_str());
  Probe logged = probe;
  logged.extra["STUB_RT_LOG"] = path;
  logged.hooked();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  return text.str();
}

class Life : public testing::TestWithParam<const char*> {};

TEST_P(Life, SameOutputAndStatus) {
  Probe probe{"life", {GetParam()}};
  Outcome plain = probe.plain();
  for (const Outcome& other : {probe.hooked(), probe.bare(), probe.disabled()}) {
    EXPECT_EQ(plain.out, other.out) << other.err;
    EXPECT_EQ(plain.status, other.status) << other.err;
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, Life,
                         testing::Values("race", "fork", "fork_before", "fork_lookup", "vfork", "spawn",
                                         "exec", "exit", "_exit", "quick_exit", "abort", "segv", "dlclose",
                                         "late"));

TEST(LifeCycle, ThreadsRacingTheFirstCallOpenOnce) {
  Outcome run = Probe{"life", {"race"}, "normal", {{"STUB_RT_SLEEP_MS", "30"}}}.hooked();
  EXPECT_EQ(run.out, "right 16\n");
  EXPECT_TRUE(run.has("opened 1") && run.has("hook cuStreamSynchronize 16")) << run.err;
}

TEST(LifeCycle, ForkedChildPassesThroughUntilItInitialises) {
  Outcome run = Probe{"life", {"fork"}}.hooked();
  EXPECT_EQ(run.out,
            "init 0 sync 1005\nchild sync 1005\nchild init 0 sync 1005\nreaped 6\nparent sync 1005\n");
  // Parent 1; child: still 1 after its unhooked call, 2 after cuInit; parent 2 of its own.
  EXPECT_EQ(run.err, "hook cuStreamSynchronize 1\nhook cuStreamSynchronize 2\nhook cuStreamSynchronize 2\n");
  // Opened, before the fork, parent and child in either order, and the exit of both.
  std::string seen = letters({"life", {"fork"}});
  std::sort(seen.begin() + std::min<ptrdiff_t>(2, std::ssize(seen)), seen.end());
  EXPECT_EQ(seen, "opPcxx");
}

TEST(LifeCycle, LibraryLoadedInTheChildIsHookedFromItsCuInitOn) {
  Outcome run = Probe{"life", {"fork_lookup"}}.hooked();
  EXPECT_NE(run.out.find("child sync 1005 init 0 sync 1005\n"), std::string::npos) << run.out;
  // Before the fork 1; its first call passes through, the one after cuInit counts.
  EXPECT_TRUE(run.has("hook cuStreamSynchronize 2")) << run.err;
}

TEST(LifeCycle, ChildThatIsFirstToUseCudaOpensItsOwnRuntime) {
  Outcome run = Probe{"life", {"fork_before"}}.hooked();
  EXPECT_TRUE(run.has("hook cuStreamSynchronize 1")) << run.err;
}

TEST(LifeCycle, ForkWhileAnotherThreadOpensTheRuntime) {
  auto begin = std::chrono::steady_clock::now();
  Outcome run = Probe{"life", {"fork_while_opening"}, "normal", {{"STUB_RT_SLEEP_MS", "200"}}}.hooked();
  EXPECT_EQ(run.out, "parent 1005\nchild 21\n");
  // The child sees that the opening thread is not there; it does not sit out the two seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(LifeCycle, ExitRunsOnceAndLateCallsReachTheDriver) {
  Probe probe{"life", {"late"}, "normal", {{"LIFE_LATE", "1"}}};
  EXPECT_EQ(probe.plain().out, "init 0 sync 1005\nlate sync 1005\n");
  EXPECT_EQ(probe.hooked().out, probe.plain().out);
  EXPECT_EQ(letters(probe), "ox");
  EXPECT_EQ(letters({"life", {"_exit"}}), "o");
}

TEST(LifeCycle, RelativePreloadPathAfterChdirFindsTheRuntimeBesideIt) {
  // No SHUNT_RT_PATH: libshunt_rt.so is searched beside libshunt.so, whatever the working directory has
  // become.
  std::string folder = testing::TempDir() + "shunt_beside_" + std::to_string(getpid());
  std::string script = "mkdir -p " + folder + "/lib && cd " + folder +
                       " && cp " SHUNT_PRELOAD " lib/libshunt.so" +
                       " && cp " SHUNT_STUB_RT " lib/libshunt_rt.so && LD_LIBRARY_PATH=" SHUNT_TEST_FILES
                       "/normal STUB_RT_LOG=" +
                       folder + "/log LD_PRELOAD=./lib/libshunt.so " SHUNT_TEST_FILES "/life chdir; cat " +
                       folder + "/log; rm -rf " + folder;
  Outcome run = run_program({"/bin/bash", "-c", script}, {});
  EXPECT_EQ(run.out, "init 0 sync 1005\nox") << run.err;
}

// A sanitizer's own start-up calls dlsym before its replacements of libc's functions work.
class Sanitizer : public testing::TestWithParam<const char*> {};

TEST_P(Sanitizer, ProgramRunsUnderThePreload) {
  std::string program = std::string("life_") + GetParam();
  if (access((SHUNT_TEST_FILES "/" + program).c_str(), X_OK) != 0)
    GTEST_SKIP() << "this compiler has no -fsanitize=" << GetParam() << " (issue 2)";
  // gcc's ASan insists on being first unless told otherwise; a program's user would say so too.
  Probe probe{program, {"race"}, "normal", {{"ASAN_OPTIONS", "verify_asan_link_order=0"}}};
  Outcome plain = probe.plain();
  if (plain.status != 0) GTEST_SKIP() << "the sanitizer does not run on this machine: " << plain.err;
  for (const Outcome& other : {probe.hooked(), probe.bare(), probe.disabled()}) {
    EXPECT_EQ(plain.out, other.out) << other.err;
    EXPECT_EQ(plain.status, other.status) << other.err;
  }
  EXPECT_TRUE(probe.hooked().has("hook cuStreamSynchronize 16"));
}
INSTANTIATE_TEST_SUITE_P(Kinds, Sanitizer, testing::Values("address", "thread"));

}  // namespace
}  // namespace shunt::test
