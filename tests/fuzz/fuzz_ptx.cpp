// libFuzzer: any bytes as PTX. What parses must print to something that parses to the same print.
#include <cstdint>
#include <cstdlib>

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
  return 0;
}
