// The NVTX domain as a tool receives it: nvtx_tool.cpp is loaded by the documented variable and writes down
// what arrives.
#include <fstream>
#include <set>

#include "runtime/trace/nvtx.h"
#include "tests/trace/trace_fixture.h"

namespace shunt::trace {
namespace {

class Nvtx : public TraceTest {
 protected:
  std::vector<std::string> run(bool enabled, const std::function<void()>& body) {
    const std::string log = std::string(root_) + "/nvtx.log";
    EXPECT_EQ(in_child([&] {
                setenv("NVTX_INJECTION64_PATH", SHUNT_NVTX_TOOL, 1);
                setenv("NVTX_TOOL_LOG", log.c_str(), 1);
                nvtx::start(enabled);
                body();
              }),
              0);
    std::vector<std::string> lines;
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  static std::vector<std::string> starting(const std::vector<std::string>& lines, const std::string& word) {
    std::vector<std::string> out;
    for (const auto& line : lines)
      if (line.rfind(word + " ", 0) == 0) out.push_back(line);
    return out;
  }
};

TEST_F(Nvtx, DecisionsArriveWithTheirIds) {
  const auto lines = run(true, [&] {
    ASSERT_TRUE(start(options_));
    decide_n(3);
    decide({.feature = Feature::oom,
            .action = Action::oom_retry,
            .reason = Reason::mode_off,
            .outcome = Outcome::declined});
    stop();
  });
  std::set<std::string> expected;
  for (const Reader& reader : read_all())
    reader.for_each([&](const RecordHeader& r, uint32_t) {
      if (r.type != static_cast<uint16_t>(RecordType::decision)) return;
      const auto& d = reinterpret_cast<const DecisionRecord&>(r);
      const bool graph = d.feature == static_cast<uint8_t>(Feature::graph);
      expected.insert("mark shunt|" + std::to_string(d.feature + 1) + "|" + std::to_string(r.id) + "|" +
                      (graph ? "graph: graph-replay" : "oom-retry: oom-retry declined [mode-off]"));
    });
  const auto marks = starting(lines, "mark");
  EXPECT_EQ(expected.size(), 4u);
  EXPECT_EQ(std::set<std::string>(marks.begin(), marks.end()), expected);
  EXPECT_EQ(starting(lines, "domain"), std::vector<std::string>{"domain shunt"});
  EXPECT_EQ(starting(lines, "string").size(), 2u);  // registered once a text
  const auto categories = starting(lines, "category");
  EXPECT_NE(std::find(categories.begin(), categories.end(), "category shunt|3|graph"), categories.end());
}

TEST_F(Nvtx, RangesNameTheOriginals) {
  const auto lines = run(true, [&] {
    const uint64_t text = nvtx::text("originals: saxpy, reduce");
    EXPECT_EQ(nvtx::text("originals: saxpy, reduce"), text);
    nvtx::Range range(Feature::graph, text, 42);
    decide_n(1);  // no trace file: the domain does not need one
  });
  std::vector<std::string> order;
  for (const auto& line : lines) order.push_back(line.substr(0, line.find(' ')));
  EXPECT_EQ(starting(lines, "push"), std::vector<std::string>{"push shunt|3|42|originals: saxpy, reduce"});
  EXPECT_EQ(order.back(), "pop");
  EXPECT_EQ(starting(lines, "mark").size(), 1u);
}

TEST_F(Nvtx, ThreadsAndStreamsHaveNames) {
  const auto lines = run(true, [&] {
    nvtx::name_this_thread("shunt-something-long");
    nvtx::name_stream(reinterpret_cast<void*>(0x1234), "shunt comm");
  });
  ASSERT_EQ(starting(lines, "thread").size(), 1u);
  EXPECT_NE(starting(lines, "thread")[0].find("|shunt-something-long"), std::string::npos);
  EXPECT_EQ(starting(lines, "stream"), std::vector<std::string>{"stream 0x1234|shunt comm"});
}

TEST_F(Nvtx, OffMeansTheToolIsNotEvenLoaded) {
  EXPECT_TRUE(run(false, [&] {
                decide_n(3);
                EXPECT_EQ(nvtx::text("x"), 0u);
                nvtx::Range range(Feature::graph, 0, 1);
              }).empty());
}

}  // namespace
}  // namespace shunt::trace
