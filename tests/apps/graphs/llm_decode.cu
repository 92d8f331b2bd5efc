// One token after another through a small transformer: about 60 kernels a token, a position argument that
// grows, and the chosen token read back before the next one. -DHAND_CAPTURED: the same kernels in one graph,
// the position in memory.
#include "loop.h"

namespace {

constexpr int kWidth = 64, kHidden = 128, kLayers = 5, kContext = 512, kWords = 96;

// The position by value, or where to read it (the twin's graph must not bake it in).
struct Position {
  int value;
  const int* where;
  __device__ int get() const { return where ? *where : value; }
};

__global__ void embed(float* x, const float* table, const int* token) {
  x[threadIdx.x] = table[*token * kWidth + threadIdx.x];
}

__global__ void rms_norm(float* out, const float* x) {
  __shared__ float sum[kWidth];
  sum[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
  __syncthreads();
  for (int step = kWidth / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sum[threadIdx.x] += sum[threadIdx.x + step];
    __syncthreads();
  }
  out[threadIdx.x] = x[threadIdx.x] * rsqrtf(sum[0] / kWidth + 1e-5f);
}

__global__ void matvec(float* out, const float* w, const float* x, int columns, const float* add) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = add ? add[row] : 0;
  for (int c = 0; c < columns; ++c) sum += w[c * gridDim.x * blockDim.x + row] * x[c];
  out[row] = sum;
}

__global__ void rotate(float* q, float* k, Position position) {
  const int i = threadIdx.x;
  const float angle = position.get() * powf(10000.0f, -2.0f * i / kWidth);
  const float c = cosf(angle), s = sinf(angle);
  const float q0 = q[2 * i], q1 = q[2 * i + 1], k0 = k[2 * i], k1 = k[2 * i + 1];
  q[2 * i] = q0 * c - q1 * s;
  q[2 * i + 1] = q0 * s + q1 * c;
  k[2 * i] = k0 * c - k1 * s;
  k[2 * i + 1] = k0 * s + k1 * c;
}

__global__ void append(float* keys, float* values, const float* k, const float* v, Position position) {
  const int at = position.get() * kWidth + threadIdx.x;
  keys[at] = k[threadIdx.x];
  values[at] = v[threadIdx.x];
}

__global__ void scores(float* out, const float* q, const float* keys, Position position) {
  for (int t = threadIdx.x; t <= position.get(); t += blockDim.x) {
    float sum = 0;
    for (int i = 0; i < kWidth; ++i) sum += q[i] * keys[t * kWidth + i];
    out[t] = expf(sum * 0.125f);
  }
}

__global__ void attend(float* out, const float* weights, const float* values, Position position) {
  float sum = 0, total = 0;
  for (int t = 0; t <= position.get(); ++t) {
    sum += weights[t] * values[t * kWidth + threadIdx.x];
    total += weights[t];
  }
  out[threadIdx.x] = sum / total;
}

__global__ void silu(float* x) { x[threadIdx.x] = x[threadIdx.x] / (1 + expf(-x[threadIdx.x])); }

__global__ void pick(int* token, int* history, const float* logits, Position position) {
  int best = 0;
  for (int i = 1; i < kWords; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  *token = best;
  history[position.get()] = best;
}

[[maybe_unused]] __global__ void advance(int* position) { ++*position; }

struct Model {
  float *table, *head, *wq[kLayers], *wk[kLayers], *wv[kLayers], *wo[kLayers], *up[kLayers], *down[kLayers];
  float *keys[kLayers], *values[kLayers], *x, *n, *q, *k, *v, *a, *h, *w, *logits;
  int *token, *history;
};

void decode(const Model& m, Position position, cudaStream_t s) {
  embed<<<1, kWidth, 0, s>>>(m.x, m.table, m.token);
  for (int l = 0; l < kLayers; ++l) {
    rms_norm<<<1, kWidth, 0, s>>>(m.n, m.x);
    matvec<<<1, kWidth, 0, s>>>(m.q, m.wq[l], m.n, kWidth, nullptr);
    matvec<<<1, kWidth, 0, s>>>(m.k, m.wk[l], m.n, kWidth, nullptr);
    matvec<<<1, kWidth, 0, s>>>(m.v, m.wv[l], m.n, kWidth, nullptr);
    rotate<<<1, kWidth / 2, 0, s>>>(m.q, m.k, position);
    append<<<1, kWidth, 0, s>>>(m.keys[l], m.values[l], m.k, m.v, position);
    scores<<<1, 64, 0, s>>>(m.w, m.q, m.keys[l], position);
    attend<<<1, kWidth, 0, s>>>(m.a, m.w, m.values[l], position);
    matvec<<<1, kWidth, 0, s>>>(m.x, m.wo[l], m.a, kWidth, m.x);
    matvec<<<2, kHidden / 2, 0, s>>>(m.h, m.up[l], m.x, kWidth, nullptr);
    silu<<<1, kHidden, 0, s>>>(m.h);
    matvec<<<1, kWidth, 0, s>>>(m.x, m.down[l], m.h, kHidden, m.x);
  }
  matvec<<<3, kWords / 3, 0, s>>>(m.logits, m.head, m.x, kWidth, nullptr);
  pick<<<1, 1, 0, s>>>(m.token, m.history, m.logits, position);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv, 24);
  if (a.iterations < 1 || a.iterations > kContext) return 2;
  Model m;
  m.table = upload(ramp(kWords * kWidth, 2));
  m.head = upload(ramp(kWords * kWidth, 1));
  for (int l = 0; l < kLayers; ++l) {
    for (float** w : {&m.wq[l], &m.wk[l], &m.wv[l], &m.wo[l]})
      *w = upload(ramp(kWidth * kWidth, 0.3f + 0.01f * l));
    m.up[l] = upload(ramp(kWidth * kHidden, 0.3f));
    m.down[l] = upload(ramp(kWidth * kHidden, 0.2f));
    m.keys[l] = zeros(kContext * kWidth);
    m.values[l] = zeros(kContext * kWidth);
  }
  for (float** p : {&m.x, &m.n, &m.q, &m.k, &m.v, &m.a, &m.h, &m.w, &m.logits}) *p = zeros(kContext);
  m.token = reinterpret_cast<int*>(zeros(1));
  m.history = reinterpret_cast<int*>(zeros(kContext));
  cudaStream_t s;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  int* token;
  CHECK(cudaMallocHost(&token, sizeof(int)));
#ifdef HAND_CAPTURED
  int* position = reinterpret_cast<int*>(zeros(1));
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  decode(m, {0, position}, s);
  advance<<<1, 1, 0, s>>>(position);
  CHECK(cudaMemcpyAsync(token, m.token, sizeof(int), cudaMemcpyDeviceToHost, s));
  cudaGraphExec_t exec = finish_capture(s);
#endif
  CHECK(cudaDeviceSynchronize());
  Stopwatch watch(s);
  unsigned long sum = 0;
  for (int i = 0; i < a.iterations; ++i) {
#ifdef HAND_CAPTURED
    CHECK(cudaGraphLaunch(exec, s));
#else
    decode(m, {i, nullptr}, s);
    CHECK(cudaMemcpyAsync(token, m.token, sizeof(int), cudaMemcpyDeviceToHost, s));
#endif
    CHECK(cudaStreamSynchronize(s));
    sum = sum * 131 + static_cast<unsigned long>(*token);
  }
  CHECK(cudaGetLastError());
  std::printf("tokens %d digest %016lx %016lx\n", a.iterations, sum,
              static_cast<unsigned long>(digest(m.logits, kWords)));
  watch.report(s, a);
  return 0;
}
