// Trace writer: every decision and, if asked for, driver call becomes one fixed-size record in a chunk of
// memory-mapped file that belongs to the calling thread. No lock, no system call and no allocation per record
// (one chunk claim per ~4000 records); what was written survives SIGKILL. Any thread. A fork child starts its
// own file at its next record. Leaked.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/trace/call_site.h"
#include "runtime/trace/chunks.h"
#include "runtime/trace/decision.h"
#include "runtime/trace/format.h"
#include "runtime/trace/nvtx.h"

namespace shunt::trace {

namespace detail {
extern std::atomic<uint32_t> generation;  // 0: off. Changes at start(), stop() and in fork children
struct ThreadState {
  uint8_t* at = nullptr;
  uint8_t* end = nullptr;
  ChunkHeader* chunk = nullptr;
  uint64_t next_id = 0;  // high bits: thread, so that ids need no shared counter
  uint32_t generation = 0;
  uint32_t lost = 0;
  uint32_t records = 0;  // in this chunk
};
extern thread_local ThreadState thread __attribute__((tls_model("initial-exec")));
void* reserve_slow(uint16_t size);
uint64_t fresh_id_block();
// Call sites (call_site.cpp): numbered per file and, like strings, kept out of a ring's recycling. 0: no
// room.
uint64_t module_id(std::string_view path, const uint8_t* build_id, uint32_t build_id_bytes);
// A STREAM or THREAD record with its name.
void name_record(RecordType type, uint32_t flags, uint64_t id, std::string_view name);
uint32_t stack_id(const StackFrame* frames, uint32_t count);
uint32_t known_site(uint64_t key);  // 0: not seen in this file
void remember_site(uint64_t key, uint32_t stack);

inline void* reserve(uint16_t size) {
  ThreadState& t = thread;
  if (__builtin_expect(t.generation == generation.load(std::memory_order_relaxed) && t.at + size <= t.end, 1))
    return t.at;
  return reserve_slow(size);
}
inline void commit(uint16_t size) {
  ThreadState& t = thread;
  t.at += size;
  t.records++;
  t.chunk->committed.store(static_cast<uint32_t>(t.at - reinterpret_cast<uint8_t*>(t.chunk + 1)),
                           std::memory_order_release);
}
}  // namespace detail

// Opens the process's file. False with the reason logged; recording then stays off.
bool start(const FileOptions& options);
inline bool active() { return detail::generation.load(std::memory_order_relaxed) != 0; }
// Orderly end: clock snapshot, END record, state `closed`. Records of other threads after it are dropped.
void stop();
// In a fork child: forget the parent's chunks; the first record opens a new file.
void fork_child();
const char* file_path();  // "" when off

// Unique in the process, never 0.
inline uint64_t new_id() {
  detail::ThreadState& t = detail::thread;
  if ((t.next_id & 0xFFFF'FFFFu) == 0) t.next_id = detail::fresh_id_block();
  return t.next_id++;
}

// Records a decision; returns its id (also when tracing is off, so that NVTX payloads and logs can name it).
inline uint64_t decide(const Decision& d, RecordType type = RecordType::decision, uint64_t id = 0) {
  if (id == 0) id = new_id();
  if (nvtx::active() && type != RecordType::decision_end) nvtx::detail::mark(id, d);
  if (!active()) return id;
  const uint32_t stack = d.stack ? d.stack : call_site(d.feature);
  auto* r = static_cast<DecisionRecord*>(detail::reserve(sizeof(DecisionRecord)));
  if (!r) return id;
  r->header = {static_cast<uint16_t>(type), sizeof(DecisionRecord), 0, clock::now_ns(), id};
  r->feature = static_cast<uint8_t>(d.feature);
  r->action = static_cast<uint8_t>(d.action);
  r->reason = static_cast<uint16_t>(d.reason);
  r->device = d.device;
  r->outcome = static_cast<uint8_t>(d.outcome);
  r->reserved = 0;
  r->stream = d.stream;
  r->context = d.context;
  r->bytes = d.bytes;
  r->stack = stack;
  r->correlation = d.correlation;
  detail::commit(sizeof(DecisionRecord));
  return id;
}

inline void call(uint16_t slot, uint16_t op_class, int32_t result, uint64_t object, uint64_t stream,
                 uint64_t value) {
  if (!active()) return;
  auto* r = static_cast<CallRecord*>(detail::reserve(sizeof(CallRecord)));
  if (!r) return;
  r->header = {static_cast<uint16_t>(RecordType::call), sizeof(CallRecord), 0, clock::now_ns(), object};
  r->slot = slot;
  r->op_class = op_class;
  r->result = result;
  r->stream = stream;
  r->value = value;
  detail::commit(sizeof(CallRecord));
}

// Number of a text, stored once per file (meta chunk). Takes a lock: not for hot paths. 0 when tracing is
// off.
uint64_t string_id(std::string_view text);
void counter(uint64_t name_id, uint64_t value);
void setting(std::string_view name, std::string_view value, std::string_view origin);

}  // namespace shunt::trace
