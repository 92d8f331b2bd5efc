// The `shunt` command: finds the verb and hands over. Verbs register themselves (verb.h).
#include <stdio.h>

#include <algorithm>

#include "runtime/config/options.h"
#include "tools/shunt/console.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

void print_overview() {
  std::vector<Verb> all = verbs();
  std::sort(all.begin(), all.end(), [](const Verb& a, const Verb& b) { return a.order < b.order; });
  std::vector<std::vector<std::string>> rows;
  for (const Verb& v : all) rows.push_back({"  " + std::string(v.name), v.summary});
  printf(
      "Runs unmodified CUDA and NCCL programs better on mixed GPUs, and on a simulated box where there is "
      "none.\n\n"
      "Examples:\n"
      "  shunt run -- ./train --epochs 3                    on this machine's devices\n"
      "  shunt run --hint mem=200GiB -- ./train             place it where 200 GiB fit\n"
      "  shunt run --sim b200:2,rubin:2 -- ./train          on a simulated box\n"
      "  shunt run -o run.shunt --summary -- ./train        keep every decision, print a summary\n"
      "  shunt devices --sim rubin:1                        what such a box has\n\n"
      "Usage: shunt VERB [options]\n\n%s\n"
      "`shunt VERB --help` tells more about a verb, `shunt help env` lists the variables, `shunt help TOPIC` "
      "explains a topic.\n",
      table(rows).c_str());
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "-h" || arguments[0] == "--help") {
    print_overview();
    return 0;
  }
  const std::string name = arguments[0] == "--version" || arguments[0] == "-V" ? "version" : arguments[0];
  for (const Verb& v : verbs())
    if (name == v.name) return v.run({arguments.begin() + 1, arguments.end()});
  std::vector<std::string> names;
  for (const Verb& v : verbs()) names.emplace_back(v.name);
  const std::string near = config::nearest(name, names);
  return fail(kFailed, "unknown command '" + name + "'; " +
                           (near.empty() ? "`shunt --help` lists the commands"
                                         : "did you mean `shunt " + near + "`?"));
}

}  // namespace
}  // namespace shunt::tool

int main(int argc, char** argv) {
  try {
    return shunt::tool::dispatch({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return shunt::tool::fail(shunt::tool::kFailed, std::string("internal error: ") + error.what());
  }
}
