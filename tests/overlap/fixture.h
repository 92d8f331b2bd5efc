// The overlap link between a program made of Ops and NCCL calls and a driver that keeps only the order: every
// piece of work knows which others come before it, by streams, events, the default stream's rules and what
// the host has waited for. Conflicts are asked about by name: before(a, b).
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/exec/links/model_link.h"
#include "runtime/overlap/overlap_link.h"

namespace shunt::overlap::test {

using Work = int;  // a number for each piece of device work, from 1
using WorkSet = std::set<Work>;

// Streams are non-blocking unless the model says otherwise. All under one mutex.
struct FakeDevice {
  std::recursive_mutex mutex;
  std::map<uint64_t, WorkSet> streams;  // what is before the stream's next work
  std::map<uint64_t, WorkSet> events;
  std::map<uint64_t, uint64_t> event_streams;  // where last recorded
  std::set<uint64_t> blocking, own_streams, live_own_streams;
  std::map<Work, WorkSet> before;
  std::vector<std::string> calls;
  WorkSet host;  // what the host has waited for
  Work next_work = 0;
  uint64_t next_handle = 0x10000;
  int refuse_events = 0, refuse_waits = 0, refuse_records = 0, refuse_streams = 0;  // answers to come
  float now = 0, period[2] = {0, 0};                                                // for events with timing
  std::map<uint64_t, float> event_times;
  int not_ready = 0;  // answers to come
  uint32_t host_waits = 0, stale_events = 0;
  uint64_t oldest_event = 0;  // own events below are gone with their context

  static FakeDevice& get();
  uint64_t key(CUstream s) const;
  // Work on a stream, with what the default stream's rules add.
  Work submit(CUstream s);
  void wait_rules(uint64_t stream);
};

class OverlapTest : public ::testing::Test {
 public:
  static constexpr uint64_t kUnseen = 0x3000;

 protected:
  static constexpr uint64_t kX = 0x1000, kY = 0x2000;
  static constexpr uint64_t kBuffer = 0x7000'0000, kOther = 0x7800'0000, kHost = 0x6000'0000,
                            kBytes = 1 << 20;

  void SetUp() override { start({}); }
  void TearDown() override { model::this_thread().inside_library = 0; }
  void start(OverlapLink::Settings settings);

  // The program's calls. Each returns the work it made (0: none).
  model::StreamInfo* stream(uint64_t handle, bool non_blocking = true);
  Work collective(uint64_t s, uint64_t buffer, uint64_t bytes = 4096, nccl::Comm comm = kComm);
  Work touch(uint64_t s, uint64_t buffer, uint32_t bytes = 4096);  // a kernel that writes it
  Work opaque(uint64_t s, uint64_t buffer);                        // one whose accesses are not known
  Work call(model::OpKind kind, model::OpClass op_class, uint64_t s,
            const std::function<void(model::Op&)>& fill = nullptr);
  void record(uint64_t event, uint64_t s);
  void wait(uint64_t s, uint64_t event);
  // The first two uses of a kind of call stay where they are: makes them, waits, and leaves nothing pending.
  void warm(uint64_t s, nccl::Comm comm = kComm);
  void allocate(uint64_t base, uint64_t bytes, model::OpKind kind = model::OpKind::alloc_linear);

  bool before(Work a, Work b) { return d().before[b].count(a) != 0; }
  bool stream_after(uint64_t s, Work a);  // the stream's next work would come after it
  bool moved(Work w) { return on_own_.count(w) != 0; }
  nccl::Result member(uint64_t s, uint64_t buffer, Work& out, nccl::Comm comm = kComm);
  static FakeDevice& d() { return FakeDevice::get(); }
  CUstream handle(uint64_t s) { return reinterpret_cast<CUstream>(s); }

  static inline const nccl::Comm kComm = reinterpret_cast<nccl::Comm>(0xCC0),
                                 kComm2 = reinterpret_cast<nccl::Comm>(0xCC1);
  static inline const CUcontext kContext = reinterpret_cast<CUcontext>(0xC0);
  OverlapLink* link_ = nullptr;  // leaked, as in a process
  std::set<Work> on_own_;
  static inline std::function<void()> inside_driver_;  // runs in the middle of a call of the program
  std::function<void()> inside_nccl_;                  // runs in the middle of a collective's call
  nccl::Result nccl_answer_ = 0;
  static inline thread_local Work last_ = 0;  // of the calling thread: several call at once
  uint64_t first_handle_ = 0;
};

}  // namespace shunt::overlap::test
