// `shunt completion`: scripts for bash, zsh and fish, and the manual page, made from the command itself.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/config/options.h"
#include "tools/shunt/completion/surface.h"
#include "tools/shunt/console.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

constexpr const char* kUsage =
    "Usage: shunt completion bash|zsh|fish|man\n\n"
    "Prints a completion script, or the manual page. Packages install them where the shells look.\n\n"
    "Examples:\n"
    "  source <(shunt completion bash)\n"
    "  shunt completion zsh > ~/.zfunc/_shunt\n"
    "  shunt completion fish > ~/.config/fish/completions/shunt.fish\n"
    "  shunt completion man | man -l -\n";

// SOURCE_DATE_EPOCH makes a package the same however often it is built.
std::string today() {
  const char* fixed = getenv("SOURCE_DATE_EPOCH");
  const time_t at = fixed && *fixed ? static_cast<time_t>(strtoll(fixed, nullptr, 10)) : time(nullptr);
  struct tm parts {};
  char text[16] = "";
  if (gmtime_r(&at, &parts)) strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

int completion_verb(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    printf("%s", kUsage);
    return arguments.empty() ? kFailed : 0;
  }
  const std::string& kind = arguments[0];
  if (arguments.size() > 1) return fail(kFailed, "completion: unexpected argument '" + arguments[1] + "'");
  std::string text;
  if (kind == "bash")
    text = bash_completion(command_surface());
  else if (kind == "zsh")
    text = zsh_completion(command_surface());
  else if (kind == "fish")
    text = fish_completion(command_surface());
  else if (kind == "man")
    text = manual_page(command_surface(), today());
  else
    return fail(kFailed, "completion: '" + kind + "' is not one of bash, zsh, fish, man");
  return fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : kFailed;
}

SHUNT_VERB("completion", 92, "completion scripts and the manual page", completion_verb)

}  // namespace
}  // namespace shunt::tool
