// The allocation registry against a plain list, and under threads that free and reuse the same addresses.
#include "runtime/model/allocations.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <mutex>
#include <thread>

namespace shunt::model {
namespace {

Allocation block(uint64_t base, uint64_t bytes) {
  Allocation a;
  a.base = base;
  a.bytes = bytes;
  a.device = 0;
  return a;
}

TEST(Allocations, BehavesLikeAList) {
  EXPECT_TRUE(rc::check("insert, detach, restore, find over a small address space", [] {
    Allocations registry;
    std::vector<Allocation> list;
    std::vector<Allocation> detached;
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 4), rc::gen::inRange(0, 64), rc::gen::inRange(1, 12)));
    for (const auto& [kind, where, size] : steps) {
      const auto base = static_cast<uint64_t>(where) * 16, bytes = static_cast<uint64_t>(size) * 16;
      auto overlaps = [](const Allocation& a, uint64_t b, uint64_t n) {
        return a.base < b + n && b < a.base + a.bytes;
      };
      if (kind == 0) {
        std::erase_if(list, [&](const Allocation& a) { return overlaps(a, base, bytes); });
        Allocation a = block(base, bytes);
        a.id = registry.insert(a);
        list.push_back(a);
      } else if (kind == 1) {
        const auto got = registry.detach(base);
        const auto it =
            std::find_if(list.begin(), list.end(), [&](const Allocation& a) { return a.base == base; });
        RC_ASSERT(got.has_value() == (it != list.end()));
        if (got) {
          RC_ASSERT(got->id == it->id);
          detached.push_back(*got);
          list.erase(it);
        }
      } else if (kind == 2 && !detached.empty()) {
        const Allocation a = detached.back();
        detached.pop_back();
        registry.restore(a);
        if (std::none_of(list.begin(), list.end(),
                         [&](const Allocation& b) { return overlaps(b, a.base, a.bytes); }))
          list.push_back(a);
      }
      for (uint64_t address = base; address < base + 48; address += 8) {
        const auto got = registry.find(address);
        const auto it = std::find_if(list.begin(), list.end(),
                                     [&](const Allocation& a) { return overlaps(a, address, 1); });
        RC_ASSERT(got.has_value() == (it != list.end()));
        if (got) RC_ASSERT(got->id == it->id);
      }
      RC_ASSERT(registry.size() == list.size());
      const auto overlapping = registry.overlapping(base, bytes);
      RC_ASSERT(overlapping.size() ==
                static_cast<size_t>(std::count_if(list.begin(), list.end(), [&](const Allocation& a) {
                  return overlaps(a, base, bytes);
                })));
    }
  }));
}

TEST(Allocations, ReuseGetsANewIdentity) {
  Allocations registry;
  const uint64_t first = registry.insert(block(0x1000, 256));
  ASSERT_TRUE(registry.detach(0x1000));
  const uint64_t second = registry.insert(block(0x1000, 256));
  EXPECT_NE(first, second);
  EXPECT_FALSE(registry.find_id(0x1010, first));
  EXPECT_TRUE(registry.find_id(0x10FF, second));
  EXPECT_FALSE(registry.find(0x1100));
}

TEST(Allocations, ExactUnderReuseByOtherThreads) {
  // A driver that hands addresses out again the moment they are freed, as real ones do.
  struct Driver {
    std::mutex lock;
    std::vector<uint64_t> free;
    Driver() {
      for (uint64_t i = 0; i < 8; i++) free.push_back(0x100000 + i * 0x1000);
    }
    uint64_t take() {
      std::lock_guard guard(lock);
      if (free.empty()) return 0;
      const uint64_t a = free.back();
      free.pop_back();
      return a;
    }
    void give(uint64_t a) {
      std::lock_guard guard(lock);
      free.push_back(a);
    }
  } driver;
  Allocations registry;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; i++) {
        const uint64_t a = driver.take();
        if (!a) continue;
        Allocation mine = block(a, 0x1000);
        mine.handle = static_cast<uint64_t>(t) << 32 | static_cast<uint64_t>(i);
        const uint64_t id = registry.insert(mine);
        const auto seen = registry.find(a + 8);
        if (!seen || seen->id != id || seen->handle != mine.handle) errors++;
        const auto gone = registry.detach(a);  // before the driver's free
        if (!gone || gone->id != id) errors++;
        if (i % 7 == 0) {  // the free failed: still ours
          registry.restore(*gone);
          if (!registry.find_id(a, id)) errors++;
          if (!registry.detach(a)) errors++;
        }
        driver.give(a);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(registry.size(), 0u);
}

TEST(Allocations, ContextTeardownSparesPools) {
  Allocations registry;
  const auto dead = reinterpret_cast<CUcontext>(0x10), alive = reinterpret_cast<CUcontext>(0x20);
  auto put = [&](uint64_t base, MemoryKind kind, CUcontext context) {
    Allocation a = block(base, 64);
    a.kind = kind;
    a.context = context;
    registry.insert(a);
  };
  put(0x1000, MemoryKind::device, dead);
  put(0x2000, MemoryKind::managed, dead);
  put(0x3000, MemoryKind::async, dead);
  put(0x4000, MemoryKind::vmm_mapping, dead);
  put(0x5000, MemoryKind::device, alive);
  EXPECT_EQ(registry.forget_context(dead), 2u);
  EXPECT_EQ(registry.size(), 3u);
  EXPECT_EQ(registry.bytes_on(0), 192u);
}

}  // namespace
}  // namespace shunt::model
