// Kernels of the random programs. Order matters to each of them: doing two launches in the wrong order, twice
// or not at all changes the result.
#include <cstdint>

// Parameters of every size, with padding between them.
struct Odd {
  uint8_t a;
  uint16_t b;
  uint32_t c[5];
};

extern "C" __global__ void mix(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t k) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = out[i] * 1664525u + (a[i] ^ (b[i] + k)) + 1013904223u;
}

extern "C" __global__ void odd(uint32_t* out, uint8_t x, uint64_t y, Odd o, uint16_t z) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = out[i] * 22695477u + x + static_cast<uint32_t>(y >> 7) * z + o.a + o.b + o.c[i % 5] + 1u;
}

extern "C" __global__ void shift(uint32_t* out, const uint32_t* a, uint32_t k) {
  extern __shared__ uint32_t dynamic_words[];
  dynamic_words[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = out[threadIdx.x] * 69069u + dynamic_words[(threadIdx.x + k) % blockDim.x];
}

// Asks for more dynamic shared memory than it may have by default.
extern "C" __global__ void big(uint32_t* out, uint32_t k) {
  extern __shared__ uint32_t dynamic_words[];
  dynamic_words[threadIdx.x] = k;
  __syncthreads();
  out[threadIdx.x] = out[threadIdx.x] * 214013u + dynamic_words[(threadIdx.x + 1) % blockDim.x];
}

// For a host that watches: one word of mapped memory.
extern "C" __global__ void signal_host(volatile uint32_t* word, const uint32_t* a, uint32_t value) {
  if (threadIdx.x == 0) {
    word[1] = a[0];
    __threadfence_system();
    word[0] = value;
  }
}

__device__ uint32_t g_module_word;
extern "C" __global__ void use_global(uint32_t* out, uint32_t k) {
  const uint32_t i = threadIdx.x;
  out[i] = out[i] * 134775813u + g_module_word * (i + 1) + k;
}
