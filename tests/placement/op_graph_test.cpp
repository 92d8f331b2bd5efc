// The order of recorded tasks: streams, events, the legacy default stream, host waits, shared memory; and as
// a property: the recorded order is exactly the order the program's calls impose.
#include "runtime/placement/op_graph.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace shunt::placement {
namespace {

using Edges = std::vector<std::pair<uint64_t, uint64_t>>;

Edges add(OpGraph& g, const OpGraph::Stream& s, std::vector<std::pair<uint64_t, uint64_t>> memory = {}) {
  std::vector<Dependency> d;
  g.add(s, {std::move(memory)}, d);
  Edges out;
  for (const Dependency& x : d) out.emplace_back(x.task, x.shared_bytes);
  return out;
}
OpGraph::Stream stream(uint64_t id, bool blocking = false, bool legacy = false) {
  return {id, 1, legacy, blocking};
}

TEST(OpGraph, StreamsAreChains) {
  OpGraph g;
  EXPECT_EQ(add(g, stream(1)), Edges{});
  EXPECT_EQ(add(g, stream(2)), Edges{});
  EXPECT_EQ(add(g, stream(1)), (Edges{{1, 0}}));
  EXPECT_EQ(add(g, stream(2)), (Edges{{2, 0}}));
}

TEST(OpGraph, EventsJoinStreamsOnce) {
  OpGraph g;
  add(g, stream(1));
  g.record_event(9, stream(1));
  add(g, stream(1));
  g.wait_event(9, stream(2));
  EXPECT_EQ(add(g, stream(2)), (Edges{{1, 0}})) << "the event is after task 1 only";
  EXPECT_EQ(add(g, stream(2)), (Edges{{3, 0}}));
  g.wait_event(77, stream(3));  // never recorded: no order
  EXPECT_EQ(add(g, stream(3)), Edges{});
}

TEST(OpGraph, ImpliedOrderIsNotRepeated) {
  OpGraph g;
  add(g, stream(1));  // 1
  g.record_event(5, stream(1));
  g.wait_event(5, stream(2));
  add(g, stream(2));  // 2, after 1
  g.record_event(6, stream(2));
  g.wait_event(5, stream(3));
  g.wait_event(6, stream(3));
  EXPECT_EQ(add(g, stream(3)), (Edges{{2, 0}})) << "2 is after 1 already";
}

TEST(OpGraph, LegacyStreamWaitsForBlockingOnes) {
  OpGraph g;
  add(g, stream(1, true));
  add(g, stream(2, false));
  EXPECT_EQ(add(g, stream(0, true, true)), (Edges{{1, 0}}));
  EXPECT_EQ(add(g, stream(1, true)), (Edges{{3, 0}}));
  EXPECT_EQ(add(g, stream(2, false)), (Edges{{2, 0}}));
}

TEST(OpGraph, AfterAHostWaitEverythingIsLater) {
  OpGraph g;
  add(g, stream(1));
  g.host_waited_stream(stream(1));
  EXPECT_EQ(add(g, stream(2)), (Edges{{1, 0}}));
  EXPECT_EQ(add(g, stream(2)), (Edges{{2, 0}}));
  g.record_event(4, stream(2));
  g.host_waited_event(4);
  EXPECT_EQ(add(g, stream(3)), (Edges{{3, 0}}));
  g.host_waited_context(1);
  EXPECT_EQ(add(g, stream(4)), (Edges{{4, 0}}));
}

TEST(OpGraph, SharedMemoryIsAnEdgeToTheLastWhoNamedIt) {
  OpGraph g;
  add(g, stream(1), {{100, 10}});
  add(g, stream(1), {{200, 20}});
  EXPECT_EQ(add(g, stream(1), {{100, 10}, {200, 20}}), (Edges{{1, 10}, {2, 20}}));
  // Unordered sharing is no order: both only read, or the program has a race of its own.
  EXPECT_EQ(add(g, stream(2), {{100, 10}}), Edges{});
}

// Against a plain closure: every pair the calls order is connected, and no other pair is.
TEST(OpGraph, ClosureIsExact) {
  rc::check("recorded order equals imposed order", [] {
    OpGraph g;
    const int steps = *rc::gen::inRange(1, 60);
    constexpr int kStreams = 4, kEvents = 3;
    auto make = [](int s) { return stream(static_cast<uint64_t>(s), s != 3, s == 0); };
    // Reference: sets of tasks before the next one of each stream, of each event, of the host.
    std::set<uint64_t> before[kStreams], event[kEvents], host;
    std::vector<std::set<uint64_t>> imposed(1), recorded(1);
    auto reached = [&](int s) {
      std::set<uint64_t> out = before[s];
      for (int o = 0; o < 3 && s != 3; o++)
        if (s == 0 || o == 0) out.insert(before[o].begin(), before[o].end());
      return out;
    };
    // A stream's own frontier holds what its tasks are after; waits count only from the next task on.
    std::set<uint64_t> waits[kStreams];
    for (int i = 0; i < steps; i++) {
      const int s = *rc::gen::inRange(0, kStreams), e = *rc::gen::inRange(0, kEvents);
      switch (*rc::gen::inRange(0, 6)) {
        default: {
          std::vector<Dependency> d;
          std::vector<std::pair<uint64_t, uint64_t>> memory;
          if (*rc::gen::arbitrary<bool>()) memory.push_back({static_cast<uint64_t>(e), 8});
          const uint64_t id = g.add(make(s), {memory}, d);
          RC_ASSERT(id == imposed.size());
          std::set<uint64_t> now = reached(s);
          now.insert(waits[s].begin(), waits[s].end());
          now.insert(host.begin(), host.end());
          imposed.push_back(now);
          std::set<uint64_t> closure;
          for (const Dependency& x : d) {
            closure.insert(x.task);
            closure.insert(recorded[x.task].begin(), recorded[x.task].end());
          }
          recorded.push_back(closure);
          RC_ASSERT(closure == now);
          waits[s].clear();
          now.insert(id);
          before[s] = now;
          break;
        }
        case 2:
          g.record_event(static_cast<uint64_t>(e), make(s));
          event[e] = reached(s);
          event[e].insert(waits[s].begin(), waits[s].end());
          break;
        case 3:
          g.wait_event(static_cast<uint64_t>(e), make(s));
          waits[s].insert(event[e].begin(), event[e].end());
          break;
        case 4:
          g.host_waited_event(static_cast<uint64_t>(e));
          host.insert(event[e].begin(), event[e].end());
          break;
        case 5: {
          g.host_waited_stream(make(s));
          std::set<uint64_t> now = reached(s);
          now.insert(waits[s].begin(), waits[s].end());
          host.insert(now.begin(), now.end());
          break;
        }
      }
    }
  });
}

}  // namespace
}  // namespace shunt::placement
