#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

bool exists(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

void variables(Findings& out) {
  if (const char* v = variable("CUDA_DEVICE_MAX_CONNECTIONS"); v && atoi(v) == 1)
    out.push_back({Severity::note, "max-connections",
                   "CUDA_DEVICE_MAX_CONNECTIONS=1: streams share one hardware queue, so little overlaps",
                   "Megatron wants it; otherwise unset it"});
  if (const char* v = variable("CUDA_LAUNCH_BLOCKING"); v && strcmp(v, "0") != 0)
    out.push_back(
        {Severity::warning, "launch-blocking",
         std::string("CUDA_LAUNCH_BLOCKING=") + v + ": every launch waits, and shunt's engines stay off",
         "unset it outside debugging"});
  if (const char* v = variable("NCCL_P2P_DISABLE"); v && strcmp(v, "0") != 0)
    out.push_back({Severity::warning, "nccl-p2p",
                   std::string("NCCL_P2P_DISABLE=") + v + ": collectives go through the host",
                   "unset it once peer-copy is fine"});
  if (const char* v = variable("NVIDIA_TF32_OVERRIDE"))
    out.push_back({Severity::note, "tf32",
                   std::string("NVIDIA_TF32_OVERRIDE=") + v + " changes results of every library",
                   "set it alike on all ranks, or not at all"});
  // The driver ignores what comes after an entry it does not know.
  if (const char* v = variable("CUDA_VISIBLE_DEVICES")) {
    const std::string list = v;
    for (size_t at = 0; at <= list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      const std::string entry = list.substr(at, end - at);
      at = end + 1;
      const bool number = !entry.empty() && entry.find_first_not_of("0123456789") == std::string::npos;
      if (number || entry.starts_with("GPU-") || entry.starts_with("MIG-")) continue;
      out.push_back({Severity::warning, "visible-devices",
                     "CUDA_VISIBLE_DEVICES=" + list + ": entries from '" + entry + "' on are ignored",
                     "use numbers or UUIDs without spaces"});
      break;
    }
  }
  if (const char* v = variable("LD_PRELOAD")) {
    const std::string list = v;
    std::string others;
    for (size_t at = 0; at < list.size();) {
      const size_t end = std::min(list.find_first_of(": ", at), list.size());
      const std::string entry = list.substr(at, end - at);
      at = end + 1;
      if (entry.empty() || entry.find("libshunt.so") != std::string::npos) continue;
      others += (others.empty() ? "" : ", ") + entry;
    }
    for (const char* tool : {"libcuda", "vgpu", "cuda_hook", "libhami", "tms", "gvm"})
      if (others.find(tool) != std::string::npos) {
        out.push_back({Severity::warning, "preload",
                       "LD_PRELOAD also has " + others + ", which may hook CUDA too",
                       "put libshunt.so first, and try without the other"});
        return;
      }
    if (!others.empty()) out.push_back({Severity::note, "preload", "LD_PRELOAD also has " + others, ""});
  }
}

}  // namespace

void check_environment(const std::string& root, Findings& out) {
  variables(out);
  const bool infiniband = exists(root + "/sys/class/infiniband");
  if (infiniband) {
    const bool peermem = exists(root + "/sys/module/nvidia_peermem");
    const bool open_module =
        exists(root + "/sys/module/nvidia/parameters/NVreg_OpenRmEnableUnsupportedGpus") ||
        exists(root + "/sys/kernel/debug/dma_buf") || exists(root + "/sys/class/dma_heap");
    if (peermem || open_module)
      out.push_back(
          {Severity::fine, "rdma",
           std::string("network adapters reach device memory by ") + (peermem ? "nvidia_peermem" : "DMA-BUF"),
           ""});
    else
      out.push_back({Severity::warning, "rdma",
                     "RDMA adapters are there, but neither nvidia_peermem nor DMA-BUF",
                     "modprobe nvidia_peermem, or use the open kernel modules with Linux 5.12"});
  } else {
    out.push_back({Severity::fine, "rdma", "no RDMA adapters: nothing to check", ""});
  }
  if (exists(root + "/proc/driver/nvidia-fs") || exists(root + "/sys/module/nvidia_fs"))
    out.push_back({Severity::fine, "storage", "nvidia-fs is loaded: GPUDirect Storage is possible", ""});
  else
    out.push_back({Severity::note, "storage", "nvidia-fs is not loaded: reads go through host memory",
                   "for I/O-bound jobs install nvidia-fs (GPUDirect Storage)"});
}

}  // namespace shunt::tool::doctor
