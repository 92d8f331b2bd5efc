// Runs a test's body in a child process, since a process starts its driver once: each body gets a fresh
// runtime and its own environment. The parent never calls CUDA, so the child of fork may. Failed expectations
// in the child fail the test.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

namespace simgpu::cudart::testing {

using Environment = std::map<std::string, std::string>;
struct ChildResult {
  int exit_status = -1;  // 128 + signal when killed
  std::string output;    // stdout and stderr
};

// `normal_exit`: leave by exit(), with handlers and static destructors, instead of _exit().
ChildResult run_in_child(const Environment& environment, const std::function<void()>& body,
                         bool normal_exit = false);
// Runs it and expects success.
void in_child(const Environment& environment, const std::function<void()>& body);

}  // namespace simgpu::cudart::testing
