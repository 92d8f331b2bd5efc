// The hash maps against std::unordered_map over random operations, and under threads.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/base/flat_map.h"

namespace shunt {
namespace {

struct Step {
  int kind;  // 0 put, 1 erase, 2 find
  uint64_t key;
  int value;
};

TEST(FlatMap, BehavesLikeAMap) {
  const bool ok = rc::check("random put, erase, find", [] {
    FlatMap<int> map;
    std::unordered_map<uint64_t, int> model;
    // Few distinct keys and clustered hashes: erase must keep probe chains whole.
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 3), rc::gen::inRange(0, 40), rc::gen::inRange(0, 1000)));
    for (const auto& [kind, k, value] : steps) {
      const uint64_t key = static_cast<uint64_t>(k) * 4096;
      if (kind == 0) {
        RC_ASSERT(map.put(key, value) == model.insert_or_assign(key, value).second);
      } else if (kind == 1) {
        int out = -1;
        const auto found = model.find(key);
        RC_ASSERT(map.erase(key, &out) == (found != model.end()));
        if (found != model.end()) {
          RC_ASSERT(out == found->second);
          model.erase(found);
        }
      }
      const int* there = map.find(key);
      const auto expected = model.find(key);
      RC_ASSERT((there != nullptr) == (expected != model.end()));
      if (there) RC_ASSERT(*there == expected->second);
      RC_ASSERT(map.size() == model.size());
    }
    size_t visited = 0;
    map.for_each([&](uint64_t key, int value) {
      visited++;
      RC_ASSERT(model.at(key) == value);
    });
    RC_ASSERT(visited == model.size());
  });
  EXPECT_TRUE(ok);
}

TEST(FlatMap, KeyZeroAndGrowth) {
  FlatMap<uint64_t> map;
  for (uint64_t i = 0; i < 10000; i++) EXPECT_TRUE(map.put(i, i * 3));
  for (uint64_t i = 0; i < 10000; i++) ASSERT_EQ(*map.find(i), i * 3);
  EXPECT_EQ(map.find(10000), nullptr);
  for (uint64_t i = 0; i < 10000; i += 2) EXPECT_TRUE(map.erase(i));
  for (uint64_t i = 0; i < 10000; i++) ASSERT_EQ(map.find(i) != nullptr, i % 2 == 1);
}

TEST(ShardedMap, ThreadsKeepTheirOwnKeys) {
  ShardedMap<uint64_t> map;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t key = (i % 97) * 4 + t;
        if (!map.put(key, key + i)) errors++;
        uint64_t out = 0;
        if (!map.find(key, out) || out != key + i) errors++;
        if (!map.update(key, [](uint64_t& v) { v++; })) errors++;
        if (!map.erase(key, &out) || out != key + i + 1) errors++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(map.size(), 0u);
}

TEST(ShardedMap, PutNewLetsOneWin) {
  ShardedMap<int> map;
  std::atomic<int> winners{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (uint64_t key = 0; key < 2000; key++) winners += map.put_new(key, t);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(winners, 2000);
  EXPECT_EQ(map.erase_if([](uint64_t key, int) { return key % 2 == 0; }), 1000u);
  EXPECT_EQ(map.size(), 1000u);
}

}  // namespace
}  // namespace shunt
