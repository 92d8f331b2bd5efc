// Placement's decision: defaults, hints, hard limits, and properties over random boxes.
#include "runtime/placement/decide.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "tests/placement/boxes.h"

namespace shunt::placement {
namespace {

TEST(Decide, DefaultIsCudasOwn) {
  const Plan plan = decide(with({}), mixed_box());
  EXPECT_EQ(plan.device, 0);
  EXPECT_FALSE(plan.changed);
  EXPECT_EQ(plan.reason, Reason::placed_default);
  EXPECT_EQ(plan.order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(Decide, MemoryHintWidensOnlyWhenNeeded) {
  const Plan fits = decide(with({"mem=100GiB"}), mixed_box());
  EXPECT_EQ(fits.device, 0);
  EXPECT_FALSE(fits.changed);
  const Plan big = decide(with({"mem=200GiB"}), mixed_box());
  EXPECT_EQ(big.device, 2);
  EXPECT_TRUE(big.changed);
  EXPECT_TRUE(big.other_model);
  EXPECT_EQ(big.reason, Reason::placed_memory_hint);
  EXPECT_EQ(big.order, (std::vector<int>{2, 3, 0, 1}));
  EXPECT_NE(big.why.find("200 GiB + 8 %"), std::string::npos) << big.why;
  EXPECT_EQ(big.visible_devices(mixed_box()), "GPU-00000002,GPU-00000003,GPU-00000000,GPU-00000001");
}

TEST(Decide, EightPercentIsHard) {
  std::vector<DeviceFacts> box{device(0, "b200", 107), device(1, "b200", 108)};
  EXPECT_EQ(decide(with({"mem=100GiB"}), box).device, 1);
  box[1].free_bytes = 107 * kGiB;
  const Plan none = decide(with({"mem=100GiB"}), box);
  EXPECT_EQ(none.device, 0);
  EXPECT_EQ(none.reason, Reason::no_feasible_device);
  EXPECT_FALSE(none.changed);
}

TEST(Decide, IdleThenMostFreeAmongItsModel) {
  std::vector<DeviceFacts> box{device(0, "b200", 90, 1), device(1, "b200", 120), device(2, "b200", 170),
                               device(3, "rubin", 279)};
  const Plan plan = decide(with({}), box);
  EXPECT_EQ(plan.device, 2);
  EXPECT_EQ(plan.reason, Reason::placed_most_free);
  EXPECT_FALSE(plan.other_model);
  EXPECT_EQ(plan.order, (std::vector<int>{2, 0, 1, 3}));
  box[2].processes = 1;  // more memory, but in use
  EXPECT_EQ(decide(with({}), box).device, 1);
}

TEST(Decide, SmallDifferencesDoNotMove) {
  std::vector<DeviceFacts> box{device(0, "b200", 176), device(1, "b200", 178)};
  EXPECT_EQ(decide(with({}), box).device, 0);
}

TEST(Decide, RolesModelMixed) {
  EXPECT_EQ(decide(with({"role=forward"}), mixed_box()).device, 2);
  EXPECT_EQ(decide(with({"role=augment"}), mixed_box()).device, 0);
  EXPECT_EQ(decide(with({"context=128K"}), mixed_box()).device, 2);
  EXPECT_EQ(decide(with({"context=64K"}), mixed_box()).device, 0);
  EXPECT_EQ(decide(with({"model=rubin"}), mixed_box()).device, 2);
  EXPECT_EQ(decide(with({}, Mode::mixed), mixed_box()).device, 2);
  EXPECT_EQ(decide(with({"context=100K", "kv-bytes-per-token=1MiB", "batch=2"}), mixed_box()).need_bytes,
            100 * 1024 * 2 * (1ull << 20));
}

TEST(Decide, KeepsOffRanksAndOddLists) {
  Request r = with({"mem=200GiB"}, Mode::off);
  EXPECT_EQ(decide(r, mixed_box()).reason, Reason::mode_off);
  r.mode = Mode::on;
  r.local_ranks = 4;
  EXPECT_EQ(decide(r, mixed_box()).reason, Reason::multi_rank_job);
  r.local_ranks = 1;
  r.visible_devices = "0,0";
  const Plan odd = decide(r, mixed_box());
  EXPECT_EQ(odd.reason, Reason::visible_devices_kept);
  EXPECT_FALSE(odd.changed);
  r.visible_devices = "";
  EXPECT_EQ(decide(r, mixed_box()).reason, Reason::no_device);
  EXPECT_EQ(decide(r, {}).device, -1);
}

TEST(Decide, VisibleDevicesLimitTheChoice) {
  Request r = with({"mem=200GiB"});
  r.visible_devices = "1,0";
  const Plan plan = decide(r, mixed_box());
  EXPECT_EQ(plan.device, 1);  // no Rubin among them: the program's own first device stays
  EXPECT_EQ(plan.reason, Reason::no_feasible_device);
  r.visible_devices = "1,3";
  EXPECT_EQ(decide(r, mixed_box()).device, 3);
  EXPECT_EQ(decide(r, mixed_box()).order, (std::vector<int>{3, 1}));
}

TEST(Decide, CodeMustRunThere) {
  // Machine code for 10.0 only: runs on B200 (10.0), not on H100 (9.0); simgpu runs no machine code at all.
  std::vector<binary::Entry> code(1);
  code[0].kind = binary::Entry::Kind::elf;
  code[0].sm = 100;
  std::vector<DeviceFacts> box{device(0, "h100", 79), device(1, "b200", 178)};
  Request r = with({});
  r.program = &code;
  const Plan plan = decide(r, box);
  EXPECT_EQ(plan.device, 1);
  EXPECT_TRUE(plan.other_model);
  r.ptx_only = true;
  EXPECT_EQ(decide(r, box).reason, Reason::no_binary_for_device);
  EXPECT_EQ(decide(r, box).device, 0);
}

TEST(Decide, UnknownMemoryMovesNothing) {
  std::vector<DeviceFacts> box = mixed_box();
  for (auto& d : box) d.memory_known = false;
  EXPECT_EQ(decide(with({}), box).device, 0);
  EXPECT_FALSE(decide(with({"mem=1GiB"}), box).changed);
}

TEST(Decide, Properties) {
  EXPECT_TRUE(rc::check(
      "nothing disappears, limits hold, the model changes only when allowed, same input same answer", [] {
        const char* models[] = {"b200", "rubin", "h100"};
        std::vector<DeviceFacts> box;
        const int n = *rc::gen::inRange(1, 9);
        for (int i = 0; i < n; i++) {
          const char* model = models[*rc::gen::inRange(0, 3)];
          const auto total =
              static_cast<int>(profiles::find(model)->memory_bytes.value / static_cast<double>(kGiB));
          box.push_back(device(i, model, static_cast<uint64_t>(*rc::gen::inRange(0, total)),
                               static_cast<uint32_t>(*rc::gen::inRange(0, 2))));
        }
        Request r;
        r.hints.mem_bytes = static_cast<uint64_t>(*rc::gen::inRange(0, 300)) * kGiB;
        r.mode = *rc::gen::element(Mode::on, Mode::mixed, Mode::shadow, Mode::off);
        r.hints.role = *rc::gen::element<std::string>("", "train", "augment", "forward");
        const Plan plan = decide(r, box);
        std::vector<int> order = plan.order;
        std::sort(order.begin(), order.end());
        std::vector<int> all(static_cast<size_t>(n));
        std::iota(all.begin(), all.end(), 0);
        RC_ASSERT(order == all);
        RC_ASSERT(plan.order.front() == plan.device);
        RC_ASSERT(plan.changed == (plan.device != 0));
        const DeviceFacts& chosen = box[static_cast<size_t>(plan.device)];
        if (plan.changed)
          RC_ASSERT(static_cast<double>(chosen.free_bytes) >= static_cast<double>(r.hints.mem_bytes) * 1.08);
        RC_ASSERT(plan.other_model == !chosen.same_model(box[0]));
        const bool some_usual = std::any_of(box.begin(), box.end(), [&](const auto& d) {
          return d.same_model(box[0]) &&
                 static_cast<double>(d.free_bytes) >= static_cast<double>(r.hints.mem_bytes) * 1.08;
        });
        if (plan.other_model) RC_ASSERT(r.mode == Mode::mixed || !r.hints.role.empty() || !some_usual);
        const Plan again = decide(r, box);
        RC_ASSERT(again.order == plan.order && again.why == plan.why && again.reason == plan.reason);
      }));
}

}  // namespace
}  // namespace shunt::placement
