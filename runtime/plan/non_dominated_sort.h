// Non-dominated sorting, crowding and constraint domination (Deb's feasibility rule). Minimisation
// throughout. Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace shunt::plan {

// Flat objective matrix: point i has objectives[i * m .. i * m + m).
struct Points {
  const double* objectives = nullptr;
  size_t count = 0, m = 0;
  const double* violation = nullptr;  // null: all feasible; 0 feasible, > 0 by how much
  const double* at(uint32_t i) const { return objectives + i * m; }
  double violated(uint32_t i) const { return violation ? violation[i] : 0; }
};

bool dominates(const double* a, const double* b, size_t m);

// Fronts, best first; points in a front in index order. Efficient non-dominated sort (Zhang et al. 2015,
// binary search).
std::vector<std::vector<uint32_t>> non_dominated_fronts(const Points& points);

// Keeps `keep` points of a front by removing the most crowded one after another, distances renewed each time:
// one-shot truncation leaves holes. The extreme points of each objective stay. Returns what is kept.
std::vector<uint32_t> thin_front(const Points& points, std::vector<uint32_t> front, size_t keep);
// Crowding distance of each member of a front (infinite at the ends).
std::vector<double> crowding_distance(const Points& points, const std::vector<uint32_t>& front);

}  // namespace shunt::plan
