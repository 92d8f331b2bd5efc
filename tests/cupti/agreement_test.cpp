// Random programs over two devices: every line of SIMGPU_TIMELINE that a selected kind covers has its record,
// in order and with the same numbers, and there is no record without a line. Graphs once by node, once whole.
#include <algorithm>
#include <random>
#include <set>

#include "tests/cupti/cupti_test.h"
#include "tests/cupti/timeline.h"

using namespace cupti_test;
using nlohmann::json;

namespace {

// Before the driver makes its box.
const int two_devices = setenv("SIMGPU_SPEC", "b200:2", 1);

struct Row {
  std::string kind;
  uint64_t start = 0, end = 0, device = 0, context = 0, stream = 0, correlation = 0, bytes = 0, graph = 0,
           node = 0;
  std::string name;
  auto operator<=>(const Row&) const = default;
};
void PrintTo(const Row& r, std::ostream* out) {
  *out << r.kind << " " << r.name << " [" << r.start << ", " << r.end << "] device " << r.device
       << " context " << r.context << " stream " << r.stream << " correlation " << r.correlation << " bytes "
       << r.bytes << " graph " << r.graph << " node " << r.node;
}

Row row_of(const json& line) {
  const auto number = [&](const char* key) { return line.contains(key) ? line[key].get<uint64_t>() : 0; };
  Row r;
  r.kind = line["kind"];
  r.start = kEpoch + number("start_ns");
  r.end = kEpoch + number("end_ns");
  r.device = number("device");
  r.context = number("context");
  r.stream = number("stream");
  r.correlation = number("correlation");
  r.graph = number("graph");
  r.node = number("graph_node");
  if (r.kind == "kernel") r.name = line["name"];
  if (r.kind == "memcpy" || r.kind == "memset") r.bytes = number("bytes");
  return r;
}
template <class Record>
Row device_row(const char* kind, const Record& r) {
  Row row;
  row.kind = kind;
  row.start = r.start;
  row.end = r.end;
  row.device = r.deviceId;
  row.context = r.contextId;
  row.stream = r.streamId;
  row.correlation = r.correlationId;
  row.graph = r.graphId;
  if constexpr (requires { r.graphNodeId; }) row.node = r.graphNodeId;
  if constexpr (requires { r.bytes; }) row.bytes = r.bytes;
  return row;
}

struct Agreement : Cupti, ::testing::WithParamInterface<int> {
  // A few streams on each of two devices, with events between them, copies of all kinds, and a graph.
  void program(unsigned seed) {
    std::mt19937 random(seed);
    const auto any = [&](unsigned n) { return unsigned(random() % n); };
    CUcontext contexts[2] = {context, nullptr};
    OK(cuDevicePrimaryCtxRetain(&contexts[1], 1));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuCtxEnablePeerAccess(contexts[1], 0));
    CUdeviceptr memory[2];
    CUstream streams[2][2];
    CUevent event = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    for (int d : {1, 0}) {
      OK(cuCtxSetCurrent(contexts[d]));
      OK(cuMemAlloc(&memory[d], 1 << 20));
      for (CUstream& s : streams[d]) OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    }
    OK(cuEventCreate(&event, 0));
    const auto add = [&](CUstream s, int value) {
      CUdeviceptr p = memory[0];
      OK(run(kernel("add_value"), {&p, &value}, s));
    };
    OK(cuStreamBeginCapture(streams[0][0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    add(streams[0][0], 1);
    OK(cuMemsetD8Async(memory[0] + 4096, 3, 64, streams[0][0]));
    OK(cuMemcpyDtoDAsync(memory[0] + 8192, memory[0], 256, streams[0][0]));
    OK(cuStreamEndCapture(streams[0][0], &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    std::vector<char> host(1 << 16);
    for (int step = 0; step < 60; ++step) {
      const unsigned d = any(2), bytes = 4 * (1 + any(4000));
      OK(cuCtxSetCurrent(contexts[d]));
      CUstream s = streams[d][any(2)];
      switch (any(8)) {
        case 0:
          OK(cuMemsetD32Async(memory[d], step, bytes / 4, s));
          break;
        case 1:
          OK(cuMemcpyHtoDAsync(memory[d], host.data(), bytes, s));
          break;
        case 2:
          OK(cuMemcpyDtoHAsync(host.data(), memory[d], bytes, s));
          break;
        case 3:
          OK(cuMemcpyPeerAsync(memory[1 - d], contexts[1 - d], memory[d], contexts[d], bytes, s));
          break;
        case 4:
          OK(cuMemcpyDtoDAsync(memory[d] + (1 << 19), memory[d], bytes, s));
          break;
        case 5:
          if (d == 0) add(s, step);
          break;
        case 6:
          if (d == 0) OK(cuGraphLaunch(exec, s));
          break;
        default:
          if (d == 0) {
            OK(cuEventRecord(event, s));
            OK(cuStreamWaitEvent(streams[0][any(2)], event, 0));
          }
      }
      if (any(6) == 0) OK(cuStreamSynchronize(s));
    }
    for (int d : {1, 0}) {
      OK(cuCtxSetCurrent(contexts[d]));
      OK(cuCtxSynchronize());
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDevicePrimaryCtxRelease(1));
  }
};

}  // namespace

TEST_P(Agreement, NothingMoreAndNothingLess) {
  const bool whole = GetParam() % 2;
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
          CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_DRIVER});
  if (whole) enable({CUPTI_ACTIVITY_KIND_GRAPH_TRACE});
  const size_t from = timeline_size();
  program(unsigned(GetParam()));
  CUPTI_OK(cuptiActivityFlushAll(0));

  std::multiset<Row> expected, got;
  for (const json& line : timeline(from)) {
    const Row row = row_of(line);
    if (row.kind == "kernel" || row.kind == "memcpy" || row.kind == "memset") {
      if (!(whole && row.node)) expected.insert(row);
    } else if (row.kind == "graph" && whole) {
      expected.insert(row);
    } else if (row.kind == "api") {
      Row api;
      api.kind = row.kind, api.start = row.start, api.end = row.end, api.correlation = row.correlation;
      api.bytes = uint64_t(line["result"].get<int>());
      expected.insert(api);
    }
  }
  for (const auto& r : client.of<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    Row row = device_row("kernel", r);
    row.name = r.name;
    got.insert(row);
  }
  for (const auto& r : client.of<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY))
    got.insert(device_row("memcpy", r));
  const auto peers = client.of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  for (const auto& r : peers) {
    got.insert(device_row("memcpy", r));
    EXPECT_NE(r.srcDeviceId, r.dstDeviceId);
  }
  for (const auto& r : client.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET))
    got.insert(device_row("memset", r));
  const auto graphs = client.of<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  for (const auto& r : graphs) got.insert(device_row("graph", r));
  for (const auto& r : client.of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER)) {
    Row row;
    row.kind = "api", row.start = r.start, row.end = r.end, row.correlation = r.correlationId;
    row.bytes = r.returnValue;
    got.insert(row);
  }
  const auto of_graphs = [](const Row& r) { return r.kind != "api" && r.node != 0; };
  EXPECT_GT(peers.size(), 2u);
  EXPECT_EQ(graphs.empty(), !whole);
  EXPECT_EQ(std::any_of(got.begin(), got.end(), of_graphs), !whole);
  EXPECT_GT(got.size(), 80u);
  std::vector<Row> missing, extra;
  std::set_difference(expected.begin(), expected.end(), got.begin(), got.end(), std::back_inserter(missing));
  std::set_difference(got.begin(), got.end(), expected.begin(), expected.end(), std::back_inserter(extra));
  EXPECT_EQ(missing, std::vector<Row>());
  EXPECT_EQ(extra, std::vector<Row>());
}
INSTANTIATE_TEST_SUITE_P(Seeds, Agreement, ::testing::Range(1, 9));
