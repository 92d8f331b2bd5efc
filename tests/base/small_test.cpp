// Result, clock, arena, reasons.
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/result.h"

namespace shunt {
namespace {

TEST(Result, CarriesValueOrError) {
  Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  Result<int> bad{Reason::io_failed, "file 'x': no"};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().reason, Reason::io_failed);
  EXPECT_EQ(bad.value_or(3), 3);
}

uint64_t g_virtual = 0;
uint64_t virtual_now() { return g_virtual; }
void* finder(const char* soname, const char* symbol) {
  return std::string(soname) == "libcuda.so.1" && std::string(symbol) == "simgpu_host_ns"
             ? reinterpret_cast<void*>(&virtual_now)
             : nullptr;
}

TEST(Clock, RealThenVirtual) {
  const uint64_t a = clock::now_ns(), b = clock::now_ns();
  EXPECT_LE(a, b);
  EXPECT_FALSE(clock::is_virtual());
  clock::adopt_simgpu([](const char*, const char*) -> void* { return nullptr; });
  EXPECT_FALSE(clock::is_virtual());
  clock::adopt_simgpu(finder);
  g_virtual = 12345;
  EXPECT_TRUE(clock::is_virtual());
  EXPECT_EQ(clock::now_ns(), 12345u);
  EXPECT_GT(clock::monotonic_ns(), 12345u);
  clock::set_source(nullptr);
}

TEST(Arena, AlignsCopiesAndReuses) {
  Arena arena(256);
  EXPECT_EQ(arena.copy("name"), "name");
  for (size_t align : {8u, 16u, 64u})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.allocate(24, align)) % (align > 16 ? 16 : align), 0u);
  char* big = static_cast<char*>(arena.allocate(10000));
  big[9999] = 1;
  const size_t reserved = arena.reserved_bytes();
  for (int round = 0; round < 10; round++) {
    arena.reset();
    arena.allocate(100);
    arena.allocate(10000);
  }
  EXPECT_EQ(arena.reserved_bytes(), reserved);
}

TEST(Reasons, NumbersAndNamesAreUnique) {
  std::set<uint16_t> numbers;
  std::set<std::string_view> names;
  for (const ReasonInfo& r : reasons()) {
    EXPECT_TRUE(numbers.insert(static_cast<uint16_t>(r.reason)).second) << r.name;
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_FALSE(r.doc.empty());
  }
  EXPECT_EQ(reason_name(Reason::placed_memory_hint), "memory-hint");
  EXPECT_EQ(reason_name(static_cast<Reason>(65000)), "unknown-reason");
}

}  // namespace
}  // namespace shunt
