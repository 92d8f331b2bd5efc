#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr int kPatienceMs = 120'000;

// Driver functions by their exported names; the tool is built without a driver.
struct Driver {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*uuid)(unsigned char*, int);
  int (*can)(int*, int, int);
  int (*retain)(void**, int);
  int (*current)(void*);
  int (*enable)(void*, unsigned);
  int (*alloc)(unsigned long long*, size_t);
  int (*to_device)(unsigned long long, const void*, size_t);
  int (*to_host)(void*, unsigned long long, size_t);
  int (*peer)(unsigned long long, void*, unsigned long long, void*, size_t);
  int (*zero)(unsigned long long, unsigned char, size_t);
};

bool load(const std::string& file, Driver& d) {
  void* library = dlopen(file.c_str(), RTLD_NOW);
  if (!library) return false;
  bool all = true;
  const auto get = [&](auto& f, const char* name) {
    f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(library, name));
    all = all && f;
  };
  get(d.init, "cuInit"), get(d.count, "cuDeviceGetCount"), get(d.uuid, "cuDeviceGetUuid_v2");
  get(d.can, "cuDeviceCanAccessPeer"), get(d.retain, "cuDevicePrimaryCtxRetain"),
      get(d.current, "cuCtxSetCurrent");
  get(d.enable, "cuCtxEnablePeerAccess"), get(d.alloc, "cuMemAlloc_v2"), get(d.to_device, "cuMemcpyHtoD_v2");
  get(d.to_host, "cuMemcpyDtoH_v2"), get(d.peer, "cuMemcpyPeer"), get(d.zero, "cuMemsetD8_v2");
  return all;
}

// "u ORDINAL UUID" for each device, then "p FROM TO CAN CODE WRONG" for each ordered pair. A negative CODE:
// which step.
int child(const std::string& file, FILE* out) {
  Driver d;
  if (!load(file, d)) return fprintf(out, "x no driver\n"), 1;
  int n = 0;
  if (const int r = d.init(0); r != 0) return fprintf(out, "x cuInit answers %d\n", r), 1;
  if (d.count(&n) != 0) return 1;
  std::vector<void*> contexts(static_cast<size_t>(n));
  std::vector<unsigned long long> from(contexts.size()), to(contexts.size());
  for (int i = 0; i < n; i++) {
    unsigned char u[16];
    if (d.uuid(u, i) != 0) return 1;
    fprintf(out, "u %d GPU-", i);
    for (int b = 0; b < 16; b++)
      fprintf(out, "%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", u[b]);
    fputc('\n', out);
    const auto k = static_cast<size_t>(i);
    int r = d.retain(&contexts[k], i);
    if (r == 0) r = d.current(contexts[k]);
    if (r == 0) r = d.alloc(&from[k], kBytes);
    if (r == 0) r = d.alloc(&to[k], kBytes);
    if (r != 0) return fprintf(out, "x GPU %d: CUDA error %d at its first allocation\n", i, r), 1;
  }
  std::vector<unsigned char> pattern(kBytes), back(kBytes);
  for (int a = 0; a < n; a++) {
    for (int b = 0; b < n; b++) {
      if (a == b) continue;
      const auto i = static_cast<size_t>(a), k = static_cast<size_t>(b);
      int can = 0;
      d.can(&can, b, a);
      // Another pattern for each pair: what an earlier copy left behind must not look right.
      unsigned x = static_cast<unsigned>(a * 131 + b * 7 + 1);
      for (unsigned char& c : pattern) c = static_cast<unsigned char>((x = x * 1664525 + 1013904223) >> 24);
      int r = d.current(contexts[i]);
      if (r == 0) r = d.to_device(from[i], pattern.data(), kBytes);
      if (r == 0) r = d.current(contexts[k]);
      if (r == 0) r = d.zero(to[k], 0, kBytes);
      if (r == 0 && can) d.enable(contexts[i], 0);  // 704: it already was
      if (r == 0) r = d.peer(to[k], contexts[k], from[i], contexts[i], kBytes);
      if (r == 0) r = d.to_host(back.data(), to[k], kBytes);
      size_t wrong = 0;
      for (size_t at = 0; r == 0 && at < kBytes; at++) wrong += back[at] != pattern[at];
      fprintf(out, "p %d %d %d %d %zu\n", a, b, can, r, wrong);
      fflush(out);
      if (r != 0) return 1;  // the context may be lost: the rest would only repeat it
    }
  }
  return 0;
}

}  // namespace

void check_peers(const MonitoredBox& box, const monitor::Snapshot& now, Findings& out) {
  if (now.devices.size() < 2) return;
  int ends[2];
  if (pipe(ends) != 0) return;
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    unsetenv("LD_PRELOAD");
    FILE* to = fdopen(ends[1], "w");
    const int status = to ? child(box.driver, to) : 1;
    if (to) fclose(to);
    _exit(status);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  bool silent = false;
  pollfd ready{ends[0], POLLIN, 0};
  for (;;) {
    if (poll(&ready, 1, kPatienceMs) <= 0) {
      silent = true;
      break;
    }
    const ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 1;
  if (pid > 0) kill(pid, SIGKILL), waitpid(pid, &status, 0);

  std::vector<std::string> names(64);
  int pairs = 0, direct = 0, bad = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    int a = 0, b = 0, can = 0, code = 0;
    size_t wrong = 0;
    char uuid[64];
    if (line.starts_with("x ")) {
      out.push_back({Severity::error, "peer-copy", line.substr(2), "see the driver's log (dmesg, NVRM)"});
      return;
    }
    if (sscanf(line.c_str(), "u %d %63s", &a, uuid) == 2 && a >= 0 && a < 64) {
      const monitor::Device* d = now.find(uuid);
      names[static_cast<size_t>(a)] =
          d ? "GPU " + std::to_string(d->identity.nvml_index) + " (" + d->identity.display_name() + ")"
            : uuid;
    }
    if (sscanf(line.c_str(), "p %d %d %d %d %zu", &a, &b, &can, &code, &wrong) != 5) continue;
    pairs++, direct += can;
    const std::string pair = names[static_cast<size_t>(a & 63)] + " to " + names[static_cast<size_t>(b & 63)];
    if (code != 0) {
      bad++;
      out.push_back({Severity::error, "peer-copy",
                     pair + ": the copy fails with CUDA error " + std::to_string(code),
                     "NCCL_P2P_DISABLE=1 goes through the host until it is repaired"});
    } else if (wrong) {
      bad++;
      out.push_back({Severity::error, "peer-copy",
                     pair + ": the driver reports success, " + std::to_string(wrong) + " of " +
                         std::to_string(kBytes) + " bytes arrive wrong" +
                         (can ? "" : " (without peer access)"),
                     "turn off ACS or the IOMMU for these ports, or set NCCL_P2P_DISABLE=1"});
    }
  }
  if (silent)
    out.push_back({Severity::error, "peer-copy", "a copy between devices did not end within two minutes",
                   "see the driver's log (dmesg, NVRM)"});
  else if (pairs == 0)
    out.push_back({Severity::warning, "peer-copy",
                   "copies between devices could not be tried: the driver ended the test",
                   "see the driver's log (dmesg, NVRM)"});
  else if (!bad)
    out.push_back({Severity::fine, "peer-copy",
                   std::to_string(pairs) + " directions copied and compared, " + std::to_string(direct) +
                       " with peer access",
                   ""});
}

}  // namespace shunt::tool::doctor
