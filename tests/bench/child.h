// Runs a bench program again with other settings and returns what it prints: two of a bench's programs may
// not share a process.
#pragma once
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/bench/bench_rows.h"

extern char** environ;

namespace shunt::bench {

struct Finished {
  std::string out;  // the first 4 KiB
  int status = -1;  // 0: ended well
  uint64_t took_ns = 0;
};

// `settings` ("NAME=value") come on top of the environment without the variables that start with one of
// `cleared`.
inline Finished run_again(std::vector<std::string> arguments, std::vector<std::string> settings,
                          std::vector<std::string> cleared) {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  arguments.insert(arguments.begin(), std::string(self, n > 0 ? static_cast<size_t>(n) : 0));
  std::vector<char*> argv, envp;
  for (auto& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  for (char** e = environ; *e; ++e) {
    bool keep = true;
    for (const auto& prefix : cleared) keep &= strncmp(*e, prefix.c_str(), prefix.size()) != 0;
    if (keep) envp.push_back(*e);
  }
  for (auto& s : settings) envp.push_back(s.data());
  envp.push_back(nullptr);
  int ends[2];
  if (pipe(ends)) exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  Finished done;
  const uint64_t start = now_ns();
  pid_t pid;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data())) exit(1);
  close(ends[1]);
  char text[4096];
  for (ssize_t got; done.out.size() < sizeof text && (got = read(ends[0], text, sizeof text)) > 0;)
    done.out.append(text, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(pid, &done.status, 0);
  done.took_ns = now_ns() - start;
  posix_spawn_file_actions_destroy(&actions);
  return done;
}

}  // namespace shunt::bench
