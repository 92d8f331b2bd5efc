// NVML: GPU performance monitoring. Two samples of one device, and the rates between them in virtual time.
#include <algorithm>

#include "tools/simgpu/nvml/links.h"

namespace simgpu::nvml {

struct GpmSample {
  bool taken = false;
  Device device = nullptr;
  uint64_t clock_ns = 0, busy_ns = 0, sm_ns = 0, tensor_ns = 0, dram = 0, pcie_tx = 0, pcie_rx = 0,
           nvlink_tx = 0, nvlink_rx = 0, c2c_tx = 0, c2c_rx = 0;
};

namespace {

bool supported(Device d) { return profile(d).nvml_architecture >= 9; }

struct Rates {
  const GpmSample &a, &b;
  double seconds;
  double per_second(uint64_t GpmSample::*field) const {
    return seconds > 0 && b.*field > a.*field ? static_cast<double>(b.*field - a.*field) / seconds : 0;
  }
  double percent(uint64_t GpmSample::*ns) const { return std::min(100.0, per_second(ns) * 1e-7); }
  double mib(uint64_t GpmSample::*bytes) const { return per_second(bytes) / (1 << 20); }
};

// Link number and direction of a per-link metric: 62-97 are links 0-17, 212-247 links 18-35, receive first.
bool per_link(uint32_t id, uint32_t& link, bool& transmit) {
  if (id >= 62 && id <= 97)
    link = (id - 62) / 2;
  else if (id >= 212 && id <= 247)
    link = 18 + (id - 212) / 2;
  else
    return false;
  transmit = id % 2 == 1;
  return true;
}

Return metric(Device d, const Rates& r, GpmMetric& m) {
  m.info = {"", "", "%"};
  uint32_t link = 0;
  bool transmit = false;
  auto rate = [&](double mib, const char* name) {
    m.value = mib;
    m.info = {name, name, "MiB/s"};
    return kSuccess;
  };
  auto percent = [&](double value, const char* name) {
    m.value = value;
    m.info = {name, name, "%"};
    return kSuccess;
  };
  if (per_link(m.id, link, transmit)) {
    if (link >= link_count(d)) return kNotSupported;
    uint32_t up = links_up(d);
    double all = r.mib(transmit ? &GpmSample::nvlink_tx : &GpmSample::nvlink_rx);
    return rate(link_active(d, link) ? all / up : 0, transmit ? "nvlink_tx" : "nvlink_rx");
  }
  bool c2c = profile(d).c2c_bandwidth_per_direction.value > 0;
  switch (m.id) {
    case 1:
      return percent(r.percent(&GpmSample::busy_ns), "graphics_util");
    case 2:
      return percent(r.percent(&GpmSample::sm_ns), "sm_util");
    case 5:
      return percent(r.percent(&GpmSample::tensor_ns), "any_tensor_util");
    case 10:
      return percent(
          std::min(100.0, 100 * r.per_second(&GpmSample::dram) / profile(d).memory_bandwidth.value),
          "dram_bw_util");
    case 20:
      return rate(r.mib(&GpmSample::pcie_tx), "pcie_tx");
    case 21:
      return rate(r.mib(&GpmSample::pcie_rx), "pcie_rx");
    case 60:
      return rate(r.mib(&GpmSample::nvlink_rx), "nvlink_total_rx");
    case 61:
      return rate(r.mib(&GpmSample::nvlink_tx), "nvlink_total_tx");
    case 100:
    case 102:
      return c2c ? rate(r.mib(&GpmSample::c2c_tx), "c2c_tx") : kNotSupported;
    case 101:
    case 103:
      return c2c ? rate(r.mib(&GpmSample::c2c_rx), "c2c_rx") : kNotSupported;
    default:
      return kNotSupported;
  }
}

}  // namespace
}  // namespace simgpu::nvml

using namespace simgpu::nvml;

SIMGPU_NVML nvmlGpmQueryDeviceSupport(Device d, GpmSupport* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  if (out->version != 1) return kArgumentVersionMismatch;
  out->supported = supported(d);
  return kSuccess;
}
SIMGPU_NVML nvmlGpmSampleAlloc(GpmSample** out) {
  SIMGPU_NVML_REQUIRE(out);
  *out = new GpmSample;
  return kSuccess;
}
SIMGPU_NVML nvmlGpmSampleFree(GpmSample* sample) {
  SIMGPU_NVML_REQUIRE(sample);
  delete sample;
  return kSuccess;
}
SIMGPU_NVML nvmlGpmSampleGet(Device d, GpmSample* sample) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(sample);
  if (!supported(d)) return kNotSupported;
  const auto& s = state(d);
  *sample = {true,
             d,
             box().merge_clock(0),
             s.busy_ns,
             s.sm_active_ns,
             s.tensor_active_ns,
             s.dram_bytes,
             s.pcie_tx_bytes,
             s.pcie_rx_bytes,
             s.nvlink_tx_bytes,
             s.nvlink_rx_bytes,
             s.c2c_tx_bytes,
             s.c2c_rx_bytes};
  return kSuccess;
}
SIMGPU_NVML nvmlGpmMigSampleGet(Device d, uint32_t, GpmSample* sample) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(sample);
  return kNotSupported;
}
SIMGPU_NVML nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (!initialised()) return kUninitialized;
  SIMGPU_NVML_REQUIRE(get && get->sample1 && get->sample2);
  if (get->version != 1) return kArgumentVersionMismatch;
  const GpmSample &a = *get->sample1, &b = *get->sample2;
  constexpr uint32_t kMostMetrics = 1000;
  SIMGPU_NVML_REQUIRE(get->count <= kMostMetrics && a.taken && b.taken && a.device == b.device &&
                      b.clock_ns >= a.clock_ns);
  Rates rates{a, b, static_cast<double>(b.clock_ns - a.clock_ns) * 1e-9};
  GpmMetric* metrics = get->metrics;
  for (uint32_t i = 0; i < get->count; ++i) {
    metrics[i].value = 0;
    metrics[i].status = metric(a.device, rates, metrics[i]);
  }
  return kSuccess;
}
SIMGPU_NVML nvmlGpmQueryIfStreamingEnabled(Device d, uint32_t* out) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(out);
  *out = 0;
  return kSuccess;
}
