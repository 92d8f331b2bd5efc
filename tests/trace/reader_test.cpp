// The reader on damaged files: never a crash, never a record that was not written, losses counted.
#include <fcntl.h>
#include <rapidcheck.h>

#include <fstream>
#include <sstream>

#include "runtime/trace/paths.h"
#include "tests/trace/trace_fixture.h"

namespace shunt::trace {
namespace {

class Damaged : public TraceTest {
 protected:
  std::string write_good() {
    EXPECT_EQ(in_child([&] {
                start(options_);
                string_id("hello");
                decide_n(6000);
                stop();
              }),
              0);
    const std::string file = trace_files(options_.directory).at(0);
    std::ifstream in(file, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
  }
  Result<Reader> reopen(const std::string& bytes) {
    const std::string path = std::string(root_) + "/damaged.shnt";
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return Reader::open(path);
  }
};

TEST_F(Damaged, CutOffAnywhere) {
  const std::string good = write_good();
  const uint64_t whole = reopen(good)->record_count();
  EXPECT_FALSE(reopen(good.substr(0, 100)).ok());
  EXPECT_FALSE(reopen("").ok());
  for (const size_t size :
       {size_t{4096}, size_t{4096 + 10}, size_t{4096 + 64 + 64 * 10}, good.size() - 1, good.size() / 2}) {
    auto r = reopen(good.substr(0, size));
    ASSERT_TRUE(r.ok());
    EXPECT_LE(r->record_count(), whole);
    EXPECT_TRUE(r->losses().truncated);
  }
}

TEST_F(Damaged, HeaderErrorsHaveOneClearLine) {
  std::string bytes = write_good();
  std::string magic = bytes, version = bytes, endian = bytes;
  magic[0] = 'X';
  version[8] = 9;
  endian[12] = 1;
  endian[15] = 4;
  EXPECT_NE(reopen(magic).error().message.find("not a shunt trace"), std::string::npos);
  EXPECT_NE(reopen(version).error().message.find("version 9"), std::string::npos);
  EXPECT_NE(reopen(endian).error().message.find("byte order"), std::string::npos);
}

TEST_F(Damaged, BadRecordEndsItsChunkOnly) {
  std::string bytes = write_good();
  const auto before = reopen(bytes);
  const size_t at =
      kHeaderBytes + sizeof(ChunkHeader) + 32 + 64 + 64 * 20;  // after THREAD and CLOCK: the 21st decision
  bytes[at + 2] = 7;                                           // size no multiple of 16
  auto r = reopen(bytes);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->losses().torn_chunks, 1u);
  EXPECT_LT(r->record_count(), before->record_count());
  EXPECT_GT(r->record_count(), 1000u);  // the other chunk is whole
}

TEST_F(Damaged, RandomBytesNeverCrash) {
  const std::string good = write_good();
  EXPECT_TRUE(rc::check("flip bytes anywhere", [&] {
    std::string bytes = good;
    const int flips = *rc::gen::inRange(1, 40);
    for (int i = 0; i < flips; i++) {
      // Half the flips go to headers, where they hurt most.
      const size_t at = *rc::gen::inRange(0, 2) ? *rc::gen::inRange<size_t>(0, kHeaderBytes + 4096)
                                                : *rc::gen::inRange<size_t>(0, bytes.size());
      bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    }
    auto r = reopen(bytes);
    if (!r) return;
    uint64_t n = 0;
    r->for_each([&](const RecordHeader& h, uint32_t) {
      n++;
      RC_ASSERT(h.size >= kMinRecordBytes && h.size % 16 == 0);
    });
    RC_ASSERT(n == r->record_count());
    (void)r->string(1);
  }));
}

TEST(Paths, Expand) {
  setenv("SHUNT_TEST_RANK", "3", 1);
  EXPECT_EQ(expand_directory("run", 42), "run.shunt");
  EXPECT_EQ(expand_directory("run.shunt/", 42), "run.shunt");
  EXPECT_EQ(expand_directory("r-%p-%q{SHUNT_TEST_RANK}-%%", 42), "r-42-3-%.shunt");
  EXPECT_EQ(expand_directory("%h", 1), host_name() + ".shunt");
  EXPECT_EQ(expand_directory("%q{NOT_SET_AT_ALL}x%", 1), "x%.shunt");
  EXPECT_GT(process_start(), 0u);
}

}  // namespace
}  // namespace shunt::trace
