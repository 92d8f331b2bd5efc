// The shadow objects. Fields that change after creation are atomics; the rest is written before the object
// becomes visible.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace shunt::model {

struct ContextInfo {
  uint64_t id = 0;
  int device = -1;  // physical ordinal
  bool primary = false, green = false;
  uint32_t flags = 0;
  void reset() { *this = ContextInfo{}; }
};

enum class StreamRole : uint8_t { created, legacy_default, thread_default };

struct StreamInfo {
  uint64_t id = 0;
  CUstream handle = nullptr;
  CUcontext context = nullptr;
  StreamRole role = StreamRole::created;
  bool non_blocking = false;
  int priority = 0;
  std::atomic<uint64_t> capture_id{0};        // 0: not capturing
  std::atomic<void*> graphs_state{nullptr};   // runtime/graphs: what it knows of the stream
  std::atomic<void*> overlap_state{nullptr};  // runtime/overlap: likewise
  void reset() {
    id = 0, handle = nullptr, context = nullptr, role = StreamRole::created, non_blocking = false,
    priority = 0;
    capture_id = 0;
    graphs_state = nullptr;
    overlap_state = nullptr;
  }
};

struct EventInfo {
  uint64_t id = 0;
  CUcontext context = nullptr;
  uint32_t flags = 0;
  std::atomic<uint64_t> recorded_stream_id{0};  // StreamInfo::id of the last record, 0: never recorded
  std::atomic<uint64_t> capture_id{0};          // recorded inside this capture
  void reset() {
    id = 0, context = nullptr, flags = 0;
    recorded_stream_id = 0, capture_id = 0;
  }
};

struct ModuleInfo {
  uint64_t id = 0;
  CUcontext context = nullptr;  // null for a CUlibrary, which serves every context
  bool library = false;
  const void* image = nullptr;  // as given by the program; may have been freed since
  void reset() { *this = ModuleInfo{}; }
};

// A CUfunction or a CUkernel: the launch accepts both, and their handle values do not collide.
struct FunctionInfo {
  uint64_t id = 0, module = 0;  // module or library handle; 0 when first seen at a launch
  CUcontext context = nullptr;
  bool kernel = false;  // CUkernel
  char name[232] = {};
  std::atomic<void*> param_layout{nullptr};  // runtime/graphs: where the parameters lie; leaked
  std::atomic<const void*> access{nullptr};  // runtime/overlap: what it may touch; leaked
  void reset() {
    id = module = 0, context = nullptr, kernel = false, name[0] = 0;
    param_layout = nullptr;
    access = nullptr;
  }
};

}  // namespace shunt::model
