// The graphs link between a program made of Ops and a driver that only writes down, in order, what reached
// it. Graph launches are written down as the kernels they stand for, with the parameters their nodes have at
// that moment.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/exec/driver.h"
#include "runtime/exec/host.h"
#include "runtime/graphs/graphs_link.h"
#include "runtime/model/model.h"

namespace shunt::graphs::test {

struct Submitted {
  uint64_t stream, function, argument;
  bool operator==(const Submitted&) const = default;
};

// One kernel has one 8-byte parameter. Everything under one mutex: the builder's thread comes here too.
struct FakeDevice {
  struct Graph {
    std::vector<std::pair<uint64_t, uint64_t>> nodes;  // function, argument
  };
  uint32_t transfer_nodes = 0;  // launched in graphs
  std::mutex mutex;
  std::vector<Submitted> log;
  std::map<uint64_t, Graph> graphs, execs;
  uint64_t next = 0x10000;
  uint32_t graph_launches = 0, patches = 0, live_execs = 0;
  CUresult graph_answer = CUDA_SUCCESS, launch_answer = CUDA_SUCCESS, instantiate_answer = CUDA_SUCCESS;
  static FakeDevice& get();
};

class Recorder final : public exec::Link {
 public:
  const char* name() const override { return "recorder"; }
  bool sees_launches() const override { return false; }
  CUresult on_op(model::Op& op) override {
    if (on_other && op.kind != model::OpKind::kernel && op.kind != model::OpKind::graph_launch) on_other(op);
    return op.invoke ? op.invoke(op) : CUDA_SUCCESS;
  }
  std::function<void(model::Op&)> on_other;
};

const ShuntHost* graphs_host();

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override {
    link_->drain(exec::Scope::everything(), Reason::none);
    model::this_thread().inside_library = 0;
  }
  model::StreamInfo* stream(uint64_t handle, bool non_blocking = false);
  CUresult launch(uint64_t s, uint64_t function, uint64_t argument);
  // A memset (32-bit) or a copy within device memory, as the program would make it. In the log: function
  // 0xF1115E7 or 0xC0B1E5, the argument mixes all parameters.
  CUresult fill(uint64_t s, uint64_t to, uint32_t value, uint64_t bytes);
  CUresult copy(uint64_t s, uint64_t to, uint64_t from, uint64_t bytes);
  static constexpr uint64_t kFill = 0xF1115E7, kCopy = 0xC0B1E5;
  static uint64_t mixed(uint64_t to, uint64_t from, uint64_t bytes) { return to * 31 + from * 7 + bytes; }
  void own_memory(uint64_t base, uint64_t bytes, model::MemoryKind kind = model::MemoryKind::device);
  CUresult other(model::OpKind kind, model::OpClass op_class, uint64_t s, bool asynchronous = true);
  // Repeats `period` launches on the stream until they are replayed, and stops with some of a period held
  // back.
  void train(uint64_t s, uint32_t period = 16);
  std::vector<Submitted> submitted(uint64_t s);
  const std::vector<Submitted>& called(uint64_t s) { return called_[s]; }
  bool all_submitted(uint64_t s) { return submitted(s) == called_[s]; }

  std::unique_ptr<GraphsLink> link_;
  Recorder recorder_;
  std::map<uint64_t, std::vector<Submitted>> called_;
  CUcontext context_ = reinterpret_cast<CUcontext>(0xC0);
};

}  // namespace shunt::graphs::test
