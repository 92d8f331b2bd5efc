// Four streams joined by events, host functions in stream order, queries, priorities and timing.
#include "check.h"

__global__ void mix(unsigned* v, int n, unsigned key) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) v[i] = v[i] * 1664525u + key;
}
__global__ void combine(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] ^ (b[i] << 1);
}

struct Log {
  int order[8];
  int count = 0;
};
struct Note {
  Log* log;
  int value;
};
void append(void* p) {
  Note* note = static_cast<Note*>(p);
  note->log->order[note->log->count++] = note->value;
}

int main() {
  Report report;
  const int n = 20000, streams = 4;
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  report.check("priority range", greatest <= least);
  cudaStream_t stream[streams];
  for (int s = 0; s < streams; ++s) {
    CUDA(cudaStreamCreateWithPriority(&stream[s], cudaStreamNonBlocking, s % 2 ? greatest : least));
  }
  std::vector<unsigned> host[streams];
  unsigned *pinned[streams], *device[streams], *out, *result;
  for (int s = 0; s < streams; ++s) {
    Random random(14 + s);
    host[s].resize(n);
    CUDA(cudaMallocHost(&pinned[s], n * sizeof(unsigned)));
    CUDA(cudaMalloc(&device[s], n * sizeof(unsigned)));
    for (int i = 0; i < n; ++i) pinned[s][i] = host[s][i] = random.next();
  }
  CUDA(cudaMalloc(&out, n * sizeof(unsigned)));
  CUDA(cudaMallocHost(&result, n * sizeof(unsigned)));

  cudaEvent_t start, stop, done[streams];
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&stop));
  for (auto& e : done) CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));

  CUDA(cudaEventRecord(start, stream[0]));
  for (int s = 0; s < streams; ++s) {
    CUDA(cudaMemcpyAsync(device[s], pinned[s], n * sizeof(unsigned), cudaMemcpyHostToDevice, stream[s]));
    for (unsigned k = 0; k < 3; ++k) mix<<<(n + 255) / 256, 256, 0, stream[s]>>>(device[s], n, s * 10u + k);
    CUDA(cudaEventRecord(done[s], stream[s]));
  }
  // A chain across streams: 1 waits for 0, 2 for 1, 3 for 2.
  for (int s = 1; s < streams; ++s) {
    CUDA(cudaStreamWaitEvent(stream[s], done[s - 1], 0));
    combine<<<(n + 127) / 128, 128, 0, stream[s]>>>(device[s - 1], device[s],
                                                    s == streams - 1 ? out : device[s], n);
    CUDA(cudaEventRecord(done[s], stream[s]));
  }
  Log log;
  Note notes[3] = {{&log, 11}, {&log, 22}, {&log, 33}};
  CUDA(cudaLaunchHostFunc(stream[3], append, &notes[0]));
  CUDA(cudaMemcpyAsync(result, out, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream[3]));
  CUDA(cudaLaunchHostFunc(stream[3], append, &notes[1]));
  CUDA(cudaLaunchHostFunc(stream[3], append, &notes[2]));
  CUDA(cudaStreamWaitEvent(stream[0], done[3], 0));
  CUDA(cudaEventRecord(stop, stream[0]));
  CUDA(cudaStreamSynchronize(stream[3]));
  CUDA(cudaEventSynchronize(stop));

  std::vector<unsigned> value[streams];
  for (int s = 0; s < streams; ++s) {
    value[s] = host[s];
    for (unsigned& v : value[s]) {
      for (unsigned k = 0; k < 3; ++k) v = v * 1664525u + s * 10u + k;
    }
  }
  for (int s = 1; s < streams; ++s) {
    for (int i = 0; i < n; ++i) value[s][i] = value[s - 1][i] ^ (value[s][i] << 1);
  }
  report.check("chain of streams", std::memcmp(result, value[streams - 1].data(), n * sizeof(unsigned)) == 0,
               digest(result, n * sizeof(unsigned)));
  report.check("host functions in order",
               log.count == 3 && log.order[0] == 11 && log.order[1] == 22 && log.order[2] == 33);
  report.check("stream is idle",
               cudaStreamQuery(stream[3]) == cudaSuccess && cudaEventQuery(stop) == cudaSuccess);
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, start, stop));
  report.check("time passed", ms > 0 && ms < 60000);
  report.check("untimed event has no time",
               cudaEventElapsedTime(&ms, start, done[0]) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  int priority;
  unsigned flags;
  CUDA(cudaStreamGetPriority(stream[1], &priority));
  CUDA(cudaStreamGetFlags(stream[1], &flags));
  report.check("stream properties", priority == greatest && flags == cudaStreamNonBlocking);
  for (auto& s : stream) CUDA(cudaStreamDestroy(s));
  for (auto& e : done) CUDA(cudaEventDestroy(e));
  return report.finish();
}
