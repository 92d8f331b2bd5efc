#include "tools/shunt/ledger_table.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace shunt::tools {
namespace {

std::string human(uint64_t bytes) {
  char text[32];
  double value = static_cast<double>(bytes);
  if (bytes == 0) return "-";
  if (bytes < 1ull << 20)
    std::snprintf(text, sizeof text, "%.1f KiB", value / 1024);
  else if (bytes < 1ull << 30)
    std::snprintf(text, sizeof text, "%.1f MiB", value / (1 << 20));
  else
    std::snprintf(text, sizeof text, "%.1f GiB", value / (1 << 30));
  return text;
}

std::string uuid_text(const ledger::Uuid& u) {
  std::string out = "GPU-";
  char digits[3];
  for (size_t i = 0; i < u.size(); ++i) {
    std::snprintf(digits, sizeof digits, "%02x", u[i]);
    out += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) out += '-';
  }
  return out;
}

std::string printable(const std::string& text) {
  std::string out;
  for (char c : text) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return out.empty() ? "-" : out;
}

std::string row(const char* first, const std::vector<std::string>& cells, size_t columns) {
  constexpr size_t kWidth = 12;
  std::string line = first;
  for (const std::string& cell : cells)
    line += std::string(cell.size() < kWidth ? kWidth - cell.size() : 1, ' ') + cell;
  if (line.size() > columns) line = line.substr(0, columns - 2) + "..";
  return line + "\n";
}

const char* state_of(const ledger::ProcessView& p) {
  if (!p.alive) return "ended";
  return p.same_namespace ? "" : "other namespace";
}

}  // namespace

std::string render_ledgers(const std::vector<LedgerReport>& reports, int columns) {
  size_t room = static_cast<size_t>(std::max(columns, 60));
  if (reports.empty()) return "no ledger: no program under shunt has used one since boot\n";
  std::string out;
  for (const LedgerReport& report : reports) {
    if (!out.empty()) out += "\n";
    out += report.scope.empty() ? "this machine\n" : "simulated box " + printable(report.scope) + "\n";
    if (!report.problem.empty()) out += "  ! " + report.problem + "\n";
    if (report.replaced) out += "  the damaged file was removed: the next program makes a new one\n";
    if (report.reclaimed > 0)
      out += "  " + std::to_string(report.reclaimed) +
             (report.reclaimed == 1 ? " slot of an ended process" : " slots of ended processes") +
             " given back\n";
    if (!report.problem.empty()) continue;
    char first[24];
    if (!report.devices.empty())
      out += row("  #  ", {"used", "promised", "spilled", "wanted", "processes"}, room);
    for (size_t d = 0; d < report.devices.size(); ++d) {
      const ledger::DeviceView& v = report.devices[d];
      std::snprintf(first, sizeof first, "  %-3zu", d);
      std::string line = row(
          first,
          {human(v.used), human(v.reserved), human(v.spilled), human(v.wanted), std::to_string(v.processes)},
          room);
      if (line.size() + 43 <= room) line.insert(line.size() - 1, "  " + uuid_text(v.uuid));
      out += line;
    }
    if (report.processes.empty())
      out += "  no process is registered\n";
    else
      out += row("  pid       #  ", {"used", "promised", "spilled", "program"}, room);
    for (const ledger::ProcessView& p : report.processes) {
      std::string name = printable(p.name);
      if (*state_of(p)) name += std::string(" (") + state_of(p) + ")";
      if (p.devices.empty()) {
        std::snprintf(first, sizeof first, "  %-10u-  ", p.pid);
        out += row(first, {"-", "-", "-", name}, room);
      }
      for (const ledger::ProcessView::Use& use : p.devices) {
        std::snprintf(first, sizeof first, "  %-10u%-3d", p.pid, use.device);
        out += row(first, {human(use.used), human(use.reserved), human(use.spilled), name}, room);
      }
    }
  }
  return out;
}

std::string render_ledgers_json(const std::vector<LedgerReport>& reports) {
  using nlohmann::ordered_json;
  ordered_json out = ordered_json::array();
  for (const LedgerReport& report : reports) {
    ordered_json devices = ordered_json::array(), processes = ordered_json::array();
    for (const ledger::DeviceView& v : report.devices)
      devices.push_back({{"uuid", uuid_text(v.uuid)},
                         {"used", v.used},
                         {"reserved", v.reserved},
                         {"spilled", v.spilled},
                         {"wanted", v.wanted},
                         {"freed", v.freed},
                         {"processes", v.processes}});
    for (const ledger::ProcessView& p : report.processes) {
      ordered_json uses = ordered_json::array();
      for (const ledger::ProcessView::Use& use : p.devices)
        uses.push_back({{"device", use.device},
                        {"used", use.used},
                        {"reserved", use.reserved},
                        {"spilled", use.spilled},
                        {"wanted", use.wanted}});
      processes.push_back({{"pid", p.pid},
                           {"name", p.name},
                           {"alive", p.alive},
                           {"same_namespace", p.same_namespace},
                           {"devices", uses}});
    }
    out.push_back({{"scope", report.scope},
                   {"problem", report.problem.empty() ? ordered_json(nullptr) : ordered_json(report.problem)},
                   {"reclaimed", report.reclaimed},
                   {"replaced", report.replaced},
                   {"devices", devices},
                   {"processes", processes}});
  }
  return ordered_json{{"ledgers", out}}.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shunt::tools
