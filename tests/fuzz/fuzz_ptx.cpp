// libFuzzer: any bytes as PTX. What parses must print to something that parses to the same print, and its
// kernels must be analysable (to whatever end).
#include <cstdint>
#include <cstdlib>

#include "runtime/ptx/access_analysis.h"
#include "runtime/ptx/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shunt::ptx;
  Diagnostic diagnostic;
  auto module = parse(std::string_view(reinterpret_cast<const char*>(data), size), diagnostic);
  if (!module) {
    if (diagnostic.message.empty() || diagnostic.line == 0 || diagnostic.column == 0) std::abort();
    return 0;
  }
  const std::string printed = print(*module);
  auto again = parse(printed, diagnostic);
  if (!again || print(*again) != printed) std::abort();
  for (const KernelAccess& access : analyse_accesses(*module)) {
    std::vector<uint8_t> parameters(access.parameter_bytes + 8, 0x11);
    std::vector<AccessRange> ranges;
    access.evaluate({{3, 2, 1}, {32, 2, 1}}, parameters.data(), ranges);
    for (const AccessRange& range : ranges) {
      if (!range.whole && range.begin >= range.end) std::abort();
    }
  }
  return 0;
}
