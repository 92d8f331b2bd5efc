#include <gtest/gtest.h>

#include <cstring>

#include "runtime/ptx/ir.h"
#include "tests/binary/support.h"

namespace {

using namespace shunt::binary;
using binary_test::bytes;
using binary_test::container;
using binary_test::HandMade;

std::vector<Entry> read(const std::string& image) {
  std::vector<Entry> entries;
  std::string error;
  EXPECT_TRUE(read_container(bytes(image), image.size(), entries, error)) << error;
  return entries;
}
std::string error_of(const std::string& image) {
  std::vector<Entry> entries;
  std::string error;
  EXPECT_FALSE(read_container(bytes(image), image.size(), entries, error));
  return error;
}
std::string text_of(const Entry& entry) {
  std::string text, error;
  EXPECT_TRUE(extract(entry, text, error)) << error;
  return text;
}

TEST(Container, EveryPackingHoldsTheSameProgram) {
  const std::string none = binary_test::read_made("none.fatbin"),
                    speed = binary_test::read_made("speed.fatbin"),
                    size = binary_test::read_made("size.fatbin");
  const auto raw = read(none), lz4 = read(speed), zstd = read(size);
  ASSERT_EQ(raw.size(), 7u);
  ASSERT_EQ(lz4.size(), 7u);
  ASSERT_EQ(zstd.size(), 7u);
  size_t packed_lz4 = 0, packed_zstd = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    EXPECT_EQ(raw[i].packing, Entry::Packing::raw);
    packed_lz4 += lz4[i].packing == Entry::Packing::lz4;
    packed_zstd += zstd[i].packing == Entry::Packing::zstd;
    for (const auto* other : {&lz4, &zstd}) {
      EXPECT_EQ(raw[i].kind, (*other)[i].kind);
      EXPECT_EQ(raw[i].sm, (*other)[i].sm);
      EXPECT_EQ(raw[i].arch_specific, (*other)[i].arch_specific);
      EXPECT_EQ(raw[i].family_specific, (*other)[i].family_specific);
    }
    EXPECT_EQ(text_of(raw[i]), text_of(lz4[i])) << i;
    EXPECT_EQ(text_of(raw[i]), text_of(zstd[i])) << i;
  }
  EXPECT_GE(packed_lz4, 4u) << "nvcc compresses at least the PTX";
  EXPECT_GE(packed_zstd, 4u);
}

TEST(Container, KindsAndArchitectures) {
  const std::string image = binary_test::read_made("size.fatbin");
  size_t ptx = 0, elf = 0, a = 0, f = 0;
  for (const Entry& e : read(image)) {
    ptx += e.kind == Entry::Kind::ptx;
    elf += e.kind == Entry::Kind::elf;
    a += e.arch_specific;
    f += e.family_specific;
    const std::string content = text_of(e);
    if (e.kind == Entry::Kind::elf) {
      EXPECT_EQ(content.compare(0, 4,
                                "\x7f"
                                "ELF"),
                0);
      EXPECT_EQ(classify(content.c_str()), ImageKind::elf);
      continue;
    }
    EXPECT_EQ(e.version_major, 9);
    EXPECT_NE(content.back(), '\0');
    EXPECT_EQ(classify(content.c_str()), ImageKind::ptx_text);
    shunt::ptx::Diagnostic d;
    auto module = shunt::ptx::parse(content, d);
    ASSERT_TRUE(module != nullptr) << d.message;
    EXPECT_EQ(module->target, "sm_" + std::to_string(e.sm) +
                                  (e.arch_specific     ? "a"
                                   : e.family_specific ? "f"
                                                       : ""));
  }
  EXPECT_EQ(ptx, 4u);
  EXPECT_EQ(elf, 3u);
  EXPECT_EQ(a, 2u);
  EXPECT_EQ(f, 1u);
}

TEST(Container, NamesAndOptions) {
  const std::string image = binary_test::read_made("debug.fatbin");
  const auto entries = read(image);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_NE(entries[0].name.find("vector_add.cu"), std::string::npos) << entries[0].name;
  EXPECT_NE(entries[0].options.find("-g"), std::string::npos) << entries[0].options;
  EXPECT_NE(entries[0].options.find("-maxrregcount=64"), std::string::npos) << entries[0].options;
  EXPECT_NE(entries[0].flags & 2, 0u) << "debug";
}

TEST(Container, HandMade) {
  const auto image = container({{},
                                {2, 100, 0x100011,
                                 "\x7f"
                                 "ELF...."},
                                {8, 90, 0x11, "IR"},
                                {77, 90, 0x11, "?"}});
  const auto entries = read(image);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(text_of(entries[0]), ".version 9.0\n.target sm_90\n") << "padding is removed";
  EXPECT_TRUE(entries[1].arch_specific);
  EXPECT_EQ(entries[2].kind, Entry::Kind::nvvm);
  EXPECT_EQ(entries[3].kind, Entry::Kind::other);
  EXPECT_TRUE(read(container({})).empty());
}

TEST(Container, Malformed) {
  EXPECT_EQ(error_of(""), "no fat binary container (magic BA55ED50)");
  EXPECT_EQ(error_of("not a container at all"), "no fat binary container (magic BA55ED50)");
  const std::string good = container({{}, {}});
  std::string bad = good;
  bad[4] = 2;
  EXPECT_EQ(error_of(bad), "fat binary container version 2 is unknown (expected 1)");
  EXPECT_EQ(error_of(good.substr(0, good.size() - 1)),
            "fat binary container of 192 bytes passes the end of its image");
  bad = good;
  bad[16 + 4] = 1;  // header size
  EXPECT_EQ(error_of(bad), "fat binary entry 0 at offset 16: header size 1 is out of range");
  bad = good;
  std::memset(bad.data() + 16 + 8, 0xff, 8);  // payload size
  EXPECT_EQ(error_of(bad),
            "fat binary entry 0 at offset 16: payload of 18446744073709551615 bytes passes the end of the "
            "container");
  bad = good;
  bad[16 + 40 + 1] = static_cast<char>(0x80);  // zstd
  bad[16 + 16] = 100;                          // compressed size
  EXPECT_EQ(error_of(bad), "fat binary entry 0 at offset 16: compressed size 100 is larger than its payload");
}

TEST(Container, EntriesBeforeTheErrorAreKept) {
  std::string bad = container({{}, {}});
  bad[16 + 96 + 4] = 1;
  std::vector<Entry> entries;
  std::string error;
  EXPECT_FALSE(read_container(bytes(bad), bad.size(), entries, error));
  EXPECT_EQ(entries.size(), 1u);
}

TEST(Container, BadPayloads) {
  // A size that lies, in both directions, and garbage; the claimed terabyte must not be allocated.
  for (uint64_t flags : {0x2011ull, 0x8011ull}) {
    for (uint64_t claimed : {0ull, 5ull, 1ull << 40}) {
      const auto image = container({{1, 90, flags, "\x28\xb5\x2f\xfdgarbage", claimed}});
      const auto entries = read(image);
      std::string text, error;
      EXPECT_FALSE(extract(entries[0], text, error));
      EXPECT_TRUE(text.empty());
      EXPECT_NE(error.find("cannot be decompressed"), std::string::npos) << error;
    }
  }
  // A real entry with one byte less or more claimed.
  const std::string speed = binary_test::read_made("speed.fatbin"),
                    size = binary_test::read_made("size.fatbin");
  for (const std::string* image : {&speed, &size}) {
    for (Entry e : read(*image)) {
      if (e.packing == Entry::Packing::raw) continue;
      std::string text, error;
      e.uncompressed_size += 1;
      EXPECT_FALSE(extract(e, text, error));
      e.uncompressed_size -= 2;
      EXPECT_FALSE(extract(e, text, error));
      e.uncompressed_size += 1;
      e.payload_size -= 1;
      EXPECT_FALSE(extract(e, text, error));
    }
  }
}

}  // namespace
