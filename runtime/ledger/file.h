// Opening and making the ledger's file. Any thread.
#pragma once
#include <string>

#include "runtime/ledger/layout.h"

namespace shunt::ledger {

// Maps the file; with `create` makes it when absent. `fd` stays open: its byte ranges say which slots live
// (see hold_slot). Null and one line on failure.
File* map_file(const std::string& name, bool create, int& fd, std::string& error);

// A lock on a slot's byte that the kernel drops with the process, whatever its pid namespace.
bool hold_slot(int fd, int slot);  // false: another process has it
void drop_slot(int fd, int slot);
bool slot_held(int fd, int slot);

}  // namespace shunt::ledger
