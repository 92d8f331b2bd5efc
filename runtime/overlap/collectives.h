// From a call of NCCL to a collective on a companion stream, or the reason why it stays where it is. Called
// by the NCCL hooks on the program's thread, with the real call as a function. Groups are per thread. Any
// thread.
#pragma once
#include <type_traits>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/overlap/communicators.h"
#include "runtime/overlap/pending.h"

namespace shunt::overlap {

class OverlapLink;
class StreamState;

// A function to be called before the call it is given to returns. Does not own, does not allocate.
template <class Signature>
class Borrowed;
template <class R, class... A>
class Borrowed<R(A...)> {
 public:
  template <class F>
  Borrowed(F& f)  // NOLINT: meant to convert
      : object_(&f), call_([](void* o, A... a) -> R { return (*static_cast<F*>(o))(a...); }) {}
  R operator()(A... a) const { return call_(object_, a...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

class Collectives {
 public:
  explicit Collectives(OverlapLink& link) : link_(link) {}

  // `real` makes the call on the stream it is given.
  using Real = Borrowed<nccl::Result(CUstream)>;
  using Plain = Borrowed<nccl::Result()>;
  nccl::Result call(const Operation& o, Real real);
  nccl::Result group_start(Plain real);
  nccl::Result group_end(Plain real, bool simulated);
  // Calls that end or change communicators. Pending work of all streams is joined first, except at an abort,
  // which may come while another thread is stuck inside NCCL.
  nccl::Result ends(nccl::Comm comm, bool abort, Plain real);
  // A call that makes a communicator: `out` is filled now, or at the end of the group. `here`: on the current
  // device.
  void makes(nccl::Comm* out, bool blocking, bool here);
  void poison(nccl::Comm comm);  // its work stays where it is from now on
  Communicators& communicators() { return communicators_; }
  void reset_after_fork();

 private:
  struct Candidate {
    StreamState* state = nullptr;
    Footprint footprint;
    uint64_t bytes = 0, kind = 0;
  };
  struct Made {
    nccl::Comm* out;
    bool blocking;
    CUcontext context;
  };
  struct Group {
    int depth = 0;
    bool decided = false, moving = false;
    uint64_t decision = 0;  // of the first member that moves: the work carries its id
    std::vector<Candidate> moved;
    std::vector<nccl::Comm> comms;  // of these
    // Streams that keep their calls. A default stream's name stands for one in each context.
    std::vector<std::pair<StreamState*, CUstream>> passed;
    std::vector<Made> made;
  };
  // Why not, or Reason::comm_moved with the stream's state and what is touched.
  Reason eligible(const Operation& o, Candidate& c);
  // Whether a call that could move should: Reason::comm_moved, or why it does better where it is.
  Reason worthwhile(const Operation& o, const Candidate& c);
  nccl::Result pass(const Operation& o, StreamState* state, Reason reason, uint64_t bytes, Real real);
  nccl::Result move(const Operation& o, const Candidate& c, Real real);
  nccl::Result member(Group& group, const Operation& o, Real real);
  // Forks the companion and publishes the collective. Null: it cannot be moved.
  Pending* fork(const Candidate& c, bool must);
  void issued(StreamState& state, Pending* p, bool failed);
  void settle(StreamState* state, CUstream stream);
  uint64_t decide(Reason reason, const StreamState* state, uint64_t bytes);  // its id
  Group* group(bool make);

  OverlapLink& link_;
  Communicators communicators_;
  SpinRwLock lock_;
  FlatMap<Group*> groups_;  // by thread
};

}  // namespace shunt::overlap
