// `shunt history`: what earlier runs of programs needed and took, by kernel and device.
#include <fmt/format.h>
#include <stdio.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/config/options.h"
#include "tools/shunt/console.h"
#include "tools/shunt/history/store.h"
#include "tools/shunt/plan/plan_render.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

constexpr const char* kUsage =
    "Usage: shunt history [show] [--sim] [--json]\n"
    "       shunt history add FILE...\n"
    "       shunt history snapshot FILE [--sim]\n"
    "       shunt history forget [--sim]\n\n"
    "show      programs with their largest working set, and kernels with mean and deviation per device\n"
    "add       takes in what `shunt run --record-dag FILE` recorded; each recording counts once\n"
    "snapshot  writes the file that a bare preload reads (SHUNT_HISTORY_SNAPSHOT)\n"
    "--sim     the history of simulated devices, which is kept apart\n\n"
    "`shunt run --history=on` records and uses it by itself, --history=use only uses it.\n";

int add(const std::vector<std::string>& files) {
  if (files.empty()) return fail(kFailed, "history add: no file given; usage: shunt history add FILE...");
  int status = 0;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    RecordedRun run;
    std::string note, error = in ? "" : "cannot be read";
    if (!error.empty() || !parse_recorded_run(text.str(), run, error)) {
      status = fail(1, "history: '" + file + "': " + error);
      continue;
    }
    const auto store = Store::open(run.simulated, note, error);
    if (!note.empty()) warn(note);
    if (!store) return fail(kFailed, error);
    switch (store->add(run, text.str(), error)) {
      case Store::Added::yes:
        fmt::print("{}: {} tasks of {}{}\n", file, run.ops.size(), run.path,
                   run.simulated ? " (simulated)" : "");
        break;
      case Store::Added::already:
        fmt::print("{}: already there\n", file);
        break;
      case Store::Added::nothing:
        status = fail(1, "history: '" + file + "' says nothing of a program: no kernels, no memory");
        break;
      case Store::Added::failed:
        status = fail(kFailed, error);
        break;
    }
  }
  return status;
}

int show(Store& store, bool json) {
  std::vector<Store::KernelRow> kernels;
  std::vector<Store::ProgramRow> programs;
  std::string error;
  if (!store.read(kernels, programs, error)) return fail(kFailed, error);
  if (json) {
    nlohmann::ordered_json out{{"programs", nlohmann::json::array()}, {"kernels", nlohmann::json::array()}};
    for (const auto& p : programs)
      out["programs"].push_back({{"id", fmt::format("{:016x}", p.record.program)},
                                 {"path", p.path},
                                 {"runs", p.record.runs},
                                 {"peak_bytes", p.record.peak_bytes}});
    for (const auto& k : kernels)
      out["kernels"].push_back({{"name", k.name},
                                {"device", std::string(k.record.device->key)},
                                {"threads", k.record.shape.threads()},
                                {"samples", k.record.samples.count},
                                {"mean_s", k.record.samples.mean},
                                {"variance_s2", k.record.samples.variance()}});
    fmt::print("{}\n", out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  if (programs.empty()) {
    fmt::print("No runs yet: shunt run --history=on -- PROGRAM, or shunt history add FILE\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"program", "runs", "most memory"}};
  for (const auto& p : programs)
    rows.push_back({p.path.substr(p.path.rfind('/') + 1), std::to_string(p.record.runs),
                    config::format_bytes(p.record.peak_bytes)});
  fmt::print("{}\n", table(rows));
  rows = {{"kernel", "device", "threads", "samples", "mean", "deviation"}};
  for (const auto& k : kernels)
    rows.push_back({k.name.size() > 28 ? k.name.substr(0, 25) + "..." : k.name,
                    std::string(k.record.device->key), fmt::format("{:.0f}", k.record.shape.threads()),
                    std::to_string(k.record.samples.count), seconds_text(k.record.samples.mean),
                    seconds_text(std::sqrt(k.record.samples.variance()))});
  fmt::print("{}", table(rows));
  return 0;
}

int snapshot(Store& store, const std::string& path) {
  std::vector<Store::KernelRow> kernels;
  std::vector<Store::ProgramRow> programs;
  std::string error;
  if (!store.read(kernels, programs, error)) return fail(kFailed, error);
  std::vector<placement::KernelRecord> k;
  std::vector<placement::ProgramRecord> p;
  for (auto& row : kernels) k.push_back(row.record);
  for (auto& row : programs) p.push_back(row.record);
  if (!placement::write_snapshot(path, k, p, error)) return fail(kFailed, error);
  fmt::print("{}: {} programs, {} kernel times\n", path, p.size(), k.size());
  return 0;
}

int history_verb(const std::vector<std::string>& arguments) {
  bool json = false, simulated = false;
  std::vector<std::string> rest;
  for (const std::string& a : arguments) {
    if (a == "--help" || a == "-h") return printf("%s", kUsage) > 0 ? 0 : kFailed;
    if (a == "--json")
      json = true;
    else if (a == "--sim")
      simulated = true;
    else if (a.starts_with("-"))
      return fail(kFailed, "history: unknown option '" + a + "'; see shunt history --help");
    else
      rest.push_back(a);
  }
  const std::string what = rest.empty() ? "show" : rest[0];
  if (!rest.empty()) rest.erase(rest.begin());
  if (what == "add") return add(rest);
  const bool one_file = what == "snapshot";
  if ((what != "show" && what != "forget" && !one_file) || rest.size() != (one_file ? 1u : 0u))
    return fail(kFailed, "history: usage: shunt history show | add FILE... | snapshot FILE | forget");
  std::string note, error;
  Store::take_pending(error);
  if (!error.empty()) warn(error), error.clear();
  const auto store = Store::open(simulated, note, error);
  if (!note.empty()) warn(note);
  if (!store) return fail(kFailed, error);
  if (what == "snapshot") return snapshot(*store, rest[0]);
  if (what == "forget") return store->forget(error) ? 0 : fail(kFailed, error);
  return show(*store, json);
}

SHUNT_VERB("history", 62, "what earlier runs of programs needed and took", history_verb)

}  // namespace
}  // namespace shunt::tool
