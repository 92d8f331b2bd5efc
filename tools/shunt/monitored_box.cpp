#include "tools/shunt/monitored_box.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "tools/shunt/layout.h"
#include "tools/shunt/simulation.h"

namespace shunt::tool {
namespace {

std::string g_nvml;  // simgpu's library; the loader is a plain function
void* open_simulated(const char*) { return dlopen(g_nvml.c_str(), RTLD_NOW | RTLD_LOCAL); }

}  // namespace

bool open_box(const config::Config& config, MonitoredBox& out, std::string& error) {
  monitor::nvml::Loader loader = monitor::nvml::system_loader();
  const std::string& sim = config.text(config::OptionId::sim);
  if (!sim.empty()) {
    const std::string& links = config.text(config::OptionId::sim_links);
    Simulation box;
    if (!make_simulation(sim, links, false, box, error)) return false;
    const Layout layout = find_layout();
    if (layout.simgpu.empty()) {
      error = "simgpu is not in " + layout.looked_in + "/simgpu; build or install shunt completely";
      return false;
    }
    unsetenv("SIMGPU_BOX");
    setenv("SIMGPU_SPEC", sim.c_str(), 1);
    setenv("SIMGPU_LINKS", links.c_str(), 1);
    g_nvml = layout.simgpu + "/libnvidia-ml.so.1";
    loader.open = open_simulated;
    out.driver = layout.simgpu + "/libcuda.so.1";
    out.simulated = true;
  }
  out.monitor = monitor::Monitor::open(error, loader);
  return out.monitor != nullptr;
}

}  // namespace shunt::tool
