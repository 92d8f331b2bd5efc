// ZDT (Zitzler, Deb, Thiele 2000) and DTLZ (Deb, Thiele, Laumanns, Zitzler 2002) test functions and their
// true fronts.
#pragma once
#include <algorithm>
#include <cmath>

#include "runtime/plan/nsga2.h"

namespace shunt::plan::testing {

struct ZdtCase {
  int number;
  double deb_convergence, hv_share;
};

inline Nsga2Problem zdt_problem(int number) {
  Nsga2Problem p;
  const size_t n = number == 4 || number == 6 ? 10 : 30;
  p.genes.assign(n, Gene{0, 1, 0});
  if (number == 4) {
    for (size_t i = 1; i < n; ++i) p.genes[i] = {-5, 5, 0};
  }
  p.evaluate = [number, n](std::span<const double> x, double* f) {
    constexpr double pi = 3.14159265358979323846;
    double sum = 0;
    for (size_t i = 1; i < n; ++i) sum += number == 4 ? x[i] * x[i] - 10 * std::cos(4 * pi * x[i]) : x[i];
    double g;
    f[0] = number == 6 ? 1 - std::exp(-4 * x[0]) * std::pow(std::sin(6 * pi * x[0]), 6) : x[0];
    if (number == 4)
      g = 1 + 10 * static_cast<double>(n - 1) + sum;
    else if (number == 6)
      g = 1 + 9 * std::pow(sum / static_cast<double>(n - 1), 0.25);
    else
      g = 1 + 9 * sum / static_cast<double>(n - 1);
    const double r = f[0] / g;
    if (number == 2 || number == 6)
      f[1] = g * (1 - r * r);
    else if (number == 3)
      f[1] = g * (1 - std::sqrt(r) - r * std::sin(10 * pi * f[0]));
    else
      f[1] = g * (1 - std::sqrt(r));
    return 0.0;
  };
  return p;
}

// n points of the true front (g = 1), dominated ones left out.
inline std::vector<double> zdt_front(int number, size_t n) {
  constexpr double pi = 3.14159265358979323846;
  std::vector<double> points;
  double least = 1e300;
  for (size_t i = 0; i < n; ++i) {
    double x = static_cast<double>(i) / static_cast<double>(n - 1);
    if (number == 6) x = 0.2807753191 + (1 - 0.2807753191) * x;
    double y = number == 2 || number == 6 ? 1 - x * x : 1 - std::sqrt(x);
    if (number == 3) y -= x * std::sin(10 * pi * x);
    if (y >= least) continue;
    least = y;
    points.push_back(x);
    points.push_back(y);
  }
  return points;
}

// Mean distance of the points to the nearest of the true front's (Deb's convergence measure).
inline double mean_distance(const std::vector<double>& points, const std::vector<double>& front) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); i += 2) {
    double least = 1e300;
    for (size_t j = 0; j < front.size(); j += 2)
      least = std::min(least, std::hypot(points[i] - front[j], points[i + 1] - front[j + 1]));
    sum += least;
  }
  return sum / (static_cast<double>(points.size()) / 2);
}

// Three objectives. DTLZ1: 7 variables, DTLZ2: 12.
inline Nsga2Problem dtlz_problem(int number) {
  Nsga2Problem p;
  const size_t n = number == 1 ? 7 : 12;
  p.objectives = 3;
  p.genes.assign(n, Gene{0, 1, 0});
  p.evaluate = [number, n](std::span<const double> x, double* f) {
    constexpr double pi = 3.14159265358979323846;
    double g = 0;
    for (size_t i = 2; i < n; ++i) {
      const double d = x[i] - 0.5;
      g += number == 1 ? d * d - std::cos(20 * pi * d) : d * d;
    }
    if (number == 1) {
      g = 100 * (static_cast<double>(n - 2) + g);
      f[0] = 0.5 * x[0] * x[1] * (1 + g);
      f[1] = 0.5 * x[0] * (1 - x[1]) * (1 + g);
      f[2] = 0.5 * (1 - x[0]) * (1 + g);
    } else {
      f[0] = std::cos(x[0] * pi / 2) * std::cos(x[1] * pi / 2) * (1 + g);
      f[1] = std::cos(x[0] * pi / 2) * std::sin(x[1] * pi / 2) * (1 + g);
      f[2] = std::sin(x[0] * pi / 2) * (1 + g);
    }
    return 0.0;
  };
  return p;
}

}  // namespace shunt::plan::testing
