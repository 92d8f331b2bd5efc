// One process of a data-parallel job, as any launcher starts it: rank and size from the launcher's variables,
// the NCCL id through a file that all ranks see (JOB_ID_FILE, default in /tmp by job), device = local rank
// modulo the visible devices. Alone it is rank 0 of 1.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

#define NCCL(call)                                                                                     \
  do {                                                                                                 \
    ncclResult_t result_ = (call);                                                                     \
    if (result_ != ncclSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(result_)); \
      std::exit(1);                                                                                    \
    }                                                                                                  \
  } while (0)

static int first_of(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return otherwise;
}

static ncclUniqueId shared_id(int rank) {
  ncclUniqueId id{};
  const char* given = std::getenv("JOB_ID_FILE");
  const std::string file =
      given ? given : "/tmp/job_rank." + std::to_string(rank == 0 ? getpid() : getppid());
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    const std::string partial = file + ".partial";
    FILE* out = std::fopen(partial.c_str(), "wb");
    if (!out || std::fwrite(&id, sizeof id, 1, out) != 1 || std::fclose(out) != 0) std::exit(3);
    if (std::rename(partial.c_str(), file.c_str()) != 0) std::exit(3);
    return id;
  }
  for (int tries = 0; tries < 3000; ++tries, usleep(10000)) {
    FILE* in = std::fopen(file.c_str(), "rb");
    if (!in) continue;
    const bool whole = std::fread(&id, sizeof id, 1, in) == 1;
    std::fclose(in);
    if (whole) return id;
  }
  std::fprintf(stderr, "rank %d: no NCCL id in %s after 30 s\n", rank, file.c_str());
  std::exit(3);
}

__global__ void gradient(float* g, int n, int rank, int step) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) g[i] = float((i % 97) + rank * 3 + step);
}

__global__ void apply(float* w, const float* g, int n, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] += g[i] * scale;
}

int main() {
  const int rank = first_of({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
  const int size = first_of({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1);
  const int local =
      first_of({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0);
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  const int device = local % devices;
  CUDA(cudaSetDevice(device));
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, device));
  const int n = 1 << 14, steps = 6;
  float *w, *g;
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&w, n * sizeof(float)));
  CUDA(cudaMalloc(&g, n * sizeof(float)));
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, size, shared_id(rank), rank));
  CUDA(cudaMemsetAsync(w, 0, n * sizeof(float), stream));
  for (int step = 0; step < steps; ++step) {
    gradient<<<n / 256, 256, 0, stream>>>(g, n, rank, step);
    NCCL(ncclAllReduce(g, g, n, ncclFloat, ncclSum, comm, stream));
    apply<<<n / 256, 256, 0, stream>>>(w, g, n, 0.5f);
  }
  std::vector<float> host(n);
  CUDA(cudaMemcpyAsync(host.data(), w, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    float want = 0;  // whole and half numbers below 2^24: exact in any order
    for (int step = 0; step < steps; ++step)
      want += 0.5f * float(size * ((i % 97) + step) + 3 * size * (size - 1) / 2);
    wrong += host[i] != want;
  }
  CUDA(cudaFree(w));
  CUDA(cudaFree(g));
  NCCL(ncclCommDestroy(comm));
  char uuid[40];
  const auto* b = reinterpret_cast<const unsigned char*>(properties.uuid.bytes);
  std::snprintf(uuid, sizeof uuid, "GPU-%02x%02x%02x%02x", b[0], b[1], b[2], b[3]);
  if (std::getenv("JOB_SHOW_DEVICE")) std::printf("rank %d of %d device %s\n", rank, size, uuid);
  std::printf("rank %d of %d: %s\n", rank, size, wrong ? "WRONG" : "ok");
  std::printf(wrong ? "FAILED\n" : "PASSED\n");
  return wrong != 0;
}
