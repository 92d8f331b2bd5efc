// Entry of libshunt_rt.so: reads the settings, builds the chain, installs the hooks somebody needs, and
// nothing else. With everything off no hook is installed and the process keeps calling the driver directly.
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/exec/chain.h"
#include "runtime/exec/driver.h"
#include "runtime/exec/engines.h"
#include "runtime/exec/hook_tables.h"
#include "runtime/exec/links/driver_link.h"
#include "runtime/exec/links/gpu_link.h"
#include "runtime/exec/links/model_link.h"
#include "runtime/exec/links/trace_link.h"
#include "runtime/exec/placement_bind.h"
#include "runtime/exec/run_record.h"
#include "runtime/exec/settings.h"
#include "runtime/placement/recorder.h"
#include "runtime/trace/gpu_trace.h"
#include "runtime/trace/paths.h"
#include "runtime/trace/writer.h"

namespace shunt::exec {
namespace {

using config::OptionId;

// What `shunt run` decided before this process existed, so that the trace tells the whole story:
// "UUID|reason|applied".
void record_launcher_placement(const config::Config& config) {
  const std::string& placed = config.text(OptionId::placed);
  const size_t first = placed.find('|'), second = placed.rfind('|');
  if (first == std::string::npos || second == first) return;
  const std::string reason_text = placed.substr(first + 1, second - first - 1);
  Reason reason = Reason::placed_by_launcher;
  for (const ReasonInfo& r : reasons())
    if (r.name == reason_text) reason = r.reason;
  const bool applied = placed.substr(second + 1) == "applied";
  trace::setting("placed", placed.substr(0, first), "shunt run");
  trace::decide({.feature = trace::Feature::placement,
                 .action = applied ? trace::Action::choose_device : trace::Action::keep_device,
                 .reason = reason,
                 .outcome = applied ? trace::Outcome::applied : trace::Outcome::declined});
}

bool start_trace(const config::Config& config) {
  const std::string& pattern = config.text(OptionId::trace);
  if (pattern.empty()) return false;
  trace::FileOptions options;
  options.directory = trace::expand_directory(pattern, getpid());
  options.run_id = config.text(OptionId::run_id);
  options.max_bytes = config.bytes(OptionId::trace_max);
  options.ring_bytes = config.bytes(OptionId::trace_ring);
  options.rank = trace::job_rank();
  if (!trace::start(options)) return false;
  trace::start_call_sites(config.is(OptionId::trace_sites, "on"));
  write_run_record(options.directory, config);
  for (const config::OptionInfo& o : config::options())
    if (config.given(o.id))
      trace::setting(o.name, config.text(o.id), config::origin_name(config.setting(o.id).origin));
  trace::decide({.feature = trace::Feature::process, .action = trace::Action::start});
  record_launcher_placement(config);
  return true;
}

// False when no device times were asked for, or there is no trace to hold them.
bool arm_gpu_trace(const config::Config& config, bool tracing) {
  using trace::gpu::Level;
  const Level level = config.is(OptionId::gpu_trace, "node")    ? Level::node
                      : config.is(OptionId::gpu_trace, "graph") ? Level::graph
                                                                : Level::off;
  if (level == Level::off) return false;
  if (!tracing) {
    SHUNT_LOG_WARN(trace, "--gpu-trace needs a trace to write to: add -o NAME");
    return false;
  }
  trace::gpu::arm({.level = level,
                   .host_pinned = !config.is(OptionId::oom, "off"),
                   .buffer_bytes = config.bytes(OptionId::gpu_trace_buffers)});
  return true;
}

std::vector<Link*> create_engines(const config::Config& config) {
  std::vector<Link*> links;
  std::string evidence;
  const Reason forbidden = engines_forbidden(config, evidence);
  if (forbidden != Reason::none)
    SHUNT_LOG_INFO(exec, "engines are off: %s [%s]", evidence.c_str(),
                   std::string(reason_name(forbidden)).c_str());
  // A recorded task graph is the program's own order: nothing may be held back then.
  Link* recorder =
      placement::create_recorder(config.text(OptionId::record_dag), config.text(OptionId::program));
  if (recorder) links.push_back(recorder);
  for (const EngineSpec& engine : engines()) {
    const std::string& mode = config.text(engine.option);
    Reason reason = forbidden;
    if (mode == "off") {
      reason = Reason::mode_off;
    } else if (recorder && engine.option != OptionId::oom) {
      reason = Reason::recording_tasks;
    } else if (reason == Reason::none && !engine.create) {
      reason = Reason::engine_not_built;
      if (config.given(engine.option))
        SHUNT_LOG_WARN(exec,
                       "--%s=%s: this build has no %s engine; those calls pass through [engine-not-built]",
                       engine.name, mode.c_str(), engine.name);
    } else if (reason == Reason::none) {
      if (Link* link = engine.create(mode, config)) links.push_back(link);
      continue;
    }
    trace::decide({.feature = engine.feature,
                   .action = trace::Action::pass_through,
                   .reason = reason,
                   .outcome = trace::Outcome::declined});
  }
  return links;
}

void set_questions() {
  const Driver& driver = Driver::get();
  model::Questions q;
  q.ctx_get_current = driver.ctx_get_current;
  q.ctx_get_device = driver.ctx_get_device;
  q.stream_get_ctx = driver.stream_get_ctx;
  q.stream_get_flags = driver.stream_get_flags;
  model::Model::get().set_questions(q);
}

void drain_unknown(void*) { Chain::get().drain(Scope::everything(), Reason::unknown_entry_point); }

void fork_child() {
  model::Model::fork_child();
  Chain::get().fork_child();
  trace::fork_child();
  trace::gpu::fork_child();
  trace::nvtx::fork_child();
}

void at_exit() {
  Chain& chain = Chain::get();
  if (Chain::first()) chain.drain(Scope::everything(), Reason::none);
  {
    OwnWork own;
    trace::gpu::stop();
  }
  trace::stop();
}

const ShuntRuntime* open_runtime(const ShuntHost* host) {
  if (config::disabled_by_environment(getenv("SHUNT_DISABLE"))) return nullptr;
  if (!host || host->version != SHUNT_LINK_VERSION || host->size < sizeof(ShuntHost) ||
      host->slot_count != SHUNT_SLOT_COUNT) {
    SHUNT_LOG_ERROR(link,
                    "libshunt.so and libshunt_rt.so are of different builds; every call passes through. "
                    "Install them together");
    return nullptr;
  }
  static const ShuntRuntime runtime = {
      sizeof(ShuntRuntime), SHUNT_LINK_VERSION, drain_unknown, nullptr, nullptr, fork_child, at_exit};
  g_host = host;
  load_settings();
  const config::Config& config = settings();
  clock::adopt_simgpu(host->find_loaded);
  const bool tracing = start_trace(config);
  const bool record_calls = tracing && !config.is(OptionId::trace_calls, "none");

  std::vector<Link*> engine_links = create_engines(config);
  const bool device_times = arm_gpu_trace(config, tracing);
  const bool observe = record_calls || device_times || !engine_links.empty();
  const bool place = arm_placement();
  if (observe) {
    set_questions();
    std::vector<Link*> links{new ModelLink()};
    if (record_calls) links.push_back(new TraceLink(config.is(OptionId::trace_calls, "all")));
    if (device_times) links.push_back(new GpuLink());
    links.insert(links.end(), engine_links.begin(), engine_links.end());
    links.push_back(new DriverLink());
    Chain::get().build(std::move(links));
    keep_ordinal_hooks();
  }
  if (observe || place) {
    int installed = 0;
    const std::vector<void*>& hooks = all_hooks();
    for (uint32_t slot = 0; slot < hooks.size(); slot++)
      if (hooks[slot] && (observe || bears_ordinals(slot))) installed += install(slot, hooks[slot]);
    SHUNT_LOG_DEBUG(exec, "%d hooks installed (%s%s)", installed, observe ? "chain" : "",
                    place ? " placement" : "");
  }
  if (Chain::get().delays()) host->set_drain_unknown(1);
  // Last: the first event loads the tool, which may call the driver, so no decision of the start-up is
  // marked.
  trace::nvtx::start(config.is(OptionId::nvtx, "on"));
  return &runtime;
}

}  // namespace
}  // namespace shunt::exec

extern "C" __attribute__((visibility("default"))) const ShuntRuntime* shunt_runtime_open(
    const ShuntHost* host) {
  // No exception may reach libshunt.so, which has no unwinder of its own.
  try {
    return shunt::exec::open_runtime(host);
  } catch (...) {
    SHUNT_LOG_ERROR(link, "initialisation failed (out of memory?); every call passes through");
    return nullptr;
  }
}
