// The helper thread that makes executables while the program goes on eagerly. Starts at the first request;
// capture mode RELAXED, so that nobody's capture sees it. Any thread may call; leaked.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "runtime/graphs/pattern.h"

namespace shunt::graphs {

class Builder {
 public:
  // The pattern's build_state tells when it is done.
  void request(std::shared_ptr<Pattern> pattern);
  // Returns when nothing is being built or waiting: before objects that a build may name go away, and at
  // exit.
  void settle();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable wake_, settled_;
  std::deque<std::shared_ptr<Pattern>> queue_;
  bool started_ = false, busy_ = false;
};

}  // namespace shunt::graphs
