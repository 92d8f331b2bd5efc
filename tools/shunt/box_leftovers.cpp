#include "tools/shunt/box_leftovers.h"

#include <unistd.h>

#include "runtime/ledger/ledger.h"

namespace shunt::tool {

using ledger::Ledger;

void remove_ledger_of(const std::string& box) {
  ledger::Options options;
  options.scope = box;
  std::string ignored;
  Ledger::remove(options, ignored);
}

int remove_ledgers_of_gone_boxes() {
  int removed = 0;
  // A scope is the box's name with the slash turned into "_" (Ledger::file_name). Only names that `shunt run`
  // gives: whoever named a box himself may make it again.
  const std::string own = "_simgpu-" + std::to_string(getuid()) + "-";
  for (const std::string& scope : Ledger::scopes()) {
    if (!scope.starts_with(own)) continue;
    if (access(("/dev/shm/" + scope.substr(1)).c_str(), F_OK) == 0) continue;
    remove_ledger_of(scope);
    removed++;
  }
  return removed;
}

}  // namespace shunt::tool
