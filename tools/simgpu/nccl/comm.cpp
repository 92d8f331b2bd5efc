#include "tools/simgpu/nccl/comm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unordered_set>

namespace simgpu::nccl {

namespace {
struct Registry {
  std::mutex mutex;
  std::unordered_set<const ncclComm*> live;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}
thread_local std::string t_last_error;
}  // namespace

bool is_comm(const ncclComm* comm) {
  std::lock_guard lock(registry().mutex);
  return registry().live.count(comm) != 0;
}
void remember(ncclComm* comm) {
  std::lock_guard lock(registry().mutex);
  registry().live.insert(comm);
}
void forget(ncclComm* comm) {
  std::lock_guard lock(registry().mutex);
  registry().live.erase(comm);
}

void report(const std::string& text) {
  const std::string line = "simgpu: nccl: " + text + "\n";
  if (write(2, line.data(), line.size()) < 0) return;
}

ncclResult_t fail(ncclComm* comm, ncclResult_t result, const std::string& text) {
  t_last_error = text;
  if (comm && is_comm(comm)) {
    std::lock_guard lock(comm->mutex);
    comm->last_error = text;
  }
  const char* level = getenv("NCCL_DEBUG");
  if (level && (!strcasecmp(level, "WARN") || !strcasecmp(level, "INFO") || !strcasecmp(level, "TRACE")))
    report(text);
  return result;
}

const char* last_error(const ncclComm* comm) {
  if (comm && is_comm(comm) && !comm->last_error.empty()) return comm->last_error.c_str();
  return t_last_error.c_str();
}

}  // namespace simgpu::nccl
