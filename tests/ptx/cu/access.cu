// Kernels with known access patterns, for access_test.cpp and access_exec_test.cpp. All parameters of kernels
// that run there are pointers to at least 1 MiB or numbers chosen by the test.
__global__ void copy_guarded(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void copy_unguarded(const double* in, double* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
}
__global__ void copy_unsigned(const char* in, char* out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = in[i];
}
__global__ void copy_long(const short* in, short* out, long long n) {
  long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void copy_reversed(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[n - 1 - i] = in[i];
}
__global__ void grid_stride(const float* in, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = in[i] * 2;
}
__global__ void row_copy(const float* in, float* out, int width, int height, int pitch) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * pitch + x] = in[y * width + x];
}
__global__ void stencil(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) out[i] = in[i - 1] + in[i] + in[i + 1];
}
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}
__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[8][8], tb[8][8];
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float sum = 0;
  for (int t = 0; t < n / 8; ++t) {
    ta[threadIdx.y][threadIdx.x] = a[y * n + t * 8 + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t * 8 + threadIdx.y) * n + x];
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[y * n + x] = sum;
}
__global__ void pointer_loop(const int* in, int* out, int rounds) {
  const int* p = in + threadIdx.x;
  int sum = 0;
  for (int i = 0; i < rounds; ++i, p += blockDim.x) sum += *p;
  out[threadIdx.x] = sum;
}
__global__ void backwards(int* data, int n) {
  for (int i = n - 1 - static_cast<int>(threadIdx.x); i >= 0; i -= blockDim.x) data[i] += 1;
}
__global__ void select_pointer(const int* a, const int* b, int* out, int which) {
  const int* p = which ? a : b;
  out[threadIdx.x] = p[threadIdx.x];
}
struct Tensors {
  float* data[4];
  int sizes[4];
};
__global__ void struct_fixed(Tensors t, float scale) {
  t.data[1][threadIdx.x] = t.data[2][threadIdx.x] * scale;
}
__global__ void struct_indexed(Tensors t) {
  float* p = t.data[blockIdx.x & 3];
  if (threadIdx.x < t.sizes[blockIdx.x & 3]) p[threadIdx.x] = 1;
}
__global__ void gather(const int* index, const float* table, float* out) {
  out[threadIdx.x] = table[index[threadIdx.x]];
}
__global__ void pointer_chase(int** table, int* out) { out[threadIdx.x] = *table[threadIdx.x]; }
__global__ void histogram(const unsigned char* in, int n, int* bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(bins + (i & 15), in[i]);
}
__global__ void warp_sums(const int* in, int* out) {
  int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if ((threadIdx.x & 31) == 0) out[blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)] = value;
}
__global__ void modulo(const int* in, int* out, int n, int period) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i % period] + in[i / period];
}
__global__ void clamped(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int left = max(i - 1, 0), right = min(i + 1, n - 1);
  if (i < n) out[i] = in[left] + in[right];
}
__global__ void local_pointers(int* a, int* b, int* c, int which) {
  int* list[3] = {a, b, c};
  list[which % 3][threadIdx.x] = which;
}
__global__ void vectors(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[n + i];
}
__global__ void only_scalars(int a, float b) {}
__device__ int counter;
__constant__ float factors[4];
__global__ void variables(float* out) {
  out[threadIdx.x] = factors[threadIdx.x & 3];
  atomicAdd(&counter, 1);
}
__global__ void spin(volatile int* flag, int* out) {
  while (*flag == 0) {
  }
  out[threadIdx.x] = 1;
}
__global__ void fence_system(int* data, int* flag) {
  data[threadIdx.x] = 1;
  __threadfence_system();
  *flag = 1;
}
__global__ void fence_device(int* data, int* flag) {
  data[threadIdx.x] = 1;
  __threadfence();
  *flag = 1;
}
__global__ void wrapping(char* data, unsigned step) {
  // 32-bit arithmetic that may wrap: bounds hold only when the launch's values prevent it.
  data[static_cast<unsigned>(threadIdx.x * step) >> 12] = 1;
  data[(threadIdx.x * step) & 1023] = 2;
}
__global__ void wrapping_signed(char* data, int step) {
  data[static_cast<int>(threadIdx.x) * step + 1000] = 1;
}
__global__ void triangle(float* data, int n) {
  int row = blockIdx.x;
  for (int column = threadIdx.x; column <= row; column += blockDim.x) data[row * n + column] += 1;
}
__global__ void doubling(int* data, int n) {
  for (int i = threadIdx.x + 1; i < n; i *= 2) data[i] = i;
}
