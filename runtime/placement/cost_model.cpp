#include "runtime/placement/cost_model.h"

#include <algorithm>
#include <cmath>

namespace shunt::placement {
namespace {

constexpr uint64_t kEnough = 5;
// Spread assumed for a single sample, and what scaling across devices errs on its own (Habitat's published
// mean error).
constexpr double kFewSpread = 0.25, kScalingError = 0.12;
// A quarter of the SMs is taken to saturate device memory.
constexpr double kSaturatingShare = 0.25;

char weaker(char a, char b) {
  constexpr std::string_view kOrder = "CDALK";
  const auto rank = [&](char c) { return std::min(kOrder.find(c), kOrder.size() - 1); };
  return rank(a) > rank(b) ? a : b;
}

// Share of the device a grid keeps busy: 1 for many full waves.
double share(const KernelShape& s, const profiles::Profile& p) {
  const double per_sm = std::max(
      1.0,
      std::min(p.blocks_per_sm.value, std::floor(p.threads_per_sm.value / std::max(1u, s.block_threads))));
  const double wave = std::max(1.0, p.sm_count.value * per_sm);
  const double waves = std::ceil(s.blocks / wave);
  return std::max(1e-6, s.blocks / (std::max(1.0, waves) * wave));
}

}  // namespace

uint8_t KernelShape::bucket() const {
  return static_cast<uint8_t>(std::clamp(std::lround(std::log2(std::max(1.0, threads()))), 0l, 63l));
}

uint64_t kernel_id(const std::string& name, uint64_t code) {
  uint64_t hash = 0xcbf29ce484222325u ^ code;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash ? hash : 1;
}

void Samples::add(double seconds) {
  count++;
  const double before = seconds - mean;
  mean += before / static_cast<double>(count);
  m2 += before * (seconds - mean);
}

void Samples::merge(const Samples& o) {
  if (o.count == 0) return;
  const double n = static_cast<double>(count), m = static_cast<double>(o.count), d = o.mean - mean;
  m2 += o.m2 + d * d * n * m / (n + m);
  mean += d * m / (n + m);
  count += o.count;
}

const char* source_name(Source s) {
  constexpr const char* kNames[] = {"none", "scaled", "regression", "few", "measured"};
  return kNames[static_cast<size_t>(s)];
}

void CostModel::add(const KernelRecord& record) {
  if (!record.device || record.samples.count == 0 || !(record.samples.mean > 0) ||
      !std::isfinite(record.samples.mean) || !(record.samples.m2 >= 0))
    return;
  KernelRecord& at = records_[{record.shape.kernel, record.device}][record.shape.bucket()];
  at.shape = record.shape;
  at.device = record.device;
  at.samples.merge(record.samples);
}

Estimate CostModel::on_device(const KernelShape& shape, const profiles::Profile& device) const {
  Estimate out;
  const auto found = records_.find({shape.kernel, &device});
  if (found == records_.end()) return out;
  const auto& buckets = found->second;
  if (const auto at = buckets.find(shape.bucket()); at != buckets.end()) {
    const Samples& s = at->second.samples;
    const bool enough = s.count >= kEnough;
    out = {s.mean, std::sqrt(s.variance()), enough ? Source::measured : Source::few, s.count, &device, 'C'};
    if (!enough) out.sigma = std::max(out.sigma, s.mean * kFewSpread);
    return out;
  }
  // ln t = a + b ln x, weighted by samples; what the buckets themselves vary by is part of the variance.
  double w = 0, wx = 0, wy = 0, within = 0;
  for (const auto& [bucket, r] : buckets) {
    const double n = static_cast<double>(r.samples.count);
    w += n;
    wx += n * std::log(r.shape.threads());
    wy += n * std::log(r.samples.mean);
    within += n * r.samples.variance() / (r.samples.mean * r.samples.mean);
  }
  const double mx = wx / w, my = wy / w;
  double sxx = 0, sxy = 0;
  for (const auto& [bucket, r] : buckets) {
    const double n = static_cast<double>(r.samples.count), dx = std::log(r.shape.threads()) - mx;
    sxx += n * dx * dx;
    sxy += n * dx * (std::log(r.samples.mean) - my);
  }
  // One bucket says nothing of the slope: half-way between constant and linear, and as unsure.
  const bool line = buckets.size() > 1 && sxx > 0;
  const double slope = line ? std::clamp(sxy / sxx, 0.0, 2.0) : 0.5;
  double residual = 0;
  for (const auto& [bucket, r] : buckets) {
    const double e = std::log(r.samples.mean) - my - slope * (std::log(r.shape.threads()) - mx);
    residual += static_cast<double>(r.samples.count) * e * e;
  }
  const double x = std::log(std::max(1.0, shape.threads()));
  const double low = std::log(buckets.begin()->second.shape.threads());
  const double high = std::log(buckets.rbegin()->second.shape.threads());
  const double outside = std::max({0.0, low - x, x - high}) / std::log(2.0);
  const double spread = std::sqrt(residual / w + within / w) +
                        (line ? 0.05 : 0.35) * (line ? outside : std::abs(x - mx) / std::log(2.0));
  out.seconds = std::exp(my + slope * (x - mx));
  out.sigma = out.seconds * std::max(spread, 0.05);
  out.source = Source::regression;
  out.samples = static_cast<uint64_t>(w);
  out.from = &device;
  out.mark = 'C';
  return out;
}

Estimate CostModel::estimate(const KernelShape& shape, const profiles::Profile& device) const {
  Estimate best = on_device(shape, device);
  if (best.source != Source::none) return best;
  double best_relative = 0;
  for (const profiles::Profile& other : profiles::all()) {
    if (&other == &device) continue;
    const Estimate there = on_device(shape, other);
    if (there.source == Source::none) continue;
    const ScaleRange r = scale_range(shape, other, device);
    const double ratio = std::sqrt(r.memory * r.compute);
    const double relative =
        std::abs(std::log(r.memory / r.compute)) / 2 + kScalingError + there.sigma / there.seconds;
    if (best.source != Source::none && relative >= best_relative) continue;
    best_relative = relative;
    best = {there.seconds * ratio,
            there.seconds * ratio * relative,
            Source::scaled,
            there.samples,
            &other,
            r.mark};
  }
  return best;
}

ScaleRange scale_range(const KernelShape& shape, const profiles::Profile& from, const profiles::Profile& to) {
  ScaleRange out;
  const double a = share(shape, from), b = share(shape, to);
  // What a grid reaches of the memory's rate saturates early, of the arithmetic rate only with the whole
  // device.
  const double memory_a = from.memory_bandwidth.value * std::min(1.0, a / kSaturatingShare);
  const double memory_b = to.memory_bandwidth.value * std::min(1.0, b / kSaturatingShare);
  if (memory_a > 0 && memory_b > 0) out.memory = memory_a / memory_b;
  if (from.fp32.value > 0 && to.fp32.value > 0) out.compute = from.fp32.value * a / (to.fp32.value * b);
  for (const profiles::Value& v :
       {from.memory_bandwidth, to.memory_bandwidth, from.fp32, to.fp32, from.sm_count, to.sm_count})
    out.mark = weaker(out.mark, profiles::mark_letter(v.mark));
  return out;
}

bool Hysteresis::worth_it(double gain_s, double sigma_s, double migration_s, uint64_t now_ns) const {
  if (ever_ && now_ns - last_ns_ < kRest_ns) return false;
  return std::isfinite(gain_s) && gain_s > 2 * sigma_s + migration_s;
}

}  // namespace shunt::placement
