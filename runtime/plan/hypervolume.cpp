#include "runtime/plan/hypervolume.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

namespace shunt::plan {

double hypervolume_2d(std::span<const double> points, const double ref[2]) {
  std::vector<std::pair<double, double>> list;
  for (size_t i = 0; i + 1 < points.size(); i += 2) {
    if (points[i] < ref[0] && points[i + 1] < ref[1]) list.emplace_back(points[i], points[i + 1]);
  }
  std::sort(list.begin(), list.end());
  double area = 0, ceiling = ref[1];
  for (auto [x, y] : list) {
    if (y < ceiling) area += (ref[0] - x) * (ceiling - y), ceiling = y;
  }
  return area;
}

// Sweep along the third objective, keeping the staircase of the first two and its area.
double hypervolume_3d(std::span<const double> points, const double ref[3]) {
  struct P {
    double x, y, z;
  };
  std::vector<P> list;
  for (size_t i = 0; i + 2 < points.size(); i += 3) {
    if (points[i] < ref[0] && points[i + 1] < ref[1] && points[i + 2] < ref[2])
      list.push_back({points[i], points[i + 1], points[i + 2]});
  }
  std::sort(list.begin(), list.end(), [](const P& a, const P& b) { return a.z < b.z; });
  std::map<double, double> stairs;  // x -> y, y falling with x
  double area = 0, volume = 0, last_z = 0;
  for (const P& p : list) {
    volume += area * (p.z - last_z);
    last_z = p.z;
    auto right = stairs.lower_bound(p.x);
    const double above = right == stairs.begin() ? ref[1] : std::prev(right)->second;
    if (above <= p.y || (right != stairs.end() && right->first == p.x && right->second <= p.y))
      continue;  // dominated
    double x = p.x, y = above;
    while (right != stairs.end() && right->second >= p.y) {
      area += (right->first - x) * (y - p.y);
      x = right->first;
      y = right->second;
      right = stairs.erase(right);
    }
    area += ((right == stairs.end() ? ref[0] : right->first) - x) * (y - p.y);
    stairs[p.x] = p.y;
  }
  return volume + area * (ref[2] - last_z);
}

std::vector<uint32_t> best_subset_2d(std::span<const double> points, size_t keep) {
  std::vector<uint32_t> order(points.size() / 2), front;
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (points[2 * a] != points[2 * b]) return points[2 * a] < points[2 * b];
    return points[2 * a + 1] != points[2 * b + 1] ? points[2 * a + 1] < points[2 * b + 1] : a < b;
  });
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t i : order) {
    if (points[2 * i + 1] < least) front.push_back(i), least = points[2 * i + 1];
  }
  const size_t n = front.size();
  if (n <= keep) return front;
  std::vector<int> left(n), right(n);
  std::vector<uint32_t> stamp(n, 0);
  std::vector<char> gone(n, 0);
  for (size_t i = 0; i < n; ++i)
    left[i] = static_cast<int>(i) - 1, right[i] = i + 1 < n ? static_cast<int>(i) + 1 : -1;
  auto x = [&](int i) { return points[2 * front[static_cast<size_t>(i)]]; };
  auto y = [&](int i) { return points[2 * front[static_cast<size_t>(i)] + 1]; };
  auto contribution = [&](int i) {
    const int l = left[static_cast<size_t>(i)], r = right[static_cast<size_t>(i)];
    return l < 0 || r < 0 ? std::numeric_limits<double>::infinity() : (x(r) - x(i)) * (y(l) - y(i));
  };
  using Item = std::tuple<double, int, uint32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  for (size_t i = 0; i < n; ++i) queue.emplace(contribution(static_cast<int>(i)), static_cast<int>(i), 0u);
  for (size_t count = n; count > keep;) {
    auto [c, i, s] = queue.top();
    queue.pop();
    const size_t at = static_cast<size_t>(i);
    if (gone[at] || s != stamp[at]) continue;
    gone[at] = 1;
    --count;
    const int l = left[at], r = right[at];
    if (l >= 0) right[static_cast<size_t>(l)] = r;
    if (r >= 0) left[static_cast<size_t>(r)] = l;
    for (int j : {l, r}) {
      if (j >= 0) queue.emplace(contribution(j), j, ++stamp[static_cast<size_t>(j)]);
    }
  }
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < n; ++i) {
    if (!gone[i]) kept.push_back(front[i]);
  }
  return kept;
}

}  // namespace shunt::plan
