#include "runtime/plan/non_dominated_sort.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>

namespace shunt::plan {

bool dominates(const double* a, const double* b, size_t m) {
  bool better = false;
  for (size_t k = 0; k < m; ++k) {
    if (a[k] > b[k]) return false;
    better |= a[k] < b[k];
  }
  return better;
}

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
  auto dominated_in = [&](uint32_t i, const std::vector<uint32_t>& front) {
    if (m == 2)
      return dominates(points.at(front.back()), points.at(i), m);  // the last has the least second objective
    for (auto it = front.rbegin(); it != front.rend(); ++it) {
      if (dominates(points.at(*it), points.at(i), m)) return true;
    }
    return false;
  };
  for (uint32_t i : feasible) {
    size_t low = 0, high = fronts.size();
    while (low < high) {
      const size_t mid = (low + high) / 2;
      if (dominated_in(i, fronts[mid]))
        low = mid + 1;
      else
        high = mid;
    }
    if (low == fronts.size()) fronts.emplace_back();
    fronts[low].push_back(i);
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

std::vector<uint32_t> thin_front(const Points& points, std::vector<uint32_t> front, size_t keep) {
  if (front.size() <= keep) return front;
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
