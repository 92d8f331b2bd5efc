#include "tests/binary/support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace binary_test {

std::string made(const std::string& name) { return std::string(BINARY_TEST_DIR) + "/" + name; }

std::string read_made(const std::string& name) {
  std::ifstream file(made(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

namespace {
template <typename T>
void put(std::string& out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}
}  // namespace

std::string container(const std::vector<HandMade>& entries) {
  std::string body;
  for (const HandMade& e : entries) {
    std::string header(64, 0);
    const size_t padded = (e.payload.size() + 7) & ~size_t{7};
    const bool compressed = (e.flags & 0xa000) != 0;
    put<uint16_t>(header, 0, e.kind);
    put<uint16_t>(header, 2, 0x0101);
    put<uint32_t>(header, 4, 64);
    put<uint64_t>(header, 8, padded);
    put<uint32_t>(header, 16, compressed ? static_cast<uint32_t>(e.payload.size()) : 0);
    put<uint16_t>(header, 24, 0);
    put<uint16_t>(header, 26, 9);
    put<uint32_t>(header, 28, e.sm);
    put<uint64_t>(header, 40, e.flags);
    put<uint64_t>(header, 56, e.uncompressed);
    body += header + e.payload + std::string(padded - e.payload.size(), 0);
  }
  std::string result(16, 0);
  put<uint32_t>(result, 0, 0xBA55ED50);
  put<uint16_t>(result, 4, 1);
  put<uint16_t>(result, 6, 16);
  put<uint64_t>(result, 8, body.size());
  return result + body;
}

}  // namespace binary_test
