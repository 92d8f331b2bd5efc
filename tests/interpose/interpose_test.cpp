// Look-ups and calls under the preload: what the program sees must be what it sees without it, and the hooks
// must be reached exactly where the driver's own function would have been.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/interpose/run_program.h"

namespace shunt::test {
namespace {

// Same output and status in every configuration; returns the hooked run for its counters.
Outcome expect_unchanged(const Probe& probe) {
  Outcome plain = probe.plain();
  Outcome hooked = probe.hooked();
  EXPECT_EQ(plain.out, hooked.out) << hooked.err;
  EXPECT_EQ(plain.status, hooked.status) << hooked.err;
  for (const Outcome& other : {probe.bare(), probe.disabled()}) {
    EXPECT_EQ(plain.out, other.out) << other.err;
    EXPECT_EQ(plain.status, other.status) << other.err;
  }
  EXPECT_EQ(probe.disabled().err.find("hook cuInit 1"), std::string::npos)
      << "SHUNT_DISABLE=1 must keep the runtime away";
  return hooked;
}

TEST(DirectLink, EverySlotIsReachedWithItsArguments) {
  Outcome run = expect_unchanged({"linked", {}});
  EXPECT_EQ(run.status, 5);
  EXPECT_NE(run.out.find("early 13000 errno 99\ncuInit 0\ncuMemAlloc 1001 77\ncuMemAlloc_v2 1002 "
                         "1099511627776\ncuParamSetf 1007\n"
                         "cuLaunchKernel 1008 1008\nsync 1005 1006\n"
                         "devices 0 2 dlerror none\n"),
            std::string::npos)
      << run.out;
  EXPECT_TRUE(run.has("hook cuInit 1") && run.has("hook cuMemAlloc 1") && run.has("hook cuMemAlloc_v2 1"))
      << run.err;
  EXPECT_TRUE(run.has("hook cuParamSetf 1") && run.has("hook cuLaunchKernel 2")) << run.err;
  EXPECT_TRUE(run.has("hook cuStreamSynchronize_ptsz 1")) << run.err;
  EXPECT_TRUE(run.has("hook cuDriverGetVersion 0")) << "harmless functions carry no hook: " << run.err;
}

TEST(DirectLink, RuntimeThatDeclinesLeavesEverythingAlone) {
  Probe probe{"linked", {}, "normal", {{"STUB_RT_DECLINE", "1"}}};
  Outcome run = expect_unchanged(probe);
  EXPECT_TRUE(run.has("hook cuInit 0")) << run.err;
}

TEST(DirectLink, RuntimeMayLookThingsUpWhileItOpens) {
  Outcome run = expect_unchanged({"linked", {}, "normal", {{"STUB_RT_NESTED", "1"}}});
  EXPECT_TRUE(run.has("nested real") && run.has("hook cuInit 1")) << run.err;
}

TEST(Lookup, ByDlsym) {
  Outcome run = expect_unchanged({"loaded", {"dlsym"}});
  EXPECT_NE(run.out.find("init 0\nalloc 1002\nlaunch 1008\nsync 1006\ntwice 1\n"), std::string::npos)
      << run.out;
  EXPECT_TRUE(run.has("hook cuInit 1") && run.has("hook cuMemAlloc_v2 1") &&
              run.has("hook cuLaunchKernel 1") && run.has("hook cuStreamSynchronize_ptsz 1"))
      << run.err;
}

TEST(Lookup, ByDlvsym) { expect_unchanged({"loaded", {"dlvsym"}}); }

TEST(Lookup, ByDlsymLookedUpThroughDlsym) {
  Outcome run = expect_unchanged({"loaded", {"indirect_dlsym"}});
  EXPECT_TRUE(run.has("hook cuMemAlloc_v2 1")) << run.err;
}

TEST(Lookup, OfTheRuntimeIsAnsweredWithTheRealFunction) {
  Outcome run = expect_unchanged({"loaded", {"runtime_lookup"}});
  EXPECT_TRUE(run.has("runtime real")) << run.err;
}

TEST(Lookup, ProcAddressPicksTheHookOfTheVersion) {
  Outcome run = expect_unchanged({"loaded", {"proc"}});
  EXPECT_TRUE(run.has("hook cuInit 1") && run.has("hook cuMemAlloc_v2 2") && run.has("hook cuMemAlloc 0"))
      << run.err;
  EXPECT_TRUE(run.has("hook cuMemcpyHtoD_v2 1") && run.has("hook cuMemcpyHtoD_v2_ptds 0")) << run.err;
  EXPECT_TRUE(run.has("hook cuStreamGetCaptureInfo 1") && run.has("hook cuStreamGetCaptureInfo_v3 0"))
      << run.err;
}

TEST(Lookup, ProcAddressOldForm) {
  Outcome run = expect_unchanged({"loaded", {"proc_old"}});
  EXPECT_TRUE(run.has("hook cuInit 1") && run.has("hook cuMemAlloc_v2 2")) << run.err;
  EXPECT_TRUE(run.has("hook cuLaunchKernelEx 0")) << "11030 is before it: " << run.err;
}

TEST(Lookup, ProcAddressBeforeVersionTwoOfTheFunction) {
  Outcome run = expect_unchanged({"loaded", {"proc_ancient"}});
  EXPECT_TRUE(run.has("hook cuMemAlloc 1") && run.has("hook cuMemAlloc_v2 0")) << run.err;
}

TEST(Lookup, ProcAddressPerThreadStream) {
  Outcome run = expect_unchanged({"loaded", {"proc_ptsz"}});
  EXPECT_TRUE(run.has("hook cuMemcpyHtoD_v2 0") && run.has("hook cuMemcpyHtoD_v2_ptds 1")) << run.err;
  EXPECT_TRUE(run.has("hook cuStreamSynchronize 0") && run.has("hook cuStreamSynchronize_ptsz 1")) << run.err;
  EXPECT_TRUE(run.has("hook cuStreamGetCaptureInfo_v3 1"))
      << "no per-thread form in this driver: " << run.err;
}

TEST(Lookup, DriverWithoutTheSecondProcAddress) {
  Outcome run = expect_unchanged({"loaded", {"proc_plain_13"}, "old"});
  EXPECT_TRUE(run.has("hook cuMemAlloc_v2 2")) << run.err;
  // 12030 was asked for and this driver only has 10010: by its address it is still known which one came back.
  EXPECT_TRUE(run.has("hook cuStreamGetCaptureInfo 1") && run.has("hook cuStreamGetCaptureInfo_v3 0"))
      << run.err;
}

TEST(Lookup, DriverWithoutAnyProcAddress) {
  Outcome run = expect_unchanged({"loaded", {"dlsym"}, "ancient"});
  EXPECT_TRUE(run.has("hook cuLaunchKernel 1")) << run.err;
}

TEST(Lookup, DriverWhoseLookUpAnswersWithOtherAddresses) {
  Outcome run = expect_unchanged({"loaded", {"proc"}, "thunks"});
  EXPECT_TRUE(run.has("hook cuMemAlloc_v2 2") && run.has("hook cuStreamSynchronize 1")) << run.err;
}

TEST(Unknown, GoesStraightToTheDriverWhileNothingIsHeldBack) {
  Outcome run = expect_unchanged({"loaded", {"future"}, "future"});
  EXPECT_NE(run.out.find("future 2000\nnewer 2001\nknown 1002\ndlsym 2000\n"), std::string::npos) << run.out;
  EXPECT_TRUE(run.has("drained 0") && run.has("hook cuMemAlloc_v2 1")) << run.err;
}

TEST(Unknown, IsDrainedFirstWithEveryArgumentIntact) {
  Outcome run = expect_unchanged({"loaded", {"future"}, "future", {{"STUB_RT_DRAIN", "1"}}});
  EXPECT_NE(run.out.find("future 2000\nnewer 2001\nknown 1002\ndlsym 2000\n"), std::string::npos) << run.out;
  EXPECT_TRUE(run.has("drained 3") && run.has("hook cuMemAlloc_v2 1")) << run.err;
}

TEST(Absent, StaysAbsentWithoutADriver) {
  Outcome run = expect_unchanged({"loaded", {"absent"}, "none"});
  EXPECT_EQ(run.out.find("found"), std::string::npos) << run.out;
}

TEST(Absent, StaysAbsentInAnOldDriver) {
  Outcome run = expect_unchanged({"loaded", {"absent"}, "old"});
  EXPECT_NE(run.out.find("cuInit found error none"), std::string::npos) << run.out;
}

TEST(Absent, CallWithoutADriverReturnsAnError) {
  // Without the preload these symbols are null; with it they can be called and say that there is nothing.
  for (const char* driver :
       {"none", "normal"}) {  // a driver on the path is not loaded for a program that did not
    Outcome run = Probe{"weak", {}, driver}.hooked();
    EXPECT_EQ(run.out, "cuInit 34\nnccl 2 libnccl.so.2 is not loaded\ndone\n") << run.err;
    EXPECT_EQ(run.status, 0);
  }
}

TEST(Absent, FunctionTheDriverLacksReturnsAnError) {
  // Lazy binding of a program built against a newer driver: it would die at the first such call without the
  // preload.
  Outcome run = Probe{"linked", {"ex"}, "ancient"}.hooked();
  EXPECT_EQ(run.out, "ex 801\n") << run.err;
  EXPECT_EQ((Probe{"linked", {"ex"}, "normal"}.hooked().out), "ex 1009\n");
}

TEST(Caller, NextAndDefaultKeepTheCallersIdentity) {
  Outcome run = expect_unchanged({"next", {}});
  EXPECT_EQ(run.out, "next 11 21\ndefault first\n");
}

TEST(Caller, PluginOpenedLocally) {
  Probe probe{"plugin_host", {SHUNT_TEST_FILES "/libprobe_plugin.so"}};
  Outcome run = expect_unchanged(probe);
  EXPECT_NE(run.out.find("host default null\nplugin init 0 launch 1008\nplugin default found\n"),
            std::string::npos)
      << run.out;
  EXPECT_TRUE(run.has("hook cuLaunchKernel 2")) << run.err;
  // The driver came and would go with the plug-in, but addresses of it are in our slots.
  EXPECT_TRUE(run.has("driver kept") && probe.plain().has("driver gone")) << run.err;
}

TEST(Caller, ProgramWithItsOwnWrappers) {
  Outcome run = expect_unchanged({"own_wrapper", {}});
  EXPECT_EQ(run.out, "wrapped init 0 sync 1005\n");
  EXPECT_TRUE(run.has("hook cuStreamSynchronize 1")) << run.err;
  expect_unchanged({"own_wrapper", {}, "none"});
}

TEST(Caller, LibraryWithItsOwnWrappers) {
  // Its calls reach our exported symbols first, before anybody has loaded the driver its wrappers would have
  // loaded.
  Outcome run = expect_unchanged({"plugin_host", {SHUNT_TEST_FILES "/libprobe_wrapper_library.so"}});
  EXPECT_EQ(run.out, "host default null\nwrapped init 0 sync 1005\nwrapped init 0 sync 1005\n");
  EXPECT_TRUE(run.has("hook cuStreamSynchronize 2")) << run.err;
  run = expect_unchanged({"plugin_host", {SHUNT_TEST_FILES "/libprobe_wrapper_library.so"}, "none"});
  EXPECT_EQ(run.out, "host default null\nwrapped init 35 sync 35\nwrapped init 35 sync 35\n")
      << "its own answer";
}

TEST(Nccl, LinkedCallsAndTheirTwins) {
  Outcome run = expect_unchanged({"nccl_user", {"linked"}});
  EXPECT_EQ(run.out, "version 0 22809 fake\ninit 0\nreduce 3001 twin 3002\n");
  EXPECT_TRUE(run.has("hook ncclAllReduce 1") && run.has("hook pncclAllReduce 1")) << run.err;
}

TEST(Nccl, LookedUp) {
  Outcome run = expect_unchanged({"nccl_user", {"lookup"}});
  EXPECT_EQ(run.out, "before init 3001\ninit 0\nreduce 3001\n");
  EXPECT_TRUE(run.has("hook ncclAllReduce 2")) << run.err;
}

// Programs that have nothing to do with CUDA: same output, same status, no file opened by us.
TEST(Bystander, ShellPythonAndGit) {
  const std::vector<std::vector<std::string>> commands = {
      {"/bin/bash", "-c", "echo a b | tr a-z A-Z; f() { return 7; }; f"},
      {"python3", "-c",
       "import ctypes, json, threading; print(json.dumps([1, ctypes.sizeof(ctypes.c_long)])); raise "
       "SystemExit(3)"},
      {"python3", "-c",
       "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'), hasattr(ctypes.CDLL(None), 'getpid'))"},
      {"git", "--version"},
      // No descriptor left open, no thread, and the runtime is not even mapped.
      {"python3", "-c",
       "import os; print(len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task')), "
       "'libshunt_rt' in open('/proc/self/maps').read())"},
      {"/bin/ls", "/nonexistent"},
  };
  for (auto& command : commands) {
    Outcome plain = run_program(command, {});
    Outcome preloaded =
        run_program(command, {{"LD_PRELOAD", SHUNT_PRELOAD}, {"SHUNT_RT_PATH", SHUNT_STUB_RT}});
    EXPECT_EQ(plain.out, preloaded.out) << command[0];
    EXPECT_EQ(plain.err, preloaded.err) << command[0];
    EXPECT_EQ(plain.status, preloaded.status) << command[0];
    EXPECT_GE(plain.status, 0) << command[0] << ": " << plain.err;
  }
}

// Set-user-ID programs run in secure execution: the loader drops the preload, and if it is a trusted one we
// stay off.
TEST(Bystander, SecureExecution) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a set-user-ID copy (issue 2)";
  char folder[] = "/tmp/shunt_setuid_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string copy = std::string(folder) + "/loaded";
  Outcome made = run_program({"/bin/sh", "-c",
                              "chmod 755 " + std::string(folder) + " && cp " SHUNT_TEST_FILES "/loaded " +
                                  copy + " && chown 65534 " + copy + " && chmod 4755 " + copy},
                             {});
  ASSERT_EQ(made.status, 0) << made.err;
  Environment environment = {{"LD_LIBRARY_PATH", SHUNT_TEST_FILES "/normal"}};
  Outcome plain = run_program({copy, "dlsym"}, environment);
  environment["LD_PRELOAD"] = SHUNT_PRELOAD;
  environment["SHUNT_RT_PATH"] = SHUNT_STUB_RT;
  Outcome preloaded = run_program({copy, "dlsym"}, environment);
  EXPECT_EQ(plain.out, preloaded.out);
  EXPECT_EQ(plain.status, preloaded.status);
  EXPECT_EQ(preloaded.err.find("hook cuInit 1"), std::string::npos);
  run_program({"/bin/rm", "-rf", folder}, {});
}

}  // namespace
}  // namespace shunt::test
