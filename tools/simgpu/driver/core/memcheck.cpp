#include "tools/simgpu/driver/core/memcheck.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>

#include "tools/simgpu/driver/core/context.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/memory.h"
#include "tools/simgpu/driver/core/ops.h"

namespace simgpu::driver {
namespace {

// One bit a byte, zero when fresh: calloc gives untouched pages nothing but address space.
struct Shadow {
  uint64_t base = 0, size = 0;
  uint64_t* words = nullptr;
  Shadow(uint64_t b, uint64_t s)
      : base(b), size(s), words(static_cast<uint64_t*>(calloc((s + 63) / 64, sizeof(uint64_t)))) {}
  ~Shadow() { free(words); }
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;
};
using ShadowRef = std::shared_ptr<Shadow>;

// Visits the bits of [from, to) a word at a time: f(word, mask, first bit).
template <class F>
void each_word(Shadow& s, uint64_t from, uint64_t to, F&& f) {
  for (uint64_t at = from; at < to;) {
    const uint64_t bit = at % 64, n = std::min(to - at, 64 - bit);
    const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << bit;
    if (!f(s.words[at / 64], mask, at - bit)) return;
    at += n;
  }
}

class Memcheck final : public exec::WriteWatch {
 public:
  void track(uint64_t base, uint64_t size) {
    auto shadow = std::make_shared<Shadow>(base, size);
    if (!shadow->words) return;  // too little host memory: this one goes unchecked
    std::unique_lock lock(mutex_);
    shadows_[base] = std::move(shadow);
    generation_.fetch_add(1, std::memory_order_release);
  }
  void forget(uint64_t base) {
    std::unique_lock lock(mutex_);
    if (shadows_.erase(base)) generation_.fetch_add(1, std::memory_order_release);
  }
  void written(uint64_t address, uint64_t bytes) override {
    const ShadowRef s = find(address);
    if (!s) return;
    const uint64_t from = address - s->base, to = std::min(from + bytes, s->size);
    each_word(*s, from, to, [](uint64_t& word, uint64_t mask, uint64_t) {
      if ((__atomic_load_n(&word, __ATOMIC_RELAXED) & mask) != mask)
        __atomic_fetch_or(&word, mask, __ATOMIC_RELAXED);
      return true;
    });
  }
  bool is_written(uint64_t address, uint64_t bytes, uint64_t& first) const override {
    const ShadowRef s = find(address);
    if (!s) return true;
    const uint64_t from = address - s->base, to = std::min(from + bytes, s->size);
    bool whole = true;
    each_word(*s, from, to, [&](uint64_t& word, uint64_t mask, uint64_t start) {
      const uint64_t missing = mask & ~__atomic_load_n(&word, __ATOMIC_RELAXED);
      if (!missing) return true;
      first = s->base + start + uint64_t(__builtin_ctzll(missing));
      return whole = false;
    });
    return whole;
  }
  void unwritten_read(const exec::UnwrittenRead& r) override {
    std::string who = "kernel '" + r.kernel + "' (PTX line " + std::to_string(r.line) + ", block (" +
                      std::to_string(r.block.x) + "," + std::to_string(r.block.y) + "," +
                      std::to_string(r.block.z) + "), thread (" + std::to_string(r.thread.x) + "," +
                      std::to_string(r.thread.y) + "," + std::to_string(r.thread.z) + "))";
    report(r.kernel + ":" + std::to_string(r.line), who, r.address);
  }
  void report(const std::string& key, const std::string& who, uint64_t address) {
    reports_.fetch_add(1);
    {
      std::unique_lock lock(mutex_);
      if (!reported_.insert(key).second) return;
    }
    const AllocationRef a = MemoryMap::get().find(address);
    char place[160] = "";
    if (a) {
      snprintf(place, sizeof place, "byte %llu of the %llu-byte allocation at 0x%llx on device %d",
               (unsigned long long)(address - a->base), (unsigned long long)a->size,
               (unsigned long long)a->base, a->device);
    }
    log_line(LogLevel::error,
             "memcheck: %s reads %s (address 0x%llx), which nothing has written since it was allocated",
             who.c_str(), place, (unsigned long long)address);
  }
  // Device to device: the destination is as initialised as the source.
  void carry(uint64_t to, uint64_t from, uint64_t bytes) {
    const ShadowRef d = find(to), s = find(from);
    if (!d) return;
    if (!s) return written(to, bytes);
    for (uint64_t i = 0; i < bytes; ++i) {
      const uint64_t at = from + i - s->base, into = to + i - d->base;
      if (at >= s->size || into >= d->size) return;
      const uint64_t bit = uint64_t{1} << (into % 64);
      if (__atomic_load_n(&s->words[at / 64], __ATOMIC_RELAXED) >> (at % 64) & 1)
        __atomic_fetch_or(&d->words[into / 64], bit, __ATOMIC_RELAXED);
      else
        __atomic_fetch_and(&d->words[into / 64], ~bit, __ATOMIC_RELAXED);
    }
  }
  bool tracked(uint64_t address) const { return find(address) != nullptr; }
  MemcheckCounts counts() const {
    std::shared_lock lock(mutex_);
    MemcheckCounts c;
    c.reports = reports_.load();
    for (const auto& [base, s] : shadows_) c.shadow_bytes += s->size / 8;
    return c;
  }
  void trust(uint64_t address) {
    if (const ShadowRef s = find(address)) written(s->base, s->size);
  }

 private:
  ShadowRef find(uint64_t address) const {
    struct Last {
      uint64_t generation = ~uint64_t{0};
      ShadowRef shadow;
    };
    thread_local Last last;
    const uint64_t now = generation_.load(std::memory_order_acquire);
    if (last.generation == now && last.shadow && address - last.shadow->base < last.shadow->size)
      return last.shadow;
    std::shared_lock lock(mutex_);
    auto it = shadows_.upper_bound(address);
    if (it == shadows_.begin()) return nullptr;
    --it;
    if (address - it->first >= it->second->size) return nullptr;
    last = {generation_.load(std::memory_order_relaxed), it->second};
    return it->second;
  }
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, ShadowRef> shadows_;
  std::set<std::string> reported_;
  std::atomic<uint64_t> generation_{0}, reports_{0};
};
Memcheck& memcheck() {
  static Memcheck* const instance = new Memcheck;
  return *instance;
}
}  // namespace

bool memcheck_on() {
  static const bool on = [] {
    const char* text = getenv("SIMGPU_MEMCHECK");
    if (!text || !*text || !strcmp(text, "off")) return false;
    if (strcmp(text, "report") != 0)
      log_line(LogLevel::error, "SIMGPU_MEMCHECK=%s is not report or off: using report", text);
    return true;
  }();
  return on;
}

void memcheck_track(const Allocation& a) {
  if (a.kind == MemoryKind::device || a.kind == MemoryKind::pool) memcheck().track(a.base, a.size);
}
void memcheck_forget(uint64_t base) { memcheck().forget(base); }
void memcheck_trust(uint64_t address) { memcheck().trust(address); }
exec::WriteWatch* memcheck_watch() { return memcheck_on() ? &memcheck() : nullptr; }
MemcheckCounts memcheck_counts() { return memcheck().counts(); }

void memcheck_executed(Op& op) {
  if (op.abandoned || op.body->kind == OpKind::kernel) return;
  std::vector<exec::Access> list = op.extra_accesses;
  op.body->accesses(op, list);
  if (op.body->kind == OpKind::memory_write) {
    const auto& write = static_cast<const MemoryWriteBody&>(*op.body);
    list.push_back({write.address, write.address + (write.wide ? 8 : 4), exec::Access::write});
  }
  const bool copies = op.body->kind == OpKind::memcpy && list.size() % 2 == 0;
  const size_t half = list.size() / 2;
  for (size_t i = 0; i < list.size(); ++i) {
    const exec::Access& a = list[i];
    const uint64_t bytes = a.end - a.base;
    if (a.kind == exec::Access::write) {
      const bool paired = copies && i >= half && list[i - half].kind == exec::Access::read &&
                          list[i - half].end - list[i - half].base == bytes;
      if (paired)
        memcheck().carry(a.base, list[i - half].base, bytes);
      else
        memcheck().written(a.base, bytes);
      continue;
    }
    // What stays on devices is judged when somebody uses it.
    if (copies && i < half && list[i + half].kind == exec::Access::write &&
        list[i + half].end - list[i + half].base == bytes && memcheck().tracked(list[i + half].base))
      continue;
    uint64_t first = 0;
    if (!memcheck().is_written(a.base, bytes, first)) {
      const std::string name = op.body->name();
      memcheck().report(name + "@" + std::to_string(a.base),
                        "'" + name + "' (#" + std::to_string(op.seq) + ", stream " +
                            std::to_string(op.stream ? op.stream->id : 0) + ")",
                        first);
    }
  }
}
}  // namespace simgpu::driver
