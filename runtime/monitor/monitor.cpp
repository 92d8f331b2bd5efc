#include "runtime/monitor/monitor.h"

#include <cmath>
#include <mutex>

#include "runtime/base/clock.h"
#include "runtime/monitor/readings.h"

namespace shunt::monitor {

struct Monitor::State {
  std::mutex mutex;
  nvml::Functions f;
  std::string driver_version;
  int cuda_version = 0;
  bool names = false;
  struct Entry {
    nvml::Handle handle = nullptr;
    Identity identity;
    bool gpm = false;
    nvml::GpmSample previous = nullptr, current = nullptr;
    bool has_previous = false;
    uint32_t last_xid = 0, xid_count = 0;
  };
  std::vector<Entry> entries;
  nvml::EventSet events = nullptr;

  void register_events(Entry& entry);
  void drain_events();
  std::optional<Rates> read_rates(Entry& entry);
};

namespace {

constexpr uint32_t kGpmIds[] = {nvml::kGpmSm,     nvml::kGpmTensor,   nvml::kGpmDram,    nvml::kGpmPcieTx,
                                nvml::kGpmPcieRx, nvml::kGpmNvlinkTx, nvml::kGpmNvlinkRx};
double Rates::*const kGpmFields[] = {&Rates::sm_percent,     &Rates::tensor_percent, &Rates::dram_percent,
                                     &Rates::pcie_tx_mib_s,  &Rates::pcie_rx_mib_s,  &Rates::nvlink_tx_mib_s,
                                     &Rates::nvlink_rx_mib_s};
static_assert(std::size(kGpmIds) == std::size(kGpmFields));

}  // namespace

void Monitor::State::register_events(Entry& entry) {
  unsigned long long supported = 0;
  if (try_call(f.nvmlDeviceGetSupportedEventTypes, entry.handle, &supported) != nvml::kSuccess) return;
  supported &= nvml::kEventXid | nvml::kEventDoubleBit | nvml::kEventUnavailable | nvml::kEventRecovery;
  if (supported == 0) return;
  if (!events && try_call(f.nvmlEventSetCreate, &events) != nvml::kSuccess) events = nullptr;
  if (events) try_call(f.nvmlDeviceRegisterEvents, entry.handle, supported, events);
}

void Monitor::State::drain_events() {
  if (!events || !f.nvmlEventSetWait_v2) return;
  constexpr int kMostPerReading = 64;  // a storm must not hold the reader
  for (int i = 0; i < kMostPerReading; ++i) {
    nvml::Event event{};
    if (f.nvmlEventSetWait_v2(events, &event, 0) != nvml::kSuccess) return;
    if (event.type != nvml::kEventXid) continue;
    for (Entry& entry : entries)
      if (entry.handle == event.device) {
        entry.last_xid = static_cast<uint32_t>(event.data);
        ++entry.xid_count;
      }
  }
}

std::optional<Rates> Monitor::State::read_rates(Entry& entry) {
  if (!entry.gpm || f.nvmlGpmSampleGet(entry.handle, entry.current) != nvml::kSuccess) return std::nullopt;
  std::optional<Rates> out;
  if (entry.has_previous) {
    // 24 KiB: not on somebody else's stack, nor in the static TLS block of a library opened late.
    const auto held = std::make_unique<nvml::GpmMetrics>();
    nvml::GpmMetrics& request = *held;
    request.version = 1;
    request.count = std::size(kGpmIds);
    request.sample1 = entry.previous;
    request.sample2 = entry.current;
    for (size_t i = 0; i < std::size(kGpmIds); ++i) request.metrics[i].id = kGpmIds[i];
    if (f.nvmlGpmMetricsGet(&request) == nvml::kSuccess) {
      out.emplace();
      for (size_t i = 0; i < std::size(kGpmIds); ++i)
        if (request.metrics[i].status == nvml::kSuccess && std::isfinite(request.metrics[i].value))
          (*out).*kGpmFields[i] = request.metrics[i].value;
    }
  }
  std::swap(entry.previous, entry.current);
  entry.has_previous = true;
  return out;
}

std::unique_ptr<Monitor> Monitor::open(std::string& error, const nvml::Loader& loader) {
  auto state = std::make_unique<State>();
  nvml::Functions& f = state->f;
  if (!nvml::load(loader, f, error)) return nullptr;
  if (nvml::Return rc = f.nvmlInit_v2(); rc != nvml::kSuccess) {
    error = "NVML does not start (code " + std::to_string(rc) + "): check that the driver is loaded";
    return nullptr;
  }
  uint32_t count = 0;
  f.nvmlDeviceGetCount_v2(&count);
  for (uint32_t i = 0; i < count; ++i) {
    State::Entry entry;
    if (f.nvmlDeviceGetHandleByIndex_v2(i, &entry.handle) != nvml::kSuccess) continue;  // fallen off the bus
    entry.identity = read_identity(f, entry.handle, i);
    nvml::GpmSupport support{1, 0};
    bool complete = f.nvmlGpmSampleAlloc && f.nvmlGpmSampleFree && f.nvmlGpmSampleGet && f.nvmlGpmMetricsGet;
    entry.gpm = complete && try_call(f.nvmlGpmQueryDeviceSupport, entry.handle, &support) == nvml::kSuccess &&
                support.supported != 0 && f.nvmlGpmSampleAlloc(&entry.previous) == nvml::kSuccess &&
                f.nvmlGpmSampleAlloc(&entry.current) == nvml::kSuccess;
    state->register_events(entry);
    state->entries.push_back(std::move(entry));
  }
  char text[96] = {};
  if (try_call(f.nvmlSystemGetDriverVersion, text, 95u) == nvml::kSuccess) state->driver_version = text;
  try_call(f.nvmlSystemGetCudaDriverVersion_v2, &state->cuda_version);
  state->names = sees_host_pids();
  return std::unique_ptr<Monitor>(new Monitor(std::move(state)));
}

Monitor::Monitor(std::unique_ptr<State> state) : state_(std::move(state)) {}

Monitor::~Monitor() {
  for (State::Entry& entry : state_->entries) {
    if (entry.previous) state_->f.nvmlGpmSampleFree(entry.previous);
    if (entry.current) state_->f.nvmlGpmSampleFree(entry.current);
  }
  if (state_->events) try_call(state_->f.nvmlEventSetFree, state_->events);
  try_call(state_->f.nvmlShutdown);
}

size_t Monitor::device_count() const { return state_->entries.size(); }
const Identity& Monitor::identity(size_t index) const { return state_->entries[index].identity; }

Snapshot Monitor::read(uint32_t what) {
  std::lock_guard lock(state_->mutex);
  const nvml::Functions& f = state_->f;
  Snapshot out;
  out.time_ns = clock::now_ns();
  out.driver_version = state_->driver_version;
  out.cuda_version = state_->cuda_version;
  if (what & kHealth) state_->drain_events();
  for (State::Entry& entry : state_->entries) {
    Device device{entry.identity, {}};
    Reading& now = device.now;
    if (what & kMemory) now.memory = monitor::read_memory(f, entry.handle, entry.identity);
    if (what & kLoad) {
      read_load(f, entry.handle, now);
      now.rates = state_->read_rates(entry);
    }
    if (what & kPower) read_power(f, entry.handle, now);
    if (what & kLinks) read_links(f, entry.handle, now);
    if (what & kHealth) {
      read_health(f, entry.handle, now);
      now.health.last_xid = entry.last_xid;
      now.health.xid_count = entry.xid_count;
      constexpr nvml::Return kGpuIsLost = 15;
      uint32_t ignored = 0;
      now.health.lost = try_call(f.nvmlDeviceGetPowerUsage, entry.handle, &ignored) == kGpuIsLost;
    }
    if (what & kProcesses) now.processes = read_processes(f, entry.handle, state_->names);
    out.devices.push_back(std::move(device));
  }
  return out;
}

std::optional<Memory> Monitor::read_memory(size_t index) {
  std::lock_guard lock(state_->mutex);
  const State::Entry& entry = state_->entries[index];
  return monitor::read_memory(state_->f, entry.handle, entry.identity);
}

PeerStatus Monitor::peer(size_t a, size_t b) const {
  const nvml::Functions& f = state_->f;
  nvml::Handle from = state_->entries[a].handle, to = state_->entries[b].handle;
  PeerStatus out;
  out.ancestor = ask<uint32_t>(f.nvmlDeviceGetTopologyCommonAncestor, from, to);
  auto ok = [&](uint32_t index) -> std::optional<bool> {
    std::optional<uint32_t> status = ask<uint32_t>(f.nvmlDeviceGetP2PStatus, from, to, index);
    if (!status) return std::nullopt;
    return *status == 0;
  };
  out.read = ok(0);
  out.write = ok(1);
  out.nvlink = ok(2);
  out.atomics = ok(3);
  out.pci = ok(4);
  return out;
}

nvml::Return Monitor::set_power_limit(size_t index, double watts) {
  std::lock_guard lock(state_->mutex);
  if (!(watts > 0) || watts > 1e6) return nvml::kInvalidArgument;
  return try_call(state_->f.nvmlDeviceSetPowerManagementLimit, state_->entries[index].handle,
                  static_cast<uint32_t>(std::lround(watts * 1000)));
}

std::string link_version_name(uint32_t version) {
  static constexpr const char* kNames[] = {"?", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"};
  return version > 0 && version < std::size(kNames) ? std::string("NVLink ") + kNames[version] : "?";
}

std::string clock_reason_names(uint64_t reasons) {
  static constexpr std::pair<uint64_t, const char*> kNames[] = {
      {0x1, "idle"},           {0x2, "clocks-set"}, {0x4, "power-cap"},         {0x8, "hardware-slowdown"},
      {0x10, "sync-boost"},    {0x20, "thermal"},   {0x40, "hardware-thermal"}, {0x80, "power-brake"},
      {0x100, "display-clock"}};
  std::string out;
  for (auto [bit, name] : kNames)
    if (reasons & bit) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

}  // namespace shunt::monitor
