#include "runtime/plan/non_dominated_sort.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

namespace shunt::plan {

bool dominates(const double* a, const double* b, size_t m) {
  bool better = false;
  for (size_t k = 0; k < m; ++k) {
    if (a[k] > b[k]) return false;
    better |= a[k] < b[k];
  }
  return better;
}

namespace {
// Puts each point, in order, into the first front that does not dominate it.
template <class Dominated, class Placed>
void place_all(const std::vector<uint32_t>& order, std::vector<std::vector<uint32_t>>& fronts,
               Dominated dominated, Placed placed) {
  for (uint32_t i : order) {
    size_t low = 0, high = fronts.size();
    while (low < high) {
      const size_t mid = (low + high) / 2;
      if (dominated(i, fronts[mid]))
        low = mid + 1;
      else
        high = mid;
    }
    if (low == fronts.size()) fronts.emplace_back();
    fronts[low].push_back(i);
    placed(i, low);
  }
}

// Three objectives: a front is kept as its staircase of (second, third) objectives, the rest of it cannot
// decide: in lexicographic order an earlier point dominates a later one exactly if its second and third are
// not larger (equal points apart).
void sort_three(const Points& points, const std::vector<uint32_t>& order,
                std::vector<std::vector<uint32_t>>& fronts) {
  std::vector<std::map<double, std::pair<double, uint32_t>>>
      stairs;  // second -> (third, point), third falling
  auto dominated = [&](uint32_t i, const std::vector<uint32_t>& front) {
    const auto& steps = stairs[static_cast<size_t>(&front - fronts.data())];
    const double* p = points.at(i);
    auto at = steps.upper_bound(p[1]);
    if (at == steps.begin()) return false;
    --at;
    if (at->second.first > p[2]) return false;
    const double* q = points.at(at->second.second);
    return q[0] != p[0] || q[1] != p[1] || q[2] != p[2];
  };
  auto placed = [&](uint32_t i, size_t f) {
    if (stairs.size() <= f) stairs.resize(f + 1);
    auto& steps = stairs[f];
    const double* p = points.at(i);
    auto at = steps.upper_bound(p[1]);
    if (at != steps.begin() && std::prev(at)->second.first <= p[2])
      return;  // an equal point is already a step
    at = steps.lower_bound(p[1]);
    while (at != steps.end() && at->second.first >= p[2]) at = steps.erase(at);
    steps[p[1]] = {p[2], i};
  };
  place_all(order, fronts, dominated, placed);
}
}  // namespace

std::vector<std::vector<uint32_t>> non_dominated_fronts(const Points& points) {
  const size_t m = points.m;
  std::vector<uint32_t> feasible, infeasible;
  for (uint32_t i = 0; i < points.count; ++i) (points.violated(i) > 0 ? infeasible : feasible).push_back(i);
  // In lexicographic order nobody is dominated by a later point, so each goes into the first front none of
  // whose members dominates it; that is monotone in the front number.
  std::sort(feasible.begin(), feasible.end(), [&](uint32_t a, uint32_t b) {
    const double *x = points.at(a), *y = points.at(b);
    for (size_t k = 0; k < m; ++k) {
      if (x[k] != y[k]) return x[k] < y[k];
    }
    return a < b;
  });
  std::vector<std::vector<uint32_t>> fronts;
  if (m == 3) {
    sort_three(points, feasible, fronts);
  } else {
    auto dominated_in = [&](uint32_t i, const std::vector<uint32_t>& front) {
      if (m == 2)
        return dominates(points.at(front.back()), points.at(i),
                         m);  // the last has the least second objective
      for (auto it = front.rbegin(); it != front.rend(); ++it) {
        if (dominates(points.at(*it), points.at(i), m)) return true;
      }
      return false;
    };
    place_all(feasible, fronts, dominated_in, [](uint32_t, size_t) {});
  }
  std::sort(infeasible.begin(), infeasible.end(), [&](uint32_t a, uint32_t b) {
    return points.violated(a) != points.violated(b) ? points.violated(a) < points.violated(b) : a < b;
  });
  for (size_t i = 0; i < infeasible.size(); ++i) {
    if (i == 0 || points.violated(infeasible[i]) != points.violated(infeasible[i - 1])) fronts.emplace_back();
    fronts.back().push_back(infeasible[i]);
  }
  for (auto& front : fronts) std::sort(front.begin(), front.end());
  return fronts;
}

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Front members linked in order of each objective, so that a removal updates only the neighbours.
class CrowdedFront {
 public:
  CrowdedFront(const Points& points, const std::vector<uint32_t>& front)
      : points_(points), front_(front), n_(front.size()) {
    const size_t m = points.m;
    previous_.assign(m, std::vector<int>(n_, -1));
    next_.assign(m, std::vector<int>(n_, -1));
    range_.assign(m, 0);
    std::vector<int> order(n_);
    for (size_t k = 0; k < m; ++k) {
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [&](int a, int b) { return value(a, k) != value(b, k) ? value(a, k) < value(b, k) : a < b; });
      for (size_t i = 0; i + 1 < n_; ++i)
        next_[k][order[i]] = order[i + 1], previous_[k][order[i + 1]] = order[i];
      if (n_) range_[k] = value(order.back(), k) - value(order.front(), k);
    }
  }
  double distance(int i) const {
    double sum = 0;
    for (size_t k = 0; k < points_.m; ++k) {
      if (range_[k] <= 0) continue;
      if (previous_[k][i] < 0 || next_[k][i] < 0) return kInfinite;
      sum += (value(next_[k][i], k) - value(previous_[k][i], k)) / range_[k];
    }
    return sum;
  }
  template <class Touched>
  void remove(int i, Touched touched) {
    for (size_t k = 0; k < points_.m; ++k) {
      const int p = previous_[k][i], q = next_[k][i];
      if (p >= 0) next_[k][p] = q, touched(p);
      if (q >= 0) previous_[k][q] = p, touched(q);
    }
  }

 private:
  double value(int i, size_t k) const { return points_.at(front_[static_cast<size_t>(i)])[k]; }
  const Points& points_;
  const std::vector<uint32_t>& front_;
  size_t n_;
  std::vector<std::vector<int>> previous_, next_;
  std::vector<double> range_;
};
}  // namespace

std::vector<double> crowding_distance(const Points& points, const std::vector<uint32_t>& front) {
  CrowdedFront crowd(points, front);
  std::vector<double> distance(front.size());
  for (size_t i = 0; i < front.size(); ++i) distance[i] = crowd.distance(static_cast<int>(i));
  return distance;
}

namespace {
// Three objectives and more: neighbours by rank in one objective say little, so the point nearest to another
// goes first (truncation of SPEA2, Zitzler et al. 2001), of a closest pair the one whose next neighbour is
// nearer. Objectives are normalised by the front's own ranges; the extreme point of each objective stays.
std::vector<uint32_t> thin_by_distance(const Points& points, const std::vector<uint32_t>& front,
                                       size_t keep) {
  const size_t n = front.size(), m = points.m;
  constexpr float kFar = std::numeric_limits<float>::infinity();
  std::vector<float> scaled(n * m), distance(n * n, 0), nearest(n, kFar);
  std::vector<uint32_t> neighbour(n, 0);
  std::vector<char> fixed(n, 0), gone(n, 0);
  for (size_t k = 0; k < m; ++k) {
    double low = kInfinite, high = -kInfinite;
    size_t lowest = 0;
    for (size_t i = 0; i < n; ++i) {
      const double v = points.at(front[i])[k];
      if (v < low) low = v, lowest = i;
      high = std::max(high, v);
    }
    fixed[lowest] = 1;
    for (size_t i = 0; i < n; ++i) {
      scaled[k * n + i] = high > low ? static_cast<float>((points.at(front[i])[k] - low) / (high - low)) : 0;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    float* row = distance.data() + i * n;
    for (size_t k = 0; k < m; ++k) {
      const float* column = scaled.data() + k * n;
      const float mine = column[i];
      for (size_t j = 0; j < n; ++j) row[j] += (mine - column[j]) * (mine - column[j]);
    }
    row[i] = kFar;
  }
  // Columns of removed points become infinite, so that a row's least entry needs no test.
  auto find_nearest = [&](size_t i) {
    const float* row = distance.data() + i * n;
    float least = kFar;
    for (size_t j = 0; j < n; ++j) least = std::min(least, row[j]);
    nearest[i] = least;
    neighbour[i] = static_cast<uint32_t>(std::find(row, row + n, least) - row);
  };
  auto second_nearest = [&](size_t i) {
    float* row = distance.data() + i * n;
    const float first = std::exchange(row[neighbour[i]], kFar);
    const float second = *std::min_element(row, row + n);
    row[neighbour[i]] = first;
    return second;
  };
  for (size_t i = 0; i < n; ++i) find_nearest(i);
  for (size_t left = n; left > keep; --left) {
    size_t victim = n;
    for (size_t i = 0; i < n; ++i) {
      if (!gone[i] && !fixed[i] && (victim == n || nearest[i] < nearest[victim])) victim = i;
    }
    if (victim == n) break;
    const size_t other = neighbour[victim];
    if (!fixed[other] && neighbour[other] == victim && second_nearest(other) < second_nearest(victim))
      victim = other;
    gone[victim] = 1;
    for (size_t i = 0; i < n; ++i) distance[i * n + victim] = kFar;
    for (size_t i = 0; i < n; ++i) {
      if (!gone[i] && neighbour[i] == victim) find_nearest(i);
    }
  }
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < n && kept.size() < keep; ++i) {
    if (!gone[i]) kept.push_back(front[i]);
  }
  return kept;
}
}  // namespace

std::vector<uint32_t> thin_front(const Points& points, std::vector<uint32_t> front, size_t keep) {
  if (front.size() <= keep) return front;
  if (points.m > 2) return thin_by_distance(points, front, keep);
  CrowdedFront crowd(points, front);
  struct Item {
    double distance;
    int index;
    uint32_t stamp;
    bool operator<(const Item& o) const {
      return distance != o.distance ? distance > o.distance : index < o.index;
    }
  };
  std::vector<uint32_t> stamp(front.size(), 0);
  std::vector<char> gone(front.size(), 0);
  std::priority_queue<Item> queue;
  for (size_t i = 0; i < front.size(); ++i)
    queue.push({crowd.distance(static_cast<int>(i)), static_cast<int>(i), 0});
  for (size_t left = front.size(); left > keep;) {
    const Item item = queue.top();
    queue.pop();
    if (gone[static_cast<size_t>(item.index)] || item.stamp != stamp[static_cast<size_t>(item.index)])
      continue;
    gone[static_cast<size_t>(item.index)] = 1;
    --left;
    crowd.remove(item.index, [&](int j) {
      if (!gone[static_cast<size_t>(j)]) queue.push({crowd.distance(j), j, ++stamp[static_cast<size_t>(j)]});
    });
  }
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < front.size(); ++i) {
    if (!gone[i]) kept.push_back(front[i]);
  }
  return kept;
}

}  // namespace shunt::plan
