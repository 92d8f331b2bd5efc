// What `shunt doctor` finds: each with how bad it is, what shows it, and what to do. Checks are functions
// that add findings; a check that could not be made adds one that says why. One thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/monitor/device.h"
#include "tools/shunt/monitored_box.h"
#include "tools/shunt/program.h"

namespace shunt::tool::doctor {

// In the order of exit statuses: fine and notes end with 0, warnings with 1, errors with 2.
enum class Severity { fine, note, warning, error };

struct Finding {
  Severity severity = Severity::fine;
  std::string check;     // stable name: "peer-copy"
  std::string evidence;  // what was seen
  std::string fix;       // what to do; empty when fine
};
using Findings = std::vector<Finding>;

// Driver, models, memory, links, fabric, power, addressing: by NVML.
void check_box(const monitor::Snapshot& box, Findings& out);
// Each pair's copy, made and compared, in a child process that a broken driver may take along.
void check_peers(const MonitoredBox& box, const monitor::Snapshot& now, Findings& out);
// Whether the program's device code runs on each device, and what the driver has to compile first.
void check_program(const Program& program, const monitor::Snapshot& box, Findings& out);
// Variables, preloads, kernel modules. `root`: where /proc, /sys and /etc are read (tests give another).
void check_environment(const std::string& root, Findings& out);

std::string render_text(const Findings& findings, int columns);
std::string render_json(const Findings& findings);
int exit_status(const Findings& findings);

}  // namespace shunt::tool::doctor
