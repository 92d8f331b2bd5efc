// Kernels whose PTX structure parse_nvcc_test.cpp counts; keep names and signatures.
struct Pair {
  char tag;
  double value;
  int list[3];
};

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void __launch_bounds__(256, 2) by_value(Pair pair, char c, short s, float4 f, float4* out) {
  out[threadIdx.x] = make_float4(pair.value + c, s * f.x, pair.list[2] + f.y, pair.tag);
}

extern __shared__ float dynamic_shared[];
__global__ void tile_sum(const float* in, float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x] + dynamic_shared[threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) tile[threadIdx.x] += tile[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, tile[0]);
}

__global__ void jump_table(int* p, int which) {
  switch (which) {
    case 0:
      p[1] = p[2] * 3;
      break;
    case 1:
      p[4] = p[7] + 5;
      break;
    case 2:
      p[9] = p[0] - 1;
      break;
    case 3:
      p[16] = p[3] / 7;
      break;
    case 4:
      p[25] = p[5] ^ 9;
      break;
    case 5:
      p[36] = p[6] | 11;
      break;
    case 6:
      p[49] = p[8] & 13;
      break;
    case 7:
      p[64] = ~p[10];
      break;
    default:
      p[0] = -1;
  }
}

template <typename T>
__global__ void saxpy(T a, const T* __restrict__ x, T* __restrict__ y, unsigned long long n) {
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = a * x[i] + y[i];
}
template __global__ void saxpy<float>(float, const float*, float*, unsigned long long);
template __global__ void saxpy<double>(double, const double*, double*, unsigned long long);

__global__ void empty() {}
