#include "runtime/trace/writer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "runtime/base/flat_map.h"
#include "runtime/base/log.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace shunt::trace {

std::atomic<uint32_t> detail::generation{0};
thread_local detail::ThreadState detail::thread __attribute__((tls_model("initial-exec")));

namespace {

using detail::generation;
using detail::thread;

std::atomic<ChunkFile*> g_file{nullptr};
std::atomic<uint32_t> g_last_generation{0};
std::atomic<uint64_t> g_last_clock{0};
std::atomic<uint32_t> g_threads{0};
FileOptions* g_options = nullptr;
pthread_key_t g_key;
pthread_once_t g_once = PTHREAD_ONCE_INIT;

// Strings: under one lock, in a chunk of their own.
struct Meta {
  SpinRwLock lock;
  FlatMap<uint64_t>
      ids;  // hash -> id; a 64-bit collision would merge two texts, and is checked against `texts`
  FlatMap<std::string> texts;
  ChunkHeader* chunk = nullptr;
  uint32_t used = 0;
  uint64_t next = 1;
  uint32_t generation = 0, stacks = 0;
  FlatMap<bool> modules;    // string id of the path -> written
  FlatMap<uint32_t> sites;  // (feature, return address) -> stack id
};
Meta* g_meta = nullptr;

// A thread ends: its half-filled chunk goes to the next thread that needs one.
void thread_ends(void*) {
  detail::ThreadState& t = thread;
  ChunkFile* file = g_file.load(std::memory_order_acquire);
  if (t.chunk && file && t.generation == generation.load(std::memory_order_relaxed)) {
    t.chunk->records = t.records;
    file->park(t.chunk);
  }
  t.chunk = nullptr;
  t.at = t.end = nullptr;
  t.generation = 0;
}

void make_key() { pthread_key_create(&g_key, thread_ends); }

uint64_t hash(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return h;
}

void clock_record() {
  auto* r = static_cast<ClockRecord*>(detail::reserve(sizeof(ClockRecord)));
  if (!r) return;
  r->header = {static_cast<uint16_t>(RecordType::clock), sizeof(ClockRecord), 0, clock::now_ns(), 0};
  r->monotonic_before = clock::monotonic_ns();
  r->realtime = clock::realtime_ns();
  r->boottime = clock::boottime_ns();
#if defined(__x86_64__)
  r->tsc = __rdtsc();
#else
  r->tsc = 0;
#endif
  r->monotonic_after = clock::monotonic_ns();
  detail::commit(sizeof(ClockRecord));
}

ChunkFile* open_file() {
  if (ChunkFile* file = g_file.load(std::memory_order_acquire)) return file;
  if (!g_options) return nullptr;
  auto created = ChunkFile::create(*g_options);
  if (!created) {
    generation.store(0);
    SHUNT_LOG_WARN(trace, "%s", created.error().message.c_str());
    return nullptr;
  }
  ChunkFile* expected = nullptr;
  if (!g_file.compare_exchange_strong(expected, created.value())) {
    unlink(created.value()->path().c_str());  // another thread of the fork child was first
    return expected;
  }
  return created.value();
}

}  // namespace

uint64_t detail::fresh_id_block() {
  return (static_cast<uint64_t>(g_threads.fetch_add(1, std::memory_order_relaxed)) + 1) << 32 | 1;
}

void* detail::reserve_slow(uint16_t size) {
  ThreadState& t = thread;
  const uint32_t now = generation.load(std::memory_order_acquire);
  if (now == 0) return nullptr;
  ChunkFile* file = open_file();
  if (!file) return nullptr;
  if (t.generation != now) {
    t = {nullptr, nullptr, nullptr, t.next_id, now, 0, 0};
    pthread_once(&g_once, make_key);
    pthread_setspecific(g_key, &t);
  }
  if (t.chunk) {
    t.chunk->records = t.records;
    file->retire(t.chunk);
  }
  t.chunk = file->unpark();
  t.records = t.chunk ? static_cast<uint32_t>(t.chunk->records) : 0;
  uint32_t used = 0;
  if (t.chunk) {
    used = t.chunk->committed.load(std::memory_order_relaxed);
    if (used + size + 64 > kChunkBytes - sizeof(ChunkHeader)) {
      file->retire(t.chunk);
      t.chunk = nullptr;
      t.records = 0;
    }
  }
  if (!t.chunk) {
    t.chunk = file->claim(ChunkKind::data);
    used = 0;
  }
  if (!t.chunk) {
    t.at = t.end = nullptr;
    t.lost++;
    file->drop();
    return nullptr;
  }
  t.at = reinterpret_cast<uint8_t*>(t.chunk + 1) + used;
  t.end = reinterpret_cast<uint8_t*>(t.chunk) + kChunkBytes;
  // Whose records follow: chunks are handed on between threads.
  auto* who = reinterpret_cast<CounterRecord*>(t.at);
  who->header = {static_cast<uint16_t>(RecordType::thread), sizeof(CounterRecord), 0, clock::now_ns(),
                 static_cast<uint64_t>(gettid())};
  who->value = 0;
  commit(sizeof(CounterRecord));
  if (t.lost) {
    auto* gap = reinterpret_cast<CounterRecord*>(t.at);
    gap->header = {static_cast<uint16_t>(RecordType::drop), sizeof(CounterRecord), 0, clock::now_ns(),
                   t.lost};
    gap->value = 0;
    commit(sizeof(CounterRecord));
    t.lost = 0;
  }
  // A snapshot a second is enough to tie the clocks together; chunk changes are a free occasion.
  const uint64_t mono = clock::monotonic_ns();
  uint64_t last = g_last_clock.load(std::memory_order_relaxed);
  if (mono - last > 1'000'000'000u && g_last_clock.compare_exchange_strong(last, mono)) clock_record();
  return t.at + size <= t.end ? t.at : nullptr;
}

bool start(const FileOptions& options) {
  if (active()) return true;
  if (!g_options) g_options = new FileOptions();
  *g_options = options;
  if (!g_meta) g_meta = new Meta();
  if (!open_file()) return false;
  generation.store(g_last_generation.fetch_add(1) + 1, std::memory_order_release);
  clock_record();
  return true;
}

void stop() {
  if (!active()) return;
  clock_record();
  if (auto* r = static_cast<CounterRecord*>(detail::reserve(sizeof(CounterRecord)))) {
    r->header = {static_cast<uint16_t>(RecordType::end), sizeof(CounterRecord), 0, clock::now_ns(), 0};
    r->value = 0;
    detail::commit(sizeof(CounterRecord));
  }
  generation.store(0, std::memory_order_release);
  if (ChunkFile* file = g_file.exchange(nullptr))
    file->close();  // stays mapped: another thread may be in a record
}

void fork_child() {
  if (!active()) return;
  g_file.store(nullptr, std::memory_order_relaxed);
  g_last_clock.store(0, std::memory_order_relaxed);
  g_meta = new Meta();  // the parent's may be locked by a thread that does not exist here
  generation.store(g_last_generation.fetch_add(1) + 1, std::memory_order_release);
}

const char* file_path() {
  ChunkFile* file = g_file.load(std::memory_order_acquire);
  return file ? file->path().c_str() : "";
}

namespace {

// Under meta.lock: what was known belongs to another file.
void renew(Meta& meta, uint32_t now) {
  if (meta.generation == now) return;
  meta.ids.clear();
  meta.texts.clear();
  meta.modules.clear();
  meta.sites.clear();
  meta.chunk = nullptr;
  meta.next = 1;
  meta.stacks = 0;
  meta.generation = now;
}

// Under meta.lock: one record of the kinds a ring never recycles. False: no room, counted.
bool append(Meta& meta, ChunkFile* file, RecordType type, uint32_t flags, uint64_t id, const void* fields,
            size_t field_bytes, const void* payload, size_t payload_bytes) {
  const size_t whole = (sizeof(RecordHeader) + field_bytes + payload_bytes + 15) & ~size_t{15};
  const auto bytes = static_cast<uint16_t>(std::max<size_t>(whole, kMinRecordBytes));
  if (!meta.chunk || meta.used + bytes > kChunkBytes - sizeof(ChunkHeader)) {
    meta.chunk = file->claim(
        ChunkKind::meta);  // the old one stays mapped and, in a ring, busy: strings are never recycled
    meta.used = 0;
    if (!meta.chunk) {
      file->drop();
      return false;
    }
  }
  uint8_t* at = reinterpret_cast<uint8_t*>(meta.chunk + 1) + meta.used;
  const RecordHeader header{static_cast<uint16_t>(type), bytes, flags, clock::now_ns(), id};
  memset(at, 0, bytes);
  memcpy(at, &header, sizeof header);
  if (field_bytes) memcpy(at + sizeof header, fields, field_bytes);
  if (payload_bytes) memcpy(at + sizeof header + field_bytes, payload, payload_bytes);
  meta.used += bytes;
  meta.chunk->committed.store(meta.used, std::memory_order_release);
  return true;
}

uint64_t string_id_locked(Meta& meta, ChunkFile* file, std::string_view text) {
  text = text.substr(0, 32000);
  const uint64_t key = hash(text);
  if (const uint64_t* known = meta.ids.find(key); known && *meta.texts.find(*known) == text) return *known;
  const uint64_t id = meta.next;
  if (!append(meta, file, RecordType::string, static_cast<uint32_t>(text.size()), id, nullptr, 0, text.data(),
              text.size()))
    return 0;
  meta.next++;
  meta.ids.put(key, id);
  meta.texts.put(id, std::string(text));
  return id;
}

// What `add` does under the lock of the present file's numbering; 0 while nothing is recorded.
template <class F>
auto with_meta(F&& add) -> decltype(add(*g_meta, static_cast<ChunkFile*>(nullptr))) {
  const uint32_t now = generation.load(std::memory_order_acquire);
  ChunkFile* file = now ? open_file() : nullptr;
  if (!file) return 0;
  Meta& meta = *g_meta;
  WriteGuard guard(meta.lock);
  renew(meta, now);
  return add(meta, file);
}

}  // namespace

uint64_t string_id(std::string_view text) {
  return with_meta([&](Meta& meta, ChunkFile* file) { return string_id_locked(meta, file, text); });
}

uint64_t detail::module_id(std::string_view path, const uint8_t* build_id, uint32_t build_id_bytes) {
  return with_meta([&](Meta& meta, ChunkFile* file) {
    const uint64_t id = string_id_locked(meta, file, path);
    if (id != 0 && !meta.modules.find(id) &&
        append(meta, file, RecordType::module, build_id_bytes, id, nullptr, 0, build_id, build_id_bytes))
      meta.modules.put(id, true);
    return id;
  });
}

void detail::name_record(RecordType type, uint32_t flags, uint64_t id, std::string_view name) {
  with_meta([&](Meta& meta, ChunkFile* file) {
    const uint64_t text = string_id_locked(meta, file, name);
    return text != 0 && append(meta, file, type, flags, id, &text, sizeof text, nullptr, 0);
  });
}

uint32_t detail::stack_id(const StackFrame* frames, uint32_t count) {
  return with_meta([&](Meta& meta, ChunkFile* file) -> uint32_t {
    const uint32_t id = meta.stacks + 1, python[2] = {};
    if (!append(meta, file, RecordType::stack, count, id, python, sizeof python, frames,
                count * sizeof *frames))
      return 0;
    return meta.stacks = id;
  });
}

uint32_t detail::known_site(uint64_t key) {
  Meta& meta = *g_meta;
  SharedGuard guard(meta.lock);
  if (meta.generation != generation.load(std::memory_order_acquire)) return 0;
  const uint32_t* known = meta.sites.find(key);
  return known ? *known : 0;
}

void detail::remember_site(uint64_t key, uint32_t stack) {
  Meta& meta = *g_meta;
  WriteGuard guard(meta.lock);
  if (meta.generation == generation.load(std::memory_order_acquire)) meta.sites.put(key, stack);
}

void counter(uint64_t name_id, uint64_t value) {
  if (!active()) return;
  auto* r = static_cast<CounterRecord*>(detail::reserve(sizeof(CounterRecord)));
  if (!r) return;
  r->header = {static_cast<uint16_t>(RecordType::counter), sizeof(CounterRecord), 0, clock::now_ns(),
               name_id};
  r->value = value;
  detail::commit(sizeof(CounterRecord));
}

void setting(std::string_view name, std::string_view value, std::string_view origin) {
  if (!active()) return;
  const uint64_t id =
      string_id(std::string(name) + "=" + std::string(value) + " (" + std::string(origin) + ")");
  auto* r = static_cast<CounterRecord*>(detail::reserve(sizeof(CounterRecord)));
  if (!r) return;
  r->header = {static_cast<uint16_t>(RecordType::setting), sizeof(CounterRecord), 0, clock::now_ns(), id};
  r->value = 0;
  detail::commit(sizeof(CounterRecord));
}

}  // namespace shunt::trace
