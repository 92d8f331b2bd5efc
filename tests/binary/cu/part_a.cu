extern __device__ float scale(float);
__global__ void uses_scale(float* x) { *x = scale(*x); }
int main() { uses_scale<<<1, 1>>>(nullptr); }
