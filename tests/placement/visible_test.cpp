// CUDA_VISIBLE_DEVICES and the ordinal map.
#include "runtime/placement/visible.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "runtime/placement/ordinal_map.h"

namespace shunt::placement {
namespace {

std::vector<DeviceFacts> four() {
  std::vector<DeviceFacts> facts(4);
  for (int i = 0; i < 4; i++) {
    facts[static_cast<size_t>(i)].ordinal = i;
    facts[static_cast<size_t>(i)].uuid =
        "GPU-" + std::string(1, static_cast<char>('a' + i)) + "1111111-2222-3333-4444-555555555555";
  }
  facts[3].uuid[5] = '2';  // GPU-d2...
  return facts;
}
std::vector<int> seen(const char* variable) {
  return parse_visible(variable ? std::optional<std::string>(variable) : std::nullopt, four()).devices;
}

TEST(Visible, AsCudaReadsIt) {
  using V = std::vector<int>;
  EXPECT_EQ(seen(nullptr), (V{0, 1, 2, 3}));
  EXPECT_EQ(seen(""), V{});
  EXPECT_EQ(seen("2,0"), (V{2, 0}));
  EXPECT_EQ(seen("1, 3"), (V{1, 3}));
  EXPECT_EQ(seen("0,7,1"), (V{0}));  // ends at the first that names nothing
  EXPECT_EQ(seen("-1"), V{});
  EXPECT_EQ(seen("1x,0"), V{});
  EXPECT_EQ(seen("GPU-b1111111-2222-3333-4444-555555555555,0"), (V{1, 0}));
  EXPECT_EQ(seen("GPU-c"), (V{2}));  // a unique prefix is enough
  EXPECT_EQ(seen("GPU-"), V{});      // ambiguous
  EXPECT_EQ(seen("GPU-d2,GPU-zz,1"), (V{3}));
}

TEST(Visible, LeavesOddListsAlone) {
  EXPECT_TRUE(parse_visible(std::string("0,0"), four()).opaque);
  EXPECT_TRUE(parse_visible(std::string("0,GPU-a1"), four()).opaque);
  EXPECT_TRUE(parse_visible(std::string("MIG-123"), four()).opaque);
}

TEST(OrdinalMap, IsOneToOne) {
  EXPECT_TRUE(rc::check("permutations map there and back, everything else is left alone", [] {
    std::vector<int> order(static_cast<size_t>(*rc::gen::inRange(1, 12)));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; i--)
      std::swap(order[i - 1], order[static_cast<size_t>(*rc::gen::inRange(0, static_cast<int>(i)))]);
    OrdinalMap map;
    RC_ASSERT(map.assign(order));
    for (int v = 0; v < static_cast<int>(order.size()); v++) {
      RC_ASSERT(map.to_physical(v) == order[static_cast<size_t>(v)]);
      RC_ASSERT(map.to_virtual(map.to_physical(v)) == v);
    }
    const int outside = *rc::gen::element(-1, -2, static_cast<int>(order.size()), 4711);
    RC_ASSERT(map.to_physical(outside) == outside && map.to_virtual(outside) == outside);
  }));
  OrdinalMap map;
  EXPECT_FALSE(map.assign({0, 0}));
  EXPECT_FALSE(map.assign({1, 2}));
  EXPECT_TRUE(map.identity());
  EXPECT_TRUE(map.assign({0, 1}));
  EXPECT_TRUE(map.identity());
  EXPECT_TRUE(map.assign({1, 0}));
  EXPECT_FALSE(map.identity());
}

}  // namespace
}  // namespace shunt::placement
