// NSGA-II beside pagmo2's at the same evaluations: time ratio on ZDT1, hypervolume on DTLZ1 and DTLZ2 (three
// objectives).
#include <pagmo/algorithm.hpp>
#include <pagmo/algorithms/nsga2.hpp>
#include <pagmo/population.hpp>
#include <pagmo/problem.hpp>

#include "runtime/plan/hypervolume.h"
#include "runtime/plan/non_dominated_sort.h"
#include "tests/bench/bench_rows.h"
#include "tests/plan/test_functions.h"

using namespace shunt;

namespace {

// The same functions through pagmo's interface, so that both pay the same evaluation.
struct Wrapped {
  plan::Nsga2Problem problem;
  pagmo::vector_double fitness(const pagmo::vector_double& x) const {
    pagmo::vector_double f(problem.objectives);
    problem.evaluate(x, f.data());
    return f;
  }
  pagmo::vector_double::size_type get_nobj() const { return problem.objectives; }
  std::pair<pagmo::vector_double, pagmo::vector_double> get_bounds() const {
    pagmo::vector_double low, high;
    for (const auto& gene : problem.genes) low.push_back(gene.low), high.push_back(gene.high);
    return {low, high};
  }
};

constexpr unsigned kGenerations = 250;

double pagmo_run(const plan::Nsga2Problem& problem, unsigned seed, std::vector<double>& points) {
  const uint64_t start = bench::now_ns();
  pagmo::population population{pagmo::problem{Wrapped{problem}}, 100, seed};
  pagmo::algorithm algorithm{pagmo::nsga2(kGenerations, 0.95, 10, 0.01, 50, seed)};
  population = algorithm.evolve(population);
  const double ms = static_cast<double>(bench::now_ns() - start) * 1e-6;
  points.clear();
  for (const auto& f : population.get_f()) points.insert(points.end(), f.begin(), f.end());
  return ms;
}

double shunt_run(const plan::Nsga2Problem& problem, unsigned seed, std::vector<double>& points) {
  const uint64_t start = bench::now_ns();
  plan::Nsga2Options options;
  options.seed = seed;
  const auto result = plan::nsga2(problem, options);
  const double ms = static_cast<double>(bench::now_ns() - start) * 1e-6;
  points.clear();
  for (const auto& m : result.front) points.insert(points.end(), m.objectives.begin(), m.objectives.end());
  return ms;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Rows rows(argc, argv);
  std::vector<double> points;
  unsigned seed = 0;
  const auto zdt1 = plan::testing::zdt_problem(1);
  const auto time = rows.alternate([&] { return shunt_run(zdt1, ++seed, points); },
                                   [&] { return pagmo_run(zdt1, ++seed, points); });
  rows.emit({"nsga2_time_vs_pagmo2", "x", "pagmo2 nsga2, ms, same evaluations (ZDT1)", 0.5, "lower"},
            time.ratio(), time.baseline);
  for (int number : {1, 2}) {
    const auto problem = plan::testing::dtlz_problem(number);
    const double edge = number == 1 ? 0.55 : 1.1, reference[3] = {edge, edge, edge};
    seed = 0;
    auto volume = [&](auto run) {
      run(problem, ++seed, points);
      return plan::hypervolume_3d(points, reference);
    };
    const auto hv = rows.alternate([&] { return volume(shunt_run); }, [&] { return volume(pagmo_run); });
    rows.emit({"nsga2_dtlz" + std::to_string(number) + "_hv", "volume", "pagmo2 nsga2, median", {}, "higher"},
              hv.subject, hv.baseline);
    const auto dtime = rows.alternate([&] { return shunt_run(problem, ++seed, points); },
                                      [&] { return pagmo_run(problem, ++seed, points); });
    rows.emit(
        {"nsga2_dtlz" + std::to_string(number) + "_time_vs_pagmo2", "x", "pagmo2 nsga2, ms", 0.5, "lower"},
        dtime.ratio(), dtime.baseline);
  }
  return rows.finish();
}
