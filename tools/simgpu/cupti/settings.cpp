#include "tools/simgpu/cupti/settings.h"

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

namespace simgpu::cupti {
namespace {

struct Rule {
  Site site;
  enum class When { always, nth, from, chance } when = When::always;
  uint64_t n = 1, hits = 0;
  double chance = 0;
};
struct Rules {
  std::mutex mutex;
  std::vector<Rule> list;
  uint64_t random = 0;
};

// Items of other sites and malformed ones are left alone; the driver reports those.
void parse_item(std::string_view item, std::vector<Rule>& list) {
  item = item.substr(0, item.find('='));
  const size_t mark = item.find_first_of("@%");
  Rule rule{};
  const std::string_view site = item.substr(0, mark);
  if (site == "cupti_drop")
    rule.site = Site::drop;
  else if (site == "cupti_zero_stamp")
    rule.site = Site::zero_stamp;
  else
    return;
  if (mark != std::string_view::npos) {
    const std::string when(item.substr(mark + 1));
    if (item[mark] == '%') {
      rule.when = Rule::When::chance;
      rule.chance = std::strtod(when.c_str(), nullptr);
    } else if (when != "*") {
      rule.n = std::strtoull(when.c_str(), nullptr, 10);
      if (rule.n == 0) return;
      rule.when = when.back() == '+' ? Rule::When::from : Rule::When::nth;
    }
  }
  list.push_back(rule);
}

Rules& rules() {
  static Rules* const instance = [] {
    auto* r = new Rules;
    const char* seed = std::getenv("SIMGPU_SEED");
    r->random = seed ? std::strtoull(seed, nullptr, 0) : 0;
    const char* text = std::getenv("SIMGPU_FAULTS");
    for (std::string_view rest = text ? text : ""; !rest.empty();) {
      const size_t comma = rest.find(',');
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

const Settings& settings() {
  static const Settings* const instance = [] {
    auto* s = new Settings;
    if (const char* holder = std::getenv("SIMGPU_CUPTI_HOLDER")) s->holder = holder;
    if (const char* epoch = std::getenv("SIMGPU_CUPTI_EPOCH"); epoch && *epoch) {
      s->has_epoch = true;
      s->epoch_ns = std::strtoull(epoch, nullptr, 0);
    }
    return s;
  }();
  return *instance;
}

bool fault(Site site) {
  Rules& r = rules();
  if (r.list.empty()) return false;
  std::lock_guard lock(r.mutex);
  for (Rule& rule : r.list)
    if (rule.site == site && strikes(rule, r.random)) return true;
  return false;
}

}  // namespace simgpu::cupti
