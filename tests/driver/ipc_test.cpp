// Memory, events, pools and physical memory between processes of one box, some of them killed.
#include "tests/driver/ipc_process.h"

#include <map>
#include <random>

using driver_test::Process;
using driver_test::read_int;
using driver_test::receive;
using driver_test::role_kernel;
using driver_test::send;
using driver_test::SharedBox;

namespace {
constexpr int kSocket = 3;
constexpr size_t kGrain = size_t{2} << 20;
constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUcontext start(int device = 0) {
  CUcontext context = nullptr;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  return context;
}
void launch(CUfunction f, std::vector<void*> args, CUstream stream = nullptr) {
  MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args.data(), nullptr));
}
CUmemAllocationProp exportable(int device) {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  p.requestedHandleTypes = kFd;
  return p;
}
CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size, int device = 0) {
  CUdeviceptr base = 0;
  CUmemAccessDesc access = {};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  MUST(cuMemAddressReserve(&base, size, 0, 0, 0));
  MUST(cuMemMap(base, size, 0, handle, 0));
  MUST(cuMemSetAccess(base, size, &access, 1));
  return base;
}

// --- roles: the other processes ---
// Every step answers with a number, so that the test decides who does what when.
enum class Step : int {
  export_memory,  // -> CUipcMemHandle of a new allocation holding `value`
  open_memory,    // CUipcMemHandle -> the first number in it
  write_memory,   // value -> 0
  read_memory,    // -> number
  close_memory,
  free_memory,
  create_shared,  // -> number, with a descriptor: exportable physical memory holding `value`
  import_shared,  // descriptor -> the first number in it
  release_shared,
  free_bytes,  // -> MiB that cuMemGetInfo reports
  export_event,
  open_event,
  record_after_write,  // writes `value` into the memory from a stream and records the event behind it
  wait_then_read,      // a stream waits for the event, then copies the memory -> number
  synchronise_event,
  query_event,  // -> 1 done, 0 not
  hold_stream,  // work behind a wait for memory that `let_go` ends, so that records stay pending
  let_go,
  export_pool,   // -> descriptor
  pool_pointer,  // -> CUmemPoolPtrExportData of new memory holding `value`
  import_pool,
  import_pointer,
  stop,
};
struct Order {
  Step step;
  int value = 0;
};

int worker(int device) {
  start(device);
  CUdeviceptr memory = 0, shared = 0, flag = 0, pooled = 0;
  CUmemGenericAllocationHandle physical = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUfunction set = role_kernel("set_value");
  send(kSocket, 0);
  while (true) {
    int fd = -1;
    const Order order = receive<Order>(kSocket);
    int answer = 0, value = order.value;
    switch (order.step) {
      case Step::export_memory: {
        CUipcMemHandle handle;
        MUST(cuMemAlloc(&memory, size_t{8} << 20));
        MUST(cuMemsetD32(memory, unsigned(value), 4));
        MUST(cuCtxSynchronize());
        MUST(cuIpcGetMemHandle(&handle, memory));
        send(kSocket, handle);
        continue;
      }
      case Step::open_memory: {
        const CUipcMemHandle handle = receive<CUipcMemHandle>(kSocket);
        const CUresult opened = cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        answer = opened == CUDA_SUCCESS ? read_int(memory) : -int(opened);
        break;
      }
      case Step::write_memory:
        launch(set, {&memory, &value});
        MUST(cuCtxSynchronize());
        break;
      case Step::read_memory:
        answer = read_int(memory);
        break;
      case Step::close_memory:
        answer = -int(cuIpcCloseMemHandle(memory));
        break;
      case Step::free_memory:
        answer = -int(cuMemFree(memory));
        break;
      case Step::create_shared: {
        const CUmemAllocationProp prop = exportable(device);
        MUST(cuMemCreate(&physical, 16 * kGrain, &prop, 0));
        shared = map(physical, 16 * kGrain, device);
        MUST(cuMemsetD32(shared, unsigned(value), 4));
        MUST(cuCtxSynchronize());
        MUST(cuMemExportToShareableHandle(&fd, physical, kFd, 0));
        send(kSocket, 0, fd);
        close(fd);
        continue;
      }
      case Step::import_shared:
        receive<int>(kSocket, &fd);
        MUST(cuMemImportFromShareableHandle(&physical, reinterpret_cast<void*>(intptr_t(fd)), kFd));
        close(fd);
        shared = map(physical, 16 * kGrain, device);
        answer = read_int(shared);
        break;
      case Step::release_shared:
        MUST(cuMemUnmap(shared, 16 * kGrain));
        MUST(cuMemAddressFree(shared, 16 * kGrain));
        MUST(cuMemRelease(physical));
        break;
      case Step::free_bytes: {
        size_t free_now = 0, total = 0;
        MUST(cuMemGetInfo(&free_now, &total));
        answer = int(free_now >> 20);
        break;
      }
      case Step::export_event: {
        CUipcEventHandle handle;
        MUST(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        MUST(cuIpcGetEventHandle(&handle, event));
        send(kSocket, handle);
        continue;
      }
      case Step::open_event: {
        const CUipcEventHandle handle = receive<CUipcEventHandle>(kSocket);
        answer = -int(cuIpcOpenEventHandle(&event, handle));
        break;
      }
      case Step::record_after_write:
        launch(set, {&memory, &value}, stream);
        MUST(cuEventRecord(event, stream));
        break;
      case Step::wait_then_read: {
        CUdeviceptr copy = 0;
        MUST(cuMemAlloc(&copy, 4));
        MUST(cuStreamWaitEvent(stream, event, 0));
        MUST(cuMemcpyDtoDAsync(copy, memory, 4, stream));
        MUST(cuStreamSynchronize(stream));
        answer = read_int(copy);
        MUST(cuMemFree(copy));
        break;
      }
      case Step::synchronise_event:
        answer = -int(cuEventSynchronize(event));
        break;
      case Step::query_event: {
        const CUresult asked = cuEventQuery(event);
        answer = asked == CUDA_SUCCESS ? 1 : asked == CUDA_ERROR_NOT_READY ? 0 : -int(asked);
        break;
      }
      case Step::hold_stream:
        if (!flag) MUST(cuMemAlloc(&flag, 4));
        MUST(cuMemsetD32(flag, 0, 1));
        MUST(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        break;
      case Step::let_go: {
        CUstream other = nullptr;
        MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamWriteValue32(other, flag, 1, 0));
        MUST(cuStreamSynchronize(other));
        break;
      }
      case Step::export_pool: {
        CUmemPoolProps props = {};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = kFd;
        props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        MUST(cuMemPoolCreate(&pool, &props));
        MUST(cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0));
        send(kSocket, 0, fd);
        close(fd);
        continue;
      }
      case Step::pool_pointer: {
        CUmemPoolPtrExportData data;
        MUST(cuMemAllocFromPoolAsync(&pooled, 4096, pool, stream));
        MUST(cuMemsetD32Async(pooled, unsigned(value), 4, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemPoolExportPointer(&data, pooled));
        send(kSocket, data);
        continue;
      }
      case Step::import_pool:
        receive<int>(kSocket, &fd);
        answer =
            -int(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t(fd)), kFd, 0));
        close(fd);
        break;
      case Step::import_pointer: {
        CUmemPoolPtrExportData data = receive<CUmemPoolPtrExportData>(kSocket);
        MUST(cuMemPoolImportPointer(&pooled, pool, &data));
        answer = read_int(pooled);
        // What an imported pool cannot do.
        CUdeviceptr p = 0;
        if (cuMemAllocFromPoolAsync(&p, 64, pool, stream) != CUDA_ERROR_INVALID_VALUE) _exit(101);
        if (cuMemPoolTrimTo(pool, 0) != CUDA_ERROR_INVALID_VALUE) _exit(102);
        if (cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0) != CUDA_ERROR_INVALID_VALUE) _exit(103);
        if (cuMemPoolExportPointer(&data, pooled) != CUDA_ERROR_INVALID_VALUE) _exit(104);
        MUST(cuMemFreeAsync(pooled, stream));
        MUST(cuStreamSynchronize(stream));
        break;
      }
      case Step::stop:
        return 0;
    }
    send(kSocket, answer);
  }
}

// The test's side of a worker.
struct Worker : Process {
  explicit Worker(const SharedBox& box, int device = 0)
      : Process(box.name, "worker", std::to_string(device)) {
    EXPECT_EQ(receive<int>(socket), 0);
  }
  void tell(Step step, int value = 0) { send(socket, Order{step, value}); }
  int ask(Step step, int value = 0) {
    tell(step, value);
    return receive<int>(socket);
  }
  template <class T>
  T get(Step step, int value = 0) {
    tell(step, value);
    return receive<T>(socket);
  }
  template <class T>
  int give(Step step, const T& thing, int fd = -1) {
    tell(step);
    send(socket, thing, fd);
    return receive<int>(socket);
  }
  int descriptor(Step step, int value = 0) {
    tell(step, value);
    int fd = -1;
    receive<int>(socket, &fd);
    return fd;
  }
};
}  // namespace

TEST(Ipc, MemoryIsTheSameInBothProcesses) {
  SharedBox box;
  Worker a(box), b(box), far(box, 1);
  const auto handle = a.get<CUipcMemHandle>(Step::export_memory, 77);
  EXPECT_EQ(b.give(Step::open_memory, handle), 77);
  EXPECT_EQ(far.give(Step::open_memory, handle), 77);  // from the other device, as a peer
  EXPECT_EQ(b.ask(Step::write_memory, 78), 0);
  EXPECT_EQ(a.ask(Step::read_memory), 78);
  EXPECT_EQ(far.ask(Step::write_memory, 79), 0);
  EXPECT_EQ(b.ask(Step::read_memory), 79);
  EXPECT_EQ(b.give(Step::open_memory, handle), 79);  // once more: counted
  EXPECT_EQ(b.ask(Step::close_memory), 0);
  EXPECT_EQ(b.ask(Step::read_memory), 79);
  EXPECT_EQ(b.ask(Step::close_memory), 0);
  EXPECT_EQ(b.ask(Step::close_memory), -int(CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(a.ask(Step::read_memory), 79);
  EXPECT_EQ(far.ask(Step::free_memory), -int(CUDA_ERROR_INVALID_VALUE));  // not its to free
  EXPECT_EQ(far.ask(Step::close_memory), 0);
  EXPECT_EQ(a.ask(Step::free_memory), 0);
  EXPECT_EQ(b.give(Step::open_memory, handle), -int(CUDA_ERROR_MAP_FAILED));
  EXPECT_EQ(b.give(Step::open_memory, CUipcMemHandle{}), -int(CUDA_ERROR_INVALID_HANDLE));
}

TEST(Ipc, EventsOrderWorkAcrossProcesses) {
  SharedBox box;
  Worker a(box), b(box);
  const auto memory = a.get<CUipcMemHandle>(Step::export_memory, 1);
  EXPECT_EQ(b.give(Step::open_memory, memory), 1);
  const auto event = a.get<CUipcEventHandle>(Step::export_event);
  EXPECT_EQ(b.give(Step::open_event, event), 0);
  EXPECT_EQ(b.ask(Step::query_event), 1);  // never recorded
  EXPECT_EQ(b.ask(Step::wait_then_read), 1);
  for (int i = 10; i < 20; ++i) {
    EXPECT_EQ(a.ask(Step::record_after_write, i), 0);
    EXPECT_EQ(b.ask(Step::wait_then_read), i);
    EXPECT_EQ(b.ask(Step::record_after_write, 100 + i), 0);  // and the other way round
    EXPECT_EQ(a.ask(Step::wait_then_read), 100 + i);
  }
  // Not there yet: the record waits behind held work.
  EXPECT_EQ(a.ask(Step::hold_stream), 0);
  EXPECT_EQ(a.ask(Step::record_after_write, 500), 0);
  EXPECT_EQ(b.ask(Step::query_event), 0);
  b.tell(Step::wait_then_read);
  usleep(600 * 1000);  // longer than what counts as a deadlock inside one process
  EXPECT_EQ(a.ask(Step::let_go), 0);
  EXPECT_EQ(receive<int>(b.socket), 500);
  EXPECT_EQ(b.ask(Step::synchronise_event), 0);
  EXPECT_EQ(b.ask(Step::query_event), 1);
  EXPECT_EQ(b.give(Step::open_event, CUipcEventHandle{}), -int(CUDA_ERROR_INVALID_HANDLE));
}

TEST(Ipc, AKilledRecorderHoldsNobodyUp) {
  SharedBox box;
  Worker a(box), b(box);
  const auto memory = a.get<CUipcMemHandle>(Step::export_memory, 1);
  const auto event = a.get<CUipcEventHandle>(Step::export_event);
  EXPECT_EQ(b.give(Step::open_memory, memory), 1);
  EXPECT_EQ(b.give(Step::open_event, event), 0);
  EXPECT_EQ(a.ask(Step::hold_stream), 0);
  EXPECT_EQ(a.ask(Step::record_after_write, 2), 0);
  b.tell(Step::synchronise_event);
  usleep(20000);
  a.kill_now();
  EXPECT_EQ(receive<int>(b.socket), 0);
  EXPECT_EQ(b.ask(Step::wait_then_read), 1);  // the memory stays while it is open
  EXPECT_EQ(b.ask(Step::write_memory, 3), 0);
  EXPECT_EQ(b.ask(Step::read_memory), 3);
  Worker c(box);
  EXPECT_EQ(c.give(Step::open_memory, memory), -int(CUDA_ERROR_MAP_FAILED));
  EXPECT_EQ(c.give(Step::open_event, event), -int(CUDA_ERROR_MAP_FAILED));
}

TEST(Ipc, PoolsAndTheirPointers) {
  SharedBox box;
  Worker a(box), b(box);
  const int fd = a.descriptor(Step::export_pool);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(b.give(Step::import_pool, 0, fd), 0);
  const auto data = a.get<CUmemPoolPtrExportData>(Step::pool_pointer, 31);
  EXPECT_EQ(b.give(Step::import_pointer, data), 31);
  const auto second = a.get<CUmemPoolPtrExportData>(Step::pool_pointer, 32);
  EXPECT_EQ(b.give(Step::import_pointer, second), 32);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(b.give(Step::import_pool, 0, pipe_ends[0]), -int(CUDA_ERROR_INVALID_VALUE));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  a.kill_now();
  EXPECT_EQ(b.give(Step::import_pool, 0, fd), -int(CUDA_ERROR_INVALID_VALUE));  // its process has gone
  close(fd);
}

TEST(Ipc, SharedPhysicalMemoryCountsOnce) {
  SharedBox box;
  const uint64_t all = box.free_bytes();
  Worker a(box), b(box), c(box);
  int idle = a.ask(Step::free_bytes);
  int with = idle - 32;
  const int own = (int(all >> 20) - idle) / 3;  // what each worker holds for its modules
  const int fd = a.descriptor(Step::create_shared, 5);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(c.ask(Step::free_bytes), with);
  EXPECT_EQ(b.give(Step::import_shared, 0, fd), 5);
  EXPECT_EQ(c.ask(Step::free_bytes), with);
  close(fd);
  // Its maker lets go: the importer still has it.
  EXPECT_EQ(a.ask(Step::release_shared), 0);
  EXPECT_EQ(a.ask(Step::free_bytes), with);
  EXPECT_EQ(c.ask(Step::free_bytes), with);
  EXPECT_EQ(b.ask(Step::release_shared), 0);
  EXPECT_EQ(a.ask(Step::free_bytes), idle);
  EXPECT_EQ(c.ask(Step::free_bytes), idle);
  // Its maker dies: the charge is the importer's.
  const int again = a.descriptor(Step::create_shared, 6);
  EXPECT_EQ(b.give(Step::import_shared, 0, again), 6);
  EXPECT_EQ(c.give(Step::import_shared, 0, again), 6);
  close(again);
  a.kill_now();
  with += own;
  idle += own;
  EXPECT_EQ(b.ask(Step::free_bytes), with);
  EXPECT_EQ(c.ask(Step::free_bytes), with);
  EXPECT_EQ(b.ask(Step::release_shared), 0);
  EXPECT_EQ(b.ask(Step::free_bytes), with);  // c's now
  EXPECT_EQ(c.ask(Step::release_shared), 0);
  EXPECT_EQ(b.ask(Step::free_bytes), idle);
  EXPECT_EQ(c.ask(Step::free_bytes), idle);
  b.tell(Step::stop);
  c.tell(Step::stop);
  EXPECT_EQ(b.exit_code(), 0);
  EXPECT_EQ(c.exit_code(), 0);
  EXPECT_EQ(box.free_bytes(), all);
}

// Three processes share memory and exchange it; one dies at a random moment. The others go on, and when they
// have let go of everything the device is as empty as before.
TEST(Ipc, AKillAtARandomPointHarmsNobody) {
  std::mt19937 random(7);
  for (int round = 0; round < 15; ++round) {
    SharedBox box;
    const uint64_t all = box.free_bytes();
    {
      Worker b(box), c(box);
      const auto base = b.ask(Step::free_bytes);
      Process churn(box.name, "churn");
      int fd = -1;
      // The churning process hands out new memory all the time.
      receive<int>(churn.socket, &fd);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(b.give(Step::import_shared, 0, fd), 1234);
      close(fd);
      usleep(random() % 30000);
      churn.kill_now();
      EXPECT_EQ(b.ask(Step::free_bytes), base - 32) << round;  // only what b still holds
      EXPECT_EQ(c.ask(Step::free_bytes), base - 32) << round;
      const auto handle = b.get<CUipcMemHandle>(Step::export_memory, 9);
      EXPECT_EQ(c.give(Step::open_memory, handle), 9);
      EXPECT_EQ(c.ask(Step::close_memory), 0);
      EXPECT_EQ(b.ask(Step::free_memory), 0);
      EXPECT_EQ(b.ask(Step::release_shared), 0);
      EXPECT_EQ(c.ask(Step::free_bytes), base) << round;
      b.tell(Step::stop);
      c.tell(Step::stop);
      EXPECT_EQ(b.exit_code(), 0);
      EXPECT_EQ(c.exit_code(), 0);
    }
    EXPECT_EQ(box.free_bytes(), all) << round;
  }
}
namespace {
int churn() {
  start();
  const CUmemAllocationProp prop = exportable(0);
  CUmemGenericAllocationHandle handle = 0;
  MUST(cuMemCreate(&handle, 16 * kGrain, &prop, 0));
  MUST(cuMemsetD32(map(handle, 16 * kGrain), 1234, 1));
  MUST(cuCtxSynchronize());
  int fd = -1;
  MUST(cuMemExportToShareableHandle(&fd, handle, kFd, 0));
  send(kSocket, 0, fd);
  close(fd);
  while (true) {
    CUdeviceptr p = 0, q = 0;
    CUipcMemHandle ipc;
    CUmemGenericAllocationHandle other = 0;
    MUST(cuMemAlloc(&p, 3 * kGrain));
    MUST(cuIpcGetMemHandle(&ipc, p));
    MUST(cuMemCreate(&other, kGrain, &prop, 0));
    MUST(cuMemExportToShareableHandle(&fd, other, kFd, 0));
    q = map(other, kGrain);
    MUST(cuMemsetD32(q, 1, 64));
    close(fd);
    MUST(cuMemUnmap(q, kGrain));
    MUST(cuMemRelease(other));
    MUST(cuMemFree(p));
  }
}
}  // namespace

// --- one process: the errors ---
struct IpcErrors : driver_test::Driver {};

TEST_F(IpcErrors, OfMemory) {
  CUipcMemHandle handle;
  CUdeviceptr p = 0, managed = 0, q = 0;
  void* pinned = nullptr;
  OK(cuMemAlloc(&p, 4096));
  OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemHostAlloc(&pinned, 4096, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(nullptr, p));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, p + 512));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, managed));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)));
  OK(cuMemAllocAsync(&q, 4096, nullptr));
  OK(cuStreamSynchronize(nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, q));
  OK(cuMemFree(q));
  OK(cuIpcGetMemHandle(&handle, p));
  CUipcMemHandle again;
  OK(cuIpcGetMemHandle(&again, p));
  EXPECT_EQ(memcmp(&handle, &again, sizeof handle), 0);
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&q, handle, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&q, handle, 2));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(nullptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(p));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(0));
  OK(cuMemFree(p));
  OK(cuMemAlloc(&q, 4096));
  EXPECT_EQ(q, p);  // the same address again
  OK(cuIpcGetMemHandle(&again, q));
  EXPECT_NE(memcmp(&handle, &again, sizeof handle), 0);
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, q + 4096));
  OK(cuCtxSetCurrent(nullptr));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcGetMemHandle(&handle, q));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcCloseMemHandle(q));
  OK(cuCtxSetCurrent(context));
}

TEST_F(IpcErrors, OfEvents) {
  CUevent plain = nullptr, event = nullptr, opened = nullptr;
  CUipcEventHandle handle;
  OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));  // must not be timed
  OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, nullptr));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(nullptr, event));
  OK(cuIpcGetEventHandle(&handle, event));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&opened, handle));
  FAILS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenEventHandle(nullptr, handle));
  float ms = 0;
  OK(cuEventRecord(event, nullptr));
  OK(cuEventSynchronize(event));
  OK(cuEventQuery(event));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, event, event));
  int supported = 0;
  OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
  EXPECT_EQ(supported, 1);
}

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "--role=worker") return worker(argc > 2 ? atoi(argv[2]) : 0);
  if (role == "--role=churn") return churn();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
