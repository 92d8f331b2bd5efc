// Every collective, type and operator over 1 to 8 ranks against a reference written for the test in exact or
// long arithmetic. Ranks are threads here and processes in the ctest entry nccl_collectives_processes.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>

#include "tests/nccl/ranks.h"

namespace simgpu::testing {
namespace {

struct TypeInfo {
  ncclDataType_t type;
  const char* name;
  size_t bytes;
  double epsilon;  // 0: integers, exact
};
constexpr TypeInfo kTypes[] = {{ncclInt8, "int8", 1, 0},
                               {ncclUint8, "uint8", 1, 0},
                               {ncclInt32, "int32", 4, 0},
                               {ncclUint32, "uint32", 4, 0},
                               {ncclInt64, "int64", 8, 0},
                               {ncclUint64, "uint64", 8, 0},
                               {ncclFloat16, "half", 2, 1.0 / 1024},
                               {ncclFloat32, "float", 4, 1.2e-7},
                               {ncclFloat64, "double", 8, 2.3e-16},
                               {ncclBfloat16, "bf16", 2, 1.0 / 128},
                               {ncclFloat8e4m3, "e4m3", 1, 1.0 / 8},
                               {ncclFloat8e5m2, "e5m2", 1, 1.0 / 4}};

// Conversions by the toolkit's host headers, not by simgpu's code.
double load(const TypeInfo& t, const uint8_t* p) {
  switch (t.type) {
    case ncclInt8:
      return *reinterpret_cast<const int8_t*>(p);
    case ncclUint8:
      return *p;
    case ncclInt32:
      return *reinterpret_cast<const int32_t*>(p);
    case ncclUint32:
      return *reinterpret_cast<const uint32_t*>(p);
    case ncclInt64:
      return static_cast<double>(*reinterpret_cast<const int64_t*>(p));
    case ncclUint64:
      return static_cast<double>(*reinterpret_cast<const uint64_t*>(p));
    case ncclFloat16:
      return __half2float(*reinterpret_cast<const __half*>(p));
    case ncclFloat32:
      return *reinterpret_cast<const float*>(p);
    case ncclFloat64:
      return *reinterpret_cast<const double*>(p);
    case ncclBfloat16:
      return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(p));
    case ncclFloat8e4m3:
      return static_cast<float>(*reinterpret_cast<const __nv_fp8_e4m3*>(p));
    default:
      return static_cast<float>(*reinterpret_cast<const __nv_fp8_e5m2*>(p));
  }
}
void store(const TypeInfo& t, uint8_t* p, double v) {
  switch (t.type) {
    case ncclInt8:
      *reinterpret_cast<int8_t*>(p) = static_cast<int8_t>(v);
      break;
    case ncclUint8:
      *p = static_cast<uint8_t>(v);
      break;
    case ncclInt32:
      *reinterpret_cast<int32_t*>(p) = static_cast<int32_t>(v);
      break;
    case ncclUint32:
      *reinterpret_cast<uint32_t*>(p) = static_cast<uint32_t>(v);
      break;
    case ncclInt64:
      *reinterpret_cast<int64_t*>(p) = static_cast<int64_t>(v);
      break;
    case ncclUint64:
      *reinterpret_cast<uint64_t*>(p) = static_cast<uint64_t>(v);
      break;
    case ncclFloat16:
      *reinterpret_cast<__half*>(p) = __float2half(static_cast<float>(v));
      break;
    case ncclFloat32:
      *reinterpret_cast<float*>(p) = static_cast<float>(v);
      break;
    case ncclFloat64:
      *reinterpret_cast<double*>(p) = v;
      break;
    case ncclBfloat16:
      *reinterpret_cast<__nv_bfloat16*>(p) = __float2bfloat16(static_cast<float>(v));
      break;
    case ncclFloat8e4m3:
      *reinterpret_cast<__nv_fp8_e4m3*>(p) = __nv_fp8_e4m3(static_cast<float>(v));
      break;
    default:
      *reinterpret_cast<__nv_fp8_e5m2*>(p) = __nv_fp8_e5m2(static_cast<float>(v));
  }
}

// Small positive values, so that products stay in range of every type and integers never wrap.
double input(const TypeInfo& t, int rank, size_t i) {
  const int v = 1 + static_cast<int>((i * 7 + static_cast<size_t>(rank) * 3) % 2);
  return t.epsilon > 0 && i % 3 == 0 ? v * 0.5 : v;
}

std::vector<uint8_t> inputs(const TypeInfo& t, int rank, size_t count) {
  std::vector<uint8_t> data(count * t.bytes);
  for (size_t i = 0; i < count; ++i) store(t, data.data() + i * t.bytes, input(t, rank, i));
  return data;
}

double reference(const TypeInfo& t, int op, int ranks, size_t i) {
  long double v = input(t, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const long double x = input(t, r, i);
    v = op == ncclProd ? v * x : op == ncclMax ? std::max(v, x) : op == ncclMin ? std::min(v, x) : v + x;
  }
  if (op == ncclAvg) v = t.epsilon > 0 ? v / ranks : std::floor(v / ranks);
  return static_cast<double>(v);
}

void expect_reduced(const TypeInfo& t, const std::vector<uint8_t>& out, int op, int ranks, size_t first,
                    size_t n, const char* what) {
  for (size_t i = 0; i < n; ++i) {
    const double want = reference(t, op, ranks, first + i), got = load(t, out.data() + i * t.bytes);
    // e4m3 saturates at 448: the reference does too.
    const double limit = t.type == ncclFloat8e4m3 ? std::min(want, 448.0) : want;
    ASSERT_NEAR(got, limit, t.epsilon * ranks * std::max(1.0, std::fabs(limit)))
        << what << " " << t.name << " op " << op << " ranks " << ranks << " element " << first + i;
  }
}

class Reductions : public ::testing::TestWithParam<int> {};

TEST_P(Reductions, EveryTypeAndOperator) {
  const int ranks = GetParam();
  // Results by rank, for threads and processes alike. The collectives order the accesses.
  constexpr size_t kLargest = 40001 * 8;
  auto* const results =
      static_cast<uint8_t*>(mmap(nullptr, kLargest * static_cast<size_t>(ranks), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(results, MAP_FAILED);
  on_ranks(ranks, [&](Rank& me) {
    for (const TypeInfo& t : kTypes) {
      for (int op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
        for (size_t count : {size_t{5}, size_t{40001}}) {  // a tree, and a ring with uneven chunks
          if (count > 100 && op != ncclSum && op != ncclAvg) continue;
          const auto data = inputs(t, me.rank, count);
          void* in = me.upload(data.data(), data.size());
          void* out = me.upload(data.data(), data.size());
          ASSERT_EQ(ncclAllReduce(in, out, count, t.type, static_cast<ncclRedOp_t>(op), me.comm, me.stream),
                    ncclSuccess);
          ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
          const auto result = me.download<uint8_t>(out, data.size());
          expect_reduced(t, result, op, me.ranks, 0, count, "AllReduce");
          memcpy(results + static_cast<size_t>(me.rank) * kLargest, result.data(), result.size());
          ASSERT_EQ(ncclAllReduce(in, in, count, t.type, static_cast<ncclRedOp_t>(op), me.comm, me.stream),
                    ncclSuccess);
          ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
          EXPECT_EQ(me.download<uint8_t>(in, data.size()), result) << "in place differs";
          EXPECT_EQ(memcmp(results + static_cast<size_t>((me.rank + 1) % me.ranks) * kLargest, result.data(),
                           result.size()),
                    0)
              << "ranks differ";
          // Nobody overwrites its entry before all have compared.
          ASSERT_EQ(ncclAllReduce(in, out, 1, ncclInt8, ncclMax, me.comm, me.stream), ncclSuccess);
          ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
          cudaFree(in);
          cudaFree(out);
        }
      }
    }
  });
  munmap(results, kLargest * static_cast<size_t>(ranks));
}

TEST_P(Reductions, ReduceAndReduceScatter) {
  on_ranks(GetParam(), [](Rank& me) {
    const size_t count = 77;
    for (const TypeInfo& t : kTypes) {
      for (int op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
        const int root = (op + 1) % me.ranks;
        const auto data = inputs(t, me.rank, count);
        void* in = me.upload(data.data(), data.size());
        void* out = me.upload(data.data(), data.size());
        const auto all = inputs(t, me.rank, count * static_cast<size_t>(me.ranks));
        void* many = me.upload(all.data(), all.size());
        void* part = me.upload(all.data(), count * t.bytes);
        const auto what = static_cast<ncclRedOp_t>(op);
        ASSERT_EQ(ncclReduce(in, out, count, t.type, what, root, me.comm, me.stream), ncclSuccess);
        ASSERT_EQ(ncclReduceScatter(many, part, count, t.type, what, me.comm, me.stream), ncclSuccess);
        ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
        const auto result = me.download<uint8_t>(out, data.size());
        if (me.rank == root)
          expect_reduced(t, result, op, me.ranks, 0, count, "Reduce");
        else
          EXPECT_EQ(result, data) << "Reduce wrote on a rank that is not the root";
        expect_reduced(t, me.download<uint8_t>(part, count * t.bytes), op, me.ranks,
                       count * static_cast<size_t>(me.rank), count, "ReduceScatter");
        for (void* p : {in, out, many, part}) cudaFree(p);
      }
    }
  });
}

// A scalar of each type, in front of a sum.
TEST_P(Reductions, PreMulSumOfEveryType) {
  on_ranks(GetParam(), [](Rank& me) {
    const size_t count = 33;
    for (const TypeInfo& t : kTypes) {
      const auto data = inputs(t, me.rank, count);
      void* p = me.upload(data.data(), data.size());
      uint8_t two[8] = {};
      store(t, two, 2);
      ncclRedOp_t op;
      ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, two, t.type, ncclScalarHostImmediate, me.comm), ncclSuccess);
      ASSERT_EQ(ncclAllReduce(p, p, count, t.type, op, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclRedOpDestroy(op, me.comm), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
      const auto out = me.download<uint8_t>(p, data.size());
      for (size_t i = 0; i < count; ++i) {
        const double want = 2 * reference(t, ncclSum, me.ranks, i);
        ASSERT_NEAR(load(t, out.data() + i * t.bytes), want, t.epsilon * me.ranks * std::max(1.0, want))
            << t.name;
      }
      cudaFree(p);
    }
  });
}

// Every type moves its own bytes: each byte says where it comes from.
TEST_P(Reductions, DataMovement) {
  on_ranks(GetParam(), [](Rank& me) {
    const size_t ranks = static_cast<size_t>(me.ranks), n = 301, self = static_cast<size_t>(me.rank);
    const int root = me.ranks - 1;
    for (const TypeInfo& t : kTypes) {
      const size_t block = n * t.bytes;
      const auto value = [](size_t rank, size_t i) {
        return static_cast<uint8_t>(31 * rank + 7 * i + i / 251 + 1);
      };
      std::vector<uint8_t> mine(block * ranks);
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = value(self, i);
      const std::vector<uint8_t> nothing(block * ranks, 0);
      void* in = me.upload(mine.data(), mine.size());
      std::vector<void*> out;
      for (int k = 0; k < 6; ++k) out.push_back(me.upload(nothing.data(), nothing.size()));
      ASSERT_EQ(ncclAllGather(in, out[0], n, t.type, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclAlltoAll(in, out[1], n, t.type, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclBroadcast(in, out[2], n, t.type, root, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclGather(in, out[3], n, t.type, root, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclScatter(in, out[4], n, t.type, root, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(ncclSend(in, n, t.type, (me.rank + 1) % me.ranks, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(out[5], n, t.type, (me.rank + me.ranks - 1) % me.ranks, me.comm, me.stream),
                ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
      std::vector<std::vector<uint8_t>> got;
      for (void* p : out) got.push_back(me.download<uint8_t>(p, block * ranks));
      const size_t from = static_cast<size_t>(root), before = (self + ranks - 1) % ranks;
      for (size_t r = 0; r < ranks; ++r)
        for (size_t i = 0; i < block; ++i) {
          ASSERT_EQ(got[0][r * block + i], value(r, i)) << "AllGather " << t.name;
          ASSERT_EQ(got[1][r * block + i], value(r, self * block + i)) << "AlltoAll " << t.name;
          ASSERT_EQ(got[3][r * block + i], me.rank == root ? value(r, i) : 0) << "Gather " << t.name;
        }
      for (size_t i = 0; i < block * ranks; ++i) {
        ASSERT_EQ(got[2][i], i < block ? value(from, i) : 0) << "Broadcast " << t.name;
        ASSERT_EQ(got[4][i], i < block ? value(from, self * block + i) : 0) << "Scatter " << t.name;
        ASSERT_EQ(got[5][i], i < block ? value(before, i) : 0) << "Send, Recv " << t.name;
      }
      cudaFree(in);
      for (void* p : out) cudaFree(p);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, Reductions, ::testing::Range(1, 9));

// Any memory the device reaches: pinned, managed, from a pool, mapped from handles; also for other processes.
TEST(Memory, EveryKindTakesPart) {
  on_ranks(2, [](Rank& me) {
    constexpr size_t kCount = 5000, kBytes = size_t{2} << 20;
    const std::vector<int> data(kCount, 1 + me.rank);
    std::vector<void*> kinds(4);
    ASSERT_EQ(cudaMallocHost(&kinds[0], kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocManaged(&kinds[1], kBytes, cudaMemAttachGlobal), cudaSuccess);
    ASSERT_EQ(cudaMallocAsync(&kinds[2], kBytes, me.stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {me.rank}};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr mapped = 0;
    ASSERT_EQ(cuMemCreate(&handle, kBytes, &prop, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&mapped, kBytes, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(mapped, kBytes, 0, handle, 0), CUDA_SUCCESS);
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_EQ(cuMemSetAccess(mapped, kBytes, &access, 1), CUDA_SUCCESS);
    kinds[3] = reinterpret_cast<void*>(mapped);
    for (size_t k = 0; k < kinds.size(); ++k) {
      void* p = kinds[k];
      ASSERT_EQ(cudaMemcpy(p, data.data(), kCount * 4, cudaMemcpyDefault), cudaSuccess);
      ASSERT_EQ(ncclAllReduce(p, p, kCount, ncclInt32, ncclSum, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess) << "kind " << k;
      std::vector<int> out(kCount);
      ASSERT_EQ(cudaMemcpy(out.data(), p, kCount * 4, cudaMemcpyDefault), cudaSuccess);
      ASSERT_EQ(out, std::vector<int>(kCount, 3)) << "kind " << k;
      ASSERT_EQ(me.rank ? ncclSend(p, kCount, ncclInt32, 0, me.comm, me.stream)
                        : ncclRecv(p, kCount, ncclInt32, 1, me.comm, me.stream),
                ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess) << "kind " << k;
    }
    EXPECT_EQ(cuMemUnmap(mapped, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(mapped, kBytes), CUDA_SUCCESS);
    cudaFreeHost(kinds[0]);
    cudaFree(kinds[1]);
    cudaFree(kinds[2]);
  });
}

TEST(Operators, PreMulSumTakesHostAndDeviceScalars) {
  on_ranks(3, [](Rank& me) {
    std::vector<float> data(100, 2.0f + static_cast<float>(me.rank));
    void* in = me.upload(data.data(), 400);
    void* out = me.upload(data.data(), 400);
    float scalar = 0.5f;
    void* on_device = me.upload(&scalar, 4);
    for (bool device : {false, true}) {
      ncclRedOp_t op;
      ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, device ? on_device : &scalar, ncclFloat,
                                         device ? ncclScalarDevice : ncclScalarHostImmediate, me.comm),
                ncclSuccess);
      ASSERT_EQ(ncclAllReduce(in, out, 100, ncclFloat, op, me.comm, me.stream), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
      for (float v : me.download<float>(out, 100)) ASSERT_EQ(v, 0.5f * (2 + 3 + 4));
      EXPECT_EQ(ncclAllReduce(in, out, 100, ncclDouble, op, me.comm, me.stream), ncclInvalidArgument);
      ASSERT_EQ(ncclRedOpDestroy(op, me.comm), ncclSuccess);
      EXPECT_EQ(ncclRedOpDestroy(op, me.comm), ncclInvalidArgument);
      EXPECT_EQ(ncclAllReduce(in, out, 100, ncclFloat, op, me.comm, me.stream), ncclInvalidArgument);
    }
  });
}

// Operations of a group within four times of each other's size share one choice of the algorithm: bits
// change, as NCCL's do. Alone this one is reduced by a tree, with another of its size by a ring.
TEST(Operators, GroupingChangesBits) {
  on_ranks(4, [](Rank& me) {
    const size_t n = 6000;  // 24000 bytes: below the tree's limit, two together above
    const float values[] = {1e8f, 1.0f, -1e8f, 3.0f};
    const std::vector<float> data(n, values[me.rank]);
    const auto reduce = [&](const std::vector<size_t>& group) {
      std::vector<void*> buffers;
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (const size_t count : group) {
        const std::vector<float> large(count, values[me.rank]);
        buffers.push_back(me.upload(large.data(), count * 4));
        EXPECT_EQ(
            ncclAllReduce(buffers.back(), buffers.back(), count, ncclFloat, ncclSum, me.comm, me.stream),
            ncclSuccess);
      }
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
      return me.download<float>(buffers[0], n);
    };
    const auto alone = reduce({n}), pair = reduce({n, n}), far = reduce({n, 4 * n}),
               near = reduce({n, 4 * n - 1});
    EXPECT_EQ(alone, far) << "four times as large is another choice";
    EXPECT_EQ(pair, near);
    EXPECT_NE(alone, pair);
  });
}

// The order of additions is a ring's: with values of very different size another order has other bits.
TEST(Operators, OrderOfTheRingShowsInTheBits) {
  on_ranks(4, [](Rank& me) {
    const size_t n = 40000;  // above the tree's limit
    const float values[] = {1e8f, 1.0f, -1e8f, 3.0f};
    std::vector<float> data(n, values[me.rank]);
    void* in = me.upload(data.data(), n * 4);
    ASSERT_EQ(ncclAllReduce(in, in, n, ncclFloat, ncclSum, me.comm, me.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(me.stream), cudaSuccess);
    const auto out = me.download<float>(in, n);
    for (int chunk = 0; chunk < 4; ++chunk) {
      float sum = values[(chunk + 1) % 4];
      for (int k = 2; k <= 4; ++k) sum += values[(chunk + k) % 4];
      ASSERT_EQ(out[static_cast<size_t>(chunk) * 10000 + 5], sum) << chunk;
    }
    EXPECT_NE(out[5], out[10005]);
  });
}

}  // namespace
}  // namespace simgpu::testing
