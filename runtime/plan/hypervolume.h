// Exact hypervolume (minimisation) against a reference point, in two and three objectives; points not better
// than the reference in every objective do not count. Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace shunt::plan {

double hypervolume_2d(std::span<const double> points, const double reference[2]);
double hypervolume_3d(std::span<const double> points, const double reference[3]);
// The subset of a two-objective front with `keep` points that loses the least, removing the least contributor
// repeatedly. Extreme points go last. Returns indices in order of the first objective; dominated points are
// dropped first.
std::vector<uint32_t> best_subset_2d(std::span<const double> points, size_t keep);

}  // namespace shunt::plan
