// One library of a process that uses the process's box.
#include "tools/simgpu/box/box.h"

extern "C" __attribute__((visibility("default"))) bool box_user_reserve(uint64_t bytes) {
  return simgpu::Box::get()->reserve(0, bytes);
}
extern "C" __attribute__((visibility("default"))) uint64_t box_user_used() {
  return simgpu::Box::get()->state(0).used_bytes.load();
}
extern "C" __attribute__((visibility("default"))) uint64_t box_user_own() {
  return simgpu::Box::get()->own_bytes(0);
}
