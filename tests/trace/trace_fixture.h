// A trace directory that goes away, and a child process that writes into it.
#pragma once
#include <ftw.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/trace/reader.h"
#include "runtime/trace/writer.h"

namespace shunt::trace {

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(root_), nullptr);
    options_.directory = std::string(root_) + "/run.shunt";
    options_.run_id = "test";
  }
  void TearDown() override {
    nftw(
        root_, [](const char* path, const struct stat*, int, struct FTW*) { return remove(path); }, 16,
        FTW_DEPTH | FTW_PHYS);
  }
  // The writer is one per process, so each case writes in a child. Returns waitpid's status.
  int in_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(::testing::Test::HasFailure() ? 99 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  std::vector<Reader> read_all() {
    std::vector<Reader> out;
    for (const std::string& file : trace_files(options_.directory)) {
      auto reader = Reader::open(file);
      EXPECT_TRUE(reader.ok()) << reader.error().message;
      if (reader) out.push_back(std::move(reader.value()));
    }
    return out;
  }
  static uint64_t count(const Reader& reader, RecordType type) {
    uint64_t n = 0;
    reader.for_each([&](const RecordHeader& r, uint32_t) { n += r.type == static_cast<uint16_t>(type); });
    return n;
  }

  char root_[32] = "/tmp/shunt-trace-XXXXXX";
  FileOptions options_;
};

inline void decide_n(uint64_t n, uint64_t first = 0) {
  for (uint64_t i = 0; i < n; i++)
    decide({.feature = Feature::graph, .action = Action::graph_replay, .bytes = first + i});
}

}  // namespace shunt::trace
