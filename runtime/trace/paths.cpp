#include "runtime/trace/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

namespace shunt::trace {
namespace {

int first_number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* text = getenv(name); text && *text >= '0' && *text <= '9') return atoi(text);
  return otherwise;
}

}  // namespace

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  for (char* c = name; *c; c++)
    if (*c == '/') *c = '_';
  return name;
}

std::string expand_directory(const std::string& pattern, int pid) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); i++) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (pattern[i] != '%' || !next) {
      out += pattern[i];
    } else if (next == 'h') {
      out += host_name(), i++;
    } else if (next == 'p') {
      out += std::to_string(pid), i++;
    } else if (next == '%') {
      out += '%', i++;
    } else if (next == 'q' && i + 2 < pattern.size() && pattern[i + 2] == '{' &&
               pattern.find('}', i) != std::string::npos) {
      const size_t close = pattern.find('}', i);
      const char* value = getenv(pattern.substr(i + 3, close - i - 3).c_str());
      out += value ? value : "";
      i = close;
    } else {
      out += pattern[i];
    }
  }
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  if (!out.empty() && (out.size() < 6 || out.substr(out.size() - 6) != ".shunt")) out += ".shunt";
  return out;
}

int job_rank() {
  return first_number({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, -1);
}

int local_ranks() {
  const int n = first_number(
      {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 0);
  if (n > 0) return n;
  // Launchers that tell a process which local rank it is, but not of how many: treat it as one of several.
  return first_number({"LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0) > 0 ? 2 : 1;
}

unsigned long long process_start() {
  char text[1024];
  FILE* file = fopen("/proc/self/stat", "re");
  if (!file) return 0;
  const size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  // The command name may hold spaces and brackets: fields are counted after its last ')'.
  const char* at = strrchr(text, ')');
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? strtoull(at + 1, nullptr, 10) : 0;
}

}  // namespace shunt::trace
