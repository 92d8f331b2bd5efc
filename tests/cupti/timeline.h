// SIMGPU_TIMELINE of the test's own process, line by line. Include in one file of a program: the settings are
// made before the driver loads anything.
#pragma once
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/driver/driver_test.h"

namespace cupti_test {

inline const char* timeline_path() {
  static const std::string path = "/tmp/cupti_test." + std::to_string(getpid()) + ".jsonl";
  return path.c_str();
}
// Records equal the timeline's numbers with an epoch of a round figure.
constexpr uint64_t kEpoch = 1000000000000;
struct Settings {
  Settings() {
    setenv("SIMGPU_TIMELINE", timeline_path(), 1);
    setenv("SIMGPU_CUPTI_EPOCH", std::to_string(kEpoch).c_str(), 1);
  }
  ~Settings() { unlink(timeline_path()); }
};
inline const Settings settings;

inline std::vector<nlohmann::json> timeline(size_t from) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(driver_test::read_file(timeline_path()).substr(from));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}
inline size_t timeline_size() { return driver_test::read_file(timeline_path()).size(); }

}  // namespace cupti_test
