#include "runtime/memory/client_profile.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

namespace shunt::memory {

namespace {

// Numbers: research/memory-placement.md section 2.1 (attempts read in the clients' sources).
constexpr ClientProfile kProfiles[] = {
    {"unknown", 0, 0, 1000},
    {"pytorch", 1, 0, 1000},             // flush between the two attempts; none while capturing
    {"pytorch-expandable", 1, 0, 1000},  // second series of chunks
    {"pytorch-async", 0, 0, 1000},
    {"rmm", 2, 2, 1000},   // the failure callback frees and retries
    {"bfc", 1, 1, 10000},  // TensorFlow, XLA: probes downward, each size once; retries up to 10 s
    {"cupy", 2, 2, 1000},  // pool flush, then garbage collection, then gives up
};

struct Seen {
  bool torch = false, rmm = false, bfc = false, cupy = false, nccl = false;
};

int look(dl_phdr_info* info, size_t, void* data) {
  auto* seen = static_cast<Seen*>(data);
  const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  auto is = [&](std::string_view prefix) { return name.starts_with(prefix); };
  seen->torch |= is("libc10_cuda.so");
  seen->rmm |= is("librmm.so");
  seen->bfc |= is("libtensorflow") || is("xla_extension") || is("xla_cuda_plugin") || is("libjax");
  seen->cupy |= path.find("/cupy") != path.npos && name.find(".so") != name.npos;
  seen->nccl |= is("libnccl.so") || is("libtorch_cuda.so");
  return 0;
}

Seen look_around() {
  Seen seen;
  dl_iterate_phdr(look, &seen);
  return seen;
}

bool has(const char* variable, const char* word) {
  const char* value = getenv(variable);
  return value && strstr(value, word);
}

}  // namespace

const ClientProfile& profile_by_name(std::string_view name) {
  for (const ClientProfile& p : kProfiles) {
    if (p.name == name) return p;
  }
  return kProfiles[0];
}

const ClientProfile& detect_client(std::string_view chosen) {
  if (!chosen.empty() && chosen != "auto") return profile_by_name(chosen);
  const Seen seen = look_around();
  if (seen.torch) {
    for (const char* variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
      if (has(variable, "cudaMallocAsync")) return profile_by_name("pytorch-async");
      if (has(variable, "expandable_segments:True")) return profile_by_name("pytorch-expandable");
    }
    return profile_by_name("pytorch");
  }
  if (seen.bfc) return profile_by_name("bfc");
  if (seen.rmm) return profile_by_name("rmm");
  if (seen.cupy) return profile_by_name("cupy");
  return kProfiles[0];
}

bool nccl_is_loaded() { return look_around().nccl; }

}  // namespace shunt::memory
