#include "runtime/placement/choose.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace shunt::placement {
namespace {

constexpr double kFreeTolerance = 0.02;  // smaller differences in free memory do not move a program

double rate(const DeviceFacts& d) {
  if (!d.profile) return 0;
  return d.profile->bf16_tensor.value > 0 ? d.profile->bf16_tensor.value : d.profile->fp32.value;
}

// What a rule's preference ranks devices by; more is better. Equal values leave the choice to what follows.
double merit(Prefer prefer, const DeviceFacts& d) {
  switch (prefer) {
    case Prefer::most_memory:
      return static_cast<double>(d.total_bytes);
    case Prefer::least_memory:
      return -static_cast<double>(d.total_bytes);
    case Prefer::most_free:
      return d.memory_known ? static_cast<double>(d.free_bytes) : 0;
    case Prefer::fastest:
      return rate(d);
    case Prefer::least_energy:
      return d.profile && d.profile->power_default_w.value > 0
                 ? d.profile->memory_bandwidth.value / d.profile->power_default_w.value
                 : 0;
    case Prefer::model:
      return 0;  // wrong models are not candidates
  }
  return 0;
}

// Of a difference of the two. Not hypot: the runtime needs no newer libm than its floor.
double deviation(const Estimate& a, const Estimate& b) {
  return std::sqrt(a.sigma * a.sigma + b.sigma * b.sigma);
}

const char* reach_words(Reach r) {
  switch (r) {
    case Reach::nvlink:
      return " by NVLink";
    case Reach::pcie:
      return " by PCIe";
    case Reach::host:
      return " through the host";
    case Reach::unknown:
      break;
  }
  return "";
}

}  // namespace

Reach reach(const std::vector<DeviceFacts>& facts, int a, int b) {
  const auto& row = facts[static_cast<size_t>(a)].reach;
  return static_cast<size_t>(b) < row.size() ? row[static_cast<size_t>(b)] : Reach::unknown;
}

std::string Chooser::margin_text() const {
  char text[32];
  snprintf(text, sizeof text, " + %g %%", rules.margin_pct);
  return text;
}

bool Chooser::memory_fits(const DeviceFacts& d) const {
  const double need = static_cast<double>(need_bytes) * (1 + rules.margin_pct / 100);
  return need_bytes == 0 || (d.memory_known && static_cast<double>(d.free_bytes) >= need);
}

bool Chooser::is_model(const DeviceFacts& d, const std::string& key) {
  return key.empty() || (d.profile && d.profile->key == key);
}

const Rule* Chooser::first_rule(const std::vector<int>& visible, const std::vector<int>& feasible,
                                const DeviceFacts& usual, std::vector<int>& ruled) const {
  std::optional<uint64_t> free;
  for (const int i : visible)
    if (fact(i).memory_known && fact(i).same_model(usual))
      free = std::max(free.value_or(0), fact(i).free_bytes);
  for (const Rule& r : rules.rules) {
    if (!r.holds(request.hints, need_bytes, free)) continue;
    std::vector<int> candidates;
    for (const int i : feasible)
      if (r.prefer != Prefer::model || is_model(fact(i), r.model)) candidates.push_back(i);
    if (candidates.empty()) continue;
    ruled = std::move(candidates);
    return &r;
  }
  return nullptr;
}

bool Chooser::better(const DeviceFacts& a, const DeviceFacts& b, bool across_models) const {
  if (across_models && rule) {
    const double x = merit(rule->prefer, a), y = merit(rule->prefer, b);
    if (x != y) return x > y;
  }
  if (a.busy() != b.busy()) return !a.busy();
  if (across_models && request.mode == Mode::mixed && rate(a) != rate(b)) return rate(a) > rate(b);
  if (!a.memory_known || !b.memory_known) return false;
  const double tolerance = kFreeTolerance * static_cast<double>(std::max(a.total_bytes, b.total_bytes));
  return static_cast<double>(a.free_bytes) > static_cast<double>(b.free_bytes) + tolerance;
}

Gang Chooser::group_of(int lead, const std::vector<int>& candidates, bool across_models, size_t size) const {
  Gang gang{{lead}, "", ""};
  std::vector<int> others;
  for (const int i : candidates)
    if (i != lead) others.push_back(i);
  while (gang.members.size() < size && !others.empty()) {
    // Next comes the device of the same model with the best worst link into the group.
    auto worst = [&](int i) {
      Reach r = Reach::nvlink;
      for (const int m : gang.members) r = std::min(r, reach(facts, m, i));
      return r;
    };
    auto next = others.begin();
    for (auto it = others.begin() + 1; it != others.end(); ++it) {
      const bool same = fact(*it).same_model(fact(lead)), best_same = fact(*next).same_model(fact(lead));
      if (same != best_same            ? same
          : worst(*it) != worst(*next) ? worst(*it) > worst(*next)
                                       : better(fact(*it), fact(*next), across_models))
        next = it;
    }
    gang.members.push_back(*next);
    others.erase(next);
  }
  return gang;
}

int Chooser::by_prediction(const std::vector<int>& candidates, std::string& text) const {
  if (request.mode != Mode::mixed || request.predictions.size() != facts.size()) return -1;
  auto estimate = [&](int i) -> const Estimate& { return request.predictions[static_cast<size_t>(i)]; };
  for (const int i : candidates)
    if (estimate(i).source == Source::none) return -1;
  // Start from what would be taken within the program's first device's model, and leave it only for a gain
  // that is certain enough: a start costs no migration.
  std::vector<int> home;
  for (const int i : candidates)
    if (fact(i).same_model(fact(candidates.front()))) home.push_back(i);
  int chosen = home.front();
  for (const int i : home)
    if (better(fact(i), fact(chosen), false)) chosen = i;
  const Estimate& stay = estimate(chosen);
  int best = chosen;
  for (const int i : candidates) {
    if (fact(i).same_model(fact(chosen)) || (fact(i).busy() && !fact(chosen).busy())) continue;
    const bool less = estimate(i).seconds < estimate(best).seconds;
    if (less || (estimate(i).seconds == estimate(best).seconds && best != chosen &&
                 better(fact(i), fact(best), false)))
      best = i;
  }
  const double gain = stay.seconds - estimate(best).seconds;
  if (best == chosen || !Hysteresis().worth_it(gain, deviation(stay, estimate(best)), 0, 0)) return chosen;
  char words[64];
  snprintf(words, sizeof words, ", predicted %.2fx faster", stay.seconds / estimate(best).seconds);
  text = words;
  return best;
}

Gang Chooser::best(const std::vector<int>& candidates, bool across_models) const {
  const size_t size = std::max<size_t>(1, std::min<size_t>(request.hints.devices, candidates.size()));
  auto single = [&] {
    int chosen = candidates.front();
    for (const int i : candidates)
      if (better(fact(i), fact(chosen), across_models)) chosen = i;
    return chosen;
  };
  if (size == 1) {
    std::string text;
    const int predicted = across_models && !rule ? by_prediction(candidates, text) : -1;
    return {{predicted >= 0 ? predicted : single()}, "", text};
  }
  // One model before several, then the best worst link, then fewest busy devices, then the better lead.
  struct Score {
    int strangers = 0, busy = 0;
    Reach worst = Reach::nvlink;
  };
  Gang chosen;
  Score chosen_score;
  for (const int lead : candidates) {
    Gang gang = group_of(lead, candidates, across_models, size);
    Score s;
    for (const int a : gang.members) {
      s.strangers += !fact(a).same_model(fact(lead));
      s.busy += fact(a).busy();
      for (const int b : gang.members)
        if (a != b) s.worst = std::min(s.worst, reach(facts, a, b));
    }
    const bool take = chosen.members.empty()                  ? true
                      : s.strangers != chosen_score.strangers ? s.strangers < chosen_score.strangers
                      : s.worst != chosen_score.worst         ? s.worst > chosen_score.worst
                      : s.busy != chosen_score.busy
                          ? s.busy < chosen_score.busy
                          : better(fact(lead), fact(chosen.members.front()), across_models);
    if (take) chosen = std::move(gang), chosen_score = s;
  }
  chosen.text = ", with GPU ";
  for (size_t i = 1; i < chosen.members.size(); i++)
    chosen.text += (i > 1 ? "," : "") + std::to_string(fact(chosen.members[i]).ordinal);
  chosen.text += reach_words(chosen_score.worst);
  return chosen;
}

std::vector<int> Chooser::order(const std::vector<int>& visible, const std::vector<Considered>& considered,
                                const Gang& gang) const {
  std::vector<int> out = gang.members, fits, rest;
  auto in_gang = [&](int i) { return std::find(out.begin(), out.end(), i) != out.end(); };
  for (const Considered& c : considered)
    if (!in_gang(c.device)) (c.feasible ? fits : rest).push_back(c.device);
  const int lead = gang.members.front();
  std::stable_sort(fits.begin(), fits.end(),
                   [&](int a, int b) { return reach(facts, lead, a) > reach(facts, lead, b); });
  out.insert(out.end(), fits.begin(), fits.end());
  out.insert(out.end(), rest.begin(), rest.end());
  return out.size() == visible.size() ? out : visible;
}

}  // namespace shunt::placement
