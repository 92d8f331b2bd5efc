// What a simulated box leaves in shared memory beside itself: the ledger of its programs. One thread.
#pragma once
#include <string>

namespace shunt::tool {

// The ledger of one box, when its programs are gone.
void remove_ledger_of(const std::string& box);
// Ledgers of this user's boxes that no longer exist (their janitor was killed). Returns how many.
int remove_ledgers_of_gone_boxes();

}  // namespace shunt::tool
