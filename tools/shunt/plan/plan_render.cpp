#include "tools/shunt/plan/plan_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/shunt/markup.h"

namespace shunt::tool {

namespace {
constexpr const char* kStyle =
    "<style>svg{--ink:#1b1f24;--paper:#fff;--grid:#d0d7de;--a:#2f6fb3;--b:#b3562f;font:12px "
    "sans-serif;background:var(--paper)}"
    "@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--paper:#0d1117;--grid:#30363d;--a:#6cb0f5;--b:#"
    "f0a070}}"
    "text{fill:var(--ink)}.grid{stroke:var(--grid)}.t0{fill:var(--a)}.t1{fill:url(#stripes)}.label{fill:var(-"
    "-paper);font-size:10px}"
    ".front{fill:var(--a)}.base{fill:none;stroke:var(--b);stroke-width:2}.knee{fill:none;stroke:var(--ink);"
    "stroke-width:2}</style>"
    "<defs><pattern id='stripes' width='6' height='6' patternUnits='userSpaceOnUse' "
    "patternTransform='rotate(45)'>"
    "<rect width='6' height='6' fill='var(--a)'/><rect width='2' height='6' "
    "fill='var(--b)'/></pattern></defs>";
}  // namespace

std::string seconds_text(double s) {
  if (s == 0) return "0 s";
  if (s >= 100) return fmt::format("{:.0f} s", s);
  if (s >= 1) return fmt::format("{:.2f} s", s);
  if (s >= 1e-3) return fmt::format("{:.2f} ms", s * 1e3);
  return fmt::format("{:.2f} us", s * 1e6);
}

std::string gantt_svg(const plan::Problem& p, const plan::Schedule& s) {
  const double left = 110, width = 860, row = 28, top = 34;
  const double scale = s.makespan > 0 ? width / s.makespan : 0;
  const double height = top + row * static_cast<double>(p.device_count()) + 30;
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' role='img'><title>{}: makespan "
      "{}</title>{}",
      left + width + 20, height, markup_escape(s.algorithm), seconds_text(s.makespan), kStyle);
  out += fmt::format("<text x='{}' y='18'>{}: makespan {}</text>", left, markup_escape(s.algorithm),
                     seconds_text(s.makespan));
  for (int i = 0; i <= 4; ++i) {
    const double x = left + width * i / 4;
    out += fmt::format(
        "<line class='grid' x1='{0}' x2='{0}' y1='{1}' y2='{2}'/><text x='{0}' y='{3}' "
        "text-anchor='middle'>{4}</text>",
        x, top, height - 26, height - 10, seconds_text(s.makespan * i / 4));
  }
  for (plan::DeviceId d = 0; d < p.device_count(); ++d) {
    out += fmt::format("<text x='{}' y='{}' text-anchor='end'>{}</text>", left - 8, top + row * d + 18,
                       markup_escape(p.devices[d].name));
  }
  for (plan::TaskId t = 0; t < p.task_count(); ++t) {
    const plan::Slot& slot = s.slots[t];
    const double x = left + slot.start * scale, w = std::max(0.6, (slot.finish - slot.start) * scale),
                 y = top + row * slot.device + 3;
    out += fmt::format(
        "<g tabindex='0'><title>{}: {} to {}</title><rect class='t{}' x='{:.2f}' y='{}' width='{:.2f}' "
        "height='{}' rx='2'/>",
        markup_escape(p.tasks[t].name), seconds_text(slot.start), seconds_text(slot.finish), t % 2, x, y, w,
        row - 6);
    if (w > 8.0 * static_cast<double>(p.tasks[t].name.size()))
      out += fmt::format("<text class='label' x='{:.2f}' y='{}'>{}</text>", x + 3, y + 14,
                         markup_escape(p.tasks[t].name));
    out += "</g>";
  }
  return out + "</svg>\n";
}

std::string pareto_svg(const plan::PolicyFront& front) {
  const double left = 90, top = 30, width = 620, height = 360;
  double x0 = front.baseline.schedule.makespan, x1 = x0, y0 = front.baseline.energy_j, y1 = y0;
  for (const auto& point : front.points) {
    x0 = std::min(x0, point.schedule.makespan), x1 = std::max(x1, point.schedule.makespan);
    y0 = std::min(y0, point.energy_j), y1 = std::max(y1, point.energy_j);
  }
  auto px = [&](double v) { return left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * width; };
  auto py = [&](double v) { return top + height - (y1 > y0 ? (v - y0) / (y1 - y0) : 0.5) * height; };
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' role='img'><title>Pareto front: "
      "makespan and energy</title>{}",
      left + width + 30, top + height + 60, kStyle);
  for (int i = 0; i <= 4; ++i) {
    const double x = x0 + (x1 - x0) * i / 4, y = y0 + (y1 - y0) * i / 4;
    out += fmt::format(
        "<line class='grid' x1='{0}' x2='{0}' y1='{1}' y2='{2}'/><text x='{0}' y='{3}' "
        "text-anchor='middle'>{4}</text>",
        px(x), top, top + height, top + height + 18, seconds_text(x));
    out += fmt::format(
        "<line class='grid' x1='{0}' x2='{1}' y1='{2}' y2='{2}'/><text x='{3}' y='{4}' "
        "text-anchor='end'>{5:.3g} J</text>",
        left, left + width, py(y), left - 6, py(y) + 4, y);
  }
  for (size_t i = 0; i < front.points.size(); ++i) {
    const auto& point = front.points[i];
    const double x = px(point.schedule.makespan), y = py(point.energy_j);
    out += fmt::format(
        "<g tabindex='0'><title>{}, {:.4g} J, memory {:.0f} %</title><circle class='front' cx='{:.2f}' "
        "cy='{:.2f}' r='4'/>",
        seconds_text(point.schedule.makespan), point.energy_j, 100 * point.memory_pressure, x, y);
    if (i == front.knee)
      out += fmt::format(
          "<circle class='knee' cx='{:.2f}' cy='{:.2f}' r='8'/><text x='{:.2f}' y='{:.2f}'>knee</text>", x, y,
          x + 10, y - 8);
    out += "</g>";
  }
  const double bx = px(front.baseline.schedule.makespan), by = py(front.baseline.energy_j);
  out += fmt::format(
      "<rect class='base' x='{:.2f}' y='{:.2f}' width='10' height='10'><title>HEFT at full "
      "power</title></rect><text x='{:.2f}' y='{:.2f}'>HEFT</text>",
      bx - 5, by - 5, bx + 10, by + 14);
  out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>makespan (energy upwards)</text>",
                     left + width / 2, top + height + 44);
  return out + "</svg>\n";
}

std::string gantt_text(const plan::Problem& p, const plan::Schedule& s, int columns) {
  size_t name = 6;
  for (const auto& d : p.devices) name = std::max(name, d.name.size());
  const int width = std::max(20, columns - static_cast<int>(name) - 10);
  std::string out;
  for (plan::DeviceId d = 0; d < p.device_count(); ++d) {
    std::string bar(static_cast<size_t>(width), '.');
    double busy = 0;
    for (plan::TaskId t = 0; t < p.task_count(); ++t) {
      const plan::Slot& slot = s.slots[t];
      if (slot.device != d || s.makespan <= 0) continue;
      busy += slot.finish - slot.start;
      const int from = std::clamp(static_cast<int>(slot.start / s.makespan * width), 0, width - 1);
      const int to =
          std::clamp(static_cast<int>(std::ceil(slot.finish / s.makespan * width)), from + 1, width);
      for (int i = from; i < to; ++i) bar[static_cast<size_t>(i)] = t % 2 ? '=' : '#';
    }
    out += fmt::format("{:<{}} |{}| {:3.0f} %\n", p.devices[d].name, name, bar,
                       s.makespan > 0 ? 100 * busy / s.makespan : 0.0);
  }
  return out;
}

}  // namespace shunt::tool
