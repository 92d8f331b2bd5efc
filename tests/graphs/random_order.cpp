// The partial order: what each stream and the host are known to have done, and the waits an access needs.
#include "tests/graphs/random_planner.h"

namespace random_program {

Op& Planner::put(Op op) {
  op.turn = plan_.strict ? turn_++ : -1;
  reach(name(op.call));
  auto& list = plan_.ops[static_cast<size_t>(op.thread)];
  list.push_back(op);
  return list.back();
}

// The default stream's rules: work of the legacy stream follows all earlier work of blocking streams, and the
// other way round. In a free plan only the thread's own calls have a known order.
Clock Planner::before(int thread, int stream) const {
  Clock clock = known_[static_cast<size_t>(stream)];
  join(clock, host_[static_cast<size_t>(plan_.strict ? 0 : thread)]);
  const Stream role = plan_.streams[static_cast<size_t>(stream)];
  for (size_t s = 0; s < plan_.streams.size(); ++s) {
    if (owners_ > 1 && plan_.stream_thread[s] != thread) continue;
    const Stream other = plan_.streams[s];
    const bool tied = role == Stream::legacy ? other != Stream::non_blocking && other != Stream::high_priority
                                             : role != Stream::non_blocking &&
                                                   role != Stream::high_priority && other == Stream::legacy;
    if (tied) join(clock, known_[s]);
  }
  return clock;
}

int Planner::record(int thread, int stream) {
  const int event = new_event(thread);
  Clock clock = before(thread, stream);
  events_[static_cast<size_t>(event)] = clock;
  known_[static_cast<size_t>(stream)] = clock;
  put({.call = Call::event_record, .thread = thread, .stream = stream, .event = event});
  return event;
}

void Planner::need(int thread, int stream, const Use& use) {
  if (ordered(use, before(thread, stream))) return;
  if (!events_allowed(use.stream) || !events_allowed(stream) || random_.chance(15))
    return need_host(thread, use);
  const int event = record(thread, use.stream);
  put({.call = Call::event_wait, .thread = thread, .stream = stream, .event = event});
  join(known_[static_cast<size_t>(stream)], events_[static_cast<size_t>(event)]);
  reach("streams ordered by an event");
}

void Planner::need_host(int thread, const Use& use) {
  if (ordered(use, host(thread))) return;
  const int style = random_.below(events_allowed(use.stream) ? 4 : 2);
  if (style >= 2) {
    const int event = record(thread, use.stream);
    put({.call = style == 2 ? Call::event_sync : Call::event_poll,
         .thread = thread,
         .stream = use.stream,
         .event = event});
    join(host(thread), events_[static_cast<size_t>(event)]);
  } else {
    put({.call = style ? Call::stream_poll : Call::stream_sync, .thread = thread, .stream = use.stream});
    join(host(thread), known_[static_cast<size_t>(use.stream)]);
  }
}

void Planner::access(int thread, int stream, const std::vector<int>& reads, const std::vector<int>& writes) {
  for (int b : reads) need(thread, stream, buffers_[static_cast<size_t>(b)].wrote);
  for (int b : writes) {
    need(thread, stream, buffers_[static_cast<size_t>(b)].wrote);
    for (const Use& use : std::vector<Use>(buffers_[static_cast<size_t>(b)].read)) need(thread, stream, use);
  }
  Clock clock = before(thread, stream);
  for (int b : writes) {
    const Use& last = buffers_[static_cast<size_t>(b)].wrote;
    if (last.stream >= 0 && last.stream != stream &&
        known_[static_cast<size_t>(stream)][static_cast<size_t>(last.stream)] < last.number &&
        host(thread)[static_cast<size_t>(last.stream)] < last.number)
      reach("order from the default stream alone");
  }
  const uint32_t number = ++clock[static_cast<size_t>(stream)];
  known_[static_cast<size_t>(stream)] = clock;
  for (int b : reads) {
    auto& list = buffers_[static_cast<size_t>(b)].read;
    const auto same =
        std::find_if(list.begin(), list.end(), [&](const Use& u) { return u.stream == stream; });
    if (same != list.end())
      same->number = number;
    else
      list.push_back({stream, number});
  }
  for (int b : writes)
    buffers_[static_cast<size_t>(b)].read.clear(), buffers_[static_cast<size_t>(b)].wrote = {stream, number};
}

void Planner::device_op(Op op, const std::vector<int>& reads, const std::vector<int>& writes) {
  access(op.thread, op.stream, reads, writes);
  put(op);
}

void Planner::host_access(int thread, int buffer, bool write) {
  Buffer& b = buffers_[static_cast<size_t>(buffer)];
  need_host(thread, b.wrote);
  if (write) {
    for (const Use& use : std::vector<Use>(b.read)) need_host(thread, use);
    b.read.clear(), b.wrote = {};
  }
  put({.call = write ? Call::host_fill : Call::host_read,
       .thread = thread,
       .buffer = {buffer, -1, -1},
       .value = salt_++});
}

int Planner::new_loose(int thread, int stream, bool async) {
  const int b = plan_.device_buffers + plan_.pinned_buffers + plan_.loose_buffers++;
  buffers_.push_back({});
  if (async)
    device_op({.call = Call::alloc_async, .thread = thread, .stream = stream, .buffer = {b, -1, -1}}, {},
              {b});
  else
    put({.call = Call::alloc, .thread = thread, .buffer = {b, -1, -1}});
  device_op(
      {.call = Call::memset, .thread = thread, .stream = stream, .buffer = {b, -1, -1}, .value = salt_++}, {},
      {b});
  return b;
}

void Planner::end_loose(int thread, int stream, int b, bool async) {
  if (async) {
    device_op({.call = Call::free_async, .thread = thread, .stream = stream, .buffer = {b, -1, -1}}, {}, {b});
    return;
  }
  // cuMemFree waits for what uses the memory: nothing has to be done before.
  put({.call = Call::free, .thread = thread, .buffer = {b, -1, -1}});
  reach("memory freed while kernels may still run");
}

}  // namespace random_program
