#include "tools/simgpu/driver/core/handles.h"

#include <sys/mman.h>

#include <cstdlib>
#include <deque>
#include <new>

namespace simgpu::driver {
namespace {
struct Slot {
  std::shared_ptr<Object> object;
  uint64_t generation = 0;
  uint64_t pad = 0;
};
constexpr uint64_t kArenaBytes = uint64_t{2}
                                 << 30;  // 64 M handles; NORESERVE, so only used pages cost memory
constexpr size_t kRestingSlots = 4096;   // freed slots stay dead at least this many frees

struct Arena {
  Slot* base = nullptr;
  uint64_t used = 0;
  std::deque<Slot*>* resting = new std::deque<Slot*>;
  Arena() {
    void* p = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p != MAP_FAILED) base = static_cast<Slot*>(p);
  }
};
Arena& arena() {
  static Arena* instance = new Arena;
  return *instance;
}
Slot* slot_of(uint64_t handle) {
  Arena& a = arena();
  const uint64_t base = reinterpret_cast<uint64_t>(a.base);
  if (handle < base || handle >= base + a.used * sizeof(Slot) || (handle - base) % sizeof(Slot))
    return nullptr;
  return reinterpret_cast<Slot*>(handle);
}
}  // namespace

uint64_t make_handle(std::shared_ptr<Object> object) {
  Arena& a = arena();
  Slot* slot;
  if (a.resting->size() > kRestingSlots) {
    slot = a.resting->front();
    a.resting->pop_front();
  } else {
    if (!a.base || (a.used + 1) * sizeof(Slot) > kArenaBytes) throw std::bad_alloc();
    slot = new (a.base + a.used++) Slot;
  }
  object->handle = reinterpret_cast<uint64_t>(slot);
  slot->object = std::move(object);
  ++slot->generation;
  return reinterpret_cast<uint64_t>(slot);
}

void drop_handle(Object& object) {
  Slot* slot = slot_of(object.handle);
  if (!slot || slot->object.get() != &object) return;
  std::shared_ptr<Object> keep =
      std::move(slot->object);  // the destructor may run only after the slot is clean
  slot->object.reset();
  keep->handle = 0;
  arena().resting->push_back(slot);
}

Object* find_handle(uint64_t handle, Kind kind) {
  Slot* slot = slot_of(handle);
  if (!slot || !slot->object || slot->object->kind != kind) return nullptr;
  return slot->object.get();
}

Kind handle_kind(uint64_t handle) {
  Slot* slot = slot_of(handle);
  return slot && slot->object ? slot->object->kind : Kind::none;
}
}  // namespace simgpu::driver
