// Deterministic damage to real fat binaries; tests/fuzz/fuzz_fatbin does the same without end.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/binary/support.h"

namespace {

using namespace shunt::binary;

TEST(FatbinMutation, NothingCrashesAndNothingPointsOutside) {
  std::vector<std::string> seeds;
  for (const char* name : {"none.fatbin", "speed.fatbin", "size.fatbin", "debug.fatbin"})
    seeds.push_back(binary_test::read_made(name));
  std::mt19937 random(5);
  size_t whole = 0, refused = 0, extracted = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string image = seeds[static_cast<size_t>(i) % seeds.size()];
    std::vector<Entry> intact;
    std::string error;
    read_container(binary_test::bytes(image), image.size(), intact, error);
    for (uint32_t n = 1 + random() % 5; n-- > 0;) {
      // Mostly in headers: payload bytes are the decompressors' business.
      const Entry& entry = intact[random() % intact.size()];
      const size_t header = static_cast<size_t>(entry.payload - binary_test::bytes(image));
      const size_t at = random() % 4 == 0   ? random() % image.size()
                        : random() % 4 == 0 ? random() % 16
                                            : header - 1 - random() % std::min<size_t>(header, 112);
      image[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    if (random() % 10 == 0) image.resize(random() % image.size());
    // An exact allocation, so that a sanitizer or valgrind sees a read behind the end.
    std::unique_ptr<uint8_t[]> exact(new uint8_t[image.size()]);
    std::copy(image.begin(), image.end(), exact.get());
    std::vector<Entry> entries;
    const bool ok = read_container(exact.get(), image.size(), entries, error);
    EXPECT_EQ(ok, error.empty());
    ++(ok ? whole : refused);
    for (const Entry& e : entries) {
      ASSERT_GE(e.payload, exact.get());
      ASSERT_LE(e.payload + e.payload_size, exact.get() + image.size());
      std::string bytes;
      extracted += extract(e, bytes, error);
    }
    choose(entries, 100, true);
  }
  EXPECT_GT(whole, 500u);
  EXPECT_GT(refused, 500u);
  EXPECT_GT(extracted, 2000u);
}

}  // namespace
