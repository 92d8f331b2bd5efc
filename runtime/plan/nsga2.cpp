#include "runtime/plan/nsga2.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>

#include "runtime/plan/hypervolume.h"
#include "runtime/plan/non_dominated_sort.h"
#include "runtime/plan/random.h"

namespace shunt::plan {

namespace {

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Genomes, objectives and violations of a population, flat.
struct Population {
  size_t genes, m;
  std::vector<double> genome, objectives, violation;
  size_t size() const { return violation.size(); }
  void resize(size_t n) {
    genome.resize(n * genes);
    objectives.resize(n * m);
    violation.resize(n);
  }
  double* g(size_t i) { return genome.data() + i * genes; }
  Points points() const { return {objectives.data(), size(), m, violation.data()}; }
  void copy(size_t to, const Population& from, size_t at) {
    std::copy_n(from.genome.data() + at * genes, genes, g(to));
    std::copy_n(from.objectives.data() + at * m, m, objectives.data() + to * m);
    violation[to] = from.violation[at];
  }
};

// Everything non-dominated met so far, for two objectives: x -> (y, genome), y falling.
class Archive {
 public:
  void offer(const double* objectives, std::span<const double> genome) {
    const double x = objectives[0], y = objectives[1];
    auto at = front_.upper_bound(x);
    if (at != front_.begin() && std::prev(at)->second.first <= y) return;
    at = front_.lower_bound(x);
    while (at != front_.end() && at->second.first >= y) at = front_.erase(at);
    front_[x] = {y, {genome.begin(), genome.end()}};
    if (front_.size() > kMost) thin(kMost / 2);
  }
  std::vector<Nsga2Result::Member> best(size_t keep) {
    thin(keep);
    std::vector<Nsga2Result::Member> members;
    for (auto& [x, rest] : front_) members.push_back({rest.second, {x, rest.first}, 0});
    return members;
  }

 private:
  static constexpr size_t kMost = 4000;
  void thin(size_t keep) {
    std::vector<double> points, xs;
    for (auto& [x, rest] : front_) points.push_back(x), points.push_back(rest.first), xs.push_back(x);
    std::vector<char> kept(xs.size(), 0);
    for (uint32_t i : best_subset_2d(points, keep)) kept[i] = 1;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (!kept[i]) front_.erase(xs[i]);
    }
  }
  std::map<double, std::pair<double, std::vector<double>>> front_;
};

class Optimizer {
 public:
  Optimizer(const Nsga2Problem& problem, const Nsga2Options& options)
      : problem_(problem), options_(options), random_(options.seed), mutation_(options.mutation_probability) {
    if (mutation_ <= 0) mutation_ = 1.0 / static_cast<double>(std::max<size_t>(1, problem.genes.size()));
    size_ = std::max<size_t>(4, options.population + options.population % 2);
    for (Population* p : {&parents_, &children_, &merged_})
      p->genes = problem.genes.size(), p->m = problem.objectives;
  }

  Nsga2Result run() {
    const double deadline = options_.time_limit_s > 0 ? now_s() + options_.time_limit_s : 0;
    first_population();
    uint32_t generation = 0;
    for (; generation < options_.generations; ++generation) {
      if (deadline > 0 && now_s() > deadline) break;
      breed();
      survive();
    }
    Nsga2Result result;
    result.evaluations = evaluations_;
    result.generations = generation;
    if (problem_.objectives == 2) result.front = archive_.best(size_);
    if (result.front.empty()) {
      const auto fronts = non_dominated_fronts(parents_.points());
      for (uint32_t i : fronts.front()) {
        Nsga2Result::Member member;
        member.genome.assign(parents_.g(i), parents_.g(i) + parents_.genes);
        member.objectives.assign(parents_.objectives.data() + i * parents_.m,
                                 parents_.objectives.data() + (i + 1) * parents_.m);
        member.violation = parents_.violation[i];
        result.front.push_back(std::move(member));
      }
      std::sort(result.front.begin(), result.front.end(),
                [](const auto& a, const auto& b) { return a.objectives < b.objectives; });
    }
    return result;
  }

 private:
  void evaluate(Population& p, size_t i) {
    std::span<const double> genome(p.g(i), p.genes);
    double* objectives = p.objectives.data() + i * p.m;
    p.violation[i] = problem_.evaluate(genome, objectives);
    ++evaluations_;
    if (p.m == 2 && p.violation[i] <= 0) archive_.offer(objectives, genome);
  }

  double random_gene(const Gene& gene) {
    return gene.choices ? random_.below(gene.choices) : gene.low + random_.uniform() * (gene.high - gene.low);
  }

  void first_population() {
    parents_.resize(size_);
    children_.resize(size_);
    merged_.resize(2 * size_);
    for (size_t i = 0; i < size_; ++i) {
      for (size_t k = 0; k < parents_.genes; ++k) {
        parents_.g(i)[k] =
            i < options_.initial.size() ? options_.initial[i][k] : random_gene(problem_.genes[k]);
      }
      evaluate(parents_, i);
    }
    rank_.assign(size_, 0);
    crowding_.assign(size_, 0);
    const auto fronts = non_dominated_fronts(parents_.points());
    for (uint32_t f = 0; f < fronts.size(); ++f) {
      const auto distance = crowding_distance(parents_.points(), fronts[f]);
      for (size_t i = 0; i < fronts[f].size(); ++i)
        rank_[fronts[f][i]] = f, crowding_[fronts[f][i]] = distance[i];
    }
  }

  uint32_t tournament() {
    const uint32_t a = random_.below(static_cast<uint32_t>(size_)),
                   b = random_.below(static_cast<uint32_t>(size_));
    if (rank_[a] != rank_[b]) return rank_[a] < rank_[b] ? a : b;
    return crowding_[a] >= crowding_[b] ? a : b;
  }

  void breed() {
    for (size_t i = 0; i < size_; i += 2) {
      children_.copy(i, parents_, tournament());
      children_.copy(i + 1, parents_, tournament());
      if (random_.uniform() < options_.differential_share) {
        differ(children_.g(i));
        differ(children_.g(i + 1));
      } else if (random_.uniform() < options_.crossover_probability) {
        cross(children_.g(i), children_.g(i + 1));
      }
      mutate(children_.g(i));
      mutate(children_.g(i + 1));
      evaluate(children_, i);
      evaluate(children_, i + 1);
    }
  }

  // Moves a genome along the difference of two others (differential evolution, binomial, one gene in two on
  // average).
  void differ(double* g) {
    const double* a = parents_.g(tournament());
    const double* b = parents_.g(tournament());
    for (size_t k = 0; k < problem_.genes.size(); ++k) {
      if (random_.uniform() >= 0.5) continue;
      const Gene& gene = problem_.genes[k];
      g[k] = gene.choices ? a[k] : std::clamp(g[k] + 0.5 * (a[k] - b[k]), gene.low, gene.high);
    }
  }

  // Simulated binary crossover, bounded form.
  void cross(double* a, double* b) {
    const double eta = options_.crossover_index;
    for (size_t k = 0; k < problem_.genes.size(); ++k) {
      const Gene& gene = problem_.genes[k];
      if (gene.choices) {
        if (random_.uniform() < 0.5) std::swap(a[k], b[k]);
        continue;
      }
      if (random_.uniform() > 0.5 || std::abs(a[k] - b[k]) < 1e-14) continue;
      const double y1 = std::min(a[k], b[k]), y2 = std::max(a[k], b[k]), u = random_.uniform();
      auto spread = [&](double beta) {
        const double alpha = 2 - std::pow(beta, -(eta + 1));
        return u <= 1 / alpha ? std::pow(u * alpha, 1 / (eta + 1))
                              : std::pow(1 / (2 - u * alpha), 1 / (eta + 1));
      };
      const double low = spread(1 + 2 * (y1 - gene.low) / (y2 - y1)),
                   high = spread(1 + 2 * (gene.high - y2) / (y2 - y1));
      double c1 = std::clamp(0.5 * (y1 + y2 - low * (y2 - y1)), gene.low, gene.high);
      double c2 = std::clamp(0.5 * (y1 + y2 + high * (y2 - y1)), gene.low, gene.high);
      if (random_.uniform() < 0.5) std::swap(c1, c2);
      a[k] = c1;
      b[k] = c2;
    }
  }

  // Polynomial mutation, bounded form.
  void mutate(double* g) {
    const double eta = options_.mutation_index;
    for (size_t k = 0; k < problem_.genes.size(); ++k) {
      if (random_.uniform() >= mutation_) continue;
      const Gene& gene = problem_.genes[k];
      if (gene.choices) {
        g[k] = random_.below(gene.choices);
        continue;
      }
      const double width = gene.high - gene.low;
      if (width <= 0) continue;
      const double u = random_.uniform();
      double delta;
      if (u < 0.5) {
        const double xy = 1 - (g[k] - gene.low) / width;
        delta = std::pow(2 * u + (1 - 2 * u) * std::pow(xy, eta + 1), 1 / (eta + 1)) - 1;
      } else {
        const double xy = 1 - (gene.high - g[k]) / width;
        delta = 1 - std::pow(2 * (1 - u) + 2 * (u - 0.5) * std::pow(xy, eta + 1), 1 / (eta + 1));
      }
      g[k] = std::clamp(g[k] + delta * width, gene.low, gene.high);
    }
  }

  void survive() {
    for (size_t i = 0; i < size_; ++i) merged_.copy(i, parents_, i), merged_.copy(size_ + i, children_, i);
    const Points points = merged_.points();
    size_t filled = 0;
    uint32_t f = 0;
    for (auto& front : non_dominated_fronts(points)) {
      if (filled == size_) break;
      const auto kept = thin_front(points, std::move(front), size_ - filled);
      const auto distance = crowding_distance(points, kept);
      for (size_t i = 0; i < kept.size(); ++i, ++filled) {
        parents_.copy(filled, merged_, kept[i]);
        rank_[filled] = f;
        crowding_[filled] = distance[i];
      }
      ++f;
    }
  }

  const Nsga2Problem& problem_;
  const Nsga2Options& options_;
  Random random_;
  double mutation_;
  size_t size_;
  uint64_t evaluations_ = 0;
  Population parents_, children_, merged_;
  std::vector<uint32_t> rank_;
  std::vector<double> crowding_;
  Archive archive_;
};

}  // namespace

Nsga2Result nsga2(const Nsga2Problem& problem, const Nsga2Options& options) {
  return Optimizer(problem, options).run();
}

size_t knee(const std::vector<Nsga2Result::Member>& front) {
  if (front.empty()) return 0;
  const size_t m = front[0].objectives.size();
  std::vector<double> low(m, std::numeric_limits<double>::infinity()),
      high(m, -std::numeric_limits<double>::infinity());
  for (const auto& member : front) {
    for (size_t k = 0; k < m; ++k)
      low[k] = std::min(low[k], member.objectives[k]), high[k] = std::max(high[k], member.objectives[k]);
  }
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < front.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < m; ++k) {
      const double span = high[k] - low[k];
      const double v = span > 0 ? (front[i].objectives[k] - low[k]) / span : 0;
      sum += v * v;
    }
    if (sum < least) least = sum, best = i;
  }
  return best;
}

}  // namespace shunt::plan
