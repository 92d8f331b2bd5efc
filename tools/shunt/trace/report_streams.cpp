#include "tools/shunt/trace/report_streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/shunt/markup.h"

namespace shunt::tool {
namespace {

constexpr double kLeft = 175, kBin = 1.25, kWide = kBin * static_cast<double>(kBins), kHigh = 18;
constexpr size_t kMostRows = 24;  // strips drawn; the table has all

// One bar a bin, as high as the share of the bin that was busy. Neighbours of one height become one.
std::string bars(const Bins& bins, double width_ns, double base) {
  std::string path;
  for (size_t b = 0; b < kBins;) {
    const auto height = [&](size_t i) {
      return width_ns > 0 ? std::min(kHigh, kHigh * static_cast<double>(bins[i]) / width_ns) : 0.0;
    };
    const double h = height(b);
    size_t end = b + 1;
    while (end < kBins && (bins[end] == 0) == (bins[b] == 0) && std::abs(height(end) - h) < 0.25) ++end;
    if (bins[b] != 0)
      path += fmt::format("M{:.1f} {:.0f}h{:.1f}v-{:.1f}h-{:.1f}z", kLeft + kBin * static_cast<double>(b),
                          base, kBin * static_cast<double>(end - b), std::max(0.6, h),
                          kBin * static_cast<double>(end - b));
    b = end;
  }
  return path;
}

std::string row(const std::string& name, const std::string& says, double y,
                std::initializer_list<std::pair<const Bins*, int>> layers, double width_ns) {
  std::string out = fmt::format(
      "<g tabindex='0'><title>{0}: {1}</title><rect x='{2}' y='{3:.0f}' width='{4:.0f}' height='{5:.0f}' "
      "fill='var(--soft)'/><text x='0' y='{6:.0f}'>{0}</text>",
      markup_escape(name), markup_escape(says), kLeft, y, kWide, kHigh, y + 13);
  for (const auto& [bins, pattern] : layers)
    if (const std::string path = bars(*bins, width_ns, y + kHigh); !path.empty())
      out += fmt::format("<path d='{}' fill='url(#p{})'/>", path, pattern);
  return out + "</g>";
}

std::string axis(double y, double span_ns) {
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double x = kLeft + kWide * i / 4;
    out += fmt::format(
        "<line class='axis' x1='{0:.0f}' x2='{0:.0f}' y1='0' y2='{1:.0f}'/><text x='{0:.0f}' y='{2:.0f}' "
        "text-anchor='{3}'>{4}</text>",
        x, y, y + 13,
        i == 0   ? "start"
        : i == 4 ? "end"
                 : "middle",
        duration_text(span_ns * i / 4 * 1e-9));
  }
  return out;
}

std::string legend(double y) {
  static constexpr std::pair<int, const char*> kKeys[] = {
      {0, "busy"}, {1, "of it in a graph"}, {2, "two or more streams at once"}};
  std::string out;
  double x = kLeft;
  for (const auto& [pattern, text] : kKeys) {
    out += fmt::format(
        "<rect x='{:.0f}' y='{:.0f}' width='14' height='12' fill='url(#p{})'/><text x='{:.0f}' "
        "y='{:.0f}'>{}</text>",
        x, y, pattern, x + 20, y + 10, text);
    x += pattern == 0 ? 90 : 150;
  }
  return out;
}

std::string ms(uint64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-6); }

double share(uint64_t part, double whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / whole : 0.0;
}

}  // namespace

std::string streams_section(const TraceRun& run, const ReportData& d) {
  const StreamTimes& times = d.streams;
  if (times.streams.empty()) {
    if (!d.summary.gpu_refused.empty())
      return "<p>Device times were asked for, but CUPTI did not record: <code>" +
             markup_escape(d.summary.gpu_refused) + "</code>.</p>";
    return "<p>This trace holds no device times. Record them with <code>--gpu-trace=graph</code> (or "
           "<code>node</code>), or record the program with nsys as well and use <code>shunt trace "
           "correlate</code>.</p>";
  }
  const double span = static_cast<double>(run.last_ns - run.first_ns), bin_ns = span / kBins;
  std::string svg, rows, words;
  double y = 2;
  size_t drawn = 0;
  uint32_t device = 0;
  bool first = true;
  const auto overlap_row = [&] {
    const DeviceTimes& t = times.devices.at(device);
    if (t.several_ns == 0 || drawn >= kMostRows) return;
    svg += row(fmt::format("GPU {} overlap", device), ms(t.several_ns) + " ms with two or more streams busy",
               y, {{&t.several_bins, 2}}, bin_ns);
    y += kHigh + 6;
  };
  for (const auto& [key, strip] : times.streams) {
    if (!first && key.first != device) overlap_row(), y += 6;
    first = false;
    device = key.first;
    if (drawn < kMostRows) {
      svg += row(fmt::format("GPU {} {}", key.first, d.stream_names.at(key)),
                 fmt::format("busy {} ms, {} gaps", ms(strip.busy_ns), count_text(strip.gaps)), y,
                 {{&strip.busy_bins, 0}, {&strip.replay_bins, 1}}, bin_ns);
      y += kHigh + 6;
      ++drawn;
    }
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{:.1f} %</td><td "
        "class='n'>{:.1f} %</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td></tr>",
        key.first, markup_escape(d.stream_names.at(key).substr(7)), count_text(strip.records),
        ms(strip.busy_ns), share(strip.busy_ns, span),
        share(strip.replay_ns, static_cast<double>(strip.busy_ns)), count_text(strip.gaps), ms(strip.gap_ns),
        strip.gaps ? ms(strip.longest_gap_ns) + " at " + ms(strip.longest_gap_at - run.first_ns) : "-");
  }
  overlap_row();
  for (const auto& [id, t] : times.devices)
    words += fmt::format(
        "GPU {} worked {} ms ({:.1f} % of the run), {} ms of it on two or more streams at once, and "
        "stood still for {} ms between its first and last work. ",
        id, ms(t.any_ns), share(t.any_ns, span), ms(t.several_ns), ms(t.idle_ns));
  std::string out = fmt::format(
      "<p>{}</p><svg viewBox='0 0 945 {:.0f}' role='img' aria-label='Busy share of each device stream over "
      "time, in the table below'>{}{}{}</svg><p class='muted'>A bar is {} wide and as high as the share of "
      "it that "
      "was busy.</p>",
      words, y + 40, axis(y, span), svg, legend(y + 22), duration_text(bin_ns * 1e-9));
  if (times.streams.size() > kMostRows)
    out += fmt::format("<p class='muted'>{} more streams are in the table only.</p>",
                       times.streams.size() - kMostRows);
  if (times.left_out)
    out += fmt::format("<p>{} records of further streams are left out.</p>", count_text(times.left_out));
  return out +
         "<div class='scroll'><table><thead><tr><th>GPU<th>stream<th class='n'>records<th class='n'>busy "
         "ms<th "
         "class='n'>of the run<th class='n'>in graphs<th class='n'>gaps<th class='n'>gaps ms<th "
         "class='n'>longest gap ms</thead><tbody>" +
         rows + "</tbody></table></div>";
}

}  // namespace shunt::tool
