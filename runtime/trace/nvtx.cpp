#include "runtime/trace/nvtx.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#if __has_include(<nvtx3/nvToolsExt.h>) && __has_include(<cuda.h>)
#define SHUNT_HAS_NVTX 1
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#endif

namespace shunt::trace::nvtx {

std::atomic<bool> detail::wanted{false};

#if SHUNT_HAS_NVTX
namespace {

struct State {
  std::atomic<nvtxDomainHandle_t> domain{nullptr};
  SpinRwLock lock;
  FlatMap<nvtxStringHandle_t> strings;  // hash of the text -> handle
};
std::atomic<State*> g_state{nullptr};

uint64_t hash(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return h;
}

nvtxDomainHandle_t domain(State& state) {
  if (nvtxDomainHandle_t known = state.domain.load(std::memory_order_acquire)) return known;
  nvtxDomainHandle_t created = nvtxDomainCreateA("shunt");
  if (!created) {  // no tool took the call
    detail::wanted.store(false, std::memory_order_relaxed);
    return nullptr;
  }
  nvtxDomainHandle_t expected = nullptr;
  if (!state.domain.compare_exchange_strong(expected, created)) return expected;
#define SHUNT_FEATURE(number, id, name) nvtxDomainNameCategoryA(created, (number) + 1u, name);
#include "runtime/trace/actions.def"
#undef SHUNT_FEATURE
  return created;
}

// Registered outside the lock: the tool may take its time, or call the driver and so come back here. Two
// threads may register one text; tools answer with handles of equal meaning.
nvtxStringHandle_t registered(State& state, nvtxDomainHandle_t in, uint64_t key, const char* text) {
  {
    SharedGuard guard(state.lock);
    if (const nvtxStringHandle_t* known = state.strings.find(key)) return *known;
  }
  nvtxStringHandle_t handle = nvtxDomainRegisterStringA(in, text);
  WriteGuard guard(state.lock);
  state.strings.put(key, handle);
  return handle;
}

nvtxEventAttributes_t event(Feature feature, nvtxStringHandle_t text, uint64_t id) {
  nvtxEventAttributes_t e{};
  e.version = NVTX_VERSION;
  e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  e.category = static_cast<uint32_t>(feature) + 1;  // 0 means "none" to NVTX
  e.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  e.payload.ullValue = id;
  e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  e.message.registered = text;
  return e;
}

}  // namespace

void start(bool enabled) {
  const char* tool = getenv("NVTX_INJECTION64_PATH");
  const bool on = enabled && tool && *tool;
  if (on && !g_state.load(std::memory_order_acquire)) g_state.store(new State(), std::memory_order_release);
  detail::wanted.store(on, std::memory_order_release);
}

void fork_child() {
  if (State* old = g_state.load(std::memory_order_relaxed)) {
    auto* fresh = new State();
    fresh->domain.store(old->domain.load(std::memory_order_relaxed), std::memory_order_relaxed);
    g_state.store(fresh, std::memory_order_relaxed);
  }
}

void detail::mark(uint64_t id, const Decision& d) {
  State* state = g_state.load(std::memory_order_acquire);
  nvtxDomainHandle_t in = state ? domain(*state) : nullptr;
  if (!in) return;
  // Keys of decisions keep clear of text hashes by their high bits; a clash would only show another text.
  const uint64_t key = 0xDEC1u | static_cast<uint64_t>(d.feature) << 56 |
                       static_cast<uint64_t>(d.action) << 48 | static_cast<uint64_t>(d.outcome) << 40 |
                       static_cast<uint64_t>(d.reason) << 16;
  nvtxStringHandle_t text = nullptr;
  {
    SharedGuard guard(state->lock);
    if (const nvtxStringHandle_t* known = state->strings.find(key)) text = *known;
  }
  if (!text) {
    std::string words(feature_name(d.feature));
    words += ": ";
    words += action_name(d.action);
    if (d.outcome != Outcome::applied) (words += ' ') += outcome_name(d.outcome);
    if (d.reason != Reason::none) ((words += " [") += reason_name(d.reason)) += ']';
    text = registered(*state, in, key, words.c_str());
  }
  const nvtxEventAttributes_t e = event(d.feature, text, id);
  nvtxDomainMarkEx(in, &e);
}

uint64_t text(std::string_view words) {
  State* state = active() ? g_state.load(std::memory_order_acquire) : nullptr;
  nvtxDomainHandle_t in = state ? domain(*state) : nullptr;
  if (!in) return 0;
  return reinterpret_cast<uint64_t>(registered(*state, in, hash(words), std::string(words).c_str()));
}

Range::Range(Feature feature, uint64_t text, uint64_t decision_id) : pushed_(false) {
  State* state = active() ? g_state.load(std::memory_order_acquire) : nullptr;
  nvtxDomainHandle_t in = state ? domain(*state) : nullptr;
  if (!in || !text) return;
  const nvtxEventAttributes_t e = event(feature, reinterpret_cast<nvtxStringHandle_t>(text), decision_id);
  nvtxDomainRangePushEx(in, &e);
  pushed_ = true;
}

Range::~Range() {
  if (!pushed_) return;
  // Popped even when the domain was switched off meanwhile: a range left open would swallow all that follows.
  if (State* state = g_state.load(std::memory_order_acquire)) nvtxDomainRangePop(state->domain.load());
}

void name_stream(void* stream, std::string_view name) {
  if (active()) nvtxNameCuStreamA(static_cast<CUstream>(stream), std::string(name).c_str());
}

void name_this_thread(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
  if (active()) nvtxNameOsThreadA(static_cast<uint32_t>(syscall(SYS_gettid)), std::string(name).c_str());
}
#else  // a toolkit without NVTX 3: the domain stays off, everything else works
void start(bool) {}
void fork_child() {}
void detail::mark(uint64_t, const Decision&) {}
uint64_t text(std::string_view) { return 0; }
Range::Range(Feature, uint64_t, uint64_t) : pushed_(false) {}
Range::~Range() = default;
void name_stream(void*, std::string_view) {}
void name_this_thread(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}
#endif

}  // namespace shunt::trace::nvtx
