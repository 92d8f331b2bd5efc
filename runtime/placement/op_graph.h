// The order of recorded tasks: what a new task waits for, by streams, events and host waits. No driver calls;
// the owner locks.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace shunt::placement {

// What a task names of the program's memory: allocation id and size.
struct Touched {
  std::vector<std::pair<uint64_t, uint64_t>> allocations;  // sorted by id, each once
  uint64_t bytes() const;
};

struct Dependency {
  uint64_t task = 0, shared_bytes = 0;
};

class OpGraph {
 public:
  struct Stream {
    uint64_t id = 0, context = 0;
    bool legacy = false, blocking = true;  // blocking: ordered with the legacy default stream
  };
  // The new task's number (from 1) and what it waits for: what nothing else implies, and the last task before
  // it that named the same allocation, with its size.
  uint64_t add(const Stream& stream, const Touched& touched, std::vector<Dependency>& dependencies);

  void record_event(uint64_t event, const Stream& stream);
  void wait_event(uint64_t event, const Stream& stream);
  // The host has waited: every later task comes after what was waited for.
  void host_waited_stream(const Stream& stream);
  void host_waited_event(uint64_t event);
  void host_waited_context(uint64_t context);
  void forget_stream(uint64_t id) { streams_.erase(id); }
  void forget_event(uint64_t id) { events_.erase(id); }

 private:
  struct Node {
    uint64_t id = 0, stream = 0;
    std::map<uint64_t, uint64_t> before;  // by stream: the newest task that is before this one, or is it
  };
  using NodePtr = std::shared_ptr<const Node>;
  using Frontier = std::map<uint64_t, NodePtr>;  // the newest task of each stream
  struct State {
    Stream stream;
    NodePtr last;
    Frontier waits;     // for the next task
    uint64_t host = 0;  // version of host_ the stream has taken in
  };
  State& state(const Stream& stream);
  static void join(Frontier& into, const Frontier& from);
  Frontier reached(const State& state) const;  // what is before whatever comes next in the stream
  void host_waited(const Frontier& frontier);

  std::map<uint64_t, State> streams_;
  std::unordered_map<uint64_t, std::map<uint64_t, uint64_t>> named_;  // allocation -> stream -> last task
  std::unordered_map<uint64_t, Frontier> events_;
  Frontier host_;
  uint64_t host_version_ = 0, next_ = 1;
};

}  // namespace shunt::placement
