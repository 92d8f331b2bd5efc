#include "tools/shunt/simulation.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/shunt/box_leftovers.h"

namespace shunt::tool {

bool make_simulation(const std::string& sim, const std::string& links, bool create, Simulation& out,
                     std::string& error) {
  if (!simgpu::parse_box_spec(sim, links, out.spec, error)) {
    error = "--sim " + sim + (links == "nvlink5" ? "" : " --sim-links " + links) + ": " + error;
    return false;
  }
  out.spec_text = sim;
  out.links = links;
  if (create) {
    remove_ledgers_of_gone_boxes();
    if (!simgpu::Box::create_named(out.spec, out.name, error)) return false;
    out.box.reset(simgpu::Box::open_named(out.name, error));
    if (!out.box) simgpu::Box::unlink_named(out.name);
  } else {
    out.box.reset(simgpu::Box::create_private(out.spec, error));
  }
  return out.box != nullptr;
}

std::vector<placement::DeviceFacts> simulated_devices(const Simulation& sim) {
  std::vector<placement::DeviceFacts> facts;
  for (int i = 0; i < sim.box->device_count(); i++) {
    const profiles::Profile& profile = sim.box->profile(i);
    placement::DeviceFacts d;
    d.ordinal = i;
    d.uuid = sim.box->uuid_string(i);
    d.name = profile.name;
    d.pci_bus_id = sim.box->pci_bus_id(i);
    d.profile = &profile;
    d.compute_capability = profile.cc_major * 10 + profile.cc_minor;
    d.total_bytes = sim.spec.devices[static_cast<size_t>(i)].memory_bytes;
    d.free_bytes = sim.box->free_bytes(i);
    d.memory_known = true;
    d.processes = static_cast<uint32_t>(sim.box->processes(i).size());
    facts.push_back(std::move(d));
  }
  return facts;
}

bool start_janitor(pid_t pid, const std::string& box) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return false;
  const pid_t middle = fork();
  if (middle < 0) {
    close(pidfd);
    return false;
  }
  if (middle == 0) {
    // Twice forked and in a session of its own: neither the program's child nor in its process group, so that
    // its wait() and the terminal's signals never meet it.
    setsid();
    if (fork() != 0) _exit(0);
    prctl(PR_SET_NAME, "shunt-janitor");
    for (int fd = 0; fd < 1024; fd++)
      if (fd != pidfd) close(fd);  // pipes to us must see their end when the program ends
    const int null = open("/dev/null", O_RDWR);
    while (null >= 0 && null < 2 && dup(null) < 2) {
    }
    if (chdir("/") != 0) _exit(1);
    pollfd ended{pidfd, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0) {
    }
    simgpu::Box::unlink_named(box);
    remove_ledger_of(box);
    _exit(0);
  }
  int status = 0;
  waitpid(middle, &status, 0);
  close(pidfd);
  return true;
}

}  // namespace shunt::tool
