// `shunt help [TOPIC]`.
#include <stdio.h>

#include "runtime/base/reasons.h"
#include "runtime/config/options.h"
#include "runtime/profiles/profile.h"
#include "tools/shunt/console.h"
#include "tools/shunt/topics.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

void topic_env() {
  printf("Variables; each equals the flag of `shunt run` and the key of shunt.toml.\n\n");
  std::vector<std::vector<std::string>> rows{{"variable", "default", "values"}};
  for (const config::OptionInfo& o : config::options())
    if (o.scope != config::Scope::internal)
      rows.push_back(
          {o.env(), o.default_value.empty() ? "-" : std::string(o.default_value), std::string(o.choices)});
  printf("%s\n`shunt run --help` explains each.\n", table(rows).c_str());
}

void topic_reasons() {
  printf("Reasons of decisions, as they appear in logs, summaries and traces.\n\n");
  for (const ReasonInfo& r : reasons())
    printf("%s\n    %s\n", std::string(r.name).c_str(), std::string(r.doc).c_str());
}

void topic_models() {
  printf("Device models for --sim and --hint model=.\n\n");
  std::vector<std::vector<std::string>> rows{{"model", "name", "compute capability", "memory"}};
  for (const profiles::Profile& p : profiles::all())
    rows.push_back({std::string(p.key), std::string(p.name),
                    std::to_string(p.cc_major) + "." + std::to_string(p.cc_minor),
                    config::format_bytes(static_cast<uint64_t>(p.memory_bytes.value))});
  printf("%s", table(rows).c_str());
}

void topic_sim() {
  printf(
      "--sim model[:count][@key=value...][,more]   e.g. b200:2,rubin:2@mem=64GiB@power=800\n"
      "--sim-links nvlink5|nvlink6|pcie5|pcie6|none|FILE.toml\n\n"
      "Programs run on simgpu, a software CUDA platform. They must use the shared CUDA runtime (nvcc -cudart "
      "shared) or the\n"
      "driver API, and carry PTX. Devices are numbered as written (CUDA_DEVICE_ORDER=FASTEST_FIRST gives "
      "CUDA's\n"
      "order). `shunt help models` lists the models.\n");
}

void topic_placement() {
  printf(
      "Default: the model CUDA would have used; among devices of that model an idle one before a busy one, "
      "then the one with\n"
      "most free memory (differences below 2 %% do not count), then the lowest ordinal. All visible devices "
      "stay visible, the\n"
      "chosen one comes first. CUDA_VISIBLE_DEVICES limits the choice. With several local ranks nothing is "
      "reordered.\n\n"
      "--hint mem=SIZE      free memory must reach SIZE + 8 %%; if no device of the default model can, any "
      "model may\n"
      "--hint context=N     with kv-bytes-per-token= (and batch=) adds to mem; above 64K prefers the model "
      "with most memory\n"
      "--hint role=R        forward: most memory; augment, or train with batch <= 8: least memory\n"
      "--hint model=M       that model\n"
      "--placement=mixed    best rate over all models      --placement=shadow   say it, do not do it      "
      "--placement=off\n\n"
      "Another model than the default one may give other bits; the start line then says `device model "
      "differs`.\n");
}

void topic_graphs() {
  printf(
      "Launches that repeat (same kernels, sizes and order on a stream) are gathered and submitted as one "
      "CUDA "
      "graph; arguments\n"
      "that change are patched in. Everything that could tell the difference (a query, a wait, a copy the "
      "host "
      "reads, a capture\n"
      "of the program's own, ...) first submits what was held back. A graph that does not pay is given "
      "up.\n\n"
      "--graphs=on          where a measured gain is expected (default)\n"
      "--graphs=aggressive  without waiting for the measurement\n"
      "--graphs=shadow      run eagerly, record what would have been gained\n"
      "--graphs=off\n\n"
      "`shunt run -o run.shunt --summary` shows replays, and for everything left eager the reason.\n");
}

void topic_overlap() {
  printf(
      "NCCL collectives on the compute stream move to a companion stream and are joined before the first "
      "operation that touches\n"
      "their buffers. What a kernel touches is known from its API (copies, memsets, NCCL) or proven from its "
      "PTX; an unknown\n"
      "kernel waits for everything (`shunt ptx FILE` says why one is unknown).\n\n"
      "--overlap=off        default\n"
      "--overlap=shadow     decide and record only\n"
      "--overlap=on         exact and proven accesses only\n"
      "--overlap=assume     also accesses assumed from arguments, after shadow agreement\n");
}

void topic_oom() {
  printf(
      "When an allocation fails for want of memory shunt climbs a ladder before the program sees the error: "
      "classify, retry,\n"
      "trim what can be trimmed without synchronising, leave allocators that heal themselves to it, wait "
      "briefly for other\n"
      "processes, spill. A ladder that fails leaves nothing behind, and the program gets the driver's own "
      "code.\n\n"
      "--oom=retry          all but spilling (default)\n"
      "--oom=spill          blocks may live in host memory; --spill-max and --spill-host-floor bound it\n"
      "--oom=auto           spills a small share only\n"
      "--oom=shadow         records what it would have done\n"
      "--oom=off\n");
}

void topic_trace() {
  printf(
      "-o NAME keeps every decision in the directory NAME.shunt, one file a process, readable even after "
      "SIGKILL.\n\n"
      "shunt trace summary NAME.shunt                  decisions by feature, reasons, losses\n"
      "shunt trace report NAME.shunt -o report.html    one offline page\n"
      "shunt trace export NAME.shunt --format perfetto -o NAME.pftrace      also chrome, sqlite, csv\n"
      "shunt trace correlate NAME.shunt --nsys report.sqlite    joins decisions with device work by ids\n"
      "shunt trace check NAME.shunt                    what is whole, salvaged, lost\n\n"
      "--gpu-trace=graph|node adds device times by CUPTI; --trace-ring SIZE keeps only the newest "
      "records.\n");
}

constexpr Topic kTopics[] = {{"env", topic_env, "variables"},
                             {"placement", topic_placement, "how a device is chosen"},
                             {"graphs", topic_graphs, "repeated launches as CUDA graphs"},
                             {"overlap", topic_overlap, "collectives beside compute"},
                             {"oom", topic_oom, "what happens when device memory runs out"},
                             {"trace", topic_trace, "recording and reading decisions"},
                             {"sim", topic_sim, "simulated boxes"},
                             {"models", topic_models, "device models"},
                             {"reasons", topic_reasons, "reasons of decisions"}};

int help_verb(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    printf("Usage: shunt help [TOPIC | VERB]\n\nTopics:\n");
    for (const Topic& t : kTopics) printf("  shunt help %-10s %s\n", t.name, t.summary);
    printf("Verbs: `shunt --help`, `shunt VERB --help`.\n");
    return 0;
  }
  std::vector<std::string> names;
  for (const Topic& t : kTopics) {
    if (arguments[0] == t.name) return t.print(), 0;
    names.emplace_back(t.name);
  }
  for (const Verb& v : verbs()) {
    if (arguments[0] == v.name && arguments[0] != "help") return v.run({"--help"});
    names.emplace_back(v.name);
  }
  const std::string near = config::nearest(arguments[0], names);
  return fail(kFailed, "no topic '" + arguments[0] + "'; " +
                           (near.empty() ? "`shunt help` lists the topics"
                                         : "did you mean `shunt help " + near + "`?"));
}

SHUNT_VERB("help", 95, "a verb or topic explained", help_verb)

}  // namespace

std::span<const Topic> topics() { return kTopics; }

}  // namespace shunt::tool
