// Integer instructions one by one: wide and high multiplies, 128-bit, bit fields, permutes, dot products,
// saturation, funnel shifts, division by everything.
#include "check.h"

enum { kRows = 20 };

#ifdef __CUDA_ARCH__
#define PICK(device, host) (device)
#else
#define PICK(device, host) (host)
#endif

__host__ __device__ inline uint32_t permute(uint32_t a, uint32_t b, uint32_t s) {
  const uint64_t both = (static_cast<uint64_t>(b) << 32) | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i)
    r |= static_cast<uint32_t>((both >> (((s >> (4 * i)) & 7) * 8)) & 0xff) << (8 * i);
  return r;
}
inline int dot4(int a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
  return c;
}
inline uint32_t reverse_bits(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i) r |= ((v >> i) & 1) << (31 - i);
  return r;
}

__host__ __device__ void compute(uint32_t a, uint32_t b, uint64_t w, uint64_t* r) {
  const int sa = static_cast<int>(a), sb = static_cast<int>(b);
  r[0] = PICK(__umulhi(a, b), static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32));
  r[1] =
      static_cast<uint32_t>(PICK(__mulhi(sa, sb), static_cast<int>((static_cast<int64_t>(sa) * sb) >> 32)));
  r[2] =
      PICK(__umul64hi(w, w ^ a), static_cast<uint64_t>((static_cast<unsigned __int128>(w) * (w ^ a)) >> 64));
  r[3] = PICK(__popc(a) + __popcll(w), __builtin_popcount(a) + __builtin_popcountll(w));
  r[4] = PICK(__clz(a | 1) + 100 * __clzll(w | 1), __builtin_clz(a | 1) + 100 * __builtin_clzll(w | 1));
  r[5] = PICK(__brev(a), reverse_bits(a));
  r[6] = PICK(__ffs(sa) + 100 * __ffsll(static_cast<long long>(w)),
              __builtin_ffs(sa) + 100 * __builtin_ffsll(static_cast<long long>(w)));
  r[7] = PICK(__byte_perm(a, b, static_cast<uint32_t>(w) & 0x7777),
              permute(a, b, static_cast<uint32_t>(w) & 0x7777));
  r[8] = static_cast<uint32_t>(PICK(__dp4a(sa, sb, 7), dot4(sa, sb, 7)));
  r[9] = PICK(__funnelshift_l(a, b, w & 31),
              static_cast<uint32_t>((((static_cast<uint64_t>(b) << 32) | a) << (w & 31)) >> 32));
  r[10] = PICK(__funnelshift_r(a, b, w & 31),
               static_cast<uint32_t>(((static_cast<uint64_t>(b) << 32) | a) >> (w & 31)));
  r[11] = PICK(__usad(a, b, 3u), (a > b ? a - b : b - a) + 3u);
  r[12] = static_cast<uint32_t>(PICK(__hadd(sa, sb), static_cast<int>((static_cast<int64_t>(sa) + sb) >> 1)));
  r[13] = a / (b | 1) + a % (b | 1);
  r[14] = static_cast<uint64_t>(static_cast<int64_t>(w) / (sb | 1)) ^
          static_cast<uint64_t>(static_cast<int64_t>(w) % (sb | 1));
  r[15] = w / ((static_cast<uint64_t>(a) << 7) | 1) + w % ((static_cast<uint64_t>(b) << 20) | 1);
  const unsigned __int128 product =
      static_cast<unsigned __int128>(w) * ((static_cast<uint64_t>(a) << 32) | b);
  r[16] = static_cast<uint64_t>(product >> 37);
  r[17] = static_cast<uint64_t>(static_cast<int64_t>(w) >> (a & 63)) ^ (w << (b & 63));
  r[18] = static_cast<uint32_t>(static_cast<short>(a) * static_cast<short>(b)) +
          static_cast<unsigned char>(a >> 5);
  r[19] = (a > b) + 2 * (sa > sb) + 4 * (static_cast<int64_t>(w) < sa) + 8 * (a == b);
}

__global__ void kernel(const uint32_t* a, const uint32_t* b, const uint64_t* w, uint64_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint64_t r[kRows];
  compute(a[i], b[i], w[i], r);
  for (int k = 0; k < kRows; ++k) out[k * n + i] = r[k];
}

int main() {
  Report report;
  const int n = 2000;
  Random random(36);
  std::vector<uint32_t> a(n), b(n);
  std::vector<uint64_t> w(n), want(kRows * n);
  for (int i = 0; i < n; ++i) {
    a[i] = random.next() >> (random.next() % 32);
    b[i] = random.next() >> (random.next() % 32);
    w[i] = ((static_cast<uint64_t>(random.next()) << 32) | random.next()) >> (random.next() % 64);
    if (i % 5 == 0) a[i] = ~a[i];
    if (i % 9 == 0) b[i] = a[i];
    uint64_t r[kRows];
    compute(a[i], b[i], w[i], r);
    for (int k = 0; k < kRows; ++k) want[k * n + i] = r[k];
  }
  uint64_t* out = device_array<uint64_t>(kRows * n);
  kernel<<<(n + 127) / 128, 128>>>(device_copy(a), device_copy(b), device_copy(w), out, n);
  CUDA(cudaGetLastError());
  const std::vector<uint64_t> got = host_copy(out, kRows * n);
  for (int k = 0; k < kRows; ++k) {
    bool ok = true;
    for (int i = 0; i < n; ++i) ok &= got[k * n + i] == want[k * n + i];
    char name[16];
    std::snprintf(name, sizeof name, "row %d", k);
    report.check(name, ok, digest(&got[k * n], n * sizeof(uint64_t)));
  }
  return report.finish();
}
