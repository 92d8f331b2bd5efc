// Votes, matches, shuffles of every kind, warp reductions, partial masks, divergent warps. PTX for 8.0
// (redux).
#include "check.h"

enum { kRows = 17 };

__global__ void primitives(const int* in, unsigned* out) {
  const int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  const unsigned all = 0xffffffffu;
  const int v = in[i];
  unsigned r[kRows];
  r[0] = __ballot_sync(all, v > 50);
  r[1] = __any_sync(all, v == 17);
  r[2] = __all_sync(all, v >= 0);
  r[3] = __match_any_sync(all, v & 3);
  int uniform = 0;
  r[4] = __match_all_sync(all, blockIdx.x, &uniform);
  r[4] += uniform;
  r[5] = __shfl_sync(all, v, 5);
  r[6] = __shfl_sync(all, v, lane + 3, 8);
  r[7] = __shfl_up_sync(all, v, 2);
  r[8] = __shfl_down_sync(all, v, 7, 16);
  r[9] = __shfl_xor_sync(all, v, 21);
  r[10] = __reduce_add_sync(all, static_cast<unsigned>(v));
  r[11] = __reduce_max_sync(all, v) * 1000 + __reduce_min_sync(all, v);
  r[12] = __reduce_xor_sync(all, static_cast<unsigned>(v));
  r[13] = 0;
  r[14] = 0;
  if (lane % 3 == 0) {  // a partial mask, in a branch
    const unsigned third = 0x49249249u;
    r[13] = __ballot_sync(third, v & 1);
    r[14] = __shfl_sync(third, v, 9);
  } else if (lane & 1) {
    const unsigned mask = __ballot_sync(0xffffffffu & ~0x49249249u & 0xaaaaaaaau, 1);
    r[13] = __popc(mask);
  }
  __syncwarp();
  // Data-dependent trip counts: lanes leave one after another.
  unsigned steps = 0;
  for (int w = v; w > 0; w -= 1 + (w & 7)) steps += static_cast<unsigned>(w);
  r[15] = steps;
  r[16] = __syncthreads_count(v & 1) * 4 + __syncthreads_or(v == 99) * 2 + __syncthreads_and(v < 100);
  for (int k = 0; k < kRows; ++k) out[k * n + i] = r[k];
}

int main() {
  Report report;
  const int block = 96, n = block * 4;
  Random random(32);
  std::vector<int> in(n);
  for (int& v : in) v = static_cast<int>(random.next() % 100);
  std::vector<unsigned> want(kRows * n);
  for (int i = 0; i < n; ++i) {
    const int lane = i & 31;
    const int* w = &in[i & ~31];
    auto lanes = [&](auto&& f) {
      unsigned mask = 0;
      for (int l = 0; l < 32; ++l) mask |= (f(w[l], l) ? 1u : 0u) << l;
      return mask;
    };
    auto set = [&](int row, unsigned value) { want[row * n + i] = value; };
    unsigned add = 0, bits = 0, steps = 0;
    int most = w[0], least = w[0];
    for (int l = 0; l < 32; ++l) {
      add += w[l];
      bits ^= w[l];
      most = w[l] > most ? w[l] : most;
      least = w[l] < least ? w[l] : least;
    }
    for (int x = in[i]; x > 0; x -= 1 + (x & 7)) steps += x;
    int odd = 0, has99 = 0, below = 1;
    for (int t = 0; t < block; ++t) {
      const int x = in[i / block * block + t];
      odd += x & 1;
      has99 |= x == 99;
      below &= x < 100;
    }
    set(0, lanes([](int v, int) { return v > 50; }));
    set(1, lanes([](int v, int) { return v == 17; }) != 0);
    set(2, 1);
    set(3, lanes([&](int v, int) { return (v & 3) == (in[i] & 3); }));
    set(4, 0xffffffffu + 1u);
    set(5, w[5]);
    set(6, w[(lane & ~7) + (lane + 3) % 8]);
    set(7, lane >= 2 ? w[lane - 2] : w[lane]);
    set(8, lane % 16 + 7 < 16 ? w[lane + 7] : w[lane]);
    set(9, w[lane ^ 21]);
    set(10, add);
    set(11, most * 1000 + least);
    set(12, bits);
    if (lane % 3 == 0) {
      set(13, lanes([](int v, int l) { return l % 3 == 0 && (v & 1); }));
      set(14, w[9]);
    } else {
      set(13, lane & 1 ? __builtin_popcount(~0x49249249u & 0xaaaaaaaau) : 0);
    }
    set(15, steps);
    set(16, odd * 4 + has99 * 2 + below);
  }
  int* d_in = device_copy(in);
  unsigned* d_out = device_array<unsigned>(kRows * n);
  primitives<<<n / block, block>>>(d_in, d_out);
  CUDA(cudaGetLastError());
  const std::vector<unsigned> got = host_copy(d_out, kRows * n);
  for (int row = 0; row < kRows; ++row) {
    bool ok = true;
    for (int i = 0; i < n; ++i) ok &= got[row * n + i] == want[row * n + i];
    char name[16];
    std::snprintf(name, sizeof name, "row %d", row);
    report.check(name, ok, digest(&got[row * n], n * sizeof(unsigned)));
  }
  return report.finish();
}
