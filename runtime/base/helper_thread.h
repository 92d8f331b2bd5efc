// How shunt starts threads inside somebody else's program: detached, and deaf to the program's signals.
// Faults stay deliverable: a blocked one ends the process without the program's handler. Any thread.
#pragma once
#include <functional>

namespace shunt {
// False: the system has no thread left.
bool start_helper_thread(std::function<void()> body);
}  // namespace shunt
