#include "tools/shunt/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/shunt/console.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

std::vector<char*> argument_block(const std::vector<std::string>& arguments) {
  std::vector<char*> out;
  for (const std::string& a : arguments) out.push_back(const_cast<char*>(a.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string exec_error(const std::string& path, int error) {
  if (error == ENOENT)
    return "program '" + path + "': its interpreter is missing (first line, or the ELF loader)";
  if (error == ENOEXEC) return "program '" + path + "' is no executable format; a script needs a #! line";
  return "program '" + path + "': " + strerror(error);
}
int exec_status(int error) { return error == ENOENT ? kNotFound : kCannotExecute; }

}  // namespace

Environment::Environment() {
  for (char** e = environ; *e; e++) entries_.emplace_back(*e);
}

void Environment::set(const std::string& name, const std::string& value) {
  for (std::string& e : entries_)
    if (e.compare(0, name.size() + 1, name + "=") == 0) {
      e = name + "=" + value;
      return;
    }
  entries_.push_back(name + "=" + value);
}

bool Environment::has(const std::string& name) const {
  for (const std::string& e : entries_)
    if (e.compare(0, name.size() + 1, name + "=") == 0) return true;
  return false;
}

std::string Environment::get(const std::string& name) const {
  for (const std::string& e : entries_)
    if (e.compare(0, name.size() + 1, name + "=") == 0) return e.substr(name.size() + 1);
  return "";
}

void Environment::prepend(const std::string& name, const std::string& entry, char separator) {
  const std::string old = get(name);
  const std::string guarded = separator + old + separator;
  if (!old.empty() && guarded.find(separator + entry + separator) != std::string::npos) return;
  set(name, old.empty() ? entry : entry + separator + old);
}

std::vector<char*> Environment::block() {
  std::vector<char*> out;
  for (std::string& e : entries_) out.push_back(e.data());
  out.push_back(nullptr);
  return out;
}

int execute(const std::string& path, const std::vector<std::string>& arguments, Environment& environment) {
  std::vector<char*> argv = argument_block(arguments), envp = environment.block();
  execve(path.c_str(), argv.data(), envp.data());
  const int error = errno;
  return fail(exec_status(error), exec_error(path, error));
}

bool supervise(const std::string& path, const std::vector<std::string>& arguments, Environment& environment,
               Outcome& outcome) {
  std::vector<char*> argv = argument_block(arguments), envp = environment.block();
  sigset_t all, before;
  sigemptyset(&all);
  for (const int s :
       {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH, SIGALRM, SIGCHLD})
    sigaddset(&all, s);
  // Blocked before the fork: a signal that arrives in between is forwarded, not lost.
  sigprocmask(SIG_BLOCK, &all, &before);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return outcome.status = fail(kFailed, std::string("pipe: ") + strerror(errno)), false;
  const pid_t child = fork();
  if (child < 0) return outcome.status = fail(kFailed, std::string("fork: ") + strerror(errno)), false;
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execve(path.c_str(), argv.data(), envp.data());
    const int error = errno;
    if (write(report[1], &error, sizeof error) < 0) _exit(kFailed);
    _exit(exec_status(error));
  }
  close(report[1]);
  int error = 0;
  const bool failed = read(report[0], &error, sizeof error) == static_cast<ssize_t>(sizeof error);
  close(report[0]);
  int status = 0;
  outcome.pid = child;
  if (failed) {
    waitpid(child, &status, 0);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    outcome.status = fail(exec_status(error), exec_error(path, error));
    return false;
  }
  const int signals = signalfd(-1, &all, SFD_CLOEXEC);
  for (;;) {
    signalfd_siginfo info{};
    if (signals < 0 || read(signals, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
      if (signals >= 0 && errno == EINTR) continue;
      if (waitpid(child, &status, 0) == child) break;
      continue;
    }
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      const pid_t got = waitpid(child, &status, WNOHANG | WUNTRACED);
      if (got != child) continue;
      if (!WIFSTOPPED(status)) break;
      // Stop with it, so that the shell sees the job stopped; the shell's SIGCONT goes to the whole group.
      kill(getpid(), SIGSTOP);
      continue;
    }
    // What the terminal sends goes to the whole foreground group: the program has it already.
    if (info.ssi_code == SI_KERNEL) continue;
    kill(child, number);
  }
  if (signals >= 0) close(signals);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  outcome.signaled = WIFSIGNALED(status);
  outcome.status = outcome.signaled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

}  // namespace shunt::tool
