// `shunt devices`: what the machine, or a simulated box, has and does now.
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/shunt/console.h"
#include "tools/shunt/devices_table.h"
#include "tools/shunt/flags.h"
#include "tools/shunt/monitored_box.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = getenv("COLUMNS");
  return columns && atoi(columns) > 0 ? atoi(columns) : 80;
}

int devices_verb(const std::vector<std::string>& arguments) {
  const ParsedFlags flags = parse_flags(arguments, false, {"json"});
  if (!flags.error.empty()) return fail(kFailed, flags.error);
  if (flags.help) {
    printf(
        "Usage: shunt devices [--json] [--sim SPEC [--sim-links LINKS]]\n\n"
        "Lists the devices with their memory, load, power and links, through NVML.\n\n"
        "Examples:\n  shunt devices\n  shunt devices --sim b200:2,rubin:2\n  shunt devices --sim rubin:1 "
        "--json\n");
    return 0;
  }
  if (!flags.rest.empty())
    return fail(kFailed,
                "unexpected argument '" + flags.rest[0] + "'; usage: shunt devices [--json] [--sim SPEC]");
  std::vector<config::Problem> problems;
  const config::Config config = resolve(flags, problems);
  for (const config::Problem& p : problems) {
    if (p.what.starts_with("--")) return fail(kFailed, p.line());
    warn(p.line());
  }
  MonitoredBox box;
  std::string error;
  if (!open_box(config, box, error)) {
    const bool simulated = !config.text(config::OptionId::sim).empty();
    return fail(kFailed, error + (simulated ? "" : "; `shunt devices --sim b200:2` shows a simulated box"));
  }
  const monitor::Snapshot now = box.monitor->read();
  const std::string text =
      flags.json ? tools::render_json(now) : tools::render_table(now, terminal_columns());
  printf("%s%s", text.c_str(), !text.empty() && text.back() == '\n' ? "" : "\n");
  return 0;
}

SHUNT_VERB("devices", 20, "devices of this machine or of a simulated box", devices_verb)

}  // namespace
}  // namespace shunt::tool
