#include "tools/shunt/devices.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/placement/inventory.h"

namespace shunt::tool {
namespace {

// UUIDs in the driver's order, from a child: initialising the driver here would leave threads and mappings in
// the launcher.
std::vector<std::string> driver_order(const std::string& file) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    unsetenv("CUDA_VISIBLE_DEVICES");
    void* library = dlopen(file.c_str(), RTLD_NOW);
    if (!library) _exit(1);
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
    const auto uuid = reinterpret_cast<int (*)(unsigned char*, int)>(dlsym(library, "cuDeviceGetUuid"));
    int n = 0;
    if (!init || !count || !uuid || init(0) != 0 || count(&n) != 0) _exit(1);
    for (int i = 0; i < n; i++) {
      unsigned char b[16];
      if (uuid(b, i) != 0) _exit(1);
      char text[48];
      const int length =
          snprintf(text, sizeof text,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
      if (write(ends[1], text, static_cast<size_t>(length)) != length) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[1024];
  pollfd ready{ends[0], POLLIN, 0};
  while (child > 0 && poll(&ready, 1, 20'000) > 0) {
    const ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 1;
  if (child > 0) {
    kill(child, SIGKILL);  // it has answered, or it hangs in a broken driver
    waitpid(child, &status, 0);
  }
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

void sort_as_driver(std::vector<placement::DeviceFacts>& facts, const std::string& driver) {
  const char* order = getenv("CUDA_DEVICE_ORDER");
  const bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
  const bool one_model =
      std::all_of(facts.begin(), facts.end(), [&](const auto& d) { return d.same_model(facts[0]); });
  if (!by_bus && !one_model) {
    const std::vector<std::string> uuids = driver_order(driver);
    auto rank = [&](const placement::DeviceFacts& d) {
      return std::find(uuids.begin(), uuids.end(), d.uuid) - uuids.begin();
    };
    if (uuids.size() == facts.size())
      std::stable_sort(facts.begin(), facts.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  }
  for (size_t i = 0; i < facts.size(); i++) facts[i].ordinal = static_cast<int>(i);
}

std::vector<placement::DeviceFacts> real_devices(std::string& note) {
  std::vector<placement::DeviceFacts> facts;
  if (!placement::monitor_devices(facts) || facts.empty()) {
    note = "no CUDA device found";
    return {};
  }
  sort_as_driver(facts, "libcuda.so.1");
  return facts;
}

}  // namespace shunt::tool
