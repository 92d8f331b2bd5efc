// Runs a program and keeps what it printed; the test's own environment is not inherited beyond PATH.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace shunt::test {

struct Outcome {
  std::string out, err;
  int status = 0;  // exit status, or 1000 + signal

  bool has(const std::string& line) const;  // in err, a whole line
};

using Environment = std::map<std::string, std::string>;

Outcome run_program(const std::vector<std::string>& command, const Environment& environment);

// A program of tests/interpose/programs with one of the fake drivers on its path.
struct Probe {
  std::string program;
  std::vector<std::string> arguments;
  std::string driver = "normal";  // folder of the fake driver; "none": there is none
  Environment extra;

  Outcome plain() const;     // as it is
  Outcome hooked() const;    // under libshunt.so with the stub runtime
  Outcome bare() const;      // under libshunt.so, no runtime to be found
  Outcome disabled() const;  // under libshunt.so with SHUNT_DISABLE=1
};

}  // namespace shunt::test
