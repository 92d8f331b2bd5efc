// Call sites: one STACK a (feature, return address) pair, frames that lead to the right function of the right
// file, build ids as the linker wrote them, nothing on threads that answer no call.
#include <dlfcn.h>
#include <link.h>

#include <map>
#include <thread>

#include "tests/trace/trace_fixture.h"
#include "tools/shunt/trace/symbols.h"

namespace shunt::trace {
namespace {

// Stands for a hook: its return address is the program's call.
__attribute__((noinline)) void hook(Feature feature, uint64_t n) {
  note_caller(__builtin_return_address(0));
  decide({.feature = feature, .bytes = n});
  asm volatile("");  // no tail call
}
__attribute__((noinline)) void program_first() {
  hook(Feature::graph, 1);
  asm volatile("");
}
__attribute__((noinline)) void program_second() {
  hook(Feature::graph, 2);
  asm volatile("");
}
__attribute__((noinline)) void program_both_features() {
  // Volatile: one call instruction, not three of an unrolled loop.
  static volatile Feature features[] = {Feature::graph, Feature::comm, Feature::graph};
  volatile int n = 3;
  for (int i = 0; i < n; i++) hook(features[i], 3);
  asm volatile("");
}

struct Stacks {
  std::map<uint32_t, std::vector<StackFrame>> frames;
  std::map<uint64_t, std::string> modules, build_ids;
  std::multimap<uint64_t, uint32_t> by_bytes;
};
Stacks stacks_of(const Reader& reader) {
  Stacks out;
  reader.for_each([&](const RecordHeader& r, uint32_t) {
    if (r.type == static_cast<uint16_t>(RecordType::stack)) {
      EXPECT_LE(sizeof(StackRecord) + r.flags * sizeof(StackFrame), r.size);
      const auto* f = reinterpret_cast<const StackFrame*>(reinterpret_cast<const StackRecord*>(&r) + 1);
      out.frames[static_cast<uint32_t>(r.id)].assign(f, f + r.flags);
    } else if (r.type == static_cast<uint16_t>(RecordType::module)) {
      out.modules[r.id] = reader.string(r.id);
      out.build_ids[r.id].assign(reinterpret_cast<const char*>(&r + 1), r.flags);
    } else if (r.type == static_cast<uint16_t>(RecordType::decision)) {
      const auto& d = reinterpret_cast<const DecisionRecord&>(r);
      out.by_bytes.emplace(d.bytes, d.stack);
    }
  });
  return out;
}

uintptr_t base_of_this_program() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&base_of_this_program), &info);
  return reinterpret_cast<uintptr_t>(info.dli_fbase);
}
void expect_inside(const StackFrame& frame, void (*function)()) {
  const uintptr_t at = base_of_this_program() + frame.offset, start = reinterpret_cast<uintptr_t>(function);
  EXPECT_GE(at, start);
  EXPECT_LT(at, start + 256);
}

TEST_F(TraceTest, OneStackACallSiteAndFeature) {
  ASSERT_EQ(in_child([&] {
              start(options_);
              start_call_sites(true);
              for (int i = 0; i < 1000; i++) program_first();
              program_second();
              program_both_features();
              std::thread([] { decide({.feature = Feature::graph, .bytes = 4}); }).join();
              stop();
            }),
            0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 1u);
  const Stacks s = stacks_of(readers[0]);
  EXPECT_EQ(s.frames.size(), 4u);  // first, second, and both features of the third
  ASSERT_EQ(s.by_bytes.count(1), 1000u);
  const uint32_t first = s.by_bytes.find(1)->second;
  for (auto [at, end] = s.by_bytes.equal_range(1); at != end; ++at) EXPECT_EQ(at->second, first);
  ASSERT_TRUE(s.frames.count(first));
  expect_inside(s.frames.at(first).at(0), program_first);
  expect_inside(s.frames.at(s.by_bytes.find(2)->second).at(0), program_second);
  EXPECT_EQ(s.by_bytes.find(4)->second, 0u);  // the helper answers no call
  void* unwinder = dlopen("libunwind.so.8", RTLD_LAZY | RTLD_LOCAL);
  if (unwinder) {
    EXPECT_GT(s.frames.at(first).size(), 3u);  // up to main
  }
  const uint64_t module = s.frames.at(first).at(0).module;
  char self[512] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  EXPECT_EQ(s.modules.at(module), self);
  EXPECT_EQ(s.build_ids.at(module).size(), 20u);

  // Offline: the function's name from the file of that build, and none from a file of another build.
  tool::TraceRun run;
  std::string error;
  ASSERT_TRUE(tool::open_run(options_.directory, run, error)) << error;
  const std::string text = tool::CallSites(*run.processes[0]).text(first);
  EXPECT_NE(text.find("program_first()+0x"), std::string::npos) << text;
  const uint64_t offset = s.frames.at(first).at(0).offset;
  EXPECT_NE(tool::SymbolFile(self, s.build_ids.at(module)).name(offset), "");
  std::string other = s.build_ids.at(module);
  other[0] = static_cast<char>(other[0] ^ 1);
  EXPECT_FALSE(tool::SymbolFile(self, other).matches());
  EXPECT_EQ(tool::SymbolFile(self, other).name(offset), "");
}

TEST_F(TraceTest, CallSitesOffOrInAForkChild) {
  ASSERT_EQ(in_child([&] {
              start(options_);
              program_first();  // off
              start_call_sites(true);
              program_first();
              const pid_t child = fork();
              if (child == 0) {
                fork_child();
                program_second();
                program_first();  // numbered anew: the child's file knows nothing of the parent's
                stop();
                _exit(0);
              }
              waitpid(child, nullptr, 0);
              stop();
            }),
            0);
  auto readers = read_all();
  ASSERT_EQ(readers.size(), 2u);
  for (const Reader& reader : readers) {
    const Stacks s = stacks_of(reader);
    const bool parent = s.frames.size() == 1;
    EXPECT_EQ(s.frames.size(), parent ? 1u : 2u);
    for (const auto& [bytes, stack] : s.by_bytes) {
      if (stack) {
        ASSERT_TRUE(s.frames.count(stack));
        expect_inside(s.frames.at(stack).at(0), bytes == 1 ? program_first : program_second);
      } else {
        EXPECT_TRUE(parent);
      }
    }
  }
}

}  // namespace
}  // namespace shunt::trace
