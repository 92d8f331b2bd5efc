// How long a kernel takes on a device, and how sure that is. Pure: same records, same answer; read-only after
// the last add(), then any thread.
//
// Sources, best first:
//   measured    5 samples or more of this kernel, size bucket and device: their mean and variance
//   few         fewer than 5: mean, with a variance that says so
//   regression  the kernel on this device in other sizes: power law through the buckets, residual variance,
//               wider with each doubling outside what was seen
//   scaled      the kernel on another device, by waves and the profiles' rates: between the memory-bound and
//               the compute-bound ratio, and as uncertain as they are apart (plus 12 % of its own)
//   none        nothing is known
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/profiles/profile.h"

namespace shunt::placement {

struct KernelShape {
  uint64_t kernel = 0;  // kernel_id()
  uint32_t blocks = 1, block_threads = 1;
  double threads() const { return static_cast<double>(blocks) * block_threads; }
  // Sizes within a factor of two share a bucket.
  uint8_t bucket() const;
};
// A kernel is its name and its program's code: equal names of different programs are different kernels.
uint64_t kernel_id(const std::string& name, uint64_t code);

// Running mean and sum of squared differences of samples in seconds (Welford).
struct Samples {
  uint64_t count = 0;
  double mean = 0, m2 = 0;
  void add(double seconds);
  void merge(const Samples& other);
  double variance() const { return count > 1 ? m2 / static_cast<double>(count - 1) : 0; }
};

struct KernelRecord {
  KernelShape shape;  // of the samples; blocks of the last one
  const profiles::Profile* device = nullptr;
  Samples samples;
};

enum class Source : uint8_t { none, scaled, regression, few, measured };
const char* source_name(Source);

struct Estimate {
  double seconds = 0, sigma = 0;
  Source source = Source::none;
  uint64_t samples = 0;
  const profiles::Profile* from = nullptr;  // scaled: the device that was measured
  char mark = ' ';                          // scaled: weakest mark of the profile figures used
};

class CostModel {
 public:
  void add(const KernelRecord& record);
  Estimate estimate(const KernelShape& shape, const profiles::Profile& device) const;
  size_t size() const { return records_.size(); }

 private:
  struct Key {
    uint64_t kernel;
    const profiles::Profile* device;
    auto operator<=>(const Key&) const = default;
  };
  Estimate on_device(const KernelShape& shape, const profiles::Profile& device) const;
  std::map<Key, std::map<uint8_t, KernelRecord>> records_;
};

// Ratio of times, target over source, for a kernel bound by memory or by arithmetic.
struct ScaleRange {
  double memory = 1, compute = 1;
  char mark = 'C';
};
ScaleRange scale_range(const KernelShape& shape, const profiles::Profile& from, const profiles::Profile& to);

// Whether moving is worth it: the gain must exceed twice its uncertainty and what the move costs, and the
// last move must be 60 s ago. One owner; `now_ns` from shunt::clock.
class Hysteresis {
 public:
  static constexpr uint64_t kRest_ns = 60'000'000'000;
  bool worth_it(double gain_s, double sigma_s, double migration_s, uint64_t now_ns) const;
  void moved(uint64_t now_ns) { last_ns_ = now_ns, ever_ = true; }

 private:
  uint64_t last_ns_ = 0;
  bool ever_ = false;
};

}  // namespace shunt::placement
