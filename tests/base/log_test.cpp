// One line, one write; levels and subsystems; the ring keeps what was not printed.
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace shunt::log {
namespace {

struct LogFile {
  std::string path = "/tmp/shunt-log-" + std::to_string(getpid()) + ".txt";
  LogFile() { unlink(path.c_str()); }
  ~LogFile() { unlink(path.c_str()); }
  std::string text() const {
    std::ifstream in(path);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
};

TEST(Log, LevelsAndSubsystems) {
  LogFile file;
  ASSERT_TRUE(init(Level::info, "graph,^comm", "/tmp/shunt-log-%p.txt"));
  write(Level::info, Subsys::graph, "seen %d", 1);
  write(Level::info, Subsys::comm, "excluded");
  write(Level::info, Subsys::memory, "not listed");
  write(Level::debug, Subsys::graph, "too fine");
  write(Level::warn, Subsys::graph, "two\nlines");
  EXPECT_EQ(file.text(), "[shunt] seen 1\n[shunt] warning: two lines\n");
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  dump(pipes[1]);
  close(pipes[1]);
  std::string ring(1 << 16, 0);
  ring.resize(static_cast<size_t>(read(pipes[0], ring.data(), ring.size())));
  close(pipes[0]);
  EXPECT_NE(ring.find("too fine"), std::string::npos);
  EXPECT_NE(ring.find("not listed"), std::string::npos);
}

TEST(Log, OnlyExclusions) {
  std::string_view unknown;
  const uint32_t mask = parse_subsystems("^comm", unknown);
  EXPECT_TRUE(unknown.empty());
  EXPECT_EQ(mask >> static_cast<int>(Subsys::comm) & 1, 0u);
  EXPECT_EQ(mask >> static_cast<int>(Subsys::graph) & 1, 1u);
  parse_subsystems("graph,grpah", unknown);
  EXPECT_EQ(unknown, "grpah");
}

TEST(Log, LongLinesAreCutAndErrnoSurvives) {
  LogFile file;
  ASSERT_TRUE(init(Level::debug, "", "/tmp/shunt-log-%p.txt"));
  errno = EBUSY;
  write(Level::error, Subsys::base, "%s", std::string(5000, 'x').c_str());
  EXPECT_EQ(errno, EBUSY);
  const std::string text = file.text();
  EXPECT_LT(text.size(), 600u);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Log, ThreadsDoNotMixLines) {
  LogFile file;
  ASSERT_TRUE(init(Level::info, "", "/tmp/shunt-log-%p.txt"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([t] {
      for (int i = 0; i < 500; i++)
        write(Level::info, Subsys::base, "thread %d %s", t,
              std::string(60, static_cast<char>('a' + t)).c_str());
    });
  for (auto& t : threads) t.join();
  std::istringstream in(file.text());
  int lines = 0;
  for (std::string line; std::getline(in, line); lines++) {
    ASSERT_EQ(line.rfind("[shunt] thread ", 0), 0u) << line;
    const char letter = static_cast<char>('a' + (line[15] - '0'));
    ASSERT_EQ(line.substr(17), std::string(60, letter));
  }
  EXPECT_EQ(lines, 2000);
}

TEST(Log, UnwritableFileIsReported) { EXPECT_FALSE(init(Level::warn, "", "/no/such/folder/file")); }

}  // namespace
}  // namespace shunt::log
