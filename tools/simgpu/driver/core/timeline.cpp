#include "tools/simgpu/driver/core/timeline.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/core/clock.h"
#include "tools/simgpu/driver/core/log.h"
#include "tools/simgpu/driver/core/thread_state.h"

namespace simgpu::driver {
namespace {
struct Subscriber {
  int id;
  RecordSink sink;
  void* user;
};
struct Sink {
  std::mutex mutex;
  std::vector<Subscriber> subscribers;
  FILE* file = nullptr;
  int next_id = 1;
  std::atomic<bool> active{false};
};
Sink& sink() {
  static Sink* instance = [] {
    auto* s = new Sink;
    if (const char* path = getenv("SIMGPU_TIMELINE"); path && *path) {
      s->file = fopen(path, "we");
      if (!s->file)
        log_line(LogLevel::error, "SIMGPU_TIMELINE=%s cannot be written", path);
      else
        setvbuf(s->file, nullptr, _IOLBF, 0);  // whole lines, also when the process dies
      s->active = s->file != nullptr;
    }
    return s;
  }();
  return *instance;
}
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}
std::atomic<uint64_t> g_correlation{0};
thread_local uint64_t t_correlation __attribute__((tls_model("initial-exec"))) = 0;
}  // namespace

bool timeline_active() { return sink().active.load(std::memory_order_relaxed); }

void timeline_emit(const Record& r) {
  Sink& s = sink();
  std::lock_guard<std::mutex> lock(s.mutex);
  for (const Subscriber& subscriber : s.subscribers) subscriber.sink(subscriber.user, r);
  if (!s.file) return;
  fprintf(s.file,
          "{\"kind\":\"%s\",\"name\":\"%s\",\"start_ns\":%llu,\"end_ns\":%llu,\"device\":%d,\"context\":%llu,"
          "\"stream\":%llu,"
          "\"correlation\":%llu,\"thread\":%llu,\"bytes\":%llu",
          r.kind, escaped(r.name).c_str(), (unsigned long long)r.start_ns, (unsigned long long)r.end_ns,
          r.device, (unsigned long long)r.context_id, (unsigned long long)r.stream_id,
          (unsigned long long)r.correlation, (unsigned long long)r.thread, (unsigned long long)r.bytes);
  if (r.grid[0])
    fprintf(s.file, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]", r.grid[0], r.grid[1], r.grid[2], r.block[0],
            r.block[1], r.block[2]);
  if (r.graph_id)
    fprintf(s.file, ",\"graph\":%llu,\"graph_node\":%llu", (unsigned long long)r.graph_id,
            (unsigned long long)r.graph_node_id);
  fprintf(s.file, ",\"result\":%d}\n", r.result);
}

int timeline_subscribe(RecordSink function, void* user) {
  Sink& s = sink();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.subscribers.push_back({s.next_id, function, user});
  s.active = true;
  return s.next_id++;
}

void timeline_unsubscribe(int id) {
  Sink& s = sink();
  std::lock_guard<std::mutex> lock(s.mutex);
  for (size_t i = 0; i < s.subscribers.size(); ++i) {
    if (s.subscribers[i].id == id) {
      s.subscribers.erase(s.subscribers.begin() + long(i));
      break;
    }
  }
  s.active = s.file || !s.subscribers.empty();
}

namespace {
std::atomic<ApiCallback> g_api_callback{nullptr};
std::atomic<void*> g_api_user{nullptr};
}  // namespace
void set_api_callback(ApiCallback callback, void* user) {
  g_api_user.store(user);
  g_api_callback.store(callback);
}
void call_api_callback(const char* function, int exit, int result) {
  if (ApiCallback callback = g_api_callback.load(std::memory_order_relaxed))
    callback(g_api_user.load(), function, exit, result, t_correlation);
}

namespace {
std::atomic<ApiCallback> g_runtime_callback{nullptr};
std::atomic<void*> g_runtime_user{nullptr};
struct RuntimeCall {
  int depth;
  bool told;
  uint64_t correlation, start_ns;
};
thread_local RuntimeCall t_runtime __attribute__((tls_model("initial-exec"))) = {};
}  // namespace
void set_runtime_callback(ApiCallback callback, void* user) {
  g_runtime_user.store(user);
  g_runtime_callback.store(callback);
}
void runtime_enter(const char* function) {
  RuntimeCall& call = t_runtime;
  if (call.depth++ > 0) return;
  const ApiCallback callback = g_runtime_callback.load(std::memory_order_relaxed);
  call.told = callback && thread_state().api_depth == 0;
  if (!call.told) return;
  call.correlation = t_correlation = g_correlation.fetch_add(1) + 1;
  call.start_ns = host_now();
  callback(g_runtime_user.load(), function, 0, 0, call.correlation);
}
void runtime_exit(const char* function, int result) {
  RuntimeCall& call = t_runtime;
  if (call.depth == 0 || --call.depth > 0 || !call.told) return;
  t_correlation = call.correlation;
  if (timeline_active()) {
    Record record;
    record.kind = "runtime";
    record.name = function;
    record.start_ns = call.start_ns;
    record.end_ns = host_now();
    record.thread = thread_state().id;
    record.correlation = call.correlation;
    record.result = result;
    timeline_emit(record);
  }
  if (const ApiCallback callback = g_runtime_callback.load(std::memory_order_relaxed))
    callback(g_runtime_user.load(), function, 1, result, call.correlation);
  call.told = false;
}

uint64_t next_correlation() {
  if (t_runtime.told) return t_correlation = t_runtime.correlation;
  return t_correlation = g_correlation.fetch_add(1) + 1;
}
uint64_t current_correlation() { return t_correlation; }
}  // namespace simgpu::driver
