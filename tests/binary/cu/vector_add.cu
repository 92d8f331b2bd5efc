// One kernel and a host program around it, as nvcc packs them.
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
int main() { vector_add<<<1, 1>>>(nullptr, nullptr, nullptr, 0); }
