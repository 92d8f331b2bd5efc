// Kernels that the driver-API programs load from files: as PTX text, as a fat binary, and as relocatable PTX
// for cuLink.
extern "C" __global__ void scramble(unsigned* v, int n, unsigned key) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = (v[i] ^ key) * 2654435761u;
}
extern "C" __global__ void accumulate(const unsigned* v, int n, unsigned long long* sum) {
  __shared__ unsigned long long part;
  if (threadIdx.x == 0) part = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&part, static_cast<unsigned long long>(v[i]));
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, part);
}
