#include "tools/shunt/trace/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "tools/shunt/markup.h"
#include "tools/shunt/trace/report_data.h"
#include "tools/shunt/trace/report_streams.h"

namespace shunt::tool {

namespace {

constexpr const char* kHead =
    R"html(<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><link rel="icon" href="data:,"><title>shunt report</title><style>
:root{--ink:#1b1f24;--paper:#ffffff;--soft:#f3f5f7;--line:#c9d1d9;--a:#1f5fa8;--b:#b35a1f;--c:#5b7f2a;--d:#8a3d8f}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#161b22;--line:#3b444d;--a:#6cb0f5;--b:#f0a45d;--c:#a5cf6a;--d:#d596dc}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1000px;padding:24px 16px 64px;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px;border-bottom:1px solid var(--line);padding-bottom:4px}
p.verdict{font-size:17px;background:var(--soft);border-left:4px solid var(--a);padding:12px 16px;margin:16px 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:left;padding:3px 10px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right}details{margin:8px 0}summary{cursor:pointer}summary:focus-visible,a:focus-visible,svg :focus-visible{outline:2px solid var(--b);outline-offset:2px}
svg{width:100%;height:auto;display:block}svg text{fill:var(--ink);font:11px system-ui,sans-serif}.axis{stroke:var(--line)}
nav a{color:var(--a);margin-right:14px}.muted{opacity:.75}.scroll{overflow-x:auto}</style></head><body>
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<pattern id="p0" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="var(--a)"/></pattern>
<pattern id="p1" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--b)"/><rect width="2" height="6" fill="var(--paper)"/></pattern>
<pattern id="p2" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="var(--d)"/><circle cx="3" cy="3" r="1.4" fill="var(--paper)"/></pattern>
<pattern id="p3" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="var(--c)"/><rect width="6" height="2" fill="var(--paper)"/></pattern>
</defs></svg>
)html";

// Words first: what shunt did, what it left alone and why, what was lost. No speed-up is claimed: there is no
// baseline here.
std::string verdict(const TraceRun& run, const ReportData& d) {
  uint64_t decisions = 0, applied = 0;
  const FeatureSummary* loudest = nullptr;
  uint8_t loudest_id = 0;
  for (const auto& [id, f] : d.summary.features) {
    decisions += f.decisions;
    applied += f.applied;
    if (!loudest || f.declined > loudest->declined) loudest = &f, loudest_id = id;
  }
  if (run.records == 0) return "The trace is empty: the program ended before shunt recorded anything.";
  if (decisions == 0)
    return fmt::format(
        "shunt made no decisions in {}: the program made no call that an engine acts on, or every "
        "engine was off.",
        duration_text(d.summary.seconds));
  std::string out = fmt::format("In {} shunt took {} decisions and applied {} of them.",
                                duration_text(d.summary.seconds), count_text(decisions), count_text(applied));
  if (loudest && loudest->declined) {
    const auto top = std::max_element(loudest->reasons_declined.begin(), loudest->reasons_declined.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
    out += fmt::format(" It declined most often in {}: {} ({}).",
                       trace::feature_name(static_cast<trace::Feature>(loudest_id)),
                       reason_name(static_cast<Reason>(top->first)),
                       top->second == 1 ? "once" : count_text(top->second) + " times");
  }
  uint64_t gpu_ns = 0, gpu_records = 0;
  for (const auto& [id, f] : d.summary.features) gpu_ns += f.gpu_ns, gpu_records += f.gpu_records;
  if (gpu_records)
    out += fmt::format(" What it put on devices worked for {}.",
                       duration_text(static_cast<double>(gpu_ns) * 1e-9));
  const auto l = run.losses();
  if (l.dropped + l.bad_chunks + l.torn_chunks || l.truncated)
    out += " Some records were lost; see the end of this page.";
  return out;
}

// A graph decision counts launches where the others count bytes.
std::string amount_text(uint8_t feature, uint64_t amount) {
  if (amount == 0) return "-";
  return static_cast<trace::Feature>(feature) == trace::Feature::graph ? count_text(amount) + " launches"
                                                                       : bytes_text(amount);
}

std::string decisions_section(const ReportData& d) {
  std::string svg, rows;
  uint64_t most = 1;
  for (const auto& [id, f] : d.summary.features) most = std::max(most, f.decisions);
  double y = 4;
  for (const auto& [id, f] : d.summary.features) {
    const std::string name(trace::feature_name(static_cast<trace::Feature>(id)));
    svg += fmt::format("<text x='0' y='{:.0f}'>{}</text>", y + 14, name);
    double x = 90;
    const std::pair<const char*, uint64_t> parts[] = {
        {"applied", f.applied}, {"declined", f.declined}, {"failed", f.failed}, {"shadow", f.shadow}};
    for (int i = 0; i < 4; ++i) {
      const double w = 700.0 * static_cast<double>(parts[i].second) / static_cast<double>(most);
      if (parts[i].second)
        svg += fmt::format(
            "<g tabindex='0'><title>{}: {} {}</title><rect x='{:.1f}' y='{:.0f}' width='{:.1f}' height='18' "
            "fill='url(#p{})'/></g>",
            name, count_text(parts[i].second), parts[i].first, x, y, std::max(1.0, w), i);
      x += w;
    }
    svg += fmt::format("<text x='{:.1f}' y='{:.0f}'>{}</text>", x + 6, y + 14, count_text(f.decisions));
    y += 26;
    rows += fmt::format(
        "<tr><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td><td "
        "class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td></tr>",
        name, count_text(f.decisions), count_text(f.applied), count_text(f.declined), count_text(f.failed),
        count_text(f.shadow), amount_text(id, f.bytes), gpu_time_text(f));
  }
  if (rows.empty()) return "<p>No decisions were recorded.</p>";
  std::string legend;
  for (int i = 0; i < 4; ++i)
    legend += fmt::format(
        "<rect x='{}' y='{:.0f}' width='14' height='12' fill='url(#p{})'/><text x='{}' y='{:.0f}'>{}</text>",
        90 + 110 * i, y, i, 110 + 110 * i, y + 10,
        (const char*[]){"applied", "declined", "failed", "shadow"}[i]);
  return fmt::format(
      "<svg viewBox='0 0 900 {:.0f}' role='img' aria-label='Decisions per feature by "
      "outcome'>{}{}</svg><table><thead><tr><th>feature<th class='n'>decisions<th class='n'>applied<th "
      "class='n'>declined<th class='n'>failed<th class='n'>shadow<th "
      "class='n'>amount<th class='n'>gpu time</thead><tbody>{}</tbody></table>",
      y + 18, svg, legend, rows);
}

std::string memory_section(const TraceRun& run, const ReportData& d) {
  std::string out;
  for (const auto& [name, line] : d.counters) {
    std::string points;
    for (size_t b = 0; b < kBins; ++b) {
      if (line.value[b] >= 0)
        points += fmt::format("{:.1f},{:.1f} ", 1.5 * static_cast<double>(b),
                              60 - 54 * (line.most > 0 ? line.value[b] / line.most : 0));
    }
    const bool is_bytes = name.find("bytes") != std::string::npos;
    out += fmt::format(
        "<p>{}, most {}</p><svg viewBox='0 0 900 64' role='img' aria-label='{}'><polyline points='{}' "
        "fill='none' stroke='var(--a)' stroke-width='1.5'/><line class='axis' x1='0' x2='900' y1='60' "
        "y2='60'/></svg>",
        markup_escape(name),
        is_bytes ? bytes_text(static_cast<uint64_t>(line.most))
                 : count_text(static_cast<uint64_t>(line.most)),
        markup_escape(name), points);
  }
  if (d.episodes.empty()) return out + "<p>No allocation failed.</p>";
  out +=
      "<table><thead><tr><th class='n'>at s<th>device<th>step<th>outcome<th>reason<th "
      "class='n'>bytes</thead><tbody>";
  for (const Episode& e : d.episodes) {
    out += fmt::format(
        "<tr><td class='n'>{:.4f}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class='n'>{}</td></tr>",
        static_cast<double>(e.t_ns - run.first_ns) * 1e-9, e.device < 0 ? "-" : std::to_string(e.device),
        trace::action_name(static_cast<trace::Action>(e.action)),
        trace::outcome_name(static_cast<trace::Outcome>(e.outcome)),
        reason_name(static_cast<Reason>(e.reason)), bytes_text(e.bytes));
  }
  out += "</tbody></table>";
  if (d.episodes_left_out) out += fmt::format("<p>and {} more</p>", count_text(d.episodes_left_out));
  return out;
}

std::string rate_section(const ReportData& d) {
  uint64_t most = 1, launches = 0, replays = 0;
  for (size_t b = 0; b < kBins; ++b)
    most = std::max({most, d.launches[b], d.replays[b]}), launches += d.launches[b], replays += d.replays[b];
  if (launches + replays == 0)
    return "<p>No launches were recorded (<code>--trace-calls=launch</code> records each) and no graph was "
           "replayed.</p>";
  std::string out =
      "<svg viewBox='0 0 900 110' role='img' aria-label='Launches and graph replays over time'>";
  for (int layer = 0; layer < 2; ++layer) {
    const auto& bins = layer ? d.replays : d.launches;
    std::string path;
    for (size_t b = 0; b < kBins; ++b) {
      if (bins[b])
        path +=
            fmt::format("M{:.1f} {}h1.5v{}{:.1f}h-1.5z", 1.5 * static_cast<double>(b), layer ? 56 : 52,
                        layer ? "" : "-", 48.0 * static_cast<double>(bins[b]) / static_cast<double>(most));
    }
    out += fmt::format("<path d='{}' fill='url(#p{})'/>", path, layer);
  }
  return out + fmt::format(
                   "<line class='axis' x1='0' x2='900' y1='54' y2='54'/></svg><table><thead><tr><th>what<th "
                   "class='n'>count</thead><tbody><tr><td>launch calls (above the line)</td><td "
                   "class='n'>{}</td></tr><tr><td>graph replays (below)</td><td "
                   "class='n'>{}</td></tr></tbody></table>",
                   count_text(launches), count_text(replays));
}

std::string reasons_section(const ReportData& d) {
  std::string rows;
  for (const auto& [id, f] : d.summary.features) {
    for (const auto* table : {&f.reasons_applied, &f.reasons_declined}) {
      std::vector<std::pair<uint64_t, uint16_t>> order;
      for (const auto& [reason, n] : *table) order.emplace_back(n, reason);
      std::sort(order.rbegin(), order.rend());
      for (const auto& [n, reason] : order) {
        const auto sites = d.by_site.find({id, reason});
        rows += fmt::format(
            "<tr><td>{}</td><td>{}</td><td><code>{}</code></td><td class='n'>{}</td><td "
            "class='n'>{}</td><td>{}</td></tr>",
            trace::feature_name(static_cast<trace::Feature>(id)),
            table == &f.reasons_applied ? "applied" : "not applied", reason_name(static_cast<Reason>(reason)),
            count_text(n), sites == d.by_site.end() ? "-" : count_text(sites->second.size()),
            markup_escape(reason_doc(static_cast<Reason>(reason))));
      }
    }
  }
  if (rows.empty()) return "<p>No reasons were recorded.</p>";
  return "<div class='scroll'><table><thead><tr><th>feature<th>outcome<th>reason<th class='n'>count<th "
         "class='n'>call sites<th>meaning</thead><tbody>" +
         rows + "</tbody></table></div>";
}

// One frame a line; template names are long, so lines may break anywhere.
std::string site_markup(const std::string& text) {
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find(" < ", at), text.size());
    out += "<div><code style='overflow-wrap:anywhere'>" + markup_escape(text.substr(at, next - at)) +
           "</code></div>";
    at = next + 3;
  }
  return out;
}

// The busiest places of the program, named from the files on this machine.
std::string sites_section(const TraceRun& run, const ReportData& d) {
  constexpr size_t kMost = 100;
  size_t all = 0;
  for (const auto& [key, sites] : d.by_site) all += sites.size();
  if (all == 0)
    return "<p>No call sites were recorded (<code>--trace-sites=off</code>, or only helper threads "
           "decided).</p>";
  std::string rows;
  for (const SiteRow& r : busiest_sites(run, d.by_site, kMost))
    rows += fmt::format(
        "<tr><td>{}</td><td><code>{}</code></td><td "
        "class='n'>{}</td><td>{}</td><td>{}</td></tr>",
        trace::feature_name(static_cast<trace::Feature>(r.feature)),
        reason_name(static_cast<Reason>(r.reason)), count_text(r.count), r.pid, site_markup(r.site));
  std::string out =
      "<h3>Reasons by call site, innermost frame first</h3><div "
      "class='scroll'><table><thead><tr><th>feature<th>reason<th class='n'>count<th>pid<th>call "
      "site</thead><tbody>" +
      rows + "</tbody></table></div>";
  if (all > kMost) out += fmt::format("<p>and {} more</p>", count_text(all - kMost));
  return out;
}

std::string calls_section(const ReportData& d) {
  std::vector<std::pair<uint64_t, uint16_t>> order;
  for (const auto& [slot, n] : d.summary.calls) order.emplace_back(n, slot);
  if (order.empty()) return "<p>No driver calls were recorded.</p>";
  std::sort(order.rbegin(), order.rend());
  std::string rows;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 60); ++i)
    rows += fmt::format("<tr><td><code>{}</code></td><td class='n'>{}</td></tr>", slot_name(order[i].second),
                        count_text(order[i].first));
  return "<details><summary>Driver calls recorded</summary><table><thead><tr><th>call<th "
         "class='n'>count</thead><tbody>" +
         rows + "</tbody></table></details>";
}

std::string settings_section(const TraceRun& run, const ReportData& d) {
  std::string out =
      "<details open><summary>Processes</summary><table><thead><tr><th>pid<th>rank<th>program<th "
      "class='n'>records<th class='n'>dropped</thead><tbody>";
  for (const auto& p : run.processes)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class='n'>{}</td><td class='n'>{}</td></tr>",
                       p->pid(), p->rank() < 0 ? "-" : std::to_string(p->rank()),
                       markup_escape(p->reader.header().executable), count_text(p->reader.record_count()),
                       count_text(p->reader.losses().dropped));
  out += "</tbody></table></details><details><summary>Settings</summary><table><tbody>";
  for (const auto& s : d.settings) out += "<tr><td><code>" + markup_escape(s) + "</code></td></tr>";
  out += "</tbody></table></details>";
  if (!d.cupti.empty()) {
    out += "<details open><summary>Device records</summary><table><tbody>";
    for (const auto& [name, n] : d.cupti)
      out += fmt::format("<tr><td>{}</td><td class='n'>{}</td></tr>", markup_escape(name), count_text(n));
    out += "</tbody></table></details>";
  }
  std::string losses;
  if (check_run(run, losses) && d.summary.cupti_lost + d.summary.lost_stamps == 0)
    return out + "<p>Nothing was lost.</p>";
  return out + "<p>Losses:</p><pre>" + markup_escape(losses) + "</pre>";
}

}  // namespace

bool write_report(const TraceRun& run, const std::string& path, const Progress& progress,
                  std::string& error) {
  const ReportData d = gather_report(run, progress);
  std::string html = kHead;
  const auto& first = run.processes.front()->reader.header();
  html += fmt::format(
      "<h1>shunt report</h1><p class='muted'>{} on {}, {} records</p><nav aria-label='Sections'><a "
      "href='#decisions'>Decisions</a><a href='#streams'>Streams</a><a href='#memory'>Memory</a><a "
      "href='#graphs'>Graphs</a><a href='#reasons'>Reasons</a><a href='#run'>Run</a></nav>",
      markup_escape(first.executable), markup_escape(first.host), count_text(run.records));
  html += "<main><p class='verdict'>" + markup_escape(verdict(run, d)) + "</p>";
  html += "<h2 id='decisions'>Decisions per feature</h2>" + decisions_section(d);
  html += "<h2 id='streams'>Streams</h2>" + streams_section(run, d);
  html += "<h2 id='memory'>Memory</h2>" + memory_section(run, d);
  html += "<h2 id='graphs'>Launches and replays</h2>" + rate_section(d);
  html += "<h2 id='reasons'>Reasons</h2>" + reasons_section(d) + sites_section(run, d) + calls_section(d);
  html += "<h2 id='run'>Settings and losses</h2>" + settings_section(run, d);
  html += "</main></body></html>\n";
  std::ofstream file(path, std::ios::binary);
  if (!file || !(file << html) || !file.flush())
    return error = "cannot write '" + path + "': is the folder there and writable?", false;
  return true;
}

}  // namespace shunt::tool
