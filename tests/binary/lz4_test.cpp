// Our decoder against the reference library's encoder.
#include "runtime/binary/lz4_block.h"

#include <gtest/gtest.h>
#include <lz4.h>

#include <random>
#include <string>
#include <vector>

namespace {

using shunt::binary::lz4_decode;

std::string pack(const std::string& text) {
  std::string packed(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))), 0);
  packed.resize(static_cast<size_t>(LZ4_compress_default(
      text.data(), packed.data(), static_cast<int>(text.size()), static_cast<int>(packed.size()))));
  return packed;
}
bool decode(const std::string& packed, std::string& out) {
  return lz4_decode(reinterpret_cast<const uint8_t*>(packed.data()), packed.size(),
                    reinterpret_cast<uint8_t*>(out.data()), out.size());
}

bool has_zero_offset(const std::string& packed) {
  size_t at = 0;
  auto byte = [&] { return at < packed.size() ? static_cast<uint8_t>(packed[at++]) : uint8_t{0}; };
  auto length = [&](size_t nibble) {
    if (nibble != 15) return nibble;
    for (uint8_t more = 255; more == 255;) nibble += more = byte();
    return nibble;
  };
  while (at < packed.size()) {
    const uint8_t token = byte();
    at += length(token >> 4);
    if (at >= packed.size()) return false;
    const unsigned low = byte(), offset = low | byte() << 8u;
    if (offset == 0) return true;
    length(token & 15u);
  }
  return false;
}

std::string sample(std::mt19937& random, size_t size) {
  std::string text;
  while (text.size() < size) {
    if (random() % 3 == 0 || text.size() < 8)
      text += std::string(1 + random() % 30, static_cast<char>(random()));
    else if (random() % 2 == 0)
      text += text.substr(random() % text.size(), 1 + random() % 400);
    else
      for (size_t i = random() % 300; i-- > 0;) text += static_cast<char>(random());
  }
  text.resize(size);
  return text;
}

TEST(Lz4, RoundTrip) {
  std::mt19937 random(7);
  for (size_t size : {1, 2, 11, 12, 13, 15, 16, 255, 256, 270, 1000, 65535, 65536, 200000}) {
    for (int i = 0; i < 20; ++i) {
      const std::string text = sample(random, size), packed = pack(text);
      std::string out(size, 0);
      ASSERT_TRUE(decode(packed, out));
      ASSERT_EQ(out, text);
      std::string shorter(size - 1, 0), longer(size + 1, 0);
      EXPECT_FALSE(decode(packed, shorter));
      EXPECT_FALSE(decode(packed, longer));
    }
  }
}

TEST(Lz4, AgreesWithTheReferenceOnDamage) {
  std::mt19937 random(11);
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = sample(random, 20 + random() % 300);
    std::string packed = pack(text);
    for (uint32_t n = 1 + random() % 3; n-- > 0;)
      packed[random() % packed.size()] = static_cast<char>(random());
    std::string out(text.size(), 0), reference(text.size(), 0);
    const bool ours = decode(packed, out);
    const int theirs = LZ4_decompress_safe(packed.data(), reference.data(), static_cast<int>(packed.size()),
                                           static_cast<int>(reference.size()));
    // The reference also demands the format's end rules, which no reader needs, and lets the invalid match
    // offset 0 pass.
    if (theirs == static_cast<int>(text.size()) && !has_zero_offset(packed)) {
      ASSERT_TRUE(ours);
      ASSERT_EQ(out, reference);
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 500u);
}

TEST(Lz4, Malformed) {
  std::string out(4, 0);
  for (const std::string& bad :
       {std::string(), std::string("\x40"), std::string("\xf0"), std::string("\xf0\xff\xff"),
        std::string("\x14"
                    "a\x00\x00",
                    4) /* offset 0 */,
        std::string("\x14"
                    "a\x02\x00",
                    4) /* before the start */,
        std::string("\x1f"
                    "a\x01\x00\xff\xff",
                    6) /* length without end */})
    EXPECT_FALSE(decode(bad, out));
}

}  // namespace
