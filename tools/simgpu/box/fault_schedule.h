// SIMGPU_FAULTS, read in one way by every simgpu library: items "site[:name][@n|@n+|@*|%probability][=code]",
// separated by commas; a site without a mark always fails. Each library asks about its own sites and leaves
// the others' alone. One schedule a library, leaked on purpose; any thread.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu {

class FaultSchedule {
 public:
  // `malformed` hears of items without a usable count; null: somebody else reports them.
  explicit FaultSchedule(void (*malformed)(const char* item) = nullptr) {
    const char* seed = std::getenv("SIMGPU_SEED");
    random_ = next(seed ? std::strtoull(seed, nullptr, 0) : 0);
    const char* text = std::getenv("SIMGPU_FAULTS");
    for (std::string_view rest = text ? text : ""; !rest.empty();) {
      const size_t comma = rest.find(',');
      const std::string_view item = rest.substr(0, comma);
      if (!item.empty() && !parse(item) && malformed) malformed(std::string(item).c_str());
      rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  bool empty() const { return rules_.empty(); }

  // True when a rule for the site (and name) strikes now; `code` gets the rule's own code where it has one.
  template <class Code>
  bool strikes(std::string_view site, std::string_view name, Code& code) {
    if (empty()) return false;
    std::lock_guard lock(mutex_);
    for (Rule& rule : rules_) {
      if (rule.site != site || (!rule.name.empty() && rule.name != name) || !strikes(rule)) continue;
      if (rule.has_code) code = static_cast<Code>(rule.code);
      return true;
    }
    return false;
  }
  bool strikes(std::string_view site) {
    int unused = 0;
    return strikes(site, {}, unused);
  }

 private:
  struct Rule {
    std::string site, name;
    enum class When { always, nth, from, chance } when = When::always;
    uint64_t n = 1, hits = 0;
    double chance = 0;
    int code = 0;
    bool has_code = false;
  };

  static uint64_t next(uint64_t random) { return random * 6364136223846793005u + 1442695040888963407u; }

  bool parse(std::string_view item) {
    Rule rule;
    if (const size_t equals = item.find('='); equals != item.npos) {
      rule.code = std::atoi(std::string(item.substr(equals + 1)).c_str());
      rule.has_code = rule.code != 0;
      item = item.substr(0, equals);
    }
    if (const size_t mark = item.find_first_of("@%"); mark != item.npos) {
      const std::string when(item.substr(mark + 1));
      if (item[mark] == '%') {
        rule.when = Rule::When::chance;
        rule.chance = std::strtod(when.c_str(), nullptr);
      } else if (when != "*") {
        rule.n = std::strtoull(when.c_str(), nullptr, 10);
        if (rule.n == 0) return false;
        rule.when = when.back() == '+' ? Rule::When::from : Rule::When::nth;
      }
      item = item.substr(0, mark);
    }
    const size_t colon = item.find(':');
    rule.site = item.substr(0, colon);
    if (colon != item.npos) rule.name = item.substr(colon + 1);
    rules_.push_back(std::move(rule));
    return true;
  }

  bool strikes(Rule& rule) {
    ++rule.hits;
    switch (rule.when) {
      case Rule::When::always:
        return true;
      case Rule::When::nth:
        return rule.hits == rule.n;
      case Rule::When::from:
        return rule.hits >= rule.n;
      case Rule::When::chance:
        break;
    }
    random_ = next(random_);
    return static_cast<double>(random_ >> 11) * 0x1p-53 < rule.chance;
  }

  std::mutex mutex_;
  std::vector<Rule> rules_;
  uint64_t random_ = 0;
};

}  // namespace simgpu
