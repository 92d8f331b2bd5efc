#include "tools/shunt/trace/call_site_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/shunt/trace/summary.h"
#include "tools/shunt/trace/symbols.h"

namespace shunt::tool {

void count_site(SiteCounts& counts, const RecordContext& context, const trace::DecisionRecord& d) {
  if (!d.stack || static_cast<trace::RecordType>(d.header.type) == trace::RecordType::decision_begin) return;
  if (counts.size() >= 256 && !counts.count({d.feature, d.reason})) return;
  ++counts[{d.feature, d.reason}][uint64_t{context.process_index} << 32 | d.stack];
}

std::vector<SiteRow> busiest_sites(const TraceRun& run, const SiteCounts& counts, size_t most) {
  struct Plain {
    uint64_t count, site;
    uint8_t feature;
    uint16_t reason;
  };
  std::vector<Plain> order;
  for (const auto& [key, sites] : counts)
    for (const auto& [site, n] : sites) order.push_back({n, site, key.first, key.second});
  std::stable_sort(order.begin(), order.end(),
                   [](const Plain& a, const Plain& b) { return a.count > b.count; });
  order.resize(std::min(order.size(), most));
  std::map<uint64_t, CallSites> names;
  std::vector<SiteRow> rows;
  for (const Plain& p : order) {
    const uint64_t process = p.site >> 32;
    auto sites = names.find(process);
    if (sites == names.end()) sites = names.emplace(process, CallSites(*run.processes[process])).first;
    rows.push_back({p.count, p.feature, p.reason, run.processes[process]->pid(),
                    sites->second.text(static_cast<uint32_t>(p.site))});
  }
  return rows;
}

std::string sites_text(const TraceRun& run, size_t most, const Progress& progress) {
  SiteCounts counts;
  visit_records(
      run,
      [&](const RecordContext& c, const trace::RecordHeader& r) {
        if (const auto* d = as_decision(r)) count_site(counts, c, *d);
      },
      progress);
  const auto rows = busiest_sites(run, counts, most);
  if (rows.empty())
    return "no call sites were recorded (--trace-sites=off, or only helper threads decided)\n";
  std::string out = "reasons by call site, innermost frame first\n";
  for (const SiteRow& r : rows) {
    out += fmt::format("{:>10}  {} {}, pid {}\n", count_text(r.count),
                       trace::feature_name(static_cast<trace::Feature>(r.feature)),
                       reason_name(static_cast<Reason>(r.reason)), r.pid);
    for (size_t at = 0, frames = 0; at <= r.site.size() && frames < 4; ++frames) {
      const size_t next = std::min(r.site.find(" < ", at), r.site.size());
      out += "              " + r.site.substr(at, next - at) + "\n";
      at = next + 3;
    }
  }
  return out;
}

}  // namespace shunt::tool
