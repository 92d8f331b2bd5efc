#include "runtime/exec/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graphs/graphs_link.h"
#include "runtime/memory/oom_link.h"
#include "runtime/overlap/overlap_link.h"

namespace shunt::exec {
namespace {

// First line of /proc/self/maps that contains one of the names; tools inject themselves as libraries.
std::string loaded_library(std::initializer_list<const char*> names) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return {};
  char line[4608];
  std::string found;
  while (found.empty() && fgets(line, sizeof line, maps))
    for (const char* name : names)
      if (strstr(line, name)) found = name;
  fclose(maps);
  return found;
}

std::string tracer_name() {
  FILE* status = fopen("/proc/self/status", "re");
  if (!status) return {};
  char line[256];
  int pid = 0;
  while (fgets(line, sizeof line, status))
    if (sscanf(line, "TracerPid: %d", &pid) == 1) break;
  fclose(status);
  if (pid <= 0) return {};
  snprintf(line, sizeof line, "/proc/%d/comm", pid);
  FILE* comm = fopen(line, "re");
  if (!comm) return {};
  std::string name = fgets(line, sizeof line, comm) ? line : "";
  fclose(comm);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

}  // namespace

const std::vector<EngineSpec>& engines() {
  using config::OptionId;
  using trace::Feature;
  // An engine that is not part of the build has no create function: asking for it is reported once
  // (engine-not-built).
  static const auto* table = new std::vector<EngineSpec>{
      {"oom", OptionId::oom, Feature::oom, memory::create_oom},
      {"overlap", OptionId::overlap, Feature::comm, overlap::create_overlap},
      {"graphs", OptionId::graphs, Feature::graph, graphs::create_graphs},
  };
  return *table;
}

Reason engines_forbidden(const config::Config& config, std::string& evidence) {
  const char* blocking = getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && *blocking && strcmp(blocking, "0") != 0) {
    evidence = "CUDA_LAUNCH_BLOCKING=" + std::string(blocking);
    return Reason::under_debugger;
  }
  if (evidence = loaded_library({"libsanitizer-collection", "libsanitizer-public",
                                 "libInterceptorInjectionTarget", "libcuda-injection.so"});
      !evidence.empty())
    return Reason::under_debugger;
  if (const std::string tracer = tracer_name(); tracer.find("cuda-gdb") != std::string::npos) {
    evidence = tracer;
    return Reason::under_debugger;
  }
  if (config.is(config::OptionId::under_profiler, "off"))
    if (evidence = loaded_library({"libToolsInjection", "libcupti.so"}); !evidence.empty())
      return Reason::under_profiler;
  return Reason::none;
}

}  // namespace shunt::exec
