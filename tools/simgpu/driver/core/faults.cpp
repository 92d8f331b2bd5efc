#include "tools/simgpu/driver/core/faults.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tools/simgpu/driver/core/log.h"

namespace simgpu::driver {
namespace {
struct Rule {
  std::string site, name;
  enum class When { nth, from, always, chance } when = When::nth;
  uint64_t n = 1, hits = 0;
  double chance = 0;
  int code = 0;
};
struct Schedule {
  std::mutex mutex;
  std::vector<Rule> rules;
  uint64_t random = 1;
};

void parse_rule(std::string item, std::vector<Rule>& rules) {
  Rule rule;
  const std::string whole = item;
  const size_t equals = item.find('=');
  if (equals != std::string::npos) {
    rule.code = atoi(item.c_str() + equals + 1);
    item.resize(equals);
  }
  const size_t mark = item.find_first_of("@%");
  if (mark != std::string::npos) {
    const std::string when = item.substr(mark + 1);
    if (item[mark] == '%') {
      rule.when = Rule::When::chance;
      rule.chance = atof(when.c_str());
    } else if (when == "*") {
      rule.when = Rule::When::always;
    } else {
      rule.n = strtoull(when.c_str(), nullptr, 10);
      if (!rule.n) {
        log_line(LogLevel::error,
                 "SIMGPU_FAULTS: '%s' needs a count, * or %%probability after the site: ignored",
                 whole.c_str());
        return;
      }
      if (when.back() == '+') rule.when = Rule::When::from;
    }
    item.resize(mark);
  } else {
    rule.when = Rule::When::always;
  }
  const size_t colon = item.find(':');
  rule.site = item.substr(0, colon);
  if (colon != std::string::npos) rule.name = item.substr(colon + 1);
  rules.push_back(rule);
}

Schedule* schedule() {
  static Schedule* instance = [] {
    auto* s = new Schedule;
    const char* seed = getenv("SIMGPU_SEED");
    s->random = (seed ? strtoull(seed, nullptr, 0) : 0) * 6364136223846793005u + 1442695040888963407u;
    const char* text = getenv("SIMGPU_FAULTS");
    std::string item;
    for (const char* p = text; p; ++p) {
      if (*p && *p != ',') {
        item += *p;
        continue;
      }
      if (!item.empty()) parse_rule(item, s->rules);
      item.clear();
      if (!*p) break;
    }
    return s;
  }();
  return instance;
}
}  // namespace

bool faults_active() {
  static const bool active = !schedule()->rules.empty();
  return active;
}

CUresult fault_point(const char* site, CUresult usual, const char* name) {
  if (!faults_active()) return CUDA_SUCCESS;
  Schedule* s = schedule();
  std::lock_guard<std::mutex> lock(s->mutex);
  for (Rule& rule : s->rules) {
    if (rule.site != site || (!rule.name.empty() && (!name || rule.name != name))) continue;
    ++rule.hits;
    bool strike = false;
    switch (rule.when) {
      case Rule::When::always:
        strike = true;
        break;
      case Rule::When::nth:
        strike = rule.hits == rule.n;
        break;
      case Rule::When::from:
        strike = rule.hits >= rule.n;
        break;
      case Rule::When::chance:
        s->random = s->random * 6364136223846793005u + 1442695040888963407u;
        strike = double(s->random >> 11) * 0x1p-53 < rule.chance;
        break;
    }
    if (!strike) continue;
    const CUresult code = rule.code ? CUresult(rule.code) : usual;
    log_line(LogLevel::info, "fault injected at %s%s%s: %d", site, name ? ":" : "", name ? name : "",
             int(code));
    return code;
  }
  return CUDA_SUCCESS;
}
}  // namespace simgpu::driver
