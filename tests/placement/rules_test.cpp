// Placement rules: the shipped file through both readers, conditions, errors, and what rules may not do.
#include "runtime/placement/rules.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "runtime/placement/decide.h"
#include "tests/placement/boxes.h"
#include "tools/shunt/rules/rules_file.h"

namespace shunt::placement {
namespace {

RuleSet parsed(const std::string& text) {
  RuleSet set;
  std::vector<std::string> errors;
  EXPECT_TRUE(tool::read_rules_text("schema = 1\n" + text, "t", set, errors))
      << (errors.empty() ? "" : errors[0]);
  return set;
}
std::string error_of(const std::string& text) {
  RuleSet set;
  set.margin_pct = 77;
  std::vector<std::string> errors;
  EXPECT_FALSE(tool::read_rules_text(text, "t", set, errors)) << text;
  EXPECT_EQ(set.margin_pct, 77) << "a bad file changes nothing";
  return errors.empty() ? "" : errors[0];
}

TEST(Rules, ShippedFileAndCompiledInRulesAreTheSame) {
  RuleSet from_file;
  std::vector<std::string> errors;
  ASSERT_TRUE(tool::read_rules_text(std::string(default_rules_text()), "default", from_file, errors))
      << errors[0];
  EXPECT_EQ(to_compact(from_file), to_compact(default_rules()));
  ASSERT_EQ(default_rules().rules.size(), 5u);
  EXPECT_EQ(default_rules().rules[0].name, "long-context");
  EXPECT_EQ(default_rules().margin_pct, 8);
}

TEST(Rules, ArticleRulesDecide) {
  struct Case {
    std::vector<std::string> hints;
    int device;
    const char* rule;
  };
  for (const Case& c :
       {Case{{"context=65K"}, 2, "long-context"}, Case{{"context=64K"}, 0, ""},
        Case{{"role=forward"}, 2, "forward"}, Case{{"role=augment"}, 0, "augment"},
        Case{{"role=train", "batch=8"}, 0, "small-batch"}, Case{{"role=train", "batch=9"}, 0, ""},
        Case{{"role=train"}, 0, ""}, Case{{"mem=100GiB"}, 0, ""}, Case{{"mem=200GiB"}, 2, "big-memory"}}) {
    const Plan plan = decide(with(c.hints), mixed_box());
    EXPECT_EQ(plan.device, c.device) << c.hints[0];
    EXPECT_EQ(plan.rule, c.rule) << c.hints[0];
  }
  // On a box that lists Rubin first the same rules take small batches and augmentation away from it.
  std::vector<DeviceFacts> box{device(0, "rubin", 279), device(1, "b200", 178)};
  EXPECT_EQ(decide(with({"role=augment"}), box).device, 1);
  EXPECT_EQ(decide(with({"role=train", "batch=4"}), box).device, 1);
  EXPECT_EQ(decide(with({"role=train", "batch=64"}), box).device, 0);
}

TEST(Rules, ThresholdIsOnFreeMemory) {
  const RuleSet set = parsed("[[rule]]\nname='half'\nneed-above-free='50 %'\nprefer='most-memory'\n");
  Request r = with({"mem=80GiB"});
  r.rules = &set;
  std::vector<DeviceFacts> box = mixed_box();
  EXPECT_EQ(decide(r, box).device, 0);  // 80 of 178 GiB free
  for (auto& d : box)
    if (d.ordinal < 2) d.free_bytes = 150ull << 30;
  EXPECT_EQ(decide(r, box).device, 2);  // 80 of 150
  // The literal rule of the article asks about the size only.
  const RuleSet literal = parsed("[[rule]]\nname='literal'\nneed-above='80GB'\nprefer='model:rubin'\n");
  r.rules = &literal;
  EXPECT_EQ(decide(r, mixed_box()).device, 2);
  r.hints.mem_bytes = 80'000'000'000;
  EXPECT_EQ(decide(r, mixed_box()).device, 0);
}

TEST(Rules, FirstThatHoldsAndCanBeMet) {
  const RuleSet set = parsed(
      "margin='0 %'\n[[rule]]\nname='a'\nrole='infer'\nprefer='model:gb300'\n"
      "[[rule]]\nname='off'\nenabled=false\nrole='infer'\nprefer='least-memory'\n"
      "[[rule]]\nname='b'\nrole=['train','infer']\nprefer='fastest'\n");
  Request r = with({"role=infer"});
  r.rules = &set;
  const Plan plan = decide(r, mixed_box());
  EXPECT_EQ(plan.rule, "b");  // no GB300 here; the disabled rule is not there
  EXPECT_EQ(plan.device, 2);
  // Margin 0: exactly the free memory fits.
  Request exact = with({"mem=178GiB"});
  exact.rules = &set;
  EXPECT_EQ(decide(exact, mixed_box()).device, 0);
}

TEST(Rules, LeastEnergyIsBandwidthPerWatt) {
  const RuleSet set = parsed("[[rule]]\nname='e'\nrole='infer'\nprefer='least-energy'\n");
  Request r = with({"role=infer"});
  r.rules = &set;
  const Plan plan = decide(r, mixed_box());
  auto per_watt = [](const DeviceFacts& d) {
    return d.profile->memory_bandwidth.value / d.profile->power_default_w.value;
  };
  for (const DeviceFacts& d : mixed_box())
    EXPECT_GE(per_watt(mixed_box()[static_cast<size_t>(plan.device)]), per_watt(d));
}

TEST(Rules, ErrorsNameLineThingAndFix) {
  const std::string rule = "schema=1\n[[rule]]\nname='x'\n";
  EXPECT_EQ(error_of("margin='8 %'\n"), "t:1: schema is missing; write schema = 1");
  EXPECT_NE(error_of("schema=2").find("schema must be 1"), std::string::npos);
  EXPECT_NE(error_of("schema=1\nmargn='8 %'").find("t:2: unknown key 'margn'; did you mean margin?"),
            std::string::npos);
  EXPECT_NE(error_of(rule + "contxt-above=1\nprefer='fastest'").find("t:4: unknown condition or key"),
            std::string::npos);
  EXPECT_NE(error_of(rule + "role='trian'\nprefer='fastest'").find("role 'trian'"), std::string::npos);
  EXPECT_NE(error_of(rule + "role='train'\nprefer='fast'").find("prefer 'fast'"), std::string::npos);
  EXPECT_NE(error_of(rule + "role='train'").find("prefer"), std::string::npos);
  EXPECT_NE(error_of(rule + "role='train'\nprefer='model:b2000'").find("model:b200"), std::string::npos);
  EXPECT_NE(error_of(rule + "prefer='fastest'").find("no condition"), std::string::npos);
  EXPECT_NE(error_of(rule + "need-above='many'\nprefer='fastest'").find("t:4: need-above"),
            std::string::npos);
  EXPECT_NE(error_of(rule + "batch-above=-1\nprefer='fastest'").find("batch-above"), std::string::npos);
  EXPECT_NE(error_of(rule + "context-above='99999999999999999999K'\nprefer='fastest'").find("context-above"),
            std::string::npos);
  EXPECT_NE(error_of(rule + "need-above-free=50\nprefer='fastest'").find("per cent"), std::string::npos);
  EXPECT_NE(error_of("schema=1\nrule=3").find("[[rule]]"), std::string::npos);
  EXPECT_NE(error_of("schema = = 1").find("t:1"), std::string::npos);
  const std::string one = "[[rule]]\nname='x'\nrole='train'\nprefer='fastest'\n";
  EXPECT_NE(error_of("schema=1\n" + one + one).find("twice"), std::string::npos);
  EXPECT_NE(error_of("schema=1\n[[rule]]\nname='X|y'\nrole='train'\nprefer='fastest'").find("a-z"),
            std::string::npos);
}

TEST(Rules, CompactTextIsExactAndChecked) {
  rc::check("to_compact and parse_compact", [] {
    RuleSet set;
    set.margin_pct = *rc::gen::inRange(0, 200) / 4.0;
    const int n = *rc::gen::inRange(0, 8);
    for (int i = 0; i < n; i++) {
      Rule r;
      r.name = "r" + std::to_string(i);
      auto maybe = [](std::optional<uint64_t>& to) {
        if (*rc::gen::arbitrary<bool>()) to = *rc::gen::arbitrary<uint64_t>();
      };
      maybe(r.need_above), maybe(r.need_at_most), maybe(r.context_above), maybe(r.context_at_most);
      maybe(r.batch_above), maybe(r.batch_at_most);
      if (*rc::gen::arbitrary<bool>()) r.need_above_free_pct = *rc::gen::inRange(0, 400) / 4.0;
      if (*rc::gen::arbitrary<bool>()) r.roles = {"train", "infer"};
      if (r.conditions().empty()) r.roles = {"augment"};
      r.prefer = static_cast<Prefer>(*rc::gen::inRange(0, 6));
      if (r.prefer == Prefer::model) r.model = "rubin";
      set.rules.push_back(r);
    }
    RuleSet back;
    std::string error;
    RC_ASSERT(parse_compact(to_compact(set), back, error));
    RC_ASSERT(to_compact(back) == to_compact(set));
  });
  for (const char* bad : {"", "2|margin=8", "1", "1|margin=x", "1|margin=8|a", "1|margin=8|a:fastest",
                          "1|margin=8|a:batch>x:fastest", "1|margin=8|a:batch>1:model",
                          "1|margin=8|a:batch>1:model:none", "1|margin=8|a:batch>1:slow"}) {
    RuleSet set;
    std::string error;
    EXPECT_FALSE(parse_compact(bad, set, error)) << bad;
    EXPECT_FALSE(error.empty()) << bad;
  }
}

TEST(Rules, NeverPlaceWhereItDoesNotFit) {
  rc::check("a ruled device meets the hard limits", [] {
    std::vector<DeviceFacts> box;
    const int n = *rc::gen::inRange(1, 8);
    for (int i = 0; i < n; i++)
      box.push_back(device(i, *rc::gen::arbitrary<bool>() ? "b200" : "rubin",
                           static_cast<uint64_t>(*rc::gen::inRange(1, 280))));
    Request r = with({});
    r.hints.mem_bytes = static_cast<uint64_t>(*rc::gen::inRange(0, 300)) << 30;
    r.hints.context_tokens = static_cast<uint64_t>(*rc::gen::inRange(0, 200'000));
    r.hints.role = *rc::gen::element(std::string(), std::string("train"), std::string("augment"),
                                     std::string("forward"));
    r.hints.batch = static_cast<uint64_t>(*rc::gen::inRange(0, 16));
    r.hints.devices = static_cast<uint64_t>(*rc::gen::inRange(0, 4));
    const Plan plan = decide(r, box);
    const double need = static_cast<double>(plan.need_bytes) * 1.08;
    if (plan.reason != Reason::no_feasible_device)
      RC_ASSERT(static_cast<double>(box[static_cast<size_t>(plan.device)].free_bytes) >= need);
    std::vector<int> sorted = plan.order;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < n; i++) RC_ASSERT(sorted[static_cast<size_t>(i)] == i);  // nothing disappears
  });
}

TEST(Rules, GroupsAreOfOneModelAndWellLinked) {
  // Six B200: 0-1-2 and 3-4-5 are islands of NVLink, the rest is PCIe; 1 is busy.
  std::vector<DeviceFacts> box;
  for (int i = 0; i < 6; i++) box.push_back(device(i, "b200", 178, i == 1));
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++)
      box[static_cast<size_t>(i)].reach.push_back(i / 3 == j / 3 ? Reach::nvlink : Reach::pcie);
  Plan plan = decide(with({"devices=3"}), box);
  EXPECT_EQ((std::vector<int>(plan.order.begin(), plan.order.begin() + 3)), (std::vector<int>{3, 4, 5}));
  EXPECT_NE(plan.why.find("with GPU 4,5 by NVLink"), std::string::npos) << plan.why;
  plan = decide(with({"devices=2"}), box);
  EXPECT_EQ((std::vector<int>(plan.order.begin(), plan.order.begin() + 2)), (std::vector<int>{0, 2}));
  EXPECT_TRUE(plan.changed);
  plan = decide(with({"devices=6"}), box);
  EXPECT_EQ(plan.order.size(), 6u);
  std::vector<DeviceFacts> mixed = mixed_box();
  plan = decide(with({"devices=2", "mem=200GiB"}), mixed);
  EXPECT_EQ((std::vector<int>(plan.order.begin(), plan.order.begin() + 2)), (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace shunt::placement
