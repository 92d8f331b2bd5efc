#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/binary/support.h"

namespace {

using namespace shunt::binary;

struct Found {
  std::vector<Entry> entries;
  std::vector<std::string> backing;
  std::string error;
  bool ok = false;
  explicit Found(const std::string& path) { ok = read_elf_file(path, entries, backing, error); }
  size_t count(Entry::Kind kind) const {
    size_t n = 0;
    for (const Entry& e : entries) n += e.kind == kind;
    return n;
  }
};

TEST(ElfFile, Program) {
  Found found(binary_test::made("program"));
  ASSERT_TRUE(found.ok) << found.error;
  EXPECT_EQ(found.count(Entry::Kind::ptx), 1u);
  EXPECT_GE(found.count(Entry::Kind::elf), 2u) << "besides, the (empty) result of the device linker";
  for (const Entry& e : found.entries) {
    std::string text, error;
    ASSERT_TRUE(extract(e, text, error)) << error;
    if (e.kind == Entry::Kind::ptx) {
      EXPECT_NE(text.find("vector_add"), std::string::npos);
    }
  }
}

TEST(ElfFile, RelocatableDeviceCode) {
  Found object(binary_test::made("part_b.o"));
  ASSERT_TRUE(object.ok) << object.error;
  EXPECT_EQ(object.count(Entry::Kind::ptx), 1u);
  EXPECT_NE(object.entries[0].options.find("--compile-only") != std::string::npos ||
                object.entries.back().options.find("--compile-only") != std::string::npos,
            false);
  Found program(binary_test::made("linked_program"));
  ASSERT_TRUE(program.ok) << program.error;
  EXPECT_EQ(program.count(Entry::Kind::ptx), 2u) << "one per object file";
  EXPECT_EQ(program.count(Entry::Kind::elf), 3u) << "one per object file and the linked one";
}

TEST(ElfFile, ContainersEmbeddedAsData) {
  Found found(binary_test::made("embedded.o"));
  ASSERT_TRUE(found.ok) << found.error;
  EXPECT_EQ(found.entries.size(), 7u);
}

TEST(ElfFile, Refused) {
  Found missing("/nonexistent/file");
  EXPECT_FALSE(missing.ok);
  EXPECT_EQ(missing.error, "/nonexistent/file: No such file or directory");
  Found folder("/tmp");
  EXPECT_EQ(folder.error, "/tmp: not a regular file");
  Found text(binary_test::made("embedded.S"));
  EXPECT_NE(text.error.find("not an ELF file"), std::string::npos) << text.error;
  Found host("/proc/self/exe");
  EXPECT_TRUE(host.ok) << "a host program without device code: " << host.error;
  EXPECT_TRUE(host.entries.empty());
}

TEST(ElfFile, DamagedFilesDoNotCrash) {
  const std::string good = binary_test::read_made("program");
  char path[] = "/tmp/shunt_elf_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  std::mt19937 random(3);
  const uint64_t headers = *reinterpret_cast<const uint64_t*>(good.data() + 40);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (uint32_t n = 1 + random() % 4; n-- > 0;) {
      // Mostly where it hurts: the file header and the section headers.
      const size_t at = random() % 3 == 0 ? random() % bad.size()
                        : random() % 2    ? random() % 64
                                          : headers + random() % (bad.size() - headers);
      bad[at] = static_cast<char>(random());
    }
    if (random() % 8 == 0) bad.resize(random() % bad.size());
    std::ofstream(path, std::ios::binary) << bad;
    Found found(path);
    EXPECT_EQ(found.ok, found.error.empty());
    for (const Entry& e : found.entries) {
      std::string text, error;
      extract(e, text, error);
    }
  }
  unlink(path);
}

}  // namespace
