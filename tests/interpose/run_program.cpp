#include "tests/interpose/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shunt::test {
namespace {

std::string drain(int file) {
  std::string text;
  char buffer[4096];
  lseek(file, 0, SEEK_SET);
  for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(file);
  return text;
}

int scratch_file() {
  char name[] = "/tmp/shunt_interpose_XXXXXX";
  int file = mkostemp(name, O_CLOEXEC);
  unlink(name);
  return file;
}

Outcome run_probe(const Probe& probe, const Environment& more) {
  std::vector<std::string> command = {std::string(SHUNT_TEST_FILES "/") + probe.program};
  command.insert(command.end(), probe.arguments.begin(), probe.arguments.end());
  Environment environment = {{"LD_LIBRARY_PATH", std::string(SHUNT_TEST_FILES "/") + probe.driver +
                                                     ":" SHUNT_TEST_FILES "/nccl:" SHUNT_TEST_FILES}};
  for (auto& [name, value] : more) environment[name] = value;
  for (auto& [name, value] : probe.extra) environment[name] = value;
  return run_program(command, environment);
}

}  // namespace

bool Outcome::has(const std::string& line) const {
  return ("\n" + err).find("\n" + line + "\n") != std::string::npos;
}

Outcome run_program(const std::vector<std::string>& command, const Environment& environment) {
  int out = scratch_file(), err = scratch_file();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  std::vector<char*> arguments;
  for (auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<std::string> text = {std::string("PATH=") + getenv("PATH"), "LC_ALL=C"};
  for (auto& [name, value] : environment) text.push_back(name + "=" + value);
  std::vector<char*> variables;
  for (auto& line : text) variables.push_back(line.data());
  variables.push_back(nullptr);
  Outcome outcome;
  pid_t pid = 0;
  int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    outcome.status = -failed;
    outcome.err = strerror(failed);
    return outcome;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  outcome.out = drain(out);
  outcome.err = drain(err);
  return outcome;
}

Outcome Probe::plain() const { return run_probe(*this, {}); }
Outcome Probe::hooked() const {
  return run_probe(*this, {{"LD_PRELOAD", SHUNT_PRELOAD}, {"SHUNT_RT_PATH", SHUNT_STUB_RT}});
}
Outcome Probe::bare() const {
  return run_probe(*this, {{"LD_PRELOAD", SHUNT_PRELOAD}, {"SHUNT_RT_PATH", "/nonexistent/libshunt_rt.so"}});
}
Outcome Probe::disabled() const {
  return run_probe(*this,
                   {{"LD_PRELOAD", SHUNT_PRELOAD}, {"SHUNT_RT_PATH", SHUNT_STUB_RT}, {"SHUNT_DISABLE", "1"}});
}

}  // namespace shunt::test
