// Started by exec from a process that has 500 bytes used and 300 promised on device 0: argv[1] is the
// ledger's scope. Exit code: which expectation failed, 0 none.
#include "runtime/ledger/ledger.h"

int main(int, char** argv) {
  shunt::ledger::Options options;
  options.scope = argv[1];
  std::string error;
  auto ledger = shunt::ledger::Ledger::open(options, error);
  if (!ledger) return 10;
  if (ledger->view(0).used != 0) return 11;        // the old image's memory went with it
  if (ledger->view(0).reserved != 300) return 12;  // what shunt run reserved for it is still promised
  ledger->add_used(0, 5);
  auto again = shunt::ledger::Ledger::open(options, error);
  if (!again || again->view(0).used != 5) return 13;  // the same image keeps what it has
  if (ledger->processes().size() != 2) return 14;     // one slot a process: this one and its parent
  return 0;
}
