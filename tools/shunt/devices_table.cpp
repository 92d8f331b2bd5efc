#include "tools/shunt/devices_table.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/monitor/monitor.h"

namespace shunt::tools {
namespace {

using monitor::Device;
using monitor::Snapshot;

std::string format(const char* pattern, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string gib(uint64_t bytes) { return format("%.1f", static_cast<double>(bytes) / (1ull << 30)); }

std::string human(uint64_t bytes) {
  double value = static_cast<double>(bytes);
  if (bytes < 1ull << 20) return format("%.0f KiB", value / 1024);
  if (bytes < 1ull << 30) return format("%.0f MiB", value / (1 << 20));
  return format("%.1f GiB", value / (1 << 30));
}

// Control characters would let a process name draw on the terminal; bytes above ASCII are kept whole.
std::string printable(const std::string& text, size_t longest) {
  std::string out;
  for (char c : text) {
    if (out.size() >= longest) {
      out.resize(longest > 2 ? longest - 2 : 0);
      return out + "..";
    }
    out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  }
  return out;
}

std::string memory_cell(const Device& d) {
  if (!d.now.memory) return "-";
  return gib(d.now.memory->used) + "/" + gib(d.now.memory->total) + (d.now.memory->os_accounted ? "*" : "");
}
std::string percent_cell(std::optional<uint32_t> value) { return value ? format("%u", *value) : "-"; }
// What the SMs did where the part measures it, else how long any kernel ran.
std::string busy_cell(const Device& d) {
  if (d.now.rates) return format("%.0f", d.now.rates->sm_percent);
  return percent_cell(d.now.busy_percent);
}
std::string dram_cell(const Device& d) {
  if (d.now.rates) return format("%.0f", d.now.rates->dram_percent);
  return percent_cell(d.now.memory_busy_percent);
}
std::string power_cell(const Device& d) {
  const monitor::Power& p = d.now.power;
  if (!p.watts) return "-";
  return format("%.0f", *p.watts) + (p.limit_w ? format("/%.0f", *p.limit_w) : "");
}
std::string links_cell(const Device& d) {
  if (d.now.links.empty()) return "-";
  return format("%u/%zu", d.now.links_active(), d.now.links.size());
}
std::string health_cell(const Device& d) {
  const monitor::Health& h = d.now.health;
  if (h.lost) return "lost";
  if (h.xid_count) return format("Xid %u", h.last_xid);
  if (h.recovery_action.value_or(0)) return "reset";
  if (h.ecc_uncorrected.value_or(0)) return "ECC";
  return "ok";
}

struct Column {
  const char* title;
  bool right;
  std::string (*cell)(const Device&);
  int rank;  // columns of the highest rank go first when the terminal is narrow
};

constexpr Column kColumns[] = {
    {"#", true, [](const Device& d) { return format("%u", d.identity.nvml_index); }, 0},
    {"Device", false, [](const Device& d) { return printable(d.identity.display_name(), 22); }, 0},
    {"Mem GiB", true, memory_cell, 0},
    {"SM%", true, busy_cell, 1},
    {"DRAM%", true, dram_cell, 3},
    {"Power W", true, power_cell, 2},
    {"C", true, [](const Device& d) { return percent_cell(d.now.celsius); }, 4},
    {"Links", true, links_cell, 3},
    {"Health", false, health_cell, 1},
    {"MHz", true, [](const Device& d) { return percent_cell(d.now.sm_clock_mhz); }, 5},
    {"Bus", false, [](const Device& d) { return d.identity.pci_bus_id; }, 6},
    {"UUID", false, [](const Device& d) { return d.identity.uuid; }, 7},
};

std::string pad(const std::string& text, size_t width, bool right) {
  std::string space(width > text.size() ? width - text.size() : 0, ' ');
  return right ? space + text : text + space;
}

void append_line(std::string& out, std::string line, size_t columns) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() > columns) line = line.substr(0, columns - 2) + "..";
  out += line + "\n";
}

// Words to lines that fit, continuation indented.
void append_note(std::string& out, const std::string& text, size_t columns) {
  std::string line, word;
  auto flush = [&] {
    if (line.size() + 1 + word.size() > columns && !line.empty()) {
      append_line(out, line, columns);
      line = "     ";
    }
    line += (line.empty() || line.back() == ' ' ? "" : " ") + word;
    word.clear();
  };
  for (char c : text)
    if (c == ' ')
      flush();
    else
      word += c;
  flush();
  append_line(out, line, columns);
}

std::string links_down(const Device& d) {
  std::string list;
  for (size_t i = 0; i < d.now.links.size(); ++i)
    if (d.now.links[i].state != monitor::LinkState::active)
      list += (list.empty() ? "" : ", ") + std::to_string(i);
  return list;
}

void append_notes(std::string& out, const Snapshot& snapshot, size_t columns) {
  bool os_accounted = false;
  std::string placeholder;
  for (const Device& d : snapshot.devices) {
    std::string who = "device " + std::to_string(d.identity.nvml_index) + ": ";
    uint32_t up = d.now.links_active();
    if (up != 0 && up < d.now.links.size())
      append_note(
          out,
          "! " + who +
              format("%zu of %zu NVLink links are down (", d.now.links.size() - up, d.now.links.size()) +
              links_down(d) + ")",
          columns);
    if (d.now.health.lost) append_note(out, "! " + who + "no longer answers: reset or reboot", columns);
    if (d.now.health.xid_count)
      append_note(
          out,
          "! " + who + format("%u Xid event(s), last Xid %u", d.now.health.xid_count, d.now.health.last_xid),
          columns);
    if (d.now.health.ecc_uncorrected.value_or(0))
      append_note(out,
                  "! " + who +
                      format("%llu uncorrected memory errors",
                             static_cast<unsigned long long>(*d.now.health.ecc_uncorrected)),
                  columns);
    if (d.now.clock_reasons.value_or(0) > 1)
      append_note(
          out, "  " + who + "clocks held back: " + monitor::clock_reason_names(*d.now.clock_reasons & ~1ull),
          columns);
    if (d.identity.mig_enabled)
      append_note(out, "  " + who + "multi-instance mode is on; utilisation is not available", columns);
    if (!d.identity.profile)
      append_note(out, "  " + who + "no profile of this model: run shunt calibrate", columns);
    if (d.now.memory && d.now.memory->os_accounted) os_accounted = true;
    if (d.identity.profile && d.identity.profile->name_is_placeholder)
      placeholder = d.identity.display_name() + ": the board calls itself " + d.identity.name;
  }
  if (!placeholder.empty()) append_note(out, "  " + placeholder, columns);
  if (os_accounted)
    append_note(out, "  * accounted by the operating system: pages linger after a process has gone", columns);
}

void append_processes(std::string& out, const Snapshot& snapshot, size_t columns) {
  bool head = false;
  for (const Device& d : snapshot.devices)
    for (const monitor::Process& p : d.now.processes) {
      if (!head) append_line(out, "", columns);
      if (!head)
        append_line(out, pad("#", 3, true) + pad("pid", 10, true) + pad("memory", 12, true) + "  process",
                    columns);
      head = true;
      append_line(out,
                  pad(std::to_string(d.identity.nvml_index), 3, true) + pad(std::to_string(p.pid), 10, true) +
                      pad(p.bytes ? human(*p.bytes) : "-", 12, true) + "  " +
                      printable(p.name.empty() ? "-" : p.name, 40),
                  columns);
    }
}

}  // namespace

std::string render_table(const Snapshot& snapshot, int columns) {
  size_t room = static_cast<size_t>(std::max(40, columns));
  std::string out;
  append_line(out,
              format("%zu device%s, driver %s, CUDA %d.%d", snapshot.devices.size(),
                     snapshot.devices.size() == 1 ? "" : "s",
                     snapshot.driver_version.empty() ? "?" : snapshot.driver_version.c_str(),
                     snapshot.cuda_version / 1000, snapshot.cuda_version % 1000 / 10),
              room);
  if (snapshot.devices.empty()) return out;

  std::vector<const Column*> shown;
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> widths;
  for (int rank = 7;; --rank) {
    shown.clear(), cells.clear(), widths.clear();
    size_t total = 0;
    for (const Column& column : kColumns) {
      if (column.rank > rank) continue;
      std::vector<std::string> one;
      size_t width = std::string_view(column.title).size();
      for (const Device& d : snapshot.devices) {
        one.push_back(column.cell(d));
        width = std::max(width, one.back().size());
      }
      shown.push_back(&column);
      cells.push_back(std::move(one));
      widths.push_back(width);
      total += width + (shown.size() > 1 ? 2 : 0);
    }
    if (total <= room || rank == 0) break;
  }
  auto row = [&](auto text_of) {
    std::string line;
    for (size_t c = 0; c < shown.size(); ++c)
      line += (c ? "  " : "") + pad(text_of(c), widths[c], shown[c]->right);
    append_line(out, line, room);
  };
  row([&](size_t c) { return std::string(shown[c]->title); });
  for (size_t d = 0; d < snapshot.devices.size(); ++d) row([&](size_t c) { return cells[c][d]; });
  append_notes(out, snapshot, room);
  append_processes(out, snapshot, room);
  return out;
}

namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json value_or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
const char* addressing_name(monitor::Addressing addressing) {
  static constexpr const char* kNames[] = {nullptr, "none", "hmm", "ats"};
  return kNames[static_cast<int>(addressing)];
}

ordered_json links_json(const Device& d) {
  ordered_json list = ordered_json::array();
  for (const monitor::Link& link : d.now.links)
    list.push_back({{"active", link.state == monitor::LinkState::unknown
                                   ? ordered_json(nullptr)
                                   : ordered_json(link.state == monitor::LinkState::active)},
                    {"version", link.version ? ordered_json(monitor::link_version_name(*link.version))
                                             : ordered_json(nullptr)},
                    {"mb_per_s", value_or_null(link.speed_mbps)}});
  return list;
}

ordered_json device_json(const Device& d) {
  const monitor::Reading& now = d.now;
  ordered_json memory = nullptr, rates = nullptr, processes = ordered_json::array();
  if (now.memory)
    memory = {{"total", now.memory->total},
              {"free", now.memory->free},
              {"used", now.memory->used},
              {"reserved", value_or_null(now.memory->reserved)},
              {"os_accounted", now.memory->os_accounted}};
  if (now.rates)
    rates = {{"sm_percent", now.rates->sm_percent},          {"tensor_percent", now.rates->tensor_percent},
             {"dram_percent", now.rates->dram_percent},      {"pcie_tx_mib_s", now.rates->pcie_tx_mib_s},
             {"pcie_rx_mib_s", now.rates->pcie_rx_mib_s},    {"nvlink_tx_mib_s", now.rates->nvlink_tx_mib_s},
             {"nvlink_rx_mib_s", now.rates->nvlink_rx_mib_s}};
  for (const monitor::Process& p : now.processes)
    processes.push_back({{"pid", p.pid},
                         {"bytes", value_or_null(p.bytes)},
                         {"name", p.name.empty() ? ordered_json(nullptr) : ordered_json(p.name)}});
  const char* addressing = addressing_name(d.identity.addressing);
  return {{"index", d.identity.nvml_index},
          {"uuid", d.identity.uuid},
          {"name", d.identity.name},
          {"model",
           d.identity.profile ? ordered_json(std::string(d.identity.profile->key)) : ordered_json(nullptr)},
          {"pci", d.identity.pci_bus_id},
          {"minor", value_or_null(d.identity.minor)},
          {"compute_capability", format("%u.%u", d.identity.cc_major, d.identity.cc_minor)},
          {"addressing", addressing ? ordered_json(addressing) : ordered_json(nullptr)},
          {"mig", d.identity.mig_enabled},
          {"memory", memory},
          {"busy_percent", value_or_null(now.busy_percent)},
          {"memory_busy_percent", value_or_null(now.memory_busy_percent)},
          {"rates", rates},
          {"power_w", value_or_null(now.power.watts)},
          {"power_limit_w", value_or_null(now.power.limit_w)},
          {"power_min_w", value_or_null(now.power.min_limit_w)},
          {"power_max_w", value_or_null(now.power.max_limit_w)},
          {"power_base_w", value_or_null(now.power.base_limit_w)},
          {"celsius", value_or_null(now.celsius)},
          {"margin_celsius", value_or_null(now.margin_celsius)},
          {"sm_clock_mhz", value_or_null(now.sm_clock_mhz)},
          {"clock_reasons", now.clock_reasons ? ordered_json(monitor::clock_reason_names(*now.clock_reasons))
                                              : ordered_json(nullptr)},
          {"links", links_json(d)},
          {"links_active", now.links_active()},
          {"pcie_generation", value_or_null(now.pcie_generation)},
          {"fabric_clique", now.fabric ? ordered_json(now.fabric->clique) : ordered_json(nullptr)},
          {"xid_count", now.health.xid_count},
          {"last_xid", now.health.last_xid},
          {"ecc_uncorrected", value_or_null(now.health.ecc_uncorrected)},
          {"lost", now.health.lost},
          {"processes", processes}};
}

}  // namespace

std::string render_json(const Snapshot& snapshot) {
  ordered_json devices = ordered_json::array();
  for (const Device& d : snapshot.devices) devices.push_back(device_json(d));
  ordered_json out = {
      {"driver", snapshot.driver_version}, {"cuda", snapshot.cuda_version}, {"devices", devices}};
  // A process name may be any bytes: what is no UTF-8 is replaced rather than thrown about.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shunt::tools
