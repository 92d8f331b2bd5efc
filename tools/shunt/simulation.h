// The simulated box of one `shunt run --sim`: created before the program starts, removed when it has ended.
// One thread.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/placement/facts.h"
#include "tools/simgpu/box/box.h"

namespace shunt::tool {

struct Simulation {
  std::string name, spec_text, links;
  simgpu::BoxSpec spec;
  std::unique_ptr<simgpu::Box> box;
};

// Checks the specification; with `create` also makes the named box. False: one line in `error`.
bool make_simulation(const std::string& sim, const std::string& links, bool create, Simulation& out,
                     std::string& error);
std::vector<placement::DeviceFacts> simulated_devices(const Simulation& sim);

// After exec nobody of ours is left to remove the box: a detached process with closed descriptors waits for
// `pid` to end and removes it then. False when it cannot be started (the box then stays until `shunt` or a
// reboot cleans it).
bool start_janitor(pid_t pid, const std::string& box);

}  // namespace shunt::tool
