// Interval arithmetic over a kernel's value nodes, for the values of one launch.
#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/ptx/access/program.h"

namespace shunt::ptx {
namespace access {
namespace {

constexpr int kMaxDepth = 120, kMaxLoops = 6;

__int128 clamp(__int128 v) {
  return v > Interval::kLimit ? Interval::kInfinite : v < -Interval::kLimit ? -Interval::kInfinite : v;
}
// Infinite times zero is zero: a factor that is zero makes the product zero whatever the other one is.
__int128 times(__int128 a, __int128 b) {
  if (a == 0 || b == 0) return 0;
  if (a == clamp(a) && b == clamp(b) && a < Interval::kInfinite && a > -Interval::kInfinite &&
      b < Interval::kInfinite && b > -Interval::kInfinite)
    return clamp(a * b);
  return (a < 0) == (b < 0) ? Interval::kInfinite : -Interval::kInfinite;
}

Interval multiply(const Interval& a, const Interval& b) {
  if (a.empty || b.empty) return Interval::nothing();
  const __int128 corners[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low),
                              times(a.high, b.high)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4), false};
}
Interval join(const Interval& a, const Interval& b) {
  if (a.empty) return b;
  if (b.empty) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high), false};
}
// Infinite stays infinite: divisors are far smaller than the distance between the two limits.
__int128 floor_divide(__int128 a, int64_t b) {
  if (b == 1) return a;
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
Interval make(__int128 low, __int128 high) { return {clamp(low), clamp(high), false}; }

}  // namespace

Evaluator::Evaluator(const KernelAccessProgram& program, const LaunchShape& shape, const uint8_t* parameters)
    : program_(program),
      shape_(shape),
      parameters_(parameters),
      state_(program.nodes.size(), State::fresh),
      memo_(program.nodes.size()),
      level_(program.nodes.size()),
      check_state_(program.checks.size(), CheckState::fresh) {}

uint64_t Evaluator::word(const KernelAccessProgram::Candidate& candidate) const {
  uint64_t value;
  std::memcpy(&value, parameters_ + program_.offsets[candidate.parameter] + candidate.offset, 8);
  return value;
}

Interval Evaluator::symbol(Symbol s) {
  switch (s) {
    case kTidX:
    case kTidY:
    case kTidZ:
      return make(0, static_cast<int64_t>(shape_.block[s - kTidX]) - 1);
    case kCtaidX:
    case kCtaidY:
    case kCtaidZ:
      return make(0, static_cast<int64_t>(shape_.grid[s - kCtaidX]) - 1);
    case kNtidX:
    case kNtidY:
    case kNtidZ:
      return Interval::point(shape_.block[s - kNtidX]);
    case kNctaidX:
    case kNctaidY:
    case kNctaidZ:
      return Interval::point(shape_.grid[s - kNctaidX]);
    case kLaneid:
      return make(0, 31);
    case kLoaded:
      return Interval::all();
    default:
      return node(s - kFirstNode);
  }
}

Interval Evaluator::polynomial(const Polynomial& poly) {
  Interval sum = Interval::point(poly.constant);
  for (const Term& term : poly.terms) {
    Interval product = Interval::point(clamp(term.factor));
    for (uint32_t i = 0; i < term.degree; ++i) product = multiply(product, symbol(term.symbols[i]));
    if (product.empty) return product;
    sum = make(sum.low + product.low, sum.high + product.high);
  }
  return sum;
}

bool Evaluator::holds(const std::vector<uint32_t>& checks) {
  if (trust_checks_) return true;
  for (uint32_t index : checks) {
    if (check_state_[index] == CheckState::fresh) {
      const int before = lowest_;
      lowest_ = kNone;
      const bool ok = holds_one(program_.checks[index]);
      if (lowest_ == kNone) check_state_[index] = ok ? CheckState::holds : CheckState::fails;
      lowest_ = std::min(lowest_, before);
      if (!ok) return false;
    } else if (check_state_[index] == CheckState::fails) {
      return false;
    }
  }
  return true;
}

bool Evaluator::holds_one(const Check& check) {
  if (depth_ > kMaxDepth || --budget_ < 0) {
    lowest_ = -1;
    return false;
  }
  ++depth_;
  const bool ok = holds(check.also);
  const Interval value = ok ? bounded(check.value, check.uppers, check.lowers) : Interval::all();
  --depth_;
  if (!ok) return false;
  if (value.empty) return true;  // not reached under the present assumption
  if (!value.bounded()) return false;
  const __int128 one = 1;
  const __int128 low = check.is_signed ? -(one << (check.bits - 1)) : 0;
  const __int128 high = check.is_signed ? (one << (check.bits - 1)) - 1 : (one << check.bits) - 1;
  return value.low >= low && value.high <= high;
}

Interval Evaluator::evaluate(const Alternative& alternative) {
  if (!holds(alternative.checks)) return Interval::all();
  return bounded(alternative.poly, alternative.uppers, alternative.lowers);
}

Interval Evaluator::bounded(const Polynomial& poly, const std::vector<Bound>& uppers,
                            const std::vector<Bound>& lowers) {
  Interval result = polynomial(poly);
  if (result.empty) return result;
  for (const Bound& bound : uppers) {
    if (!holds(bound.checks)) continue;
    const Interval value = polynomial(bound.value);
    if (!value.empty) result.high = std::min(result.high, floor_divide(value.high, bound.divisor));
  }
  for (const Bound& bound : lowers) {
    if (!holds(bound.checks)) continue;
    const Interval value = polynomial(bound.value);
    if (!value.empty) result.low = std::max(result.low, value.low);
  }
  // Contradicting bounds: with these values the place is never reached.
  if (result.low > result.high) return Interval::nothing();
  return result;
}

Interval Evaluator::node(uint32_t index) {
  if (state_[index] == State::done) return memo_[index];
  if (state_[index] == State::running) {
    lowest_ = std::min(lowest_, level_[index]);
    return memo_[index];
  }
  const Node& n = program_.nodes[index];
  if (n.kind == Node::Kind::opaque || n.kind == Node::Kind::local_load || n.kind == Node::Kind::variable)
    return Interval::all();
  if (depth_ > kMaxDepth || --budget_ < 0) {
    lowest_ = -1;  // not a result of the node, only of where we stand
    return Interval::all();
  }
  ++depth_;
  const int before = lowest_;
  lowest_ = kNone;
  const Interval result = n.kind == Node::Kind::phi ? phi(index) : compute(n);
  if (lowest_ == kNone && !trust_checks_) {
    state_[index] = State::done;
    memo_[index] = result;
  }
  lowest_ = std::min(lowest_, before);
  --depth_;
  return result;
}

Interval Evaluator::hull(const Node& n) {
  Interval result = Interval::nothing();
  for (const Alternative& arg : n.args) {
    result = join(result, evaluate(arg));
    if (!result.empty && !result.bounded() && result.low < -Interval::kLimit &&
        result.high > Interval::kLimit)
      break;
  }
  return result;
}

// A loop variable: guess a range from its start values and from what its branches promise, then prove that
// one more turn does not leave it.
Interval Evaluator::phi(uint32_t index) {
  const Node& n = program_.nodes[index];
  if (loops_ >= kMaxLoops) {
    lowest_ = -1;
    return Interval::all();
  }
  const int level = loops_++;
  level_[index] = level;
  state_[index] = State::running;
  int outer = kNone;  // assumptions of enclosing loop variables that this rests on; its own is proven
  auto turn = [&](const Interval& assumption) {
    memo_[index] = assumption;
    lowest_ = kNone;
    const Interval result = hull(n);
    if (lowest_ < level) outer = std::min(outer, lowest_);
    return result;
  };
  auto finish = [&](const Interval& result) {
    state_[index] = State::fresh;
    --loops_;
    return result;
  };
  const Interval start = turn(Interval::nothing());
  Interval once = turn(start);
  if (once.inside(start)) {
    // Not a loop, or one that adds nothing.
  } else {
    Interval wide = join(start, once);
    if (wide.low < start.low || start.empty) wide.low = Interval::all().low;
    if (wide.high > start.high || start.empty) wide.high = Interval::all().high;
    const bool trusted = trust_checks_;
    trust_checks_ = true;
    Interval guess = turn(wide);
    trust_checks_ = trusted;
    guess.low = std::max(guess.low, wide.low);
    guess.high = std::min(guess.high, wide.high);
    guess = join(guess, start);
    if (!turn(guess).inside(guess)) {
      guess = wide;
      if (!turn(guess).inside(guess)) guess = Interval::all();
    }
    once = guess;
  }
  const Interval result = finish(join(start, once));
  lowest_ = outer;
  return result;
}

Interval Evaluator::compute(const Node& n) {
  auto arg = [&](size_t i) { return i < n.args.size() ? evaluate(n.args[i]) : Interval::all(); };
  switch (n.kind) {
    case Node::Kind::parameter: {
      if (n.bytes == 0) return Interval::all();
      uint64_t raw = 0;
      std::memcpy(&raw, parameters_ + program_.offsets[n.index] + n.offset, n.bytes);
      if (n.bytes == 8) return make(static_cast<int64_t>(raw), static_cast<int64_t>(raw));
      const unsigned bits = n.bytes * 8u;
      const int64_t value =
          n.is_signed ? static_cast<int64_t>(raw << (64 - bits)) >> (64 - bits) : static_cast<int64_t>(raw);
      return make(value, value);
    }
    case Node::Kind::choice:
      return hull(n);
    case Node::Kind::below:
      return make(0, n.amount);
    case Node::Kind::mask: {
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      const bool a_known = a.low >= 0, b_known = b.low >= 0;
      if (!a_known && !b_known) return Interval::all();
      return make(0, a_known && b_known ? std::min(a.high, b.high) : a_known ? a.high : b.high);
    }
    case Node::Kind::align_down: {
      const Interval a = arg(0);
      if (a.empty) return a;
      if (!a.bounded() || a.low < 0) return Interval::all();
      return make(a.low >> n.amount << n.amount, a.high >> n.amount << n.amount);
    }
    case Node::Kind::merge: {  // at most the sum, since no bit is counted twice
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      if (a.low < 0 || b.low < 0 || !a.bounded() || !b.bounded()) return Interval::all();
      return make(0, a.high + b.high);
    }
    case Node::Kind::shift_right: {
      const Interval a = arg(0);
      if (!a.bounded()) return a.empty ? a : Interval::all();
      return make(a.low >> n.amount, a.high >> n.amount);
    }
    case Node::Kind::multiply_high: {
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      if (!a.bounded() || !b.bounded()) return Interval::all();
      const __int128 corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
      return make(*std::min_element(corners, corners + 4) >> n.amount,
                  *std::max_element(corners, corners + 4) >> n.amount);
    }
    case Node::Kind::divide: {
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      if (!a.bounded() || !b.bounded() || a.low < 0 || b.low <= 0) return Interval::all();
      return make(a.low / b.high, a.high / b.low);
    }
    case Node::Kind::remainder: {
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      if (!b.bounded() || b.low <= 0 || a.low < 0) return Interval::all();
      return make(0, std::min(a.high, b.high - 1));
    }
    case Node::Kind::minimum:
    case Node::Kind::maximum: {
      const Interval a = arg(0), b = arg(1);
      if (a.empty || b.empty) return Interval::nothing();
      if (n.kind == Node::Kind::minimum) return make(std::min(a.low, b.low), std::min(a.high, b.high));
      return make(std::max(a.low, b.low), std::max(a.high, b.high));
    }
    default:
      return Interval::all();
  }
}

}  // namespace access

namespace {
constexpr __int128 kWidest = static_cast<__int128>(1) << 40;
}

bool KernelAccess::evaluate(const LaunchShape& shape, const uint8_t* values,
                            std::vector<AccessRange>& out) const {
  if (unknown || !program) return false;
  try {
    access::Evaluator evaluator(*program, shape, values);
    for (const KernelAccessProgram::Group& group : program->groups) {
      const access::Interval low = group.extent > 0 ? evaluator.evaluate(group.low) : access::Interval::all();
      if (low.empty) continue;  // its branch conditions contradict each other: never reached
      // A range wider than any device's memory says less than the allocation does.
      const bool useful = low.bounded() && low.low >= 0 && low.high - low.low < kWidest;
      if (useful && low.high + group.extent <= access::Interval::kLimit) {
        out.push_back({static_cast<uint64_t>(low.low), static_cast<uint64_t>(low.high + group.extent),
                       group.mode, false, group.candidates.empty() ? 0 : group.candidates[0].parameter});
        continue;
      }
      for (const KernelAccessProgram::Candidate& candidate : group.candidates)
        out.push_back({evaluator.word(candidate), 0, group.mode, true, candidate.parameter});
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace shunt::ptx
