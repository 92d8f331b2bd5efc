#include "runtime/exec/run_record.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/trace/paths.h"

namespace shunt::exec {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      char hex[8];
      snprintf(hex, sizeof hex, "\\u%04x", u);
      out += hex;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Arguments of this process; bytes that are not UTF-8 are kept as they are, as the tool's reader tolerates
// them.
std::string argv_json() {
  FILE* file = fopen("/proc/self/cmdline", "re");
  if (!file) return "[]";
  std::string raw, out = "[", item;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) raw.append(buffer, n);
  fclose(file);
  for (const char c : raw) {
    if (c) {
      item += c;
      continue;
    }
    out += (out.size() > 1 ? ", " : "") + quoted(item);
    item.clear();
  }
  return out + "]";
}

}  // namespace

void write_run_record(const std::string& directory, const config::Config& config) {
  // The first writer wins: `shunt run`, or the first process of a bare preload.
  const std::string path = directory + "/run.json";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return;
  std::string json = "{\"schema\": 1, \"writer\": \"runtime\", \"argv\": " + argv_json() +
                     ", \"host\": " + quoted(trace::host_name()) + ", \"pid\": " + std::to_string(getpid()) +
                     ", \"start_realtime_ns\": " + std::to_string(clock::realtime_ns()) + ", \"settings\": {";
  bool first = true;
  for (const config::OptionInfo& o : config::options()) {
    const config::Setting& s = config.setting(o.id);
    json += std::string(first ? "" : ", ") + quoted(std::string(o.name)) + ": {\"value\": " + quoted(s.text) +
            ", \"origin\": " + quoted(std::string(config::origin_name(s.origin))) + "}";
    first = false;
  }
  json += "}}\n";
  const ssize_t ignored = write(fd, json.data(), json.size());
  (void)ignored;
  close(fd);
}

}  // namespace shunt::exec
