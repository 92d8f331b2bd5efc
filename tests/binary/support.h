// Shared by the tests of runtime/binary.
#pragma once
#include <string>
#include <vector>

#include "runtime/binary/fatbin.h"

namespace binary_test {

std::string made(const std::string& name);  // path of a file that the build made
std::string read_made(const std::string& name);
inline const uint8_t* bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

// Fat binaries by hand. An entry's header has 64 bytes and its payload is padded to 8.
struct HandMade {
  uint16_t kind = 1;
  uint32_t sm = 90;
  uint64_t flags = 0x11;
  std::string payload = ".version 9.0\n.target sm_90\n";
  uint64_t uncompressed = 0;  // of compressed ones
};
std::string container(const std::vector<HandMade>& entries);

}  // namespace binary_test
