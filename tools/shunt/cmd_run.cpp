// `shunt run`: settings, checks, placement, environment, then exec (or supervise, with --summary).
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/config/hints.h"
#include "runtime/placement/decide.h"
#include "runtime/trace/paths.h"
#include "runtime/trace/reader.h"
#include "tools/shunt/box_leftovers.h"
#include "tools/shunt/console.h"
#include "tools/shunt/devices.h"
#include "tools/shunt/flags.h"
#include "tools/shunt/history/store.h"
#include "tools/shunt/launch.h"
#include "tools/shunt/layout.h"
#include "tools/shunt/program.h"
#include "tools/shunt/rules/rules_file.h"
#include "tools/shunt/run_record.h"
#include "tools/shunt/run_summary.h"
#include "tools/shunt/simulation.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

using config::OptionId;

const char* const kHelp =
    "Usage: shunt run [options] [--] PROGRAM [arguments]\n\n"
    "Starts PROGRAM with shunt preloaded. The program keeps its pid, its signals and its exit status.\n\n"
    "Examples:\n"
    "  shunt run -- ./train --epochs 3\n"
    "  shunt run --hint mem=200GiB -- ./train           only a device with 216 GiB free will do\n"
    "  shunt run --placement=mixed -- ./infer           any model may be chosen\n"
    "  shunt run --sim b200:2,rubin:2@mem=64GiB -- ./train\n"
    "  shunt run -o run.shunt --summary -- ./train      decisions are kept in run.shunt\n"
    "  nsys profile shunt run -- ./train                profilers go outside\n\n"
    "Exit status: the program's; 125 shunt failed, 126 the program cannot be executed, 127 it was not "
    "found.\n\n"
    "Options (each is also a variable SHUNT_NAME and a key of shunt.toml):\n";

// Everything the steps of a run share.
struct Run {
  config::Config config;
  config::Hints hints;
  placement::RuleSet rules;
  std::string rules_origin;
  placement::Request request;
  Layout layout;
  Program program;
  Simulation sim;
  bool simulated = false;
  bool shadowed = false;  // --placement=shadow: the plan differs from what the program gets
  std::vector<placement::DeviceFacts> devices;
  placement::Plan plan;
  std::string note;  // instead of a placement: no device, no monitor
  Environment environment;
  std::vector<std::string> arguments;
  std::string trace_folder, temporary;
};

int check_settings(const ParsedFlags& flags, Run& run) {
  std::vector<config::Problem> problems;
  run.config = resolve(flags, problems);
  run.hints = config::parse_hints(run.config.list(OptionId::hint), problems);
  set_color(run.config.text(OptionId::color));
  if (!run.hints.model.empty() && !profiles::find(run.hints.model)) {
    std::vector<std::string> keys;
    for (const auto& p : profiles::all()) keys.emplace_back(p.key);
    const std::string near = config::nearest(run.hints.model, keys);
    problems.push_back(
        {"hint", "model=" + run.hints.model,
         near.empty() ? "`shunt help models` lists the models" : "did you mean model=" + near + "?"});
  }
  // A flag was typed for this run: it is refused. A variable or file may be old: it is reported and the
  // program starts.
  const bool strict = run.config.flag(OptionId::strict);
  for (const config::Problem& p : problems) {
    const bool typed =
        p.what.starts_with("--") ||
        (p.what == "hint" && run.config.setting(OptionId::hint).origin == config::Origin::flag);
    if (typed || strict)
      return fail(kFailed,
                  (p.what == "hint" ? "--hint" : "") + (p.what == "hint" ? p.line().substr(4) : p.line()));
    warn(p.line());
  }
  std::vector<std::string> errors;
  // A damaged file is refused only where it was named for this run; otherwise the program starts with the
  // rules shipped.
  if (!rules_in_effect(run.config.text(OptionId::rules), run.rules, run.rules_origin, errors)) {
    if (strict || run.config.setting(OptionId::rules).origin == config::Origin::flag)
      return fail(kFailed, "--rules " + errors.front() + "; `shunt rules check` shows all errors");
    warn(errors.front() + "; the rules shipped are used");
    run.rules = placement::default_rules();
    run.rules_origin = "shipped with shunt";
  }
  return 0;
}

int check_program(Run& run) {
  int status = 0;
  std::string error;
  if (!inspect_program(run.arguments[0], run.program, status, error)) return fail(status, error);
  const std::string& path = run.program.path;
  if (run.simulated) {
    if (run.program.static_cudart)
      return fail(kFailed, "program '" + path +
                               "' has the CUDA runtime linked statically, which talks to NVIDIA's driver "
                               "only; --sim needs the shared one: rebuild with `nvcc -cudart shared`");
    if (!run.program.device_code.empty() && !run.program.has_ptx())
      return fail(kFailed, "program '" + path +
                               "' carries machine code only and simgpu executes PTX; rebuild with PTX, e.g. "
                               "`nvcc -gencode arch=compute_90,code=compute_90`");
  }
  if (run.program.statically_linked)
    warn("program '" + path + "' is statically linked: shunt can act only in processes it starts");
  return 0;
}

int check_installation(Run& run) {
  run.layout = find_layout();
  if (run.layout.interposer.empty())
    return fail(kFailed,
                "libshunt.so is not in " + run.layout.looked_in + "; build or install shunt completely");
  if (run.layout.runtime.empty() && !run.config.given(OptionId::rt_path))
    return fail(kFailed, "libshunt_rt.so is not in " + run.layout.looked_in +
                             "; without it every call would pass through. Build or install shunt completely");
  if (run.simulated && run.layout.simgpu.empty())
    return fail(kFailed, "simgpu's libcuda.so.1 is not in " + run.layout.looked_in +
                             "/simgpu; build or install shunt completely");
  for (const std::string& path : {run.layout.interposer, run.layout.simgpu})
    if (path.find_first_of(" :") != std::string::npos)
      return fail(
          kFailed,
          "path '" + path +
              "' contains a space or colon, which LD_PRELOAD cannot hold; move shunt to another folder");
  return 0;
}

uint64_t program_of(const Run& run) {
  char* real = realpath(run.program.path.c_str(), nullptr);
  const uint64_t id = placement::program_id(real ? real : run.program.path, run.arguments);
  free(real);
  return id;
}

// What is known of earlier runs: its need, and its time on each device. Nothing that goes wrong here stops
// the program.
void use_history(Run& run) {
  const std::string& mode = run.config.text(OptionId::history);
  if (mode == "off") return;
  std::string note, error;
  Store::take_pending(error);
  const auto store = error.empty() ? Store::open(run.simulated, note, error) : nullptr;
  placement::History history;
  if (!note.empty()) warn(note);
  if (!store || !store->load(history, error)) return warn(error + "; the run goes on without history");
  const placement::ProgramRecord* program = history.find(program_of(run));
  if (!program) return;
  run.request.history_need_bytes = program->peak_bytes;
  for (const placement::DeviceFacts& d : run.devices)
    run.request.predictions.push_back(d.profile ? history.predict(*program, *d.profile)
                                                : placement::Estimate{});
}

void place(Run& run) {
  if (run.simulated) {
    // A simulated box is numbered as it was written, unless the user asks for CUDA's own order. The variables
    // are set here so that a child asked for the driver's order sees the same box.
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    run.environment.set("CUDA_DEVICE_ORDER", getenv("CUDA_DEVICE_ORDER"));
    setenv("SIMGPU_BOX", run.sim.name.c_str(), 1);
    run.devices = simulated_devices(run.sim);
    sort_as_driver(run.devices, run.layout.simgpu + "/libcuda.so.1");
  } else {
    run.devices = real_devices(run.note);
  }
  if (run.devices.empty()) return;
  placement::Request& request = run.request;
  use_history(run);
  request.mode = placement::parse_mode(run.config.text(OptionId::placement));
  request.hints = run.hints;
  request.rules = &run.rules;
  if (run.environment.has("CUDA_VISIBLE_DEVICES"))
    request.visible_devices = run.environment.get("CUDA_VISIBLE_DEVICES");
  request.program = &run.program.device_code;
  request.ptx_only = run.simulated;
  request.allow_newer_ptx = run.environment.get("SIMGPU_PTX") == "newer";
  request.local_ranks = trace::local_ranks();
  run.plan = placement::decide(request, run.devices);
  if (request.mode == placement::Mode::shadow) {
    run.shadowed = run.plan.changed;
    run.plan.changed = false;
  }
}

std::string random_id() {
  unsigned char b[8] = {};
  if (getrandom(b, sizeof b, 0) != static_cast<ssize_t>(sizeof b))
    return std::to_string(clock::realtime_ns());
  std::string out;
  for (const unsigned char c : b) out += fmt::format("{:02x}", c);
  return out;
}

int remove_entry(const char* path, const struct stat*, int, struct FTW*) { return remove(path); }

// The trace directory: named with -o, or a temporary one for the summary.
int prepare_trace(Run& run) {
  const std::string& pattern = run.config.text(OptionId::trace);
  if (pattern.empty()) {
    if (!run.config.flag(OptionId::summary)) return 0;
    const char* tmp = getenv("TMPDIR");
    run.temporary = std::string(tmp && *tmp ? tmp : "/tmp") + "/shunt-XXXXXX";
    if (!mkdtemp(run.temporary.data()))
      return fail(kFailed,
                  "folder for the summary '" + run.temporary + "': " + strerror(errno) + "; set TMPDIR");
    run.trace_folder = run.temporary + "/run.shunt";
    config::Problem ignored;
    run.config.set(OptionId::trace_calls, "none", config::Origin::flag, "--summary", ignored);
    return 0;
  }
  run.trace_folder = trace::expand_directory(pattern, getpid());
  if (run.trace_folder[0] != '/') {
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd)) run.trace_folder = std::string(cwd) + "/" + run.trace_folder;
  }
  struct stat st {};
  const bool exists = stat(run.trace_folder.c_str(), &st) == 0;
  // Ranks of one job share a directory: each writes its own file.
  if (exists && trace::job_rank() < 0) {
    if (!run.config.flag(OptionId::force))
      return fail(kFailed, "trace '" + run.trace_folder +
                               "' exists; give -f to replace it, or another name (%p is the pid)");
    if (!S_ISDIR(st.st_mode))
      return fail(kFailed, "trace '" + run.trace_folder + "' is no folder; give another name");
    for (const std::string& file : trace::trace_files(run.trace_folder)) unlink(file.c_str());
    unlink((run.trace_folder + "/run.json").c_str());
  }
  if (mkdir(run.trace_folder.c_str(), 0777) != 0 && errno != EEXIST)
    return fail(kFailed, "trace '" + run.trace_folder + "': " + strerror(errno) +
                             "; give -o a place that can be written");
  return 0;
}

// The file of --record-dag: absolute, because programs change folders, and never an old one continued.
int prepare_recording(Run& run) {
  std::string path = run.config.text(OptionId::record_dag);
  config::Problem ignored;
  if (path.empty() && run.config.is(OptionId::history, "on")) {
    // Taken into the history by the next command that uses it: this process becomes the program.
    path = Store::pending_folder() + "/" + std::to_string(getpid()) + "-" +
           std::to_string(clock::realtime_ns()) + ".ops";
    mkdir(Store::pending_folder().c_str(), 0700);
  }
  if (path.empty()) return 0;
  run.config.set(OptionId::program, std::to_string(program_of(run)), config::Origin::flag, "shunt run",
                 ignored);
  char cwd[PATH_MAX];
  if (path[0] != '/' && getcwd(cwd, sizeof cwd)) path = std::string(cwd) + "/" + path;
  struct stat st {};
  if (stat(path.c_str(), &st) == 0) {
    if (!run.config.flag(OptionId::force) || !S_ISREG(st.st_mode))
      return fail(kFailed, "--record-dag '" + path + "' exists; give -f to replace it, or another name");
    unlink(path.c_str());
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (access(folder.c_str(), W_OK) != 0)
    return fail(kFailed,
                "--record-dag '" + path + "': " + strerror(errno) + "; give a place that can be written");
  run.config.set(OptionId::record_dag, path, config::Origin::flag, "--record-dag", ignored);
  return 0;
}

void prepare_environment(Run& run) {
  Environment& env = run.environment;
  config::Problem ignored;
  const std::string compact = to_compact(run.rules);
  if (compact != to_compact(placement::default_rules()))
    run.config.set(OptionId::rule_set, compact, config::Origin::flag, "shunt run", ignored);
  run.config.set(OptionId::run_id, random_id(), config::Origin::flag, "shunt run", ignored);
  if (!run.trace_folder.empty())
    run.config.set(OptionId::trace, run.trace_folder, config::Origin::flag, "shunt run", ignored);
  if (run.plan.device >= 0)
    run.config.set(OptionId::placed,
                   run.devices[static_cast<size_t>(run.plan.device)].uuid + "|" +
                       std::string(reason_name(run.plan.reason)) + (run.plan.changed ? "|applied" : "|kept"),
                   config::Origin::flag, "shunt run", ignored);
  for (const std::string& e : config::to_environment(run.config))
    env.set(e.substr(0, e.find('=')), e.substr(e.find('=') + 1));
  if (run.plan.changed) env.set("CUDA_VISIBLE_DEVICES", run.plan.visible_devices(run.devices));
  // Our own entries go in front, in this order; whatever was preloaded before stays behind them.
  if (run.simulated) {
    const std::vector<std::string> libraries = simgpu_libraries(run.layout.simgpu);
    for (auto it = libraries.rbegin(); it != libraries.rend(); ++it) env.prepend("LD_PRELOAD", *it, ':');
    env.prepend("LD_LIBRARY_PATH", run.layout.simgpu, ':');
    env.set("SIMGPU_SPEC", run.sim.spec_text);
    env.set("SIMGPU_LINKS", run.sim.links);
    env.set("SIMGPU_BOX", run.sim.name);
  }
  env.prepend("LD_PRELOAD", run.layout.interposer, ':');
}

void start_line(const Run& run) {
  if (run.config.flag(OptionId::quiet)) return;
  std::string line;
  if (run.config.flag(OptionId::disable)) {
    line = "disabled by " + run.config.setting(OptionId::disable).source + ": every call passes through";
  } else if (run.plan.device >= 0) {
    const placement::DeviceFacts& d = run.devices[static_cast<size_t>(run.plan.device)];
    line = fmt::format("device {} {} ({}): {} [{}]", d.ordinal, d.label(), d.uuid.substr(0, 12), run.plan.why,
                       reason_name(run.plan.reason));
    if (run.plan.other_model && run.plan.changed) line += "; device model differs";
    if (run.shadowed) line += "; shadow: not applied, the program keeps its own order";
  } else {
    line =
        run.note.empty()
            ? run.plan.why
            : run.note + (run.simulated ? "" : ": the program runs as it is (--sim b200:2 simulates a box)");
  }
  if (run.simulated) line += "; simulated " + run.sim.spec_text;
  say(line);
}

int run_supervised(Run& run) {
  const uint64_t start = clock::monotonic_ns();
  Outcome outcome;
  const bool started = supervise(run.program.path, run.arguments, run.environment, outcome);
  if (run.simulated) {
    simgpu::Box::unlink_named(run.sim.name);
    remove_ledger_of(run.sim.name);
  }
  if (started) {
    const RunFacts facts{static_cast<double>(clock::monotonic_ns() - start) * 1e-9,
                         trace::job_rank(),
                         outcome.pid,
                         outcome.status,
                         outcome.signaled,
                         run.temporary.empty() ? run.config.text(OptionId::trace) : ""};
    const std::string text = end_of_run_text(facts, run.trace_folder);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      say(text.substr(at, end - at));
      at = end + 1;
    }
  }
  if (!run.temporary.empty()) nftw(run.temporary.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  return outcome.status;
}

int run_verb(const std::vector<std::string>& arguments) {
  ParsedFlags flags = parse_flags(arguments, true);
  if (!flags.error.empty()) return fail(kFailed, flags.error);
  if (flags.help) {
    printf("%s%s  --config FILE\n      Settings file (TOML).\n", kHelp, flags_help().c_str());
    return 0;
  }
  Run run;
  if (const int status = check_settings(flags, run)) return status;
  if (flags.rest.empty())
    return fail(kFailed, "no program given; usage: shunt run [options] -- PROGRAM [arguments]");
  run.arguments = flags.rest;
  run.simulated = run.config.given(OptionId::sim) && !run.config.text(OptionId::sim).empty();
  std::string error;
  // The specification is checked before the program, the box made after it: nothing is left behind by a
  // typing error.
  if (run.simulated && !make_simulation(run.config.text(OptionId::sim), run.config.text(OptionId::sim_links),
                                        false, run.sim, error))
    return fail(kFailed, error);
  if (const int status = check_program(run)) return status;
  if (const int status = check_installation(run)) return status;
  if (run.simulated && !make_simulation(run.config.text(OptionId::sim), run.config.text(OptionId::sim_links),
                                        true, run.sim, error))
    return fail(kFailed, error);
  place(run);
  int status = prepare_recording(run);
  if (!status) status = prepare_trace(run);
  if (status) {
    if (run.simulated) simgpu::Box::unlink_named(run.sim.name);
    return status;
  }
  prepare_environment(run);
  if (!run.trace_folder.empty() && run.temporary.empty())
    write_run_record(run.trace_folder, run.arguments, run.config, run.devices, run.plan,
                     {run.request, run.rules, run.rules_origin, run.simulated});
  start_line(run);
  if (run.config.flag(OptionId::summary)) return run_supervised(run);
  if (run.simulated && !start_janitor(getpid(), run.sim.name))
    warn("the simulated box " + run.sim.name + " stays in /dev/shm after the run");
  status = execute(run.program.path, run.arguments, run.environment);
  return status;  // the janitor sees our end and removes the box
}

SHUNT_VERB("run", 10, "start a program under shunt", run_verb)

}  // namespace
}  // namespace shunt::tool
