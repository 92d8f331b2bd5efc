#include "runtime/graphs/period.h"

#include <algorithm>

namespace shunt::graphs {

Period find_period(const std::vector<uint32_t>& symbols, size_t longest, size_t repeats) {
  const size_t n = symbols.size();
  const auto at = [&](size_t i) { return symbols[n - 1 - i]; };  // from the newest
  // Z function of the reversed sequence: z[p] = how many of the newest symbols equal those p earlier.
  std::vector<uint32_t> z(n, 0);
  size_t left = 0, right = 0;
  Period best;
  for (size_t p = 1; p < n; ++p) {
    size_t k = p < right ? std::min<size_t>(right - p, z[p - left]) : 0;
    while (p + k < n && at(k) == at(p + k)) ++k;
    z[p] = static_cast<uint32_t>(k);
    if (p + k > right) left = p, right = p + k;
    if (p > longest) continue;
    if (k < (repeats - 1) * p) continue;
    if (p + k > best.covered + (best.length ? best.length : 0)) best = {p, p + k};
  }
  return best;
}

}  // namespace shunt::graphs
