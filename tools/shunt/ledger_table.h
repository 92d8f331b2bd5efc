// `shunt ledger` as text and JSON. Pure functions of what Ledger reports; any thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/ledger/ledger.h"

namespace shunt::tools {

struct LedgerReport {
  std::string scope;      // empty: the real box
  std::string problem;    // the file could not be read: one line, and nothing else is known
  int reclaimed = 0;      // slots of ended processes that were given back by this command
  bool replaced = false;  // the damaged file was removed
  std::vector<ledger::DeviceView> devices;
  std::vector<ledger::ProcessView> processes;
};

std::string render_ledgers(const std::vector<LedgerReport>& reports, int columns = 80);
std::string render_ledgers_json(const std::vector<LedgerReport>& reports);

}  // namespace shunt::tools
