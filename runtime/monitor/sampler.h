// One sampler for all processes of a user on a box: whoever is elected reads NVML a few times a second and
// publishes the figures in shared memory; everybody else only reads them, without a driver call. When the
// elected process ends, by whatever means, another takes over within two periods. The helper thread lives as
// long as the object; a fork's child has no thread and its object only reads. latest() from any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/monitor/nvml_library.h"

namespace shunt::monitor {

struct Sample {
  std::array<uint8_t, 16> uuid{};
  uint64_t total = 0, free = 0, used = 0;
  bool memory_known = false, os_accounted = false;
  int busy_percent = -1, sm_percent = -1, dram_percent = -1;  // -1 unknown
  double power_w = -1, limit_w = -1;
  int celsius = -1;
  uint32_t links_active = 0, links = 0, xid_count = 0, last_xid = 0;
};

struct Samples {
  uint64_t time_ns = 0;  // CLOCK_BOOTTIME of the reading
  uint64_t number = 0;   // grows by one with each
  uint32_t sampler_pid = 0;
  std::vector<Sample> devices;
  const Sample* find(const std::array<uint8_t, 16>& uuid) const;
};

class Sampler {
 public:
  struct Options {
    std::string scope;  // as the ledger's: empty for the real box
    uint32_t period_ms = 500;
    bool may_sample = true;  // false: only read what others publish; no thread
  };
  // Null and one line when shared memory cannot be had.
  static std::unique_ptr<Sampler> open(const Options& options, std::string& error,
                                       const nvml::Loader& loader = nvml::system_loader());
  static std::string file_name(const Options& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The newest published reading; false when there is none yet. Never waits: at most a few copies.
  bool latest(Samples& out) const;
  bool elected() const;  // does this process sample?

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shunt::monitor
