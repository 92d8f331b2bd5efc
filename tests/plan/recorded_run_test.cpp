// What `shunt run --record-dag` wrote, read back: good, cut off, damaged; and as a plan.
#include "tools/shunt/plan/recorded_run.h"

#include <gtest/gtest.h>

namespace shunt::tool {
namespace {

const std::string kGood =
    "shunt-ops 1\n"
    "program 17 99 simulated 5 /a program\n"
    "device 0 b200 GPU-1\n"
    "op 1 2 0 copy - 0 0 4096 4096 2e-06 -\n"
    "op 2 2 0 kernel _Z3addPf 1000 256 0 4096 1e-05 1:4096\n"
    "op 3 3 0 kernel _Z3addPf 1000 256 0 4096 -1 1:4096,2:0\n"
    "op 4 3 0 memset - 0 0 64 64 1e-06 3:0\n"
    "peak 0 123456\n"
    "end 4 7\n";

TEST(RecordedRun, ReadsWhatWasWritten) {
  RecordedRun run;
  std::string error;
  ASSERT_TRUE(parse_recorded_run(kGood, run, error)) << error;
  ASSERT_EQ(run.ops.size(), 4u);
  EXPECT_EQ(run.devices.at(0), "b200");
  EXPECT_EQ(run.program, 17u);
  EXPECT_EQ(run.path, "/a program");
  EXPECT_TRUE(run.simulated);
  EXPECT_EQ(run.ops[1].name, "_Z3addPf");
  EXPECT_EQ(run.ops[1].blocks, 1000u);
  EXPECT_DOUBLE_EQ(run.ops[1].seconds, 1e-5);
  EXPECT_EQ(run.ops[2].dependencies, (std::vector<std::pair<uint64_t, uint64_t>>{{1, 4096}, {2, 0}}));
  EXPECT_EQ(run.peaks.at(0), 123456u);
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.dropped, 7u);
}

// A process may be killed after any byte: what was written is used, up to the last whole line.
TEST(RecordedRun, EveryPrefixIsReadOrRefused) {
  for (size_t n = 0; n <= kGood.size(); n++) {
    RecordedRun run;
    std::string error;
    const bool ok = parse_recorded_run(kGood.substr(0, n), run, error);
    const size_t lines =
        static_cast<size_t>(std::count(kGood.begin(), kGood.begin() + static_cast<long>(n), '\n'));
    EXPECT_EQ(ok, lines >= 4) << n;
    if (ok)
      EXPECT_EQ(run.ops.size(), std::min<size_t>(lines - 3, 4)) << n;
    else
      EXPECT_FALSE(error.empty());
    EXPECT_EQ(run.complete, n == kGood.size()) << n;
  }
}

TEST(RecordedRun, DamageIsNamedByItsLine) {
  const std::vector<std::pair<std::string, std::string>> damage = {
      {"1:4096\nop 3", "2:4096\nop 3"},  // depends on itself
      {"op 3 3 0", "op 7 3 0"},          // numbers in order
      {"kernel _Z3addPf 1000", "kernal _Z3addPf 1000"},
      {"1e-05", "soon"},
      {"1e-05", "nan"},
      {"end 4 7", "end 5 7"},
      {"peak 0 123456", "peak zero"},
      {"device 0", "devise 0"},
      {"17 99 simulated", "17 99 sometimes"},
      {"4096 1e-05 1:4096", "4096 1e-05"},
  };
  for (const auto& [from, to] : damage) {
    std::string text = kGood;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    RecordedRun run;
    std::string error;
    EXPECT_FALSE(parse_recorded_run(text, run, error)) << to;
    EXPECT_TRUE(error.starts_with("line ")) << error;
  }
  RecordedRun run;
  std::string error;
  EXPECT_FALSE(parse_recorded_run("shunt-ops 2\n", run, error));
  EXPECT_NE(error.find("another format"), std::string::npos);
}

TEST(RecordedRun, IsAPlan) {
  PlanInput input;
  std::string error;
  ASSERT_TRUE(read_plan_text(kGood, input, error)) << error;
  ASSERT_EQ(input.tasks.size(), 4u);
  EXPECT_EQ(input.edges.size(), 4u);
  EXPECT_DOUBLE_EQ(input.tasks[2].reference_seconds, 1e-5) << "the kernel's measured mean";
  EXPECT_FALSE(input.tasks[2].measured);
  simgpu::BoxSpec box;
  ASSERT_TRUE(simgpu::parse_box_spec("b200:1,rubin:1", "nvlink5", box, error));
  plan::Problem p;
  ASSERT_TRUE(make_problem(input, box, "b200", p, error)) << error;
  EXPECT_DOUBLE_EQ(p.time(1, 0), 1e-5) << "measured there";
  EXPECT_LT(p.time(1, 1), 1e-5) << "a large kernel is faster on the larger device";
  EXPECT_DOUBLE_EQ(p.time(0, 1), p.time(0, 0)) << "a host copy is not";
}

}  // namespace
}  // namespace shunt::tool
