#include <sys/mman.h>

#include <cstring>

#include "tests/driver/driver_test.h"

using driver_test::Driver;

TEST_F(Driver, AllocationsAreAlignedZeroedAndCounted) {
  size_t before = 0, total = 0, after = 0;
  OK(cuMemGetInfo(&before, &total));
  EXPECT_GT(total, size_t{150} << 30);
  CUdeviceptr p = 0;
  OK(cuMemAlloc(&p, size_t{64} << 20));
  EXPECT_EQ(p % 512, 0u);
  OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before - after, size_t{64} << 20);
  std::vector<char> bytes(4096, 1);
  OK(cuMemcpyDtoH(bytes.data(), p + 1000, bytes.size()));
  EXPECT_EQ(std::vector<char>(4096, 0), bytes);
  OK(cuMemFree(p));
  OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

TEST_F(Driver, WholeDeviceCanBeTakenAndNoMore) {
  size_t free_bytes = 0, total = 0;
  OK(cuMemGetInfo(&free_bytes, &total));
  CUdeviceptr p = 0, q = 0;
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, total + 1));
  OK(cuMemAlloc(&p, free_bytes));
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 1));
  OK(cuMemFree(p));
  OK(cuMemAlloc(&q, 1));
  OK(cuMemFree(q));
}

TEST_F(Driver, ArgumentErrors) {
  CUdeviceptr p = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(nullptr, 4));
  OK(cuMemFree(0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x1234));
  OK(cuMemAlloc(&p, 100));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 4));
  int x = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p + 98, &x, 4));  // leaves the allocation
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p + (1 << 20), &x, 4));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p + 1, 0, 1));  // misaligned
  OK(cuMemFree(p));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));            // twice
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&x, p, 4));  // after free
}

#ifdef __SANITIZE_ADDRESS__
// The sanitizer takes the signal, says so and exits by itself.
#define ENDS_WITH_SEGV(statement) EXPECT_DEATH(statement, "SEGV")
#else
#define ENDS_WITH_SEGV(statement) EXPECT_EXIT(statement, testing::KilledBySignal(SIGSEGV), "")
#endif
TEST_F(Driver, HostCannotTouchDeviceMemory) {
  CUdeviceptr p = 0;
  OK(cuMemAlloc(&p, 4096));
  volatile int* pointer = reinterpret_cast<volatile int*>(p);
  ENDS_WITH_SEGV({ *pointer = 1; });
  ENDS_WITH_SEGV({ exit(*pointer); });
}

TEST_F(Driver, CopiesInEveryDirection) {
  CUdeviceptr a = 0, b = 0;
  OK(cuMemAlloc(&a, 4096));
  OK(cuMemAlloc(&b, 4096));
  std::vector<int> in(1024), out(1024);
  for (int i = 0; i < 1024; ++i) in[size_t(i)] = i * 3;
  OK(cuMemcpyHtoD(a, in.data(), 4096));
  OK(cuMemcpyDtoD(b, a, 4096));
  OK(cuMemcpyDtoH(out.data(), b, 4096));
  EXPECT_EQ(in, out);
  // Unified forms find the direction themselves.
  std::fill(out.begin(), out.end(), 0);
  OK(cuMemsetD8(b, 0, 4096));
  OK(cuMemcpy(b, reinterpret_cast<CUdeviceptr>(in.data()), 4096));
  OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(out.data()), b, 4096));
  EXPECT_EQ(in, out);
}

TEST_F(Driver, PitchedAndThreeDimensionalCopies) {
  CUdeviceptr p = 0;
  size_t pitch = 0;
  OK(cuMemAllocPitch(&p, &pitch, 100, 7, 4));
  EXPECT_GE(pitch, 100u);
  EXPECT_EQ(pitch % 512, 0u);
  std::vector<unsigned char> in(100 * 7), out(100 * 7);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 7);
  CUDA_MEMCPY2D c = {};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = in.data();
  c.srcPitch = 100;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = p;
  c.dstPitch = pitch;
  c.WidthInBytes = 100;
  c.Height = 7;
  OK(cuMemcpy2D(&c));
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = p;
  back.srcPitch = pitch;
  back.srcXInBytes = 10;
  back.srcY = 2;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = out.data();
  back.dstPitch = 100;
  back.WidthInBytes = 50;
  back.Height = 3;
  OK(cuMemcpy2D(&back));
  for (size_t y = 0; y < 3; ++y) {
    for (size_t x = 0; x < 50; ++x) ASSERT_EQ(out[y * 100 + x], in[(y + 2) * 100 + x + 10]);
  }
  EXPECT_EQ(out[50], 0);
  OK(cuMemsetD2D32(p, pitch, 0x01020304, 5, 7));
  unsigned word = 0;
  OK(cuMemcpyDtoH(&word, p + 6 * pitch + 16, 4));
  EXPECT_EQ(word, 0x01020304u);
  // 3-D: 4 x 3 x 2 box inside a larger one.
  std::vector<unsigned char> big(8 * 6 * 4), small(4 * 3 * 2);
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<unsigned char>(i);
  CUdeviceptr d = 0;
  OK(cuMemAlloc(&d, big.size()));
  OK(cuMemcpyHtoD(d, big.data(), big.size()));
  CUDA_MEMCPY3D q = {};
  q.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  q.srcDevice = d;
  q.srcPitch = 8;
  q.srcHeight = 6;
  q.srcXInBytes = 2;
  q.srcY = 1;
  q.srcZ = 1;
  q.dstMemoryType = CU_MEMORYTYPE_HOST;
  q.dstHost = small.data();
  q.dstPitch = 4;
  q.dstHeight = 3;
  q.WidthInBytes = 4;
  q.Height = 3;
  q.Depth = 2;
  OK(cuMemcpy3D(&q));
  for (size_t z = 0; z < 2; ++z) {
    for (size_t y = 0; y < 3; ++y) {
      for (size_t x = 0; x < 4; ++x)
        ASSERT_EQ(small[(z * 3 + y) * 4 + x], big[((z + 1) * 6 + y + 1) * 8 + x + 2]);
    }
  }
}

TEST_F(Driver, PinnedRegisteredAndManagedMemory) {
  int* pinned = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 4096, CU_MEMHOSTALLOC_PORTABLE));
  CUdeviceptr device_view = 0;
  OK(cuMemHostGetDevicePointer(&device_view, pinned, 0));
  EXPECT_EQ(device_view, reinterpret_cast<CUdeviceptr>(pinned));
  unsigned flags = 0;
  OK(cuMemHostGetFlags(&flags, pinned));
  EXPECT_TRUE(flags & CU_MEMHOSTALLOC_PORTABLE);
  OK(cuMemsetD32(device_view, 77, 4));
  EXPECT_EQ(pinned[3], 77);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned + 1));
  OK(cuMemFreeHost(pinned));

  std::vector<int> mine(4096);
  OK(cuMemHostRegister(mine.data(), mine.size() * 4, 0));
  FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(mine.data() + 8, 16, 0));
  OK(cuMemHostUnregister(mine.data()));
  FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine.data()));

  CUdeviceptr managed = 0;
  OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&managed, 4096, 0));
  int* host_view = reinterpret_cast<int*>(managed);
  host_view[5] = 55;
  int x = 0;
  OK(cuMemcpyDtoH(&x, managed + 20, 4));
  EXPECT_EQ(x, 55);
  OK(cuMemFree(managed));
}

TEST_F(Driver, PointerAttributes) {
  CUdeviceptr p = 0;
  OK(cuMemAlloc(&p, 5000));
  unsigned type = 0;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 10));
  EXPECT_EQ(type, unsigned(CU_MEMORYTYPE_DEVICE));
  CUcontext owner = nullptr;
  OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
  EXPECT_EQ(owner, context);
  // IS_MANAGED is four bytes wide, no more and no less.
  unsigned char around[8];
  memset(around, 0xAB, sizeof around);
  OK(cuPointerGetAttribute(around + 2, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
  EXPECT_EQ(around[1], 0xAB);
  EXPECT_EQ(around[2] | around[3] | around[4] | around[5], 0);
  EXPECT_EQ(around[6], 0xAB);
  CUdeviceptr base = 0;
  size_t size = 0;
  OK(cuMemGetAddressRange(&base, &size, p + 4999));
  EXPECT_EQ(base, p);
  EXPECT_EQ(size, 5000u);
  FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p + (1 << 22)));
  int stack = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                        reinterpret_cast<CUdeviceptr>(&stack)));
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  int ordinal = 9;
  void* answers[] = {&type, &ordinal};
  type = 9;
  OK(cuPointerGetAttributes(2, asked, answers, reinterpret_cast<CUdeviceptr>(&stack)));
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
  OK(cuPointerGetAttributes(2, asked, answers, p));
  EXPECT_EQ(ordinal, 0);
}

TEST_F(Driver, ManagedAdviceAndPrefetchAreReported) {
  CUdeviceptr m = 0;
  OK(cuMemAllocManaged(&m, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  CUmemLocation device = {};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  device.id = 1;
  OK(cuMemAdvise(m, 1 << 20, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  OK(cuMemAdvise(m, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  OK(cuMemPrefetchAsync(m, 1 << 20, device, 0, nullptr));
  OK(cuCtxSynchronize());
  int value = 0;
  OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, m, 1 << 20));
  EXPECT_EQ(value, 1);
  OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, m, 1 << 20));
  EXPECT_EQ(value, 1);
  OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m, 1 << 20));
  EXPECT_EQ(value, 1);
  device.id = 9;
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise(m, 1 << 20, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
}

TEST_F(Driver, FragmentationCoalesces) {
  size_t free_bytes = 0, total = 0;
  OK(cuMemGetInfo(&free_bytes, &total));
  std::vector<CUdeviceptr> blocks(500);
  for (size_t i = 0; i < blocks.size(); ++i) OK(cuMemAlloc(&blocks[i], 1000 + i * 377));
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = i + 1; j < blocks.size(); ++j) ASSERT_NE(blocks[i], blocks[j]);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) OK(cuMemFree(blocks[i]));
  for (size_t i = 1; i < blocks.size(); i += 2) OK(cuMemFree(blocks[i]));
  size_t now = 0;
  OK(cuMemGetInfo(&now, &total));
  EXPECT_EQ(now, free_bytes);
}
