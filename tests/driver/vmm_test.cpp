// Virtual memory management: mappings, access, capacity, lifetime, export, every documented error.
#include <unistd.h>

#include <cstring>

#include "tests/driver/driver_test.h"

namespace {
constexpr size_t kGrain = size_t{2} << 20;

CUmemAllocationProp on_device(int device, unsigned handle_types = 0) {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  p.requestedHandleTypes = CUmemAllocationHandleType(handle_types);
  return p;
}
CUmemAllocationProp on_host(CUmemLocationType type, int node = 0) {
  CUmemAllocationProp p = on_device(node);
  p.location.type = type;
  return p;
}
CUmemAccessDesc rights_of(int device, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc d = {};
  d.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  d.flags = flags;
  return d;
}

class Vmm : public driver_test::Driver {
 protected:
  // Reserved, created, mapped and readable and writable by device 0.
  void make(size_t size, const CUmemAllocationProp& prop) {
    OK(cuMemAddressReserve(&base, size, 0, 0, 0));
    OK(cuMemCreate(&handle, size, &prop, 0));
    OK(cuMemMap(base, size, 0, handle, 0));
    const CUmemAccessDesc d = rights_of(0);
    OK(cuMemSetAccess(base, size, &d, 1));
  }
  void unmake(size_t size) {
    OK(cuMemUnmap(base, size));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(base, size));
  }
  size_t free_bytes() {
    size_t bytes = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo(&bytes, &total), CUDA_SUCCESS);
    return bytes;
  }
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
};
}  // namespace

TEST_F(Vmm, AttributesPromiseIt) {
  for (CUdevice_attribute a : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                               CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED}) {
    int value = 0;
    OK(cuDeviceGetAttribute(&value, a, 0));
    EXPECT_EQ(value, 1) << a;
  }
}

TEST_F(Vmm, MappedMemoryIsUsedByKernelsCopiesAndFills) {
  load();
  make(2 * kGrain, on_device(0));
  OK(cuMemsetD32(base, 7, 2 * kGrain / 4));
  CUdeviceptr place = base + kGrain + 400;
  int value = 1000;
  OK(run(kernel("set_value"), {&place, &value}));
  EXPECT_EQ(read_int(place), 1000);
  EXPECT_EQ(read_int(place + 4), 7);
  EXPECT_EQ(read_int(base + 2 * kGrain - 4), 7);
  unmake(2 * kGrain);
}

TEST_F(Vmm, CapacityIsTakenByMemoryAndNotByAddresses) {
  const size_t before = free_bytes();
  CUdeviceptr range = 0;
  OK(cuMemAddressReserve(&range, size_t{1} << 40, 0, 0, 0));  // more than the device has
  EXPECT_EQ(free_bytes(), before);
  const CUmemAllocationProp prop = on_device(0);
  OK(cuMemCreate(&handle, 8 * kGrain, &prop, 0));
  EXPECT_EQ(free_bytes(), before - 8 * kGrain);
  OK(cuMemMap(range, 8 * kGrain, 0, handle, 0));
  EXPECT_EQ(free_bytes(), before - 8 * kGrain);
  OK(cuMemRelease(handle));  // the mapping keeps the memory
  EXPECT_EQ(free_bytes(), before - 8 * kGrain);
  OK(cuMemUnmap(range, 8 * kGrain));
  EXPECT_EQ(free_bytes(), before);
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, before + kGrain, &prop, 0));
  OK(cuMemCreate(&handle, before / kGrain * kGrain, &prop, 0));
  CUdeviceptr p = 0;
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, 1));
  OK(cuMemRelease(handle));
  EXPECT_EQ(free_bytes(), before);
  const CUmemAllocationProp host = on_host(CU_MEM_LOCATION_TYPE_HOST_NUMA);
  OK(cuMemCreate(&handle, 8 * kGrain, &host, 0));
  EXPECT_EQ(free_bytes(), before);  // host memory takes nothing of the device
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(range, size_t{1} << 40));
}

TEST_F(Vmm, ContentsStayWithTheMemoryAcrossMappings) {
  make(kGrain, on_device(0));
  OK(cuMemsetD32(base, 42, 16));
  CUdeviceptr second = 0;
  OK(cuMemAddressReserve(&second, kGrain, 0, 0, 0));
  OK(cuMemMap(second, kGrain, 0, handle, 0));  // the same bytes a second time
  const CUmemAccessDesc d = rights_of(0);
  OK(cuMemSetAccess(second, kGrain, &d, 1));
  EXPECT_EQ(read_int(second), 42);
  OK(cuMemsetD32(second, 43, 1));
  EXPECT_EQ(read_int(base), 43);
  OK(cuMemUnmap(base, kGrain));
  EXPECT_EQ(read_int(second + 4), 42);
  OK(cuMemMap(base, kGrain, 0, handle, 0));
  OK(cuMemSetAccess(base, kGrain, &d, 1));
  EXPECT_EQ(read_int(base + 4), 42);
  OK(cuMemUnmap(second, kGrain));
  OK(cuMemAddressFree(second, kGrain));
  unmake(kGrain);
}

TEST_F(Vmm, NeighbouringMappingsAreOneRange) {
  const CUmemAllocationProp prop = on_device(0);
  CUmemGenericAllocationHandle parts[3];
  OK(cuMemAddressReserve(&base, 3 * kGrain, 0, 0, 0));
  for (int i = 0; i < 3; ++i) {
    OK(cuMemCreate(&parts[i], kGrain, &prop, 0));
    OK(cuMemMap(base + size_t(i) * kGrain, kGrain, 0, parts[i], 0));
    OK(cuMemRelease(parts[i]));
  }
  const CUmemAccessDesc d = rights_of(0);
  OK(cuMemSetAccess(base, 3 * kGrain, &d, 1));
  OK(cuMemsetD32(base, 5, 3 * kGrain / 4));
  std::vector<int> all(3 * kGrain / 4);
  OK(cuMemcpyDtoH(all.data(), base, 3 * kGrain));
  EXPECT_EQ(all, std::vector<int>(all.size(), 5));
  OK(cuMemUnmap(base + kGrain, kGrain));  // a hole
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(all.data(), base, 3 * kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(all.data(), base + kGrain, 4));
  OK(cuMemcpyDtoH(all.data(), base + 2 * kGrain, kGrain));
  OK(cuMemUnmap(base, kGrain));
  OK(cuMemUnmap(base + 2 * kGrain, kGrain));
  OK(cuMemAddressFree(base, 3 * kGrain));
}

TEST_F(Vmm, AccessIsByDevice) {
  load();
  make(kGrain, on_device(0));
  unsigned long long flags = 9;
  CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cuMemGetAccess(&flags, &where, base + 100));
  EXPECT_EQ(flags, 3u);
  where.id = 1;
  OK(cuMemGetAccess(&flags, &where, base));
  EXPECT_EQ(flags, 0u);
  where.type = CU_MEM_LOCATION_TYPE_HOST;
  OK(cuMemGetAccess(&flags, &where, base));
  EXPECT_EQ(flags, 0u);
  CUmemAccessDesc d = rights_of(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  OK(cuMemSetAccess(base, kGrain, &d, 1));
  where = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  OK(cuMemGetAccess(&flags, &where, base));
  EXPECT_EQ(flags, 1u);
  // Device 1 may read and not write.
  CUcontext other = nullptr;
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxSetCurrent(other));
  load();
  int value = 3;
  OK(run(kernel("set_value"), {&base, &value}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  OK(cuCtxSetCurrent(context));
  OK(cuCtxSynchronize());
  EXPECT_EQ(read_int(base), 0);
  // Without access for anybody neither kernels nor copies get through.
  d = rights_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cuMemSetAccess(base, kGrain, &d, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&value, base, 4));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(base, 1, 1));
  load();
  OK(run(kernel("set_value"), {&base, &value}));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(Vmm, HostMemoryIsSharedByHostAndDevice) {
  load();
  for (CUmemLocationType type : {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
    make(kGrain, on_host(type));
    CUmemAccessDesc d = rights_of(0);
    d.location.type = type;
    OK(cuMemSetAccess(base, kGrain, &d, 1));
    volatile int* host = reinterpret_cast<volatile int*>(base);
    host[1] = 11;
    int value = 12;
    OK(run(kernel("set_value"), {&base, &value}));
    OK(cuCtxSynchronize());
    EXPECT_EQ(host[0], 12);
    EXPECT_EQ(read_int(base + 4), 11);
    unsigned memory_type = 0;
    int ordinal = 5;
    OK(cuPointerGetAttribute(&memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    EXPECT_EQ(memory_type, unsigned(CU_MEMORYTYPE_HOST));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base));
    EXPECT_EQ(ordinal, CU_DEVICE_CPU);
    unmake(kGrain);
    EXPECT_EXIT({ exit(host[0]); }, testing::KilledBySignal(SIGSEGV), "");
  }
}

TEST_F(Vmm, PointerAttributesTellRangeAndMapping) {
  make(2 * kGrain, on_device(1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  OK(cuMemUnmap(base, 2 * kGrain));
  OK(cuMemMap(base, kGrain, 0, handle, 0));  // half of it
  auto ask = [&]<class T>(CUpointer_attribute a, CUdeviceptr p, T& out) {
    return cuPointerGetAttribute(&out, a, p);
  };
  CUdeviceptr start = 0;
  size_t size = 0;
  unsigned value = 9;
  int device = 9;
  unsigned long long types = 0;
  CUcontext owner = context;
  OK(ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + 5, start));
  OK(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + 5, size));
  EXPECT_EQ(start, base);
  EXPECT_EQ(size, 2 * kGrain);
  OK(ask(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + 5, size));
  OK(ask(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + 5, start));
  EXPECT_EQ(start, base);
  EXPECT_EQ(size, kGrain);
  OK(ask(CU_POINTER_ATTRIBUTE_MAPPED, base + 5, value));
  EXPECT_EQ(value, 1u);
  OK(ask(CU_POINTER_ATTRIBUTE_MAPPED, base + kGrain, value));
  EXPECT_EQ(value, 0u);
  OK(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + kGrain, size));  // reserved, nothing mapped
  EXPECT_EQ(size, 2 * kGrain);
  FAILS(CUDA_ERROR_INVALID_VALUE, ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + kGrain, device));
  OK(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base, device));
  EXPECT_EQ(device, 1);
  OK(ask(CU_POINTER_ATTRIBUTE_CONTEXT, base, owner));
  EXPECT_EQ(owner, nullptr);
  OK(ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, base, value));
  EXPECT_EQ(value, 0u);
  OK(ask(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base, types));
  EXPECT_EQ(types, unsigned(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  OK(cuMemGetAddressRange(&start, &size, base + 77));
  EXPECT_EQ(start, base);
  EXPECT_EQ(size, kGrain);
  FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&start, &size, base + kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(base));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base));
  CUipcMemHandle ipc;
  EXPECT_NE(cuIpcGetMemHandle(&ipc, base), CUDA_SUCCESS);
  OK(cuMemUnmap(base, kGrain));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(base, 2 * kGrain));
}

TEST_F(Vmm, HandlesAreCounted) {
  make(kGrain, on_device(0));
  CUmemGenericAllocationHandle again = 0;
  OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base + 100)));
  EXPECT_EQ(again, handle);
  CUmemAllocationProp prop = {};
  OK(cuMemRelease(handle));
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, again));
  EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(prop.location.id, 0);
  EXPECT_EQ(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  OK(cuMemRelease(again));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
  OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base)));  // the mapping still knows it
  EXPECT_EQ(again, handle);
  unmake(kGrain);
}

TEST_F(Vmm, UnmappingWaitsForWorkInFlight) {
  load();
  make(kGrain, on_device(0));
  CUdeviceptr out = 0;
  OK(cuMemAlloc(&out, 4));
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  int value = 8;
  for (int i = 0; i < 50; ++i) OK(run(kernel("set_value"), {&base, &value}, stream));
  OK(cuMemcpyDtoDAsync(out, base, 4, stream));
  unmake(kGrain);
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read_int(out), 8);
  // What comes after finds nothing there.
  OK(run(kernel("set_value"), {&base, &value}, stream));
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

TEST_F(Vmm, HintsAndAlignment) {
  CUdeviceptr p = 0, q = 0;
  OK(cuMemAddressReserve(&p, kGrain, size_t{1} << 30, 0, 0));
  EXPECT_EQ(p % (size_t{1} << 30), 0u);
  OK(cuMemAddressFree(p, kGrain));
  OK(cuMemAddressReserve(&q, kGrain, 0, p, 0));  // free: the hint is followed
  EXPECT_EQ(q, p);
  CUdeviceptr r = 0;
  OK(cuMemAddressReserve(&r, kGrain, 0, p, 0));  // taken: somewhere else
  EXPECT_NE(r, p);
  OK(cuMemAddressReserve(&p, 4096, 0, 0, 0));  // a host page is enough to reserve
  OK(cuMemAddressFree(p, 4096));
  OK(cuMemAddressFree(q, kGrain));
  OK(cuMemAddressFree(r, kGrain));
}

TEST_F(Vmm, ErrorsOfReservations) {
  CUdeviceptr p = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(nullptr, kGrain, 0, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, 0, 0, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, kGrain + 1, 0, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, kGrain, 3, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, kGrain, 0, 4097, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&p, kGrain, 0, 0, 1));
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&p, size_t{1} << 60, 0, 0, 0));
  OK(cuMemAddressReserve(&p, 2 * kGrain, 0, 0, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p + kGrain, kGrain));
  const CUmemAllocationProp prop = on_device(0);
  OK(cuMemCreate(&handle, kGrain, &prop, 0));
  OK(cuMemMap(p, kGrain, 0, handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * kGrain));  // something is mapped in it
  OK(cuMemUnmap(p, kGrain));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(p, 2 * kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * kGrain));
}

TEST_F(Vmm, ErrorsOfCreation) {
  CUmemAllocationProp prop = on_device(0);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(nullptr, kGrain, &prop, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, kGrain, nullptr, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, kGrain, &prop, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &prop, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, kGrain / 2, &prop, 0));
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, size_t{1} << 50, &prop, 0));
  auto create = [&](auto change) {
    CUmemAllocationProp changed = on_device(0);
    change(changed);
    size_t grain = 0;
    const CUresult asked = cuMemGetAllocationGranularity(&grain, &changed, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    const CUresult made = cuMemCreate(&handle, kGrain, &changed, 0);
    if (made != CUDA_ERROR_INVALID_DEVICE)
      EXPECT_EQ(asked, made);
    else
      EXPECT_EQ(asked, CUDA_ERROR_INVALID_VALUE);
    return made;
  };
  using P = CUmemAllocationProp;
  FAILS(CUDA_ERROR_INVALID_DEVICE, create([](P& p) { p.location.id = 3; }));
  FAILS(CUDA_ERROR_INVALID_DEVICE, create([](P& p) { p.location.id = -1; }));
  FAILS(CUDA_ERROR_INVALID_VALUE, create([](P& p) { p.type = CU_MEM_ALLOCATION_TYPE_INVALID; }));
  FAILS(CUDA_ERROR_INVALID_VALUE, create([](P& p) { p.location.type = CU_MEM_LOCATION_TYPE_INVALID; }));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        create([](P& p) { p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; }));
  FAILS(CUDA_ERROR_INVALID_VALUE, create([](P& p) { p.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 77}; }));
  FAILS(CUDA_ERROR_INVALID_VALUE, create([](P& p) {  // not to be exported
          p.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
          p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        }));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        create([](P& p) { p.requestedHandleTypes = CUmemAllocationHandleType(64); }));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, create([](P& p) { p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC; }));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, create([](P& p) { p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32; }));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, create([](P& p) { p.allocFlags.gpuDirectRDMACapable = 1; }));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, create([](P& p) { p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL; }));
  size_t grain = 0;
  OK(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(grain, kGrain);
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemGetAllocationGranularity(nullptr, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemGetAllocationGranularity(&grain, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemGetAllocationGranularity(&grain, &prop, CUmemAllocationGranularity_flags(2)));
  prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;  // a hint that is not followed
  OK(cuMemCreate(&handle, kGrain, &prop, 0));
  OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
  EXPECT_EQ(prop.allocFlags.compressionType, CU_MEM_ALLOCATION_COMP_NONE);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(nullptr, handle));
  OK(cuMemRelease(handle));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0x1234));
}

TEST_F(Vmm, ErrorsOfMapping) {
  const CUmemAllocationProp prop = on_device(0);
  OK(cuMemAddressReserve(&base, 3 * kGrain, 0, 0, 0));
  OK(cuMemCreate(&handle, 2 * kGrain, &prop, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, kGrain, 0, 0x55, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, kGrain, 0, handle, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, kGrain, kGrain, handle, 0));  // "currently must be zero"
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, 0, 0, handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, 3 * kGrain, 0, handle, 0));     // more than there is
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + 4096, kGrain, 0, handle, 0));  // misaligned
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, kGrain / 2, 0, handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + 2 * kGrain, 2 * kGrain, 0, handle, 0));  // leaves the range
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(size_t{0x70} << 40, kGrain, 0, handle, 0));     // not reserved
  OK(cuMemMap(base, 2 * kGrain, 0, handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + kGrain, kGrain, 0, handle, 0));  // mapped already
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, kGrain));                       // a part of a mapping
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + kGrain, kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, 3 * kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, 0));
  CUmemGenericAllocationHandle other = 0;
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(nullptr, reinterpret_cast<void*>(base)));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&other, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(base + 2 * kGrain)));
  OK(cuMemUnmap(base, 2 * kGrain));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, 2 * kGrain));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(base, 3 * kGrain));
}

TEST_F(Vmm, ErrorsOfAccess) {
  make(2 * kGrain, on_device(0));
  CUmemAccessDesc d = rights_of(0);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 2 * kGrain, nullptr, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 2 * kGrain, &d, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, kGrain, &d, 1));  // not whole allocations
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base + 2 * kGrain, kGrain, &d, 1));
  d.flags = CUmemAccess_flags(2);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 2 * kGrain, &d, 1));
  d = rights_of(9);
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemSetAccess(base, 2 * kGrain, &d, 1));
  for (CUmemLocationType type : {CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST,
                                 CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, CU_MEM_LOCATION_TYPE_INVALID}) {
    d.location = {type, 0};
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 2 * kGrain, &d, 1));
  }
  unsigned long long flags = 0;
  CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(nullptr, &where, base));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, nullptr, base));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &where, base + 2 * kGrain));
  where.id = 9;
  FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemGetAccess(&flags, &where, base));
  where = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &where, base));
  unmake(2 * kGrain);
}

TEST_F(Vmm, ErrorsOfExportAndImport) {
  int fd = -1;
  constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp prop = on_device(0);
  OK(cuMemCreate(&handle, kGrain, &prop, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, kFd, 0));  // not asked for
  OK(cuMemRelease(handle));
  prop.requestedHandleTypes = kFd;
  OK(cuMemCreate(&handle, kGrain, &prop, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(nullptr, handle, kFd, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, kFd, 1));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, 0x77, kFd, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  OK(cuMemExportToShareableHandle(&fd, handle, kFd, 0));
  CUmemGenericAllocationHandle imported = 0;
  void* os = reinterpret_cast<void*>(intptr_t(fd));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(nullptr, os, kFd));
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(-1)), kFd));
  FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemImportFromShareableHandle(&imported, os, CU_MEM_HANDLE_TYPE_FABRIC));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, os, CU_MEM_HANDLE_TYPE_NONE));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);  // a descriptor of something else
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(pipe_ends[0])), kFd));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  close(fd);
  OK(cuMemRelease(handle));
}

TEST_F(Vmm, ImportInTheSameProcessSharesBytesAndCountsOnce) {
  const size_t before = free_bytes();
  make(kGrain, on_device(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  OK(cuMemsetD32(base, 21, 4));
  int fd = -1;
  OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  unmake(kGrain);
  EXPECT_EQ(free_bytes(), before - kGrain);  // the shareable handle keeps it
  OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t(fd)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  EXPECT_EQ(free_bytes(), before - kGrain);
  OK(cuMemAddressReserve(&base, kGrain, 0, 0, 0));
  OK(cuMemMap(base, kGrain, 0, handle, 0));
  const CUmemAccessDesc d = rights_of(0);
  OK(cuMemSetAccess(base, kGrain, &d, 1));
  EXPECT_EQ(read_int(base), 21);
  close(fd);
  EXPECT_EQ(free_bytes(), before - kGrain);
  unmake(kGrain);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Vmm, ThousandsOfPiecesTakeNoDescriptors) {
  const CUmemAllocationProp prop = on_device(0);
  std::vector<CUmemGenericAllocationHandle> handles(3000);
  OK(cuMemAddressReserve(&base, handles.size() * kGrain, 0, 0, 0));
  for (size_t i = 0; i < handles.size(); ++i) {
    OK(cuMemCreate(&handles[i], kGrain, &prop, 0));
    OK(cuMemMap(base + i * kGrain, kGrain, 0, handles[i], 0));
    OK(cuMemRelease(handles[i]));
  }
  OK(cuMemUnmap(base, handles.size() * kGrain));
  OK(cuMemAddressFree(base, handles.size() * kGrain));
}
