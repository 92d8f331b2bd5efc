// Thrust: sort by key, reduce by key, transform, scan; everything its headers emit.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <numeric>

#include "check.h"

struct Scramble {
  __host__ __device__ unsigned operator()(unsigned v) const { return v * 2654435761u ^ (v >> 7); }
};

int main() {
  Report report;
  const int n = 20000;
  Random random(20);
  std::vector<unsigned> keys(n), values(n);
  for (int i = 0; i < n; ++i) {
    keys[i] = random.next() % 300;
    values[i] = random.next() & 0xffff;
  }
  thrust::device_vector<unsigned> dk = keys, dv = values;
  thrust::stable_sort_by_key(dk.begin(), dk.end(), dv.begin());
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  std::vector<unsigned> want_keys(n), want_values(n);
  for (int i = 0; i < n; ++i) {
    want_keys[i] = keys[order[i]];
    want_values[i] = values[order[i]];
  }
  std::vector<unsigned> got_keys(n), got_values(n);
  thrust::copy(dk.begin(), dk.end(), got_keys.begin());
  thrust::copy(dv.begin(), dv.end(), got_values.begin());
  report.check("stable_sort_by_key", same(got_keys, want_keys) && same(got_values, want_values),
               digest(got_values));

  thrust::device_vector<unsigned> out_keys(n), out_values(n);
  const auto ends =
      thrust::reduce_by_key(dk.begin(), dk.end(), dv.begin(), out_keys.begin(), out_values.begin());
  std::vector<unsigned> sums;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || want_keys[i] != want_keys[i - 1]) sums.push_back(0);
    sums.back() += want_values[i];
  }
  const size_t groups = ends.first - out_keys.begin();
  std::vector<unsigned> got_sums(groups);
  thrust::copy(out_values.begin(), out_values.begin() + groups, got_sums.begin());
  report.check("reduce_by_key", same(got_sums, sums), digest(got_sums));

  thrust::transform(dv.begin(), dv.end(), dv.begin(), Scramble());
  thrust::inclusive_scan(dv.begin(), dv.end(), dv.begin());
  unsigned running = 0;
  for (unsigned& v : want_values) v = running += Scramble()(v);
  thrust::copy(dv.begin(), dv.end(), got_values.begin());
  report.check("transform and scan", same(got_values, want_values), digest(got_values));
  return report.finish();
}
