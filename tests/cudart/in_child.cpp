#include "tests/cudart/in_child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace simgpu::cudart::testing {

ChildResult run_in_child(const Environment& environment, const std::function<void()>& body,
                         bool normal_exit) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    const int status = ::testing::Test::HasFailure() ? 1 : 0;
    if (normal_exit) exit(status);
    _exit(status);
  }
  close(ends[1]);
  ChildResult result;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    result.output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void in_child(const Environment& environment, const std::function<void()>& body) {
  const ChildResult result = run_in_child(environment, body);
  EXPECT_EQ(result.exit_status, 0) << result.output;
}

}  // namespace simgpu::cudart::testing
