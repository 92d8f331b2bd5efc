// The two published ten-task graphs, as numbers, and a random generator for property tests.
#pragma once
#include "runtime/plan/random.h"
#include "runtime/plan/task_graph.h"

namespace shunt::plan::testing {

inline Problem from_tables(const std::vector<std::vector<double>>& seconds, const std::vector<Edge>& edges) {
  Problem p;
  const size_t m = seconds[0].size();
  for (size_t t = 0; t < seconds.size(); ++t) {
    p.tasks.push_back({"t" + std::to_string(t), 0});
    p.seconds.insert(p.seconds.end(), seconds[t].begin(), seconds[t].end());
  }
  p.edges = edges;
  for (size_t d = 0; d < m; ++d) p.devices.push_back({"d" + std::to_string(d), kCannotRun, 0, 0, {{1, 1}}});
  p.bytes_per_s.assign(m * m, 1);
  p.latency_s.assign(m * m, 0);
  return p;
}

// Topcuoglu, Hariri, Wu 2002, figure 2: HEFT 80, optimum 73.
inline Problem topcuoglu() {
  return from_tables({{14, 16, 9},
                      {13, 19, 18},
                      {11, 13, 19},
                      {13, 8, 17},
                      {12, 13, 10},
                      {13, 16, 9},
                      {7, 15, 11},
                      {5, 11, 14},
                      {18, 12, 20},
                      {21, 7, 16}},
                     {{0, 1, 18},
                      {0, 2, 12},
                      {0, 3, 9},
                      {0, 4, 11},
                      {0, 5, 14},
                      {1, 7, 19},
                      {1, 8, 16},
                      {2, 6, 23},
                      {3, 7, 27},
                      {3, 8, 23},
                      {4, 8, 13},
                      {5, 7, 15},
                      {6, 9, 17},
                      {7, 9, 11},
                      {8, 9, 13}});
}

// Arabnejad, Barbosa 2014, figure 2: PEFT 122, HEFT 133, optimum 113.
inline Problem arabnejad() {
  return from_tables({{22, 21, 36},
                      {22, 18, 18},
                      {32, 27, 43},
                      {7, 10, 4},
                      {29, 27, 35},
                      {26, 17, 24},
                      {14, 25, 30},
                      {29, 23, 36},
                      {15, 21, 8},
                      {13, 16, 33}},
                     {{0, 1, 17},
                      {0, 2, 31},
                      {0, 3, 29},
                      {0, 4, 13},
                      {0, 5, 7},
                      {1, 7, 3},
                      {1, 8, 30},
                      {2, 6, 16},
                      {3, 7, 11},
                      {3, 8, 7},
                      {4, 8, 57},
                      {5, 7, 5},
                      {6, 9, 9},
                      {7, 9, 42},
                      {8, 9, 7}});
}

inline Problem random_problem(uint64_t seed, uint32_t tasks, uint32_t devices) {
  Random random(seed);
  std::vector<std::vector<double>> seconds(tasks, std::vector<double>(devices));
  std::vector<Edge> edges;
  for (uint32_t t = 0; t < tasks; ++t) {
    for (double& s : seconds[t]) s = random.below(8) == 0 ? 0 : 1 + random.below(40);
    for (uint32_t before = 0; before < t; ++before) {
      if (random.below(tasks) < 2) edges.push_back({before, t, static_cast<double>(random.below(60))});
    }
  }
  Problem p = from_tables(seconds, edges);
  for (double& bw : p.bytes_per_s) bw = 1 + random.below(4);
  for (double& l : p.latency_s) l = random.below(3);
  return p;
}

}  // namespace shunt::plan::testing
