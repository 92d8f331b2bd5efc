// From calls to a pattern, and back onto it after a surprise.
#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/graphs/builder.h"
#include "runtime/graphs/stream_state.h"
#include "runtime/trace/writer.h"

namespace shunt::graphs {
namespace {

constexpr size_t kPast = 8192, kLongest = 2048, kRepeats = 3;
constexpr size_t kLeastUnrolled = 32;  // steps of a pattern without other calls in it
constexpr size_t kGiveUp = 6144;       // calls without a period: nothing repeats here
constexpr size_t kSeldom = 8;      // periods between other calls that a pattern of launches alone outlives
constexpr size_t kPatience = 400;  // calls to wait for parameters that repeat as well
constexpr size_t kGiveUpAgain = 1024;  // after a back-off
constexpr uint32_t kAmbiguousLimit = 64;

uint32_t fold(uint64_t h) { return static_cast<uint32_t>(h ^ (h >> 32)); }

uint32_t params_hash(const ParamLayout& layout, void* const* params) {
  uint64_t h = 0;
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const auto* p = static_cast<const uint8_t*>(params[i]);
    for (uint32_t left = layout.params[i].size; left;) {
      uint64_t word = 0;
      const uint32_t n = std::min<uint32_t>(left, 8);
      __builtin_memcpy(&word, p, n);
      h = mix64(h ^ word) + 1;
      p += n, left -= n;
    }
  }
  return fold(h);
}

uint64_t gram(uint64_t a, uint64_t b, uint64_t c) { return mix64(mix64(a) + 3 * b) ^ c; }

}  // namespace

bool StreamState::step_launch(model::Op& op, const Shape& shape, const ParamLayout& layout) {
  switch (mode_) {
    case Mode::observe:
      observe(shape, params_hash(layout, op.launch.params));
      break;
    case Mode::align:
    case Mode::learn:
      learn(shape, &op, &layout);
      break;
    case Mode::follow:
      seek(shape.hash());
      break;
    case Mode::back_off:
      break;
  }
  return false;
}

void StreamState::step_other(const Shape& shape) {
  switch (mode_) {
    case Mode::observe:
      observe(shape, 0);
      break;
    case Mode::align:
    case Mode::learn:
      learn(shape, nullptr, nullptr);
      break;
    case Mode::follow:
      if (synced_ && pattern_->steps[position_].shape == shape) return advance();
      if (!has_others_) {
        // Seldom: the cursor stays, the rest of the segment goes eagerly. Often: the launches are an inner
        // loop.
        const size_t launches = std::exchange(launches_since_other_, 0);
        if (launches == 0 || launches >= kSeldom * pattern_->steps.size()) break;
        unstable(true);
        observe(shape, 0);
        break;
      }
      if (synced_) diverged();
      if (mode_ == Mode::follow) seek(shape.hash());
      break;
    case Mode::back_off:
      break;
  }
}

void StreamState::observe(const Shape& shape, uint32_t params) {
  if (symbols_.size() == kPast) {
    symbols_.erase(symbols_.begin(), symbols_.begin() + kPast / 2);
    params_.erase(params_.begin(), params_.begin() + kPast / 2);
  }
  // The lowest bit tells launches from other calls.
  symbols_.push_back((fold(shape.hash()) & ~1u) | (shape.launch() ? 1u : 0u));
  params_.push_back(params);
  ++observed_;
  if (++since_look_ >= next_look_) look_for_period();
}

void StreamState::look_for_period() {
  since_look_ = 0;
  const Period found = find_period(symbols_, kLongest, kRepeats);
  const size_t n = symbols_.size();
  size_t run = 0, best_run = 0, best_end = 0;
  bool others = false;
  if (found.length) {
    // The longest run of launches, twice around, so that a run over the end counts whole.
    for (size_t i = 0; i < 2 * found.length; ++i) {
      const bool launch = symbols_[n - 2 * found.length + i] & 1;
      others |= !launch;
      run = launch ? run + 1 : 0;
      if (run > best_run) best_run = run, best_end = i + 1;
    }
  }
  const bool part = crosses_calls_ && !others && found.covered < kPast / 4;
  if (!found.length || part || (others && best_run < shared_.limits.least)) {
    if (observed_ >= (backed_off() ? kGiveUpAgain : kGiveUp)) return back_off();
    next_look_ = std::min<size_t>(std::max<size_t>(32, next_look_ * 3 / 2), kGiveUpAgain);
    return;
  }
  // Ping-pong and inner loops: the multiple of the period after which fewest parameters differ.
  size_t times = 1;
  double best = -1;
  for (size_t m = 1; m <= 64; ++m) {
    const size_t d = found.length * m;
    if (d + found.length > found.covered || d > kLongest / 2) break;
    const size_t compared = std::min<size_t>(found.covered - d, m <= 4 ? 2 * d : 256);
    size_t equal = 0;
    for (size_t i = n - compared; i < n; ++i) equal += params_[i] == params_[i - d];
    const double share = static_cast<double>(equal) / static_cast<double>(compared);
    if (share > best + 0.05) best = share, times = m;
  }
  // A longer past may show a multiple without changes.
  if (best < 0.9 && observed_ < kPatience) {
    next_look_ = kPatience / 4;
    return;
  }
  size_t length = found.length * times;
  if (!others && length < kLeastUnrolled) length *= (kLeastUnrolled + length - 1) / length;
  expected_.resize(length);
  for (size_t i = 0; i < length; ++i) expected_[i] = symbols_[n - found.length + i % found.length];
  // Start where a run of launches starts, so that none is cut by the end of the pattern.
  align_left_ = others ? (best_end + 2 * found.length - best_run) % found.length : 0;
  std::rotate(expected_.begin(), expected_.begin() + static_cast<std::ptrdiff_t>(align_left_),
              expected_.end());
  expected_at_ = length - align_left_;  // what comes next, in rotated terms
  if (expected_at_ == length) expected_at_ = 0;
  mode_ = align_left_ ? Mode::align : Mode::learn;
  has_others_ = others;
  pattern_ = std::make_shared<Pattern>();
  pattern_->context = context_;
}

void StreamState::learn(const Shape& shape, model::Op* op, const ParamLayout* layout) {
  const uint32_t symbol = (fold(shape.hash()) & ~1u) | (shape.launch() ? 1u : 0u);
  bool fits = symbol == expected_[expected_at_];
  if (fits && mode_ == Mode::learn) {
    if (op)
      fits = pattern_->add_launch(shape, *op, *layout);
    else
      pattern_->add_other(shape);
  }
  if (!fits) {
    pattern_.reset();
    mode_ = Mode::observe;
    next_look_ = std::min<size_t>(next_look_ * 2, 1u << 16);
    observe(shape, op ? params_hash(*layout, op->launch.params) : 0);
    return;
  }
  expected_at_ = (expected_at_ + 1) % expected_.size();
  if (mode_ == Mode::align) {
    if (--align_left_ == 0) mode_ = Mode::learn;
    return;
  }
  if (expected_at_ == 0) start_build();
}

void StreamState::start_build() {
  symbols_.clear(), params_.clear();
  since_look_ = observed_ = 0;
  const uint32_t covered = pattern_->close(shared_.limits);
  if (covered == 0 || pattern_->device_bytes() + shared_.executable_bytes.load() > shared_.budget_bytes) {
    note(static_cast<uint8_t>(trace::Action::graph_build),
         covered ? Reason::graph_budget : Reason::graph_too_short, false, pattern_->steps.size());
    pattern_.reset();
    return back_off();
  }
  grams_ = {};
  const auto& steps = pattern_->steps;
  const size_t n = steps.size();
  for (size_t i = 0; i < n; ++i) {
    const uint64_t g =
        gram(steps[(i + n - 2) % n].shape.hash(), steps[(i + n - 1) % n].shape.hash(), steps[i].shape.hash());
    int32_t* there = grams_.find(g);
    if (there)
      *there = -1;
    else
      grams_.put(g, static_cast<int32_t>((i + 1) % n));
  }
  mode_ = Mode::follow;
  launches_since_other_ = 0;
  synced_ = true;
  position_ = 0;
  ready_ = shared_.shadow;
  eager_window_ = false;
  if (!shared_.shadow) shared_.builder->request(pattern_);
}

bool StreamState::same(const Step& step, const model::Op& op) const {
  const Shape& s = step.shape;
  return s.function == op.object && s.function_id == op.function_info->id &&
         __builtin_memcmp(s.grid, op.launch.grid, sizeof s.grid) == 0 &&
         __builtin_memcmp(s.block, op.launch.block, sizeof s.block) == 0 &&
         s.shared_bytes == op.launch.shared_bytes && step.layout != nullptr &&
         (op.launch.params != nullptr || step.layout->params.empty());
}

// Not on the pattern: three steps in a row that occur once in it say where we are.
void StreamState::seek(uint64_t hash) {
  const int32_t* at = recent_[0] && recent_[1] ? grams_.find(gram(recent_[0], recent_[1], hash)) : nullptr;
  recent_[0] = recent_[1];
  recent_[1] = hash;
  if (!at) return;
  uint32_t position;
  if (*at >= 0) {
    position = static_cast<uint32_t>(*at);
  } else {
    if (++ambiguous_ < kAmbiguousLimit) return;
    // All alike for long: any place will do, parameters are patched.
    position = 0;
    while (position < pattern_->steps.size() && pattern_->steps[position].shape.hash() != hash) ++position;
    if (position == pattern_->steps.size()) return;
    position = (position + 1) % static_cast<uint32_t>(pattern_->steps.size());
  }
  ambiguous_ = 0;
  synced_ = true;
  position_ = position;
  period_start_ns_ = 0;
}

void StreamState::diverged() {
  flush();
  synced_ = false;
  period_start_ns_ = 0;
  // What led here counts for finding the way back.
  const auto& steps = pattern_->steps;
  const size_t n = steps.size();
  recent_[0] = steps[(position_ + n - 2) % n].shape.hash();
  recent_[1] = steps[(position_ + n - 1) % n].shape.hash();
  score_ -= 4;
  if (score_ <= -12) unstable(false);
}

void StreamState::advance() {
  ++launches_since_other_;
  if (++position_ == pattern_->steps.size()) {
    position_ = 0;
    end_of_period();
  }
}

namespace {
uint32_t median(std::vector<uint32_t>& v) {
  auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}
}  // namespace

// Arms the pattern when its executables are there, and lets eager and replayed periods compete.
void StreamState::end_of_period() {
  constexpr size_t kEager = 8, kReplayed = 32, kKept = 64;
  constexpr uint32_t kCheckEvery = 1024;
  const uint64_t now = clock::now_ns();
  const uint64_t took = period_start_ns_ ? now - period_start_ns_ : 0;
  period_start_ns_ = now;
  const bool replaying = ready_ && !eager_window_;
  if (took && took < UINT32_MAX) {
    auto& list = replaying ? replay_ns_ : eager_ns_;
    if (list.size() < kKept) list.push_back(static_cast<uint32_t>(took));
  }
  if (!ready_) {
    const auto state = pattern_->build_state.load(std::memory_order_acquire);
    if (state == Pattern::Build::ready) {
      ready_ = true;
      bytes_.store(pattern_->device_bytes());
      shared_.executable_bytes.fetch_add(pattern_->device_bytes());
      note(static_cast<uint8_t>(trace::Action::graph_build), Reason::graph_periodic, true,
           pattern_->steps.size());
      eager_window_ = eager_ns_.size() < kEager / 2;
    } else if (state == Pattern::Build::failed || state == Pattern::Build::cancelled) {
      forget_pattern(Reason::graph_build_failed);
      note(static_cast<uint8_t>(trace::Action::graph_build), Reason::graph_build_failed, false, 0);
      back_off();
    }
    return;
  }
  if (shared_.shadow) return;
  if (eager_window_) {
    if (eager_ns_.size() >= kEager / 2) eager_window_ = false, replay_ns_.clear();
    return;
  }
  if (periods_until_check_ > 0) {
    if (--periods_until_check_ == 0) {
      eager_window_ = true;
      eager_ns_.clear(), replay_ns_.clear();
    }
    return;
  }
  if (replay_ns_.size() < kReplayed || eager_ns_.empty()) return;
  const uint32_t eager = median(eager_ns_), replayed = median(replay_ns_);
  if (replayed <= eager + eager / 50) {
    losses_ = unstable_ = 0;
    back_off_ops_ = kFirstBackOff;
    periods_until_check_ = kCheckEvery;
    return;
  }
  if (++losses_ < 2) {
    eager_window_ = true;
    eager_ns_.clear(), replay_ns_.clear();
    return;
  }
  forget_pattern(Reason::graph_no_gain);
  back_off();
}

}  // namespace shunt::graphs
