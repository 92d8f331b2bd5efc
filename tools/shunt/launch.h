// Starting the program: its environment, then exec, or fork and supervise. One thread.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace shunt::tool {

// A copy of the caller's environment that can be edited.
class Environment {
 public:
  Environment();
  void set(const std::string& name, const std::string& value);
  std::string get(const std::string& name) const;  // "" when unset
  bool has(const std::string& name) const;
  // Puts `entry` in front of a list variable unless it is there already; what was there stays behind it.
  void prepend(const std::string& name, const std::string& entry, char separator);
  std::vector<char*> block();  // for execve; valid while this object lives and is unchanged

 private:
  std::vector<std::string> entries_;
};

// Replaces this process. Returns only on failure, with the status to exit with.
int execute(const std::string& path, const std::vector<std::string>& arguments, Environment& environment);

struct Outcome {
  int status = 0;  // as a shell reports it: 128 + signal for a killed program
  pid_t pid = 0;
  bool signaled = false;
};
// Runs it as a child: forwards signals sent to us, stops and continues with it, and returns how it ended.
// false: it could not be started (outcome.status is 126 or 127, a message was printed).
bool supervise(const std::string& path, const std::vector<std::string>& arguments, Environment& environment,
               Outcome& outcome);

}  // namespace shunt::tool
