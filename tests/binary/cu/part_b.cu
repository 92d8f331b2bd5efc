__device__ float factor = 3.0f;
__device__ float scale(float x) { return x * factor; }
