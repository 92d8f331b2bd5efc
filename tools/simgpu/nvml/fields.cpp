// NVML: field values by number. An unknown field, or one the part does not have, is an error of that entry
// only.
#include <time.h>

#include <cmath>
#include <optional>

#include "tools/simgpu/nvml/links.h"

using namespace simgpu::nvml;

namespace {

struct Answer {
  uint32_t type = kUnsignedInt;
  uint64_t integer = 0;
};
Answer u32(uint64_t v) { return {kUnsignedInt, v}; }
Answer u64(uint64_t v) { return {kUnsignedLongLong, v}; }

constexpr uint32_t kAllLinks = 0xFFFFFFFF;
constexpr uint32_t kScopeGpu = 0, kScopeBase = 3;

// Bytes of one link, or of all for the scope "all".
std::optional<uint64_t> traffic(Device d, uint32_t scope, bool transmit) {
  if (scope == kAllLinks) return (transmit ? state(d).nvlink_tx_bytes : state(d).nvlink_rx_bytes).load();
  if (scope >= link_count(d)) return std::nullopt;
  return link_bytes(d, scope, transmit);
}
std::optional<Answer> kib(std::optional<uint64_t> bytes) {
  if (!bytes) return std::nullopt;
  return u64(*bytes / 1024);
}
std::optional<Answer> bytes64(std::optional<uint64_t> bytes) {
  if (!bytes) return std::nullopt;
  return u64(*bytes);
}

std::optional<Answer> link_field(Device d, uint32_t field, uint32_t scope) {
  if (scope >= link_count(d)) return std::nullopt;
  bool up = link_active(d, scope);
  switch (field) {
    case 164:
      return u32(up ? link_speed_mbps(d) : 0);
    case 165:
      return u32(up);
    case 166:
      return up ? std::optional(u32(link_version(d))) : std::nullopt;
    case 167:
      return u32(0);  // power state: full speed
    case 161:
    case 162:
    case 163:
      return u64(0);  // replay, recovery, CRC errors
    default:
      return std::nullopt;
  }
}

std::optional<Answer> power_field(Device d, uint32_t field, uint32_t scope) {
  const auto& p = profile(d);
  auto mw = [](double watts) { return u32(static_cast<uint64_t>(std::llround(watts * 1000))); };
  if (scope == kScopeBase) {
    if (p.power_base_w.value <= 0) return std::nullopt;
    return field >= 188 && field <= 190 ? std::optional(mw(p.power_base_w.value)) : std::nullopt;
  }
  if (scope != kScopeGpu) return std::nullopt;
  switch (field) {
    case 185:
    case 186:
      return mw(power_watts(d));
    case 187:
      return mw(p.power_min_w.value);
    case 188:
      return mw(p.power_max_w.value);
    case 189:
      return mw(p.power_default_w.value);
    case 190:
    case 192:
      return u32(state(d).power_limit_mw);
    case 191:
      return u64(energy_mj(d));
    default:
      return std::nullopt;
  }
}

bool between(uint32_t v, uint32_t low, uint32_t high) { return v >= low && v <= high; }

// Fields that count one kind of NVLink error per lane or link: nothing goes wrong here unless a box file says
// so.
bool is_link_error_field(uint32_t f) {
  return between(f, 32, 59) || between(f, 96, 119) || between(f, 148, 160) || between(f, 206, 215) ||
         between(f, 219, 222);
}

std::optional<Answer> answer(Device d, uint32_t field, uint32_t scope) {
  const auto& s = state(d);
  bool has_c2c = profile(d).c2c_bandwidth_per_direction.value > 0;
  if (between(field, 161, 167)) return link_field(d, field, scope);
  if (between(field, 185, 192)) return power_field(d, field, scope);
  if (between(field, 84, 89)) return link_field(d, 164, field - 84);
  if (between(field, 132, 137)) return link_field(d, 164, field - 132 + 6);
  if (is_link_error_field(field)) return u64(0);
  switch (field) {
    case 1:
    case 2:
      return u32(1);  // ECC on
    case 3:
    case 5:
    case 11:
    case 22:
      return u64(s.ecc_corrected);
    case 4:
    case 6:
    case 12:
    case 23:
      return u64(s.ecc_uncorrected);
    case 29:
    case 30:
    case 31:
    case 92:
    case 93:
      return u32(0);  // retired pages
    case 74:
    case 75:
    case 76:
    case 77:
    case 78:
    case 79:
    case 80:
    case 81:
      return u64(0);
    case 82:
      return u32(static_cast<uint64_t>(temperature_celsius(d)));
    case 83:
      return u64(energy_mj(d));
    case 90:
      return u32(links_up(d) ? link_speed_mbps(d) : 0);
    case 91:
      return u32(link_count(d));
    case 94:
    case 95:
    case 169:
      return u32(0);
    case 138:
    case 140:
      return kib(traffic(d, scope, true));
    case 139:
    case 141:
      return kib(traffic(d, scope, false));
    case 142:
    case 143:
    case 144:
    case 145:
      return u32(0);  // remapped rows
    case 147:
      return u32(links_up(d));
    case 170:
      return u32(has_c2c ? 10 : 0);
    case 171:
      return has_c2c && scope < 10 ? std::optional(u32(1)) : std::nullopt;
    case 172:
      return has_c2c && scope < 10
                 ? std::optional(
                       u32(static_cast<uint64_t>(profile(d).c2c_bandwidth_per_direction.value / 1e6 / 10)))
                 : std::nullopt;
    case 197:
      return u64(s.pcie_tx_bytes);
    case 198:
      return u64(s.pcie_rx_bytes);
    case 202:
      return bytes64(traffic(d, scope, true));
    case 204:
      return bytes64(traffic(d, scope, false));
    case 230:
      return u32(s.xid == 79 ? 1 : 0);  // recovery action: reset
    default:
      return std::nullopt;
  }
}

}  // namespace

SIMGPU_NVML nvmlDeviceGetFieldValues(Device d, int count, FieldValue* values) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count > 0 && values);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  for (int i = 0; i < count; ++i) {
    FieldValue& v = values[i];
    v.timestamp = static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
    v.latency_us = 0;
    v.value.ull = 0;
    std::optional<Answer> a = answer(d, v.field_id, v.scope_id);
    v.status = a ? kSuccess : kNotSupported;
    if (!a) continue;
    v.value_type = a->type;
    v.value.ull = a->integer;
  }
  return kSuccess;
}
SIMGPU_NVML nvmlDeviceClearFieldValues(Device d, int count, FieldValue* values) {
  SIMGPU_NVML_CHECK(d);
  SIMGPU_NVML_REQUIRE(count > 0 && values);
  SIMGPU_NVML_ROOT();
  for (int i = 0; i < count; ++i) values[i].status = kNotSupported;
  return kSuccess;
}
