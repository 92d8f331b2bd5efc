// Verbs of the `shunt` command. One file each (cmd_NAME.cpp) that ends with SHUNT_VERB; nothing else has to
// be touched.
#pragma once
#include <string>
#include <vector>

namespace shunt::tool {

// Exit statuses of shunt's own failures; otherwise the program's status is passed on.
inline constexpr int kFailed = 125, kCannotExecute = 126, kNotFound = 127;

struct Verb {
  const char* name;
  int order;                                              // in --help
  const char* summary;                                    // one line
  int (*run)(const std::vector<std::string>& arguments);  // without the verb itself; returns the exit status
};

std::vector<Verb>& verbs();
struct VerbRegistrar {
  explicit VerbRegistrar(Verb verb) { verbs().push_back(verb); }
};
#define SHUNT_VERB(name, order, summary, function) \
  static const ::shunt::tool::VerbRegistrar shunt_verb_##function({name, order, summary, function});

}  // namespace shunt::tool
