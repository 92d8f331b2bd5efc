// `shunt doctor`: what is wrong with this machine, or with a program on it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/shunt/console.h"
#include "tools/shunt/doctor/finding.h"
#include "tools/shunt/flags.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

int doctor_verb(const std::vector<std::string>& arguments) {
  const ParsedFlags flags = parse_flags(arguments, true, {"json"});
  if (!flags.error.empty()) return fail(kFailed, flags.error);
  if (flags.help) {
    printf(
        "Usage: shunt doctor [--json] [--sim SPEC [--sim-links LINKS]] [-- PROGRAM]\n\n"
        "Checks driver, links, fabric, copies between devices (made and compared), settings,\n"
        "and whether PROGRAM's device code runs here. The program is read, not started.\n"
        "Exit status: 0 fine or notes only, 1 warnings, 2 errors.\n\n"
        "Examples:\n  shunt doctor\n  shunt doctor -- ./train\n  shunt doctor --sim b200:2,rubin:2 --json\n");
    return 0;
  }
  std::vector<config::Problem> problems;
  const config::Config config = resolve(flags, problems);
  for (const config::Problem& p : problems) {
    if (p.what.starts_with("--")) return fail(kFailed, p.line());
    warn(p.line());
  }
  Program program;
  int status = 0;
  std::string error;
  if (!flags.rest.empty() && !inspect_program(flags.rest[0], program, status, error))
    return fail(status, error);

  doctor::Findings findings;
  MonitoredBox box;
  monitor::Snapshot now;
  if (open_box(config, box, error)) {
    now = box.monitor->read();
    doctor::check_box(now, findings);
    doctor::check_peers(box, now, findings);
  } else if (!config.text(config::OptionId::sim).empty()) {
    return fail(kFailed, error);
  } else {
    findings.push_back(
        {doctor::Severity::error, "driver", error, "install NVIDIA's driver, or look at a box with --sim"});
  }
  if (!flags.rest.empty() && box.monitor) doctor::check_program(program, now, findings);
  doctor::check_environment(config.text(config::OptionId::system_root), findings);

  winsize size{};
  const char* columns = getenv("COLUMNS");
  int width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
              : columns                                                   ? atoi(columns)
                                                                          : 80;
  const std::string text = flags.json ? doctor::render_json(findings) : doctor::render_text(findings, width);
  fputs(text.c_str(), stdout);
  return doctor::exit_status(findings);
}

SHUNT_VERB("doctor", 25, "what is wrong with this machine, or with a program on it", doctor_verb)

}  // namespace
}  // namespace shunt::tool
