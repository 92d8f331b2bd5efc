// -rdc=true: functions and variables of other files.
extern __device__ int other_variable;
extern __device__ float other_function(float, const int*);
__device__ int own_variable = 5;
__device__ float exported(float x) { return x + own_variable; }
__global__ void uses_other(float* out) {
  out[0] = other_function(out[1], &other_variable) + exported(out[2]);
}
