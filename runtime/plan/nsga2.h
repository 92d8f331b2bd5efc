// NSGA-II (K. Deb, A. Pratap, S. Agarwal, T. Meyarivan, IEEE TEC 6(2), 2002) over mixed genomes: real genes
// (simulated binary crossover, differential variation, polynomial mutation) and choice genes (uniform
// crossover, reset mutation). Differences from the paper, each measured in tests/plan: survivors of the last
// front are thinned one by one with renewed distances, sorting is the efficient non-dominated sort, and with
// two objectives an archive of everything non-dominated ever met is reduced to the answer by least
// hypervolume loss. Deterministic for a seed (the time box apart). One optimisation belongs to one thread.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace shunt::plan {

struct Gene {
  double low = 0, high = 1;  // real
  uint32_t choices = 0;      // > 0: a choice gene, values 0 .. choices - 1
};

struct Nsga2Options {
  uint32_t population = 100, generations = 250;
  double crossover_probability = 1, crossover_index = 20, mutation_index = 20;
  double differential_share = 0.3;  // of offspring made by differential variation instead of crossover
  double mutation_probability = 0;  // per gene; 0: 1 / genes
  uint64_t seed = 1;
  double time_limit_s = 0;                   // 0: none
  std::vector<std::vector<double>> initial;  // genomes placed into the first population
};

struct Nsga2Problem {
  std::vector<Gene> genes;
  size_t objectives = 2;
  // Fills objectives[m]; returns the constraint violation, 0 when feasible.
  std::function<double(std::span<const double> genome, double* objectives)> evaluate;
};

struct Nsga2Result {
  struct Member {
    std::vector<double> genome, objectives;
    double violation = 0;
  };
  std::vector<Member> front;  // the first front, by the first objective
  uint64_t evaluations = 0;
  uint32_t generations = 0;
};

Nsga2Result nsga2(const Nsga2Problem& problem, const Nsga2Options& options);
// Index of the member nearest to the ideal point in normalised objectives; 0 for a single member.
size_t knee(const std::vector<Nsga2Result::Member>& front);

}  // namespace shunt::plan
