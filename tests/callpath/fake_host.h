// The interposer's side of the C table, and a driver that writes down what it was asked and answers what the
// test wants.
#pragma once
#include <cuda.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/exec/host.h"

namespace shunt::exec {

struct FakeDriver {
  std::vector<std::string> calls;  // "cuMemAlloc_v2(64)"
  CUresult result = CUDA_SUCCESS;  // of every call
  uint64_t next_handle = 0x1000;
  int device_count = 4;
  CUcontext current = reinterpret_cast<CUcontext>(0xC0);
  // What the driver got for structures with ordinals.
  std::vector<int> ordinals_seen;
  int ordinal_answer = 0;  // for calls that answer with one
  CUmemLocationType location_type = CU_MEM_LOCATION_TYPE_DEVICE;
  static FakeDriver& get();
  void reset() { *this = FakeDriver{}; }
};

// Installed hooks by slot; null: the real function.
extern std::map<uint32_t, void*> g_hooks;
const ShuntHost* fake_host();

// Calls through the hook if one is installed, as the interposer's slot does.
template <uint32_t Slot, class... A>
CUresult call(A... a) {
  const auto it = g_hooks.find(Slot);
  void* target = it != g_hooks.end() && it->second ? it->second : fake_host()->real(Slot);
  return reinterpret_cast<Fn<Slot>>(target)(a...);
}

}  // namespace shunt::exec
