// libcupti's functions, found at run time. Immutable once open.
#pragma once
#include <cupti.h>

#include <string>

namespace shunt::trace::gpu {

struct Cupti {
#define SHUNT_CUPTI(name) decltype(&::name) name = nullptr;
#include "runtime/trace/cupti_library.def"
#undef SHUNT_CUPTI
  // Only this one says who holds the slot. Absent before CUDA 13.0.
  decltype(&::cuptiSubscribe_v2) subscribe_v2 = nullptr;
  uint32_t version = 0;
  std::string path;
};

// Null, with the reason in `problem`. A library the program has loaded already is taken before any other.
const Cupti* open_cupti(std::string& problem);

}  // namespace shunt::trace::gpu
