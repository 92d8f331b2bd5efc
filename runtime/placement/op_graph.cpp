#include "runtime/placement/op_graph.h"

#include <algorithm>

namespace shunt::placement {

uint64_t Touched::bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, bytes] : allocations) sum += bytes;
  return sum;
}

OpGraph::State& OpGraph::state(const Stream& stream) {
  State& s = streams_[stream.id];
  s.stream = stream;
  return s;
}

void OpGraph::join(Frontier& into, const Frontier& from) {
  for (const auto& [stream, node] : from) {
    NodePtr& at = into[stream];
    if (!at || at->id < node->id) at = node;
  }
}

OpGraph::Frontier OpGraph::reached(const State& s) const {
  Frontier out = s.waits;
  if (s.last) join(out, {{s.stream.id, s.last}});
  if (!s.stream.blocking && !s.stream.legacy) return out;
  for (const auto& [id, other] : streams_) {
    if (id == s.stream.id || other.stream.context != s.stream.context || !other.last) continue;
    if (s.stream.legacy ? other.stream.blocking : other.stream.legacy) join(out, {{id, other.last}});
  }
  return out;
}

uint64_t OpGraph::add(const Stream& stream, const Touched& touched, std::vector<Dependency>& dependencies) {
  State& s = state(stream);
  Frontier before = reached(s);
  if (s.host != host_version_) {
    join(before, host_);
    s.host = host_version_;
  }
  auto node = std::make_shared<Node>();
  node->id = next_++;
  node->stream = stream.id;
  std::map<uint64_t, uint64_t> edges;  // task -> bytes
  for (const auto& [id, other] : before) {
    bool implied = false;
    for (const auto& [id2, another] : before) {
      const auto at = another->before.find(other->stream);
      implied |= another != other && at != another->before.end() && at->second >= other->id;
    }
    if (!implied) edges[other->id];
    for (const auto& [from, task] : other->before) {
      uint64_t& newest = node->before[from];
      newest = std::max(newest, task);
    }
  }
  for (const auto& [allocation, bytes] : touched.allocations) {
    auto& named = named_[allocation];
    uint64_t newest = 0;
    for (const auto& [from, task] : named) {
      const auto at = node->before.find(from);
      if (at != node->before.end() && at->second >= task) newest = std::max(newest, task);
    }
    if (newest) edges[newest] += bytes;
    named[stream.id] = node->id;
  }
  node->before[stream.id] = node->id;
  dependencies.clear();
  for (const auto& [task, bytes] : edges) dependencies.push_back({task, bytes});
  s.last = node;
  s.waits.clear();
  return node->id;
}

void OpGraph::record_event(uint64_t event, const Stream& stream) { events_[event] = reached(state(stream)); }

void OpGraph::wait_event(uint64_t event, const Stream& stream) {
  if (const auto at = events_.find(event); at != events_.end()) join(state(stream).waits, at->second);
}

void OpGraph::host_waited(const Frontier& frontier) {
  bool news = false;
  for (const auto& [stream, node] : frontier) {
    NodePtr& at = host_[stream];
    if (at && at->id >= node->id) continue;
    at = node;
    news = true;
  }
  host_version_ += news;
}

void OpGraph::host_waited_stream(const Stream& stream) { host_waited(reached(state(stream))); }

void OpGraph::host_waited_event(uint64_t event) {
  if (const auto at = events_.find(event); at != events_.end()) host_waited(at->second);
}

void OpGraph::host_waited_context(uint64_t context) {
  Frontier all;
  for (const auto& [id, s] : streams_)
    if (s.stream.context == context) join(all, reached(s));
  host_waited(all);
}

}  // namespace shunt::placement
