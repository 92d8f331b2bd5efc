// The model as the call path drives it: before() and after() around calls of a small driver stand-in.
#include "runtime/model/model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <thread>

namespace shunt::model {
namespace {

thread_local CUcontext t_current = nullptr;
CUresult ctx_get_current(CUcontext* out) { return *out = t_current, CUDA_SUCCESS; }
CUresult ctx_get_device(CUdevice* out) { return *out = 3, CUDA_SUCCESS; }

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Model::fork_child();  // a fresh model
    Questions q;
    q.ctx_get_current = ctx_get_current;
    q.ctx_get_device = ctx_get_device;
    model().set_questions(q);
    t_current = context(1);
  }
  static Model& model() { return Model::get(); }
  static CUcontext context(uint64_t n) { return reinterpret_cast<CUcontext>(0xC000 + n * 16); }
  static CUstream stream(uint64_t n) { return reinterpret_cast<CUstream>(0x5000 + n * 16); }
  static CUevent event(uint64_t n) { return reinterpret_cast<CUevent>(0xE000 + n * 16); }

  static Op op(OpKind kind, OpClass op_class) {
    Op o;
    o.kind = kind;
    o.op_class = op_class;
    return o;
  }
  static Op run(Op o, CUresult result = CUDA_SUCCESS) {
    Model::Undo undo;
    model().before(o, undo);
    o.result = result;
    model().after(o, undo);
    return o;
  }
  static Op alloc(uint64_t address, uint64_t bytes, OpKind kind = OpKind::alloc_linear,
                  CUresult result = CUDA_SUCCESS) {
    Op o = op(kind, OpClass::alloc);
    o.out = result == CUDA_SUCCESS ? address : 0;
    o.bytes = bytes;
    return run(o, result);
  }
  static Op free(uint64_t address, CUresult result = CUDA_SUCCESS) {
    Op o = op(OpKind::free_linear, OpClass::free);
    o.object = address;
    return run(o, result);
  }
  static Op create_stream(CUstream s) {
    Op o = op(OpKind::stream_create, OpClass::alloc);
    o.out = reinterpret_cast<uint64_t>(s);
    o.aux = CU_STREAM_NON_BLOCKING;
    return run(o);
  }
  static Op on_stream(OpKind kind, CUstream s, uint64_t object = 0, CUresult result = CUDA_SUCCESS,
                      OpClass c = OpClass::launch) {
    Op o = op(kind, c);
    o.stream = s;
    o.object = object;
    o.asynchronous = true;
    return run(o, result);
  }
};

TEST_F(ModelTest, AllocationsFollowTheDriver) {
  alloc(0x1000, 64);
  alloc(0x9000, 64, OpKind::alloc_linear, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(model().allocations().size(), 1u);
  EXPECT_EQ(model().allocations().find(0x1020)->device, 3);
  free(0x1000, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(model().allocations().find(0x1000)) << "a failed free frees nothing";
  free(0x1000);
  EXPECT_FALSE(model().allocations().find(0x1000));
  free(0x1000, CUDA_ERROR_INVALID_VALUE);  // double free: the driver's business
  alloc(0x2000, 128, OpKind::alloc_host);
  EXPECT_EQ(model().allocations().find(0x2000)->device, -1);
}

TEST_F(ModelTest, AFreedAddressMayReturnDuringTheCall) {
  alloc(0x1000, 64);
  Op o = op(OpKind::free_linear, OpClass::free);
  o.object = 0x1000;
  Model::Undo undo;
  model().before(o, undo);
  alloc(0x1000, 32);  // another thread got it while our free was in the driver
  o.result = CUDA_SUCCESS;
  model().after(o, undo);
  ASSERT_TRUE(model().allocations().find(0x1000));
  EXPECT_EQ(model().allocations().find(0x1000)->bytes, 32u);
}

TEST_F(ModelTest, SpecialStreamsPerContextAndThread) {
  StreamInfo* legacy = model().stream(nullptr, false, context(1));
  EXPECT_EQ(legacy, model().stream(CU_STREAM_LEGACY, true, context(1)));
  EXPECT_NE(legacy, model().stream(nullptr, false, context(2)));
  StreamInfo* mine = model().stream(nullptr, true, context(1));
  EXPECT_EQ(mine, model().stream(CU_STREAM_PER_THREAD, false, context(1)));
  EXPECT_NE(mine, legacy);
  StreamInfo* other = nullptr;
  std::thread([&] { other = model().stream(nullptr, true, context(1)); }).join();
  EXPECT_NE(mine, other);
  EXPECT_EQ(mine->role, StreamRole::thread_default);
}

TEST_F(ModelTest, StreamHandlesAreReusedIdentitiesAreNot) {
  create_stream(stream(1));
  const uint64_t first = model().stream(stream(1), false, context(1))->id;
  Op destroy = op(OpKind::stream_destroy, OpClass::free);
  destroy.object = reinterpret_cast<uint64_t>(stream(1));
  run(destroy, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(model().stream(stream(1), false, context(1))->id, first) << "the destruction failed";
  run(destroy);
  create_stream(stream(1));
  const StreamInfo* again = model().stream(stream(1), false, context(1));
  EXPECT_NE(again->id, first);
  EXPECT_TRUE(again->non_blocking);
}

TEST_F(ModelTest, ForgottenHandleIsForgottenByOtherThreadsCaches) {
  create_stream(stream(1));
  std::atomic<int> phase{0};
  uint64_t before = 0, after = 0;
  std::thread other([&] {
    before = model().stream(stream(1), false, context(1))->id;  // now in this thread's cache
    phase = 1;
    while (phase != 2) std::this_thread::yield();
    after = model().stream(stream(1), false, context(1))->id;
  });
  while (phase != 1) std::this_thread::yield();
  Op destroy = op(OpKind::stream_destroy, OpClass::free);
  destroy.object = reinterpret_cast<uint64_t>(stream(1));
  run(destroy);
  create_stream(stream(1));
  phase = 2;
  other.join();
  EXPECT_NE(before, after);
}

TEST_F(ModelTest, CaptureSpreadsThroughEventsAndEnds) {
  create_stream(stream(1));
  create_stream(stream(2));
  auto info = [&](uint64_t n) { return model().stream(stream(n), false, context(1)); };
  on_stream(OpKind::capture_begin, stream(1), 0, CUDA_SUCCESS, OpClass::capture);
  EXPECT_TRUE(model().capturing(info(1)));
  EXPECT_FALSE(model().capturing(info(2)));
  EXPECT_TRUE(model().any_capture());
  on_stream(OpKind::event_record, stream(1), reinterpret_cast<uint64_t>(event(1)));
  on_stream(OpKind::event_wait, stream(2), reinterpret_cast<uint64_t>(event(1)));
  EXPECT_TRUE(model().capturing(info(2)));
  on_stream(OpKind::capture_end, stream(2), 0, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, OpClass::capture);
  EXPECT_TRUE(model().capturing(info(2))) << "only the origin ends a capture";
  on_stream(OpKind::capture_end, stream(1), 0, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, OpClass::capture);
  EXPECT_FALSE(model().capturing(info(1))) << "an invalidated capture ends too";
  EXPECT_FALSE(model().capturing(info(2)));
  EXPECT_FALSE(model().any_capture());
  // An event recorded in a finished capture no longer draws anybody in.
  on_stream(OpKind::event_wait, stream(2), reinterpret_cast<uint64_t>(event(1)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(model().capturing(info(2)));
}

TEST_F(ModelTest, CurrentContextFollowsTheThread) {
  EXPECT_EQ(model().current_context(), context(1));
  Op set = op(OpKind::context_current, OpClass::device);
  set.object = reinterpret_cast<uint64_t>(context(2));
  set.aux = 1;
  t_current = context(2);
  run(set);
  EXPECT_EQ(model().current_context(), context(2));
  set.object = reinterpret_cast<uint64_t>(context(9));
  run(set, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(model().current_context(), context(2)) << "a refused call changes nothing";
  Op pop = op(OpKind::context_current, OpClass::device);
  t_current = context(1);
  run(pop);
  EXPECT_EQ(model().current_context(), context(1));
  // Another thread destroys what is current here.
  std::thread([&] {
    Op destroy = op(OpKind::context_destroy, OpClass::device);
    destroy.object = reinterpret_cast<uint64_t>(context(1));
    run(destroy);
  }).join();
  t_current = nullptr;
  EXPECT_EQ(model().current_context(), nullptr);
}

TEST_F(ModelTest, ContextTakesItsContentAlong) {
  alloc(0x1000, 64);
  create_stream(stream(1));
  Op created = op(OpKind::event_create, OpClass::alloc);
  created.out = reinterpret_cast<uint64_t>(event(1));
  run(created);
  EXPECT_EQ(model().counts().events, 1u);
  Op destroy = op(OpKind::context_destroy, OpClass::device);
  destroy.object = reinterpret_cast<uint64_t>(context(1));
  run(destroy, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(model().counts().streams, 1u);
  run(destroy);
  const auto counts = model().counts();
  EXPECT_EQ(counts.streams + counts.events + counts.allocations, 0u);
}

TEST_F(ModelTest, FunctionsBelongToTheirModule) {
  Op load = op(OpKind::module_load, OpClass::module);
  load.out = 0x3000;
  load.aux = 1;
  run(load);
  Op get = op(OpKind::function_get, OpClass::module);
  get.object = 0x3000;
  get.out = 0x4000;
  get.aux = 1;
  get.name = "saxpy";
  run(get);
  const FunctionInfo* f = model().function(reinterpret_cast<CUfunction>(0x4000));
  EXPECT_STREQ(f->name, "saxpy");
  EXPECT_TRUE(f->kernel);
  EXPECT_EQ(f->module, 0x3000u);
  Op unload = op(OpKind::module_unload, OpClass::module);
  unload.object = 0x3000;
  run(unload);
  EXPECT_EQ(model().counts().functions, 0u);
}

TEST_F(ModelTest, RandomProgramsAgreeWithAPlainModel) {
  EXPECT_TRUE(rc::check("create, destroy, alloc, free with failures", [] {
    Model::fork_child();
    std::set<uint64_t> streams;
    std::map<uint64_t, uint64_t> memory;
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 4), rc::gen::inRange(0, 10), rc::gen::inRange(0, 4)));
    for (const auto& [kind, n, luck] : steps) {
      const bool fails = luck == 0;
      const uint64_t address = 0x10000 + static_cast<uint64_t>(n) * 0x1000;
      const uint64_t handle = reinterpret_cast<uint64_t>(stream(static_cast<uint64_t>(n)));
      switch (kind) {
        case 0:
          if (memory.count(address)) break;
          alloc(address, 0x800, OpKind::alloc_linear, fails ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
          if (!fails) memory[address] = 0x800;
          break;
        case 1:
          if (!memory.count(address)) break;
          free(address, fails ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS);
          if (!fails) memory.erase(address);
          break;
        case 2:
          if (streams.insert(handle).second) create_stream(stream(static_cast<uint64_t>(n)));
          break;
        case 3: {
          if (!streams.count(handle)) break;
          Op destroy = op(OpKind::stream_destroy, OpClass::free);
          destroy.object = handle;
          run(destroy, fails ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS);
          if (!fails) streams.erase(handle);
          break;
        }
      }
      RC_ASSERT(model().allocations().size() == memory.size());
      RC_ASSERT(model().counts().streams == streams.size());
      for (const auto& [base, bytes] : memory)
        RC_ASSERT(model().allocations().find(base + bytes - 1).has_value());
    }
  }));
}

TEST_F(ModelTest, ThreadsWithTheirOwnObjectsSeeExactlyThose) {
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      t_current = context(t + 10);
      for (uint64_t i = 0; i < 3000; i++) {
        const CUstream s = stream(1000 + t * 8 + i % 8);
        create_stream(s);
        const StreamInfo* info = model().stream(s, false, t_current);
        if (!info || info->handle != s || info->context != t_current) errors++;
        const uint64_t address = 0x100000 * (t + 1) + i % 16 * 0x1000;
        alloc(address, 0x1000);
        const Op launch = on_stream(OpKind::kernel, s, 0x4000);
        if (launch.stream_info != info) errors++;
        const auto a = model().allocations().find(address + 5);
        if (!a || a->context != t_current) errors++;
        free(address);
        Op destroy = op(OpKind::stream_destroy, OpClass::free);
        destroy.object = reinterpret_cast<uint64_t>(s);
        run(destroy);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(model().counts().streams, 0u);
  EXPECT_EQ(model().allocations().size(), 0u);
}

}  // namespace
}  // namespace shunt::model
