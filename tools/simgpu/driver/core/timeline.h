// What ran where and when: one sink for SIMGPU_TIMELINE=file (JSON lines), CUPTI and tests. Engine mutex held
// for device records; API records come from any thread. Subscribers are called under the sink's own lock and
// must not call CUDA.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace simgpu::driver {
struct Record {
  const char* kind = "";  // kernel memcpy memset sync api runtime graph host_function alloc free overhead
  std::string name;
  uint64_t start_ns = 0, end_ns = 0;
  int device = -1;
  uint64_t context_id = 0, stream_id = 0, correlation = 0, thread = 0, bytes = 0;
  uint32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};
  uint32_t dynamic_shared = 0, static_shared = 0, registers = 0;
  int copy_kind = 0;  // CUPTI's numbering: 1 HtoD 2 DtoH 8 DtoD 9 HtoH 10 PtoP
  int result = 0;
  // Nodes of graph launches, and the launch itself (kind graph, node 0).
  uint64_t graph_id = 0, graph_node_id = 0;
  // For CUPTI, not in the file: the execution (0: none), clusters, local bytes a thread, memory kinds in
  // CUPTI's numbering, devices of a copy, the pattern of a fill, what a wait or an event is about.
  uint64_t serial = 0;
  uint32_t cluster[3] = {0, 0, 0}, local_bytes = 0, value = 0;
  int src_memory = 0, dst_memory = 0, src_device = -1, dst_device = -1;
  uint64_t handle = 0;  // CUstream or CUevent
};
bool timeline_active();
void timeline_emit(const Record& record);
using RecordSink = void (*)(void* user, const Record& record);
int timeline_subscribe(RecordSink sink, void* user);
void timeline_unsubscribe(int id);
uint64_t next_correlation();  // of the API call now running on this thread
uint64_t current_correlation();
// Entry and exit of API functions, without any lock of ours; one subscriber (CUPTI).
using ApiCallback = void (*)(void* user, const char* function, int exit, int result, uint64_t correlation);
void set_api_callback(ApiCallback callback, void* user);
void call_api_callback(const char* function, int exit, int result);
// The same for calls of the runtime API, which its library announces: the outermost of a thread counts, and
// driver calls inside have its correlation. Only while an API callback is set.
void set_runtime_callback(ApiCallback callback, void* user);
void runtime_enter(const char* function);
void runtime_exit(const char* function, int result);
}  // namespace simgpu::driver
