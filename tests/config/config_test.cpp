// Options, values, precedence, the environment, hints: what is accepted, what is refused and with which
// words.
#include "runtime/config/config.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "runtime/config/hints.h"

namespace shunt::config {
namespace {

TEST(Options, TableIsSound) {
  std::set<std::string_view> names;
  for (const OptionInfo& o : options()) {
    EXPECT_TRUE(names.insert(o.name).second) << o.name;
    EXPECT_EQ(&info(o.id), &o);
    EXPECT_EQ(find_option(o.name), &o);
    EXPECT_EQ(find_environment(o.env()), &o);
    EXPECT_FALSE(o.doc.empty());
    std::string fix;
    EXPECT_TRUE(o.default_value.empty() || normalise(o, o.default_value, fix))
        << o.name << ": default is not a valid value";
    EXPECT_EQ(o.type == OptionType::choice, !o.choices.empty()) << o.name;
  }
  EXPECT_EQ(info(OptionId::trace_max).env(), "SHUNT_TRACE_MAX");
}

TEST(Values, Bytes) {
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("64MiB"), 64ull << 20);
  EXPECT_EQ(parse_bytes("64 M"), 64ull << 20);
  EXPECT_EQ(parse_bytes("1.5GiB"), 3ull << 29);
  EXPECT_EQ(parse_bytes("200GB"), 200'000'000'000u);
  EXPECT_EQ(parse_bytes("2tib"), 2ull << 40);
  for (const char* bad : {"", "GiB", "-1", "12Q", "1e9", "0x10", "99999999999TiB", "1 2"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Values, BytesOfFormattedBytes) {
  EXPECT_TRUE(rc::check("whole bytes survive", [] {
    const auto n = *rc::gen::inRange<uint64_t>(0, 1ull << 52);
    RC_ASSERT(parse_bytes(std::to_string(n)) == n);
  }));
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(200ull << 30), "200 GiB");
}

TEST(Values, DurationAndBoolean) {
  EXPECT_EQ(parse_duration("50us"), 50'000u);
  EXPECT_EQ(parse_duration("2"), 2'000'000'000u);
  EXPECT_EQ(parse_duration("1.5ms"), 1'500'000u);
  EXPECT_FALSE(parse_duration("fast"));
  EXPECT_EQ(parse_boolean("Yes"), true);
  EXPECT_EQ(parse_boolean("off"), false);
  EXPECT_FALSE(parse_boolean("2"));
}

TEST(Values, Choices) {
  std::string fix;
  EXPECT_EQ(normalise(info(OptionId::graphs), "Shadow", fix), "shadow");
  EXPECT_EQ(normalise(info(OptionId::graphs), "0", fix), "off");
  EXPECT_EQ(normalise(info(OptionId::graphs), "true", fix), "on");
  EXPECT_FALSE(normalise(info(OptionId::graphs), "shadwo", fix));
  EXPECT_NE(fix.find("did you mean 'shadow'"), std::string::npos) << fix;
  EXPECT_FALSE(normalise(info(OptionId::oom), "on", fix));  // oom has no plain "on"
}

TEST(Nearest, FindsTyposOnly) {
  const std::vector<std::string> names{"SHUNT_PLACEMENT", "SHUNT_TRACE", "SHUNT_GRAPHS"};
  EXPECT_EQ(nearest("SHUNT_PLACMENT", names), "SHUNT_PLACEMENT");
  EXPECT_EQ(nearest("SHUNT_GRPAHS", names), "SHUNT_GRAPHS");
  EXPECT_EQ(nearest("SHUNT_XYZZY_PLUGH", names), "");
}

TEST(Config, StrongerOriginWins) {
  Config c;
  Problem p;
  EXPECT_TRUE(c.set(OptionId::graphs, "off", Origin::environment, "SHUNT_GRAPHS", p));
  EXPECT_TRUE(c.set(OptionId::graphs, "shadow", Origin::local_file, "./shunt.toml", p));
  EXPECT_EQ(c.text(OptionId::graphs), "off");
  EXPECT_TRUE(c.set(OptionId::graphs, "aggressive", Origin::flag, "--graphs", p));
  EXPECT_EQ(c.text(OptionId::graphs), "aggressive");
  EXPECT_EQ(c.setting(OptionId::graphs).source, "--graphs");
  EXPECT_FALSE(c.set(OptionId::graphs, "fast", Origin::flag, "--graphs", p));
  EXPECT_EQ(c.text(OptionId::graphs), "aggressive");
  EXPECT_NE(p.line().find("--graphs: bad value 'fast'"), std::string::npos);
  EXPECT_FALSE(c.given(OptionId::overlap));
}

TEST(Config, PrecedenceIsAnOrder) {
  EXPECT_TRUE(rc::check("whatever the order of set(), the strongest origin's last value stays", [] {
    Config c;
    int strongest = 0;
    std::string expected(info(OptionId::log).default_value);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(1, 6), rc::gen::inRange(0, 4)));
    const char* values[] = {"off", "error", "info", "debug"};
    for (const auto& [origin, value] : steps) {
      Problem p;
      RC_ASSERT(c.set(OptionId::log, values[value], static_cast<Origin>(origin), "x", p));
      if (origin >= strongest) strongest = origin, expected = values[value];
    }
    RC_ASSERT(c.text(OptionId::log) == expected);
  }));
}

TEST(Config, ListsCollectWithinOneOrigin) {
  Config c;
  Problem p;
  c.set(OptionId::hint, "batch=4", Origin::environment, "SHUNT_HINT", p);
  c.set(OptionId::hint, "mem=1GiB", Origin::flag, "--hint", p);
  c.set(OptionId::hint, "role=train", Origin::flag, "--hint", p);
  EXPECT_EQ(c.text(OptionId::hint), "mem=1GiB,role=train");
  EXPECT_EQ(c.list(OptionId::hint).size(), 2u);
}

TEST(Environment, ReadsReportsAndHandsOn) {
  const char* environment[] = {
      "PATH=/bin",  "SHUNT_GRAPHS=off",   "SHUNT_PLACMENT=on",        "SHUNT_TRACE_MAX=lots",
      "SHUNT_LOG=", "SIMGPU_SPEC=b200:1", "SHUNT_DISABLE=yes please", nullptr};
  Config c;
  std::vector<Problem> problems;
  load_environment(c, environment, problems);
  EXPECT_EQ(c.text(OptionId::graphs), "off");
  EXPECT_EQ(c.text(OptionId::log), "warn");
  EXPECT_TRUE(c.flag(OptionId::disable));
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].line(), "SHUNT_PLACMENT: unknown option; did you mean SHUNT_PLACEMENT?");
  EXPECT_EQ(problems[1].line(),
            "SHUNT_TRACE_MAX: bad value 'lots'; use a size such as 64MiB, 1.5GiB or 4096");
  // What is handed to a child reads back the same.
  std::vector<std::string> handed = to_environment(c);
  std::vector<const char*> pointers;
  for (const auto& h : handed) pointers.push_back(h.c_str());
  pointers.push_back(nullptr);
  Config child;
  problems.clear();
  load_environment(child, pointers.data(), problems);
  EXPECT_TRUE(problems.empty());
  for (const OptionInfo& o : options())
    EXPECT_TRUE(o.scope == Scope::tool || child.text(o.id) == c.text(o.id)) << o.name;
}

TEST(Environment, OffSwitch) {
  for (const char* off : {"1", "yes", "true", "anything"}) EXPECT_TRUE(disabled_by_environment(off));
  for (const char* on : {"0", "", "off", "no", "FALSE"}) EXPECT_FALSE(disabled_by_environment(on));
  EXPECT_FALSE(disabled_by_environment(nullptr));
}

TEST(Hints, ParsesAndExplains) {
  std::vector<Problem> problems;
  const Hints h = parse_hints(
      {"mem=200GiB", "context=64K", "batch=8", "role=infer", "kv-bytes-per-token=160KiB", "model=rubin"},
      problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(h.mem_bytes, 200ull << 30);
  EXPECT_EQ(h.context_tokens, 65536u);
  EXPECT_EQ(h.batch, 8u);
  EXPECT_EQ(h.kv_bytes_per_token, 160u << 10);
  EXPECT_EQ(h.role, "infer");
  const Hints bad =
      parse_hints({"mem=huge", "rol=train", "role=trian", "context=long", "colour=red"}, problems);
  EXPECT_FALSE(bad.any());
  ASSERT_EQ(problems.size(), 5u);
  EXPECT_NE(problems[0].line().find("mem=200GiB"), std::string::npos);
  EXPECT_NE(problems[1].line().find("did you mean 'role='"), std::string::npos);
  EXPECT_NE(problems[2].line().find("did you mean 'train'"), std::string::npos);
}

}  // namespace
}  // namespace shunt::config
