#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/base/ring.h"

namespace shunt {
namespace {

TEST(Ring, FullAndEmpty) {
  Ring<int> ring(4);
  int out = 0;
  EXPECT_FALSE(ring.pop(out));
  for (int i = 0; i < 4; i++) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  for (int i = 0; i < 4; i++) {
    EXPECT_TRUE(ring.pop(out));
    EXPECT_EQ(out, i);
  }
  EXPECT_FALSE(ring.pop(out));
}

TEST(Ring, ProducersLoseNothingAndKeepTheirOrder) {
  struct Item {
    uint32_t producer, number;
  };
  Ring<Item> ring(64);
  constexpr uint32_t kProducers = 3, kEach = 30000;
  std::vector<std::thread> producers;
  for (uint32_t p = 0; p < kProducers; p++)
    producers.emplace_back([&, p] {
      for (uint32_t i = 0; i < kEach; i++)
        while (!ring.push({p, i})) std::this_thread::yield();
    });
  std::vector<uint32_t> next(kProducers, 0);
  for (uint32_t got = 0; got < kProducers * kEach;) {
    Item item{};
    if (!ring.pop(item)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(item.number, next[item.producer]++);
    got++;
  }
  for (auto& t : producers) t.join();
}

}  // namespace
}  // namespace shunt
