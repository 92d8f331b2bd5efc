// `shunt version`: of the command and of the libraries beside it.
#include <stdio.h>

#include "tools/shunt/console.h"
#include "tools/shunt/flags.h"
#include "tools/shunt/layout.h"
#include "tools/shunt/verb.h"
#include "tools/shunt/version.h"

namespace shunt::tool {
namespace {

int version_verb(const std::vector<std::string>& arguments) {
  const ParsedFlags flags = parse_flags(arguments, false, {"json"});
  if (!flags.error.empty()) return fail(kFailed, flags.error);
  if (flags.help) {
    printf("Usage: shunt version [--json]\n\nVersions, and where the libraries are.\n");
    return 0;
  }
  const Layout layout = find_layout();
  if (flags.json) {
    printf(
        "{\"schema\": 1, \"version\": \"%s\", \"interposer\": \"%s\", \"runtime\": \"%s\", \"simgpu\": "
        "\"%s\"}\n",
        kVersion, layout.interposer.c_str(), layout.runtime.c_str(), layout.simgpu.c_str());
    return 0;
  }
  auto shown = [](const std::string& path) { return path.empty() ? "missing" : path.c_str(); };
  printf("shunt %s\n  libshunt.so     %s\n  libshunt_rt.so  %s\n  simgpu          %s\n", kVersion,
         shown(layout.interposer), shown(layout.runtime), shown(layout.simgpu));
  return 0;
}

SHUNT_VERB("version", 90, "versions and where the libraries are", version_verb)

}  // namespace
}  // namespace shunt::tool
