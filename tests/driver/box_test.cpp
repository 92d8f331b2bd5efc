// The driver and the box it runs in: processes, clock, faults as NVML sees them; links that are broken or not
// there; devices beyond PCI domain 0.
#include <array>

#include "tests/driver/ipc_process.h"

using driver_test::Process;
using driver_test::read_int;
using driver_test::receive;
using driver_test::role_kernel;
using driver_test::send;
using driver_test::SharedBox;

namespace {
constexpr int kSocket = 3;

// Four devices: 0-1 whole, 0-2 broken, 0-3 no peer access.
const char* kLinks = R"(
default = "nvlink5"
[[pair]]
devices = [0, 2]
p2p = "broken"
[[pair]]
devices = [0, 3]
p2p = "not_supported"
)";

int links_role() {
  MUST(cuInit(0));
  CUcontext contexts[4];
  CUdeviceptr memory[4];
  for (int i = 0; i < 4; ++i) {
    MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
    MUST(cuCtxSetCurrent(contexts[i]));
    MUST(cuMemAlloc(&memory[i], 4096));
    MUST(cuMemsetD32(memory[i], 10 + unsigned(i), 4));
    MUST(cuCtxSynchronize());
  }
  MUST(cuCtxSetCurrent(contexts[0]));
  for (int i = 1; i < 4; ++i) {
    int can = 0, supported = 0, back = 0;
    MUST(cuDeviceCanAccessPeer(&can, 0, i));
    MUST(cuDeviceCanAccessPeer(&back, i, 0));
    MUST(cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, i));
    const CUresult enabled = cuCtxEnablePeerAccess(contexts[i], 0);
    MUST(cuMemcpyPeer(memory[i], contexts[i], memory[0], contexts[0], 4));
    const int copied = read_int(memory[i]);
    // A kernel of device 0 that reads device i's memory.
    int seen = -1;
    if (enabled == CUDA_SUCCESS) {
      CUdeviceptr out = memory[0] + 64, from = memory[i] + 4;
      void* args[] = {&out, &from};
      MUST(cuLaunchKernel(role_kernel("copy_value"), 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
      MUST(cuCtxSynchronize());
      seen = read_int(out);
    }
    const int answers[6] = {can, back, supported, int(enabled), copied, seen};
    send(kSocket, answers);
  }
  return 0;
}

int fault_role() {
  MUST(cuInit(0));
  CUcontext context = nullptr;
  MUST(cuDevicePrimaryCtxRetain(&context, 1));
  MUST(cuCtxSetCurrent(context));
  send(kSocket, 0);
  receive<int>(kSocket);
  int rounds = 1000;
  CUdeviceptr p = 0, nowhere = 8;
  MUST(cuMemAlloc(&p, 4096));
  void* args[] = {&p, &rounds};
  MUST(cuLaunchKernel(role_kernel("burn"), 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  MUST(cuCtxSynchronize());
  send(kSocket, 0);
  receive<int>(kSocket);
  void* bad[] = {&nowhere, &rounds};
  MUST(cuLaunchKernel(role_kernel("set_value"), 1, 1, 1, 1, 1, 1, 0, nullptr, bad, nullptr));
  if (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) return 1;
  send(kSocket, 0);
  receive<int>(kSocket);
  MUST(cuDevicePrimaryCtxReset(1));
  send(kSocket, 0);
  receive<int>(kSocket);
  return 0;
}

bool on_list(simgpu::Box& box, int device, pid_t pid) {
  for (const auto& use : box.processes(device))
    if (pid_t(use.pid) == pid) return true;
  return false;
}
}  // namespace

TEST(DriverBox, LinksDecideWhatPeersCan) {
  const std::string file = testing::TempDir() + "links_" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << kLinks;
  SharedBox box("b200:4@mem=1GiB", file);
  unlink(file.c_str());
  Process process(box.name, "links");
  using Answers = std::array<int, 6>;
  EXPECT_EQ(receive<Answers>(process.socket), (Answers{1, 1, 1, CUDA_SUCCESS, 10, 11}));
  // Broken: everything says yes, and no byte arrives.
  EXPECT_EQ(receive<Answers>(process.socket), (Answers{1, 1, 1, CUDA_SUCCESS, 12, 0}));
  // Not supported: copies go through the host, access is refused.
  EXPECT_EQ(receive<Answers>(process.socket), (Answers{0, 0, 0, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 10, -1}));
  EXPECT_EQ(process.exit_code(), 0);
}

TEST(DriverBox, ProcessesClockAndFaultsAreSeenFromOutside) {
  SharedBox box("b200:4@mem=1GiB");
  simgpu::DeviceState& state = box.view->state(1);
  Process process(box.name, "fault");
  EXPECT_EQ(receive<int>(process.socket), 0);
  EXPECT_TRUE(on_list(*box.view, 1, process.pid));
  EXPECT_FALSE(on_list(*box.view, 0, process.pid));
  EXPECT_EQ(state.busy_ns.load(), 0u);
  const uint64_t before = box.view->merge_clock(0);
  send(process.socket, 0);
  EXPECT_EQ(receive<int>(process.socket), 0);
  EXPECT_GT(box.view->merge_clock(0), before);
  EXPECT_GT(state.busy_ns.load(), 0u);
  EXPECT_LE(state.busy_ns.load(), box.view->merge_clock(0));
  EXPECT_EQ(state.xid.load(), 0u);
  const uint32_t word = box.view->event_word();
  send(process.socket, 0);
  EXPECT_EQ(receive<int>(process.socket), 0);
  EXPECT_TRUE(box.view->wait_event(word, 1000));
  EXPECT_EQ(state.xid.load(), 31u);  // a page fault of the device's memory unit
  EXPECT_EQ(box.view->state(0).xid.load(), 0u);
  send(process.socket, 0);
  EXPECT_EQ(receive<int>(process.socket), 0);
  EXPECT_FALSE(on_list(*box.view, 1, process.pid));  // its context has gone
  send(process.socket, 0);
  EXPECT_EQ(process.exit_code(), 0);
}

// Many devices of one model take more than one PCI domain.
TEST(DriverBox, DevicesAreFoundByBusIdInEveryDomain) {
  simgpu::BoxSpec spec;
  std::string error;
  ASSERT_TRUE(simgpu::parse_box_spec("b200:20@mem=1GiB", "nvlink5", spec, error)) << error;
  std::string name;
  ASSERT_TRUE(simgpu::Box::create_named(spec, name, error)) << error;
  Process process(name, "bus");
  const auto found = receive<std::array<int, 2>>(process.socket);
  EXPECT_EQ(found[0], 20);
  EXPECT_GT(found[1], 0);  // devices outside domain 0
  EXPECT_EQ(process.exit_code(), 0);
  simgpu::Box::unlink_named(name);
}
namespace {
int bus_role() {
  MUST(cuInit(0));
  int count = 0, version = 0;
  std::array<int, 2> found = {};
  MUST(cuDeviceGetCount(&count));
  for (int i = 0; i < count; ++i) {
    char id[32];
    CUdevice device = -1;
    int domain = 0, bus = 0;
    MUST(cuDeviceGetPCIBusId(id, sizeof id, i));
    MUST(cuDeviceGetByPCIBusId(&device, id));
    MUST(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i));
    MUST(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
    unsigned text_domain = 0, text_bus = 0;
    if (sscanf(id, "%x:%x:00.0", &text_domain, &text_bus) != 2) return 1;
    if (int(text_domain) != domain || int(text_bus) != bus) return 2;
    found[0] += device == i;
    found[1] += domain > 0;
  }
  MUST(cuDriverGetVersion(&version));
  if (version != simgpu::kCudaDriverVersion) return 3;
  send(kSocket, found);
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "--role=links") return links_role();
  if (role == "--role=fault") return fault_role();
  if (role == "--role=bus") return bus_role();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
