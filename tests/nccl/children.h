// Cases that end a device, in a process of their own. The caller must not have used CUDA.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace simgpu::testing {

// Runs body in a child process, since a failed device stays failed. Returns its stderr.
inline std::string in_child(const std::function<int()>& body, int& status, const char* timeout) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], 2);
    close(pipe_ends[0]);
    setenv("SIMGPU_NCCL_TIMEOUT", timeout, 1);
    _exit(body());
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(pipe_ends[0]);
  waitpid(child, &status, 0);
  return text;
}

}  // namespace simgpu::testing
