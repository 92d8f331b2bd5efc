// `shunt ledger` shows what the ledger holds, whatever is in it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/ledger/scoped_ledger.h"
#include "tools/shunt/ledger_table.h"

using namespace ledger_test;
using shunt::tools::LedgerReport;

namespace {

size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  size_t width = 0;
  while (std::getline(lines, line)) width = std::max(width, line.size());
  return width;
}

TEST(LedgerTable, ShowsDevicesProcessesAndProblems) {
  Scope scope;
  auto ledger = scope.open();
  int d = ledger->device(uuid(1));
  ledger->add_used(d, 3ull << 30);
  ledger->add_spilled(d, 5 << 20);
  EXPECT_EQ(in_child([&] {
              auto* mine = scope.open().release();
              mine->add_used(d, 1 << 20);
              return 0;
            }),
            0);
  auto scopes = Ledger::scopes();
  EXPECT_NE(std::find(scopes.begin(), scopes.end(), scope.options.scope), scopes.end());
  LedgerReport report;
  report.scope = scope.options.scope;
  report.devices.push_back(ledger->view(d));
  report.processes = ledger->processes();
  std::string text = shunt::tools::render_ledgers({report}, 80);
  for (const char* words : {"3.0 GiB", "5.0 MiB", "(ended)", "simulated box test-"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_NE(shunt::tools::render_ledgers({report}, 160).find("GPU-aa000000-0000"), std::string::npos);
  nlohmann::json j = nlohmann::json::parse(shunt::tools::render_ledgers_json({report}));
  EXPECT_EQ(j["ledgers"][0]["devices"][0]["used"], (3ull << 30) + (1 << 20));
  EXPECT_EQ(j["ledgers"][0]["processes"].size(), 2u);
  EXPECT_EQ(j["ledgers"][0]["processes"][1]["alive"], false);

  LedgerReport damaged;
  damaged.problem = "ledger /x is damaged";
  EXPECT_NE(shunt::tools::render_ledgers({damaged}).find("! ledger /x is damaged"), std::string::npos);
  EXPECT_NE(shunt::tools::render_ledgers({}).find("no ledger"), std::string::npos);
}

TEST(LedgerTable, NamesCannotDrawOnTheTerminal) {
  LedgerReport report;
  ProcessView p;
  p.pid = 1;
  p.name = "\x1b[2Jx";
  report.processes.push_back(p);
  EXPECT_EQ(shunt::tools::render_ledgers({report}).find('\x1b'), std::string::npos);
}

}  // namespace
