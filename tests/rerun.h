// Runs one of this binary's disabled tests in a fresh process: settings that are read once, and programs that
// must not share a process. Such a test is a program, not a test by itself; the tests that run it by name
// judge what it says.
#pragma once
#include <gtest/gtest.h>
#include <stdio.h>

#include <string>

namespace shunt::test {

// `environment` as a shell has it in front of a command; `test` is "Suite.Name" of TEST(Suite,
// DISABLED_Name); of what it prints, only lines that match `pattern` (grep -E) are returned.
inline std::string rerun(const std::string& environment, const std::string& test,
                         const std::string& pattern) {
  std::string filter = test;
  filter.insert(filter.find('.') + 1, "DISABLED_");
  const std::string command = environment + " " + ::testing::internal::GetArgvs()[0] +
                              " --gtest_also_run_disabled_tests --gtest_filter=" + filter +
                              " 2>&1 | grep -E '" + pattern + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char line[1024];
  while (pipe && fgets(line, sizeof line, pipe)) text += line;
  if (pipe) pclose(pipe);
  return text;
}

}  // namespace shunt::test
