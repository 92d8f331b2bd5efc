// Handles that programs hold (CUcontext, CUstream, CUevent, ...) and the objects behind them. A handle is the
// address of a slot in a reserved arena, so any bit pattern a program passes can be judged without following
// it: NULL, freed, foreign and wrong-kind handles are all told from live ones. Freed slots rest in a long
// queue before reuse. Guarded by the engine mutex unless said otherwise. The arena lives until the process
// ends.
#pragma once
#include <cstdint>
#include <memory>

namespace simgpu::driver {

enum class Kind : uint32_t {
  none,
  context,
  stream,
  event,
  module,
  library,
  function,
  kernel,
  link,
  memory_pool,
  graph,
  graph_node,
  graph_exec,
  array,
  mipmapped_array,
  texture_ref,
  user_object,
  external_memory,
  external_semaphore,
  green_context,
  ipc,
  physical_memory,
  other,
};

struct Object : std::enable_shared_from_this<Object> {
  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  const Kind kind;
  uint64_t handle = 0;  // 0 once destroyed
};

// Gives the object a handle and keeps a reference until drop_handle().
uint64_t make_handle(std::shared_ptr<Object> object);
void drop_handle(Object& object);
// Null when the value is not the handle of a live object of that kind. Never crashes on any value.
Object* find_handle(uint64_t handle, Kind kind);
Kind handle_kind(uint64_t handle);

template <class T, class H>
T* lookup(H handle) {
  return static_cast<T*>(find_handle(reinterpret_cast<uint64_t>(handle), T::kKind));
}
template <class H>
H handle_of(const Object& object) {
  return reinterpret_cast<H>(object.handle);
}
template <class T>
std::shared_ptr<T> shared(T* object) {
  return std::static_pointer_cast<T>(object->shared_from_this());
}

}  // namespace simgpu::driver
