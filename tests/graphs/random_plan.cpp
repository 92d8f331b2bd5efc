#include "tests/graphs/random_planner.h"

namespace random_program {
namespace {

const char* const kNames[] = {"launch",
                              "launch_ex",
                              "launch_extra",
                              "launch_bad",
                              "launch_shared",
                              "memset",
                              "copy_device",
                              "copy_in",
                              "copy_out",
                              "copy_pageable",
                              "copy_sync",
                              "host_fill",
                              "host_read",
                              "event_record",
                              "event_wait",
                              "event_sync",
                              "event_query",
                              "event_poll",
                              "stream_sync",
                              "stream_query",
                              "stream_poll",
                              "context_sync",
                              "host_function",
                              "stream_callback",
                              "watch",
                              "alloc",
                              "free",
                              "alloc_async",
                              "free_async",
                              "pool_trim",
                              "function_attribute",
                              "cache_config",
                              "stream_attribute",
                              "stream_new",
                              "module_load",
                              "module_unload",
                              "capture",
                              "capture_bad"};
static_assert(sizeof kNames / sizeof *kNames == static_cast<size_t>(Call::count));

}  // namespace

std::vector<Intent> Planner::body(int length) {
  std::vector<Intent> out;
  const int main_thread = random_.below(plan_.threads);
  const int main_stream = pick_stream(main_thread);
  const bool hops = plan_.strict && plan_.threads > 1 && random_.chance(50);
  const int dirty = (int[]){0, 10, 50, 100}[random_.below(4)];
  const bool calm = random_.chance(75);  // hardly anything but launches, always the same ones
  const bool one_stream = random_.chance(calm ? 75 : 50);
  for (int i = 0; i < length; ++i) {
    Intent in;
    in.thread = hops ? random_.below(plan_.threads) : main_thread;
    in.stream = one_stream ? main_stream : pick_stream(main_thread);
    in.kernel = random_.below(3);
    in.write = pick_buffer(main_thread);
    for (int& r : in.read) r = pick_buffer(main_thread);
    in.dirty = random_.chance(dirty);
    in.ping_pong = random_.chance(20);
    in.branch = !calm && random_.chance(6) ? 1 + random_.below(6) : 0;
    // Mostly plain launches: runs of them are what the engine is for.
    const int die = random_.below(calm && !random_.chance(5) ? 166 : 200);
    in.call = die < 166   ? Call::launch
              : die < 170 ? Call::launch_ex
              : die < 173 ? Call::launch_extra
              : die < 178 ? Call::memset
              : die < 183 ? Call::copy_device
              : die < 186 ? Call::copy_in
              : die < 189 ? Call::copy_out
              : die < 191 ? Call::copy_pageable
              : die < 193 ? Call::host_function
              : die < 194 ? Call::stream_callback
              : die < 196 ? Call::alloc_async
              : die < 198 ? Call::event_query
              : die < 199 ? Call::stream_query
                          : Call::launch_bad;
    if (in.call == Call::launch_extra) in.kernel = static_cast<int>(Kernel::mix);
    out.push_back(in);
  }
  return out;
}

void Planner::emit_intent(const Intent& in, int iteration) {
  if (in.branch && random_.below(in.branch + 1)) {
    reach("a step left out");
    return;
  }
  int write = in.write, read = in.read[0];
  if (in.ping_pong && iteration % 2) std::swap(write, read), reach("buffers swapped");
  const uint32_t value =
      in.dirty ? static_cast<uint32_t>(iteration) * 7919u + 1 : static_cast<uint32_t>(in.write) + 3;
  if (in.dirty) reach("a parameter that changes");
  Op op{.call = in.call,
        .thread = in.thread,
        .stream = in.stream,
        .buffer = {write, read, in.read[1]},
        .value = value};
  switch (in.call) {
    case Call::launch_bad:
      op.a = static_cast<uint32_t>(random_.below(4));
      put(op);
      break;
    case Call::memset:
      device_op(op, {}, {write});
      break;
    case Call::copy_device:
      if (write != read) device_op(op, {read}, {write});
      break;
    case Call::copy_in: {
      const int p = pinned_of(in.thread);
      if (in.dirty) host_access(in.thread, p, true);
      op.buffer[1] = p;
      device_op(op, {p}, {write});
      break;
    }
    case Call::copy_out: {
      const int p = pinned_of(in.thread);
      op.buffer[0] = p, op.buffer[1] = read;
      device_op(op, {read}, {p});
      if (random_.chance(50)) host_access(in.thread, p, false);
      break;
    }
    case Call::copy_pageable:
      device_op(op, {}, {write});
      break;
    case Call::host_function:
    case Call::stream_callback: {
      if (in.call == Call::stream_callback && owners_ > 1) op.call = Call::host_function;
      const int p = pinned_of(in.thread);
      op.buffer[0] = -1, op.buffer[1] = p;
      device_op(op, {p}, {});
      break;
    }
    case Call::alloc_async: {
      const int b = new_loose(in.thread, in.stream, true);
      op.call = Call::launch, op.a = static_cast<uint32_t>(Kernel::mix), op.buffer[1] = b, op.buffer[2] = b;
      device_op(op, {b}, {write});
      end_loose(in.thread, in.stream, b, true);
      break;
    }
    case Call::event_query:
      if (!events_allowed(in.stream)) break;
      op.event = record(in.thread, in.stream);
      put(op);
      break;
    case Call::stream_query:
      put(op);
      break;
    default: {
      op.a = static_cast<uint32_t>(in.kernel);
      if (in.kernel == static_cast<int>(Kernel::odd))
        device_op(op, {}, {write});
      else
        device_op(op,
                  in.kernel == static_cast<int>(Kernel::mix) ? std::vector<int>{read, in.read[1]}
                                                             : std::vector<int>{read},
                  {write});
      if (plan_.streams[static_cast<size_t>(in.stream)] == Stream::legacy)
        reach("launch into the legacy stream");
      if (plan_.streams[static_cast<size_t>(in.stream)] == Stream::per_thread)
        reach("launch into the per-thread stream");
    }
  }
}

// Something that does not belong to the loop.
void Planner::odd_call(int thread, int iteration) {
  const int stream = pick_stream(thread);
  const Stream role = plan_.streams[static_cast<size_t>(stream)];
  const bool created = role != Stream::legacy && role != Stream::per_thread;
  const int b = pick_buffer(thread);
  const uint32_t value = salt_++;
  int die = random_.below(13);
  if (quiet_) die = (int[]){3, 4, 7, 10}[die % 4];
  switch (die) {
    case 0: {  // plain allocation, freed while in use
      const int fresh = new_loose(thread, stream, false);
      device_op({.call = Call::launch,
                 .thread = thread,
                 .stream = stream,
                 .buffer = {b, fresh, fresh},
                 .value = value},
                {fresh}, {b});
      end_loose(thread, stream, fresh, false);
      break;
    }
    case 1:
      put({.call = Call::pool_trim, .thread = thread});
      break;
    case 2:
      // A launch that is refused before the attribute is set and after it is taken back.
      if (owners_ > 1) break;
      for (const uint32_t bytes : {48u * 1024, 64u * 1024, 48u * 1024}) {
        put({.call = Call::function_attribute, .thread = thread, .value = bytes});
        device_op({.call = Call::launch_shared,
                   .thread = thread,
                   .stream = stream,
                   .buffer = {b, b, -1},
                   .a = 60000,
                   .value = value},
                  {}, {b});
      }
      break;
    case 3:
      put({.call = Call::cache_config, .thread = thread, .value = value % 4});
      break;
    case 4:
      put({.call = Call::stream_attribute, .thread = thread, .stream = stream});
      break;
    case 5: {
      if (!created) break;
      // Destroyed while it works: what it still does stays in order through an event.
      const int event = record(thread, stream);
      put({.call = Call::stream_new, .thread = thread, .stream = stream});
      put({.call = Call::event_wait, .thread = thread, .stream = stream, .event = event});
      reach("a working stream destroyed");
      break;
    }
    case 6: {
      put({.call = Call::module_load, .thread = thread, .value = value});
      for (int i = 0; i < 6; ++i)
        device_op({.call = Call::launch,
                   .thread = thread,
                   .stream = stream,
                   .buffer = {b, -1, -1},
                   .a = static_cast<uint32_t>(Kernel::use_global),
                   .value = value},
                  {}, {b});
      need_host(thread, buffers_[static_cast<size_t>(b)].wrote);
      put({.call = Call::module_unload, .thread = thread});
      break;
    }
    case 7:
    case 8:
      if (!options_.captures || !created || (owners_ > 1 && !quiet_)) break;
      if (owners_ > 1) reach("a capture beside other threads");
      device_op({.call = Call::capture,
                 .thread = thread,
                 .stream = stream,
                 .buffer = {b, b, b},
                 .a = 1u + static_cast<uint32_t>(random_.below(5)) +
                      (owners_ > 1 ? 0x200u : 0x100u * static_cast<uint32_t>(random_.below(3))),
                 .value = value},
                {}, {b});
      break;
    case 9:
      if (!options_.captures || !created || owners_ > 1) break;
      put({.call = Call::capture_bad,
           .thread = thread,
           .stream = stream,
           .buffer = {b, b, b},
           .value = value});
      break;
    case 10: {
      const int p = pinned_of(thread);
      host_access(thread, p, true);
      device_op({.call = Call::launch,
                 .thread = thread,
                 .stream = stream,
                 .buffer = {p, b, -1},
                 .a = static_cast<uint32_t>(Kernel::signal_host),
                 .value = value},
                {b}, {p});
      Op watch{
          .call = Call::watch, .thread = thread, .stream = stream, .buffer = {p, -1, -1}, .value = value};
      // What the thread learns from the word is not used for order: only calls are, as for the race detector.
      put(watch);
      break;
    }
    case 11: {
      Op copy{.call = Call::copy_sync,
              .thread = thread,
              .buffer = {b, -1, -1},
              .a = static_cast<uint32_t>(random_.below(2)),
              .value = value};
      Buffer& it = buffers_[static_cast<size_t>(b)];
      if (const int legacy = legacy_of(thread); legacy >= 0) {
        // The copy itself waits for what blocking streams do.
        copy.stream = legacy;
        copy.a ? device_op(copy, {b}, {}) : device_op(copy, {}, {b});
        join(host(thread), known_[static_cast<size_t>(legacy)]);
        reach("a synchronous copy that waits by itself");
        break;
      }
      need_host(thread, it.wrote);
      if (!copy.a) {
        for (const Use& use : std::vector<Use>(it.read)) need_host(thread, use);
        it.read.clear(), it.wrote = {};
      }
      put(copy);
      break;
    }
    default:
      put({.call = Call::context_sync, .thread = thread});
      for (size_t s = 0; s < plan_.streams.size(); ++s) {
        if (owners_ > 1 && plan_.stream_thread[s] != thread) continue;
        join(host(thread), known_[s]);
      }
  }
}

void Planner::end_of_iteration(int style, int thread, int stream, int iteration) {
  switch (style) {
    case 0:
      return;
    case 1:
      put({.call = Call::stream_sync, .thread = thread, .stream = stream});
      join(host(thread), known_[static_cast<size_t>(stream)]);
      return;
    case 2:
      put({.call = Call::stream_poll, .thread = thread, .stream = stream});
      join(host(thread), known_[static_cast<size_t>(stream)]);
      return;
    case 3: {
      if (!events_allowed(stream)) return;
      const int event = record(thread, stream);
      put({.call = Call::event_sync, .thread = thread, .stream = stream, .event = event});
      join(host(thread), events_[static_cast<size_t>(event)]);
      return;
    }
    case 4: {
      const int p = pinned_of(thread), b = pick_buffer(thread);
      device_op({.call = Call::copy_out, .thread = thread, .stream = stream, .buffer = {p, b, -1}}, {b}, {p});
      host_access(thread, p, false);
      return;
    }
    default:
      if (iteration % 4 == 3) put({.call = Call::stream_query, .thread = thread, .stream = stream});
  }
}

void Planner::loop() {
  const int length = random_.chance(15) ? 1 + random_.below(4) : 5 + random_.below(30);
  const int repeats = random_.chance(15)   ? 2 + random_.below(6)
                      : random_.chance(40) ? 60 + random_.below(120)
                                           : 12 + random_.below(20);
  const std::vector<Intent> steps = body(length);
  const int style = random_.below(6);
  const int disturb = (int[]){0, 0, 2, 25}[random_.below(4)];
  for (int i = 0; i < repeats; ++i) {
    for (const Intent& in : steps) {
      emit_intent(in, i);
      if (disturb && random_.chance(disturb) && random_.chance(12)) odd_call(in.thread, i);
    }
    end_of_iteration(style, steps.front().thread, steps.front().stream, i);
  }
  reach(repeats >= 12 && length >= 5 ? "a loop worth following" : "a loop too short");
}

Plan Planner::make() {
  plan_.threads = random_.chance(50) ? 1 : 2 + random_.below(2);
  plan_.strict = random_.chance(50) || plan_.threads == 1 || !options_.side_by_side;
  owners_ = plan_.strict ? 1 : plan_.threads;
  quiet_ = owners_ > 1 && options_.captures && random_.chance(40);
  reach(plan_.threads == 1 ? "one thread" : plan_.strict ? "threads taking turns" : "threads side by side");
  own_streams_.resize(static_cast<size_t>(owners_));
  for (int o = 0; o < owners_; ++o) {
    const int n = 1 + random_.below(3);
    for (int i = 0; i < n; ++i) {
      Stream role = static_cast<Stream>(random_.below(5));
      if (quiet_ && (role == Stream::legacy || role == Stream::blocking)) role = Stream::non_blocking;
      // A per-thread stream means another one on each thread: only where a stream has one thread.
      if (role == Stream::per_thread && plan_.strict && plan_.threads > 1) role = Stream::blocking;
      if (role == Stream::legacy && owners_ > 1 && o > 0) role = Stream::blocking;
      bool there = false;
      if (role == Stream::legacy || role == Stream::per_thread)
        for (int s : own_streams_[static_cast<size_t>(o)])
          there |= plan_.streams[static_cast<size_t>(s)] == role;
      if (there) role = Stream::non_blocking;
      own_streams_[static_cast<size_t>(o)].push_back(static_cast<int>(plan_.streams.size()));
      plan_.streams.push_back(role);
      plan_.stream_thread.push_back(o);
    }
  }
  plan_.events = kEvents * owners_;
  events_.assign(static_cast<size_t>(plan_.events), Clock(plan_.streams.size(), 0));
  plan_.device_buffers = 5 * owners_;
  plan_.pinned_buffers = 3 * owners_;
  plan_.ops.resize(static_cast<size_t>(plan_.threads));
  known_.assign(plan_.streams.size(), Clock(plan_.streams.size(), 0));
  host_.assign(static_cast<size_t>(plan_.threads), Clock(plan_.streams.size(), 0));
  buffers_.resize(static_cast<size_t>(plan_.buffers()));
  const int loops = 1 + random_.below(3) + (owners_ > 1 ? owners_ : 0);
  for (int i = 0; i < loops; ++i) loop();
  return std::move(plan_);
}

const char* name(Call call) { return kNames[static_cast<size_t>(call)]; }

Plan make_plan(uint64_t seed, const Options& options) { return Planner(seed, options).make(); }

}  // namespace random_program
