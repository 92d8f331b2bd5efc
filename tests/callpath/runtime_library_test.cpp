// libshunt_rt.so from outside: it opens late, exports one symbol, refuses a table it does not know, and
// installs nothing when everything is off.
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <vector>

#include "runtime/link/generated/slots.h"
#include "runtime/link/runtime_link.h"

namespace {

std::set<uint32_t> g_hooked;
int dummy() { return 0; }
void* real(uint32_t) { return reinterpret_cast<void*>(dummy); }
void set_hook(uint32_t slot, void* f) { f ? (void)g_hooked.insert(slot) : (void)g_hooked.erase(slot); }
void* find_loaded(const char*, const char*) { return nullptr; }
void set_drain(int) {}
ShuntHost host{sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, "libshunt.so", real,
               set_hook,          find_loaded,        set_drain};

// In a child: opens the runtime once with the environment given. Returns the number of hooks, or 255 when it
// declined.
int hooks_with(std::vector<const char*> environment, const ShuntHost* table = &host) {
  const pid_t child = fork();
  if (child == 0) {
    for (const char* e : environment) putenv(const_cast<char*>(e));
    void* library = dlopen(SHUNT_RT_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library) _exit(254);
    const auto open = reinterpret_cast<ShuntRuntimeOpen>(dlsym(library, SHUNT_RUNTIME_OPEN_SYMBOL));
    if (!open) _exit(253);
    const ShuntRuntime* runtime = open(table);
    if (!runtime) _exit(255);
    _exit(g_hooked.size() > 200 ? 200 : static_cast<int>(g_hooked.size()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(RuntimeLibrary, NothingIsHookedWhenEverythingIsOff) {
  EXPECT_EQ(hooks_with({"SHUNT_PLACEMENT=off", "SHUNT_GRAPHS=off", "SHUNT_OVERLAP=off", "SHUNT_OOM=off"}), 0);
  // `shunt run` has placed the program already.
  EXPECT_EQ(hooks_with({"SHUNT_PLACED=GPU-1|default-device|kept", "SHUNT_GRAPHS=off", "SHUNT_OVERLAP=off",
                        "SHUNT_OOM=off"}),
            0);
}

TEST(RuntimeLibrary, PlacementHooksOrdinalsOnly) {
  const int hooks = hooks_with({"SHUNT_GRAPHS=off", "SHUNT_OVERLAP=off", "SHUNT_OOM=off"});
  EXPECT_GT(hooks, 60);
  EXPECT_LT(hooks, 110);
}

TEST(RuntimeLibrary, TraceHooksEverythingThatIsNotHarmless) {
  char folder[] = "/tmp/shunt-rt-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string trace = "SHUNT_TRACE=" + std::string(folder) + "/t";
  EXPECT_EQ(hooks_with({trace.c_str(), "SHUNT_PLACEMENT=off"}), 200);
  const std::string remove = "rm -rf " + std::string(folder);
  EXPECT_EQ(system(remove.c_str()), 0);
}

TEST(RuntimeLibrary, OffSwitchAndForeignTables) {
  EXPECT_EQ(hooks_with({"SHUNT_DISABLE=1"}), 255);
  ShuntHost other = host;
  other.slot_count = 3;
  EXPECT_EQ(hooks_with({"SHUNT_LOG=off"}, &other), 255);
  other = host;
  other.version = 99;
  EXPECT_EQ(hooks_with({"SHUNT_LOG=off"}, &other), 255);
  EXPECT_EQ(hooks_with({"SHUNT_LOG=off"}, nullptr), 255);
}

TEST(RuntimeLibrary, StaticTlsStaysSmall) {
  // A library opened late takes its thread-locals from a surplus of a few hundred bytes that it shares with
  // everybody.
  std::ifstream in(SHUNT_RT_FILE, std::ios::binary);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  for (int i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment{};
    in.seekg(static_cast<std::streamoff>(header.e_phoff + static_cast<uint64_t>(i) * header.e_phentsize));
    in.read(reinterpret_cast<char*>(&segment), sizeof segment);
    EXPECT_TRUE(segment.p_type != PT_TLS || segment.p_memsz <= 256) << segment.p_memsz;
  }
}

}  // namespace
