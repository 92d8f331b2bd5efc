#include "tools/simgpu/nvml/faults.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu::nvml {
namespace {

constexpr std::string_view kSite = "nvml";

struct Rule {
  std::string function;  // empty: all
  enum class When { always, nth, from, chance } when = When::always;
  uint64_t n = 1, hits = 0;
  double chance = 0;
  uint32_t code = kUnknown;
};
struct Rules {
  std::mutex mutex;
  std::vector<Rule> list;
  uint64_t random = 0;
};

// Items of other sites, and malformed ones (the driver reports those), are left alone.
void parse_item(std::string_view item, std::vector<Rule>& list) {
  Rule rule;
  if (size_t equals = item.find('='); equals != std::string_view::npos) {
    rule.code =
        static_cast<uint32_t>(std::strtoul(std::string(item.substr(equals + 1)).c_str(), nullptr, 10));
    item = item.substr(0, equals);
  }
  size_t mark = item.find_first_of("@%");
  if (mark != std::string_view::npos) {
    std::string when(item.substr(mark + 1));
    if (item[mark] == '%') {
      rule.when = Rule::When::chance;
      rule.chance = std::strtod(when.c_str(), nullptr);
    } else if (when != "*") {
      rule.n = std::strtoull(when.c_str(), nullptr, 10);
      if (rule.n == 0) return;
      rule.when = when.back() == '+' ? Rule::When::from : Rule::When::nth;
    }
    item = item.substr(0, mark);
  }
  size_t colon = item.find(':');
  if (item.substr(0, colon) != kSite) return;
  if (colon != std::string_view::npos) rule.function = item.substr(colon + 1);
  list.push_back(std::move(rule));
}

Rules& rules() {
  static Rules* const instance = [] {
    auto* r = new Rules;
    const char* seed = std::getenv("SIMGPU_SEED");
    r->random = seed ? std::strtoull(seed, nullptr, 0) : 0;
    const char* text = std::getenv("SIMGPU_FAULTS");
    for (std::string_view rest = text ? text : ""; !rest.empty();) {
      size_t comma = rest.find(',');
      parse_item(rest.substr(0, comma), r->list);
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
    return r;
  }();
  return *instance;
}

bool strikes(Rule& rule, uint64_t& random) {
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
  random = random * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(random >> 11) * 0x1p-53 < rule.chance;
}

}  // namespace

Return fault(const char* function) {
  Rules& r = rules();
  if (r.list.empty()) return kSuccess;
  std::lock_guard lock(r.mutex);
  for (Rule& rule : r.list)
    if ((rule.function.empty() || rule.function == function) && strikes(rule, r.random))
      return static_cast<Return>(rule.code);
  return kSuccess;
}

}  // namespace simgpu::nvml
