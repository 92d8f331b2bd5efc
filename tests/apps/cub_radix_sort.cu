// CUB's device-wide radix sort, scan, select and reduction, called with its two-phase temporary storage.
#include <cub/cub.cuh>

#include <algorithm>

#include "check.h"

struct Keep {
  __host__ __device__ bool operator()(float v) const { return v > 0.25f; }
};

template <typename Call>
void with_storage(Call&& call) {
  size_t bytes = 0;
  CUDA(call(nullptr, bytes));
  void* storage = nullptr;
  CUDA(cudaMalloc(&storage, bytes));
  CUDA(call(storage, bytes));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(storage));
}

int main() {
  Report report;
  const int n = 15000;
  Random random(21);
  std::vector<float> keys(n);
  for (float& k : keys) k = random.unit() * 2.0f - 1.0f;
  float* d_in = device_copy(keys);
  float* d_out = device_array<float>(n);
  int* d_count = device_array<int>(1);

  with_storage([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, d_in, d_out, n); });
  std::vector<float> want = keys;
  std::sort(want.begin(), want.end());
  std::vector<float> got = host_copy(d_out, n);
  report.check("radix sort", same(got, want), digest(got));

  with_storage(
      [&](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, d_in, d_out, d_count, n, Keep()); });
  std::vector<float> selected;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(selected), Keep());
  const int count = host_copy(d_count, 1)[0];
  got = host_copy(d_out, count);
  report.check("select", same(got, selected), digest(got));

  std::vector<int> numbers(n), sums(n);
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    numbers[i] = static_cast<int>(random.next() % 100);
    sums[i] = sum;
    sum += numbers[i];
  }
  int* d_numbers = device_copy(numbers);
  int* d_sums = device_array<int>(n);
  with_storage([&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, d_numbers, d_sums, n); });
  const std::vector<int> got_sums = host_copy(d_sums, n);
  report.check("exclusive sum", same(got_sums, sums), digest(got_sums));
  with_storage([&](void* t, size_t& b) { return cub::DeviceReduce::Max(t, b, d_numbers, d_count, n); });
  report.check("maximum", host_copy(d_count, 1)[0] == *std::max_element(numbers.begin(), numbers.end()));
  return report.finish();
}
