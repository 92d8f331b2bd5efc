// What a bench executable needs to speak scripts/bench's protocol (tests/bench/README.md): options,
// alternating measurement of a subject and its baseline, and one JSON row a line on stdout.
//
// Owner: the bench's main(). Threads: one. Exit: finish() returns main's status, 0 even when a budget is
// missed (a budget is judged by the reader and by CI's own checks, not by the measuring program), 1 when a
// row could not be measured.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shunt::bench {

inline uint64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

inline double median(std::vector<double> v) {
  if (v.empty()) return NAN;
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// Keeps a computed value alive without storing it.
template <typename T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// Nanoseconds per call of fn, over `calls` calls in one go.
template <typename Fn>
double ns_per_call(uint64_t calls, Fn&& fn) {
  const uint64_t t0 = now_ns();
  for (uint64_t i = 0; i < calls; ++i) fn();
  return static_cast<double>(now_ns() - t0) / static_cast<double>(calls);
}

struct Pair {
  std::vector<double> subject;
  std::vector<double> baseline;
  // Per-run differences and ratios: drift of the machine cancels within a pair, so these are what rows
  // report.
  std::vector<double> added() const {
    std::vector<double> out;
    for (size_t i = 0; i < subject.size(); ++i) out.push_back(subject[i] - baseline[i]);
    return out;
  }
  std::vector<double> ratio() const {
    std::vector<double> out;
    for (size_t i = 0; i < subject.size(); ++i) out.push_back(subject[i] / baseline[i]);
    return out;
  }
};

struct Row {
  std::string name;
  std::string unit;
  std::string baseline;          // what it was measured against, in words; empty if the row has none
  std::optional<double> budget;  // BENCH.md's figure, in `unit`
  std::string better = "lower";  // lower | higher | equal
};

class Rows {
 public:
  Rows(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      if (!strcmp(argv[i], "--quick")) {
        quick_ = true;
      } else if (!strncmp(argv[i], "--runs=", 7)) {
        runs_ = std::max(5, atoi_or(argv[i] + 7, 0));
      } else {
        extra_.push_back(argv[i]);  // a bench's own options (scripts/bench passes on what it does not know)
      }
    }
    if (!runs_) runs_ = quick_ ? 5 : 9;
  }

  bool quick() const { return quick_; }
  int runs() const { return runs_; }  // never below 5
  const std::vector<std::string>& extra() const { return extra_; }

  // Runs subject and baseline alternately, runs() times after one unrecorded warm-up of each; each returns
  // its figure.
  template <typename S, typename B>
  Pair alternate(S&& subject, B&& baseline) {
    Pair p;
    subject();
    baseline();
    for (int i = 0; i < runs_; ++i) {
      // Which goes first changes every run, so neither always inherits the other's caches.
      if (i % 2) {
        p.subject.push_back(subject());
        p.baseline.push_back(baseline());
      } else {
        p.baseline.push_back(baseline());
        p.subject.push_back(subject());
      }
    }
    return p;
  }

  template <typename S>
  std::vector<double> repeat(S&& subject) {
    std::vector<double> v;
    subject();
    for (int i = 0; i < runs_; ++i) v.push_back(subject());
    return v;
  }

  void emit(const Row& row, const std::vector<double>& values, const std::vector<double>& baseline = {}) {
    if (values.empty()) return fail(row.name, "no sample");
    for (double v : values) {
      if (!std::isfinite(v)) return fail(row.name, "a sample is not a number");
    }
    const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
    std::string out = "{\"name\": \"" + row.name + "\", \"value\": " + number(median(values)) +
                      ", \"unit\": \"" + row.unit + "\", \"runs\": " + std::to_string(values.size()) +
                      ", \"min\": " + number(*lo) + ", \"max\": " + number(*hi);
    if (!row.baseline.empty()) out += ", \"baseline\": \"" + row.baseline + "\"";
    if (!baseline.empty()) out += ", \"baseline_value\": " + number(median(baseline));
    if (row.budget) out += ", \"budget\": " + number(*row.budget);
    out += ", \"better\": \"" + row.better + "\"}\n";
    fputs(out.c_str(), stdout);
    fflush(stdout);
  }

  // A row that cannot be measured here is named on stderr and makes the bench fail: never silently absent.
  void fail(const std::string& name, const char* why) {
    fprintf(stderr, "bench: %s: %s\n", name.c_str(), why);
    failed_ = true;
  }

  int finish() const { return failed_ ? 1 : 0; }

 private:
  static int atoi_or(const char* s, int fallback) {
    char* end = nullptr;
    const long v = strtol(s, &end, 10);
    return end != s ? static_cast<int>(v) : fallback;
  }
  static std::string number(double v) {
    char buffer[40];
    snprintf(buffer, sizeof buffer, "%.6g", v);
    return buffer;
  }

  bool quick_ = false;
  bool failed_ = false;
  int runs_ = 0;
  std::vector<std::string> extra_;
};

}  // namespace shunt::bench
