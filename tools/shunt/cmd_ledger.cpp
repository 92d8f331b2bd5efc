// `shunt ledger`: the memory ledger of this machine and of simulated boxes; --repair gives back what ended
// processes left and replaces a damaged file.
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/shunt/box_leftovers.h"
#include "tools/shunt/console.h"
#include "tools/shunt/ledger_table.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

using ledger::Ledger;

constexpr const char* kUsage =
    "Usage: shunt ledger [--repair] [--json]\n\n"
    "Shows what the programs of this user have, were promised and wait for, per device, as shunt's memory "
    "ledger\n"
    "counts it. --repair gives back the slots of ended processes and removes a damaged ledger file.\n";

tools::LedgerReport report_of(const std::string& scope, bool repair) {
  tools::LedgerReport report;
  report.scope = scope;
  ledger::Options options;
  options.scope = scope;
  std::unique_ptr<Ledger> ledger = Ledger::inspect(options, report.problem);
  if (!ledger) {
    std::string error;
    report.replaced = repair && Ledger::remove(options, error);
    if (!error.empty()) report.problem = error;
    return report;
  }
  if (repair) report.reclaimed = ledger->sweep();
  for (int d = 0; d < ledger->device_count(); ++d) report.devices.push_back(ledger->view(d));
  report.processes = ledger->processes();
  return report;
}

int ledger_verb(const std::vector<std::string>& arguments) {
  bool repair = false, json = false;
  for (const std::string& argument : arguments) {
    if (argument == "--repair")
      repair = true;
    else if (argument == "--json")
      json = true;
    else if (argument == "--help" || argument == "-h")
      return printf("%s", kUsage) > 0 ? 0 : kFailed;
    else
      return fail(kFailed, "unexpected argument '" + argument + "'; usage: shunt ledger [--repair] [--json]");
  }
  if (repair) remove_ledgers_of_gone_boxes();
  std::vector<tools::LedgerReport> reports;
  bool problem = false;
  for (const std::string& scope : Ledger::scopes()) {
    reports.push_back(report_of(scope, repair));
    problem |= !reports.back().problem.empty() && !reports.back().replaced;
  }
  winsize size{};
  int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  fputs((json ? tools::render_ledgers_json(reports) : tools::render_ledgers(reports, columns)).c_str(),
        stdout);
  return problem ? 1 : 0;
}

SHUNT_VERB("ledger", 70, "memory ledger of all programs of this user; --repair", ledger_verb)

}  // namespace
}  // namespace shunt::tool
