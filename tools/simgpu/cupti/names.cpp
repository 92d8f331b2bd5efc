#include "tools/simgpu/cupti/names.h"

#include <string>
#include <unordered_map>

namespace simgpu::cupti {
namespace {

struct Tables {
  const char* driver[kDriverCbids] = {};
  const char* runtime[kRuntimeCbids] = {};
  std::unordered_map<std::string_view, uint32_t> by_name;
  std::unordered_map<std::string, uint32_t> runtime_by_name;  // without the version at the end
};
const Tables& tables() {
  static const Tables* const instance = [] {
    auto* t = new Tables;
    // First the names proper, then the plain names that cuda.h redirects.
#define DRIVER_CBID(name, number) t->driver[number] = #name, t->by_name[#name] = number;
#define RUNTIME_CBID(name, number) t->runtime[number] = #name;
#define DRIVER_ALIAS(name, target)
#define RESULT(name)
#include "names.inc"
#undef DRIVER_CBID
#undef RUNTIME_CBID
#undef DRIVER_ALIAS
#define DRIVER_CBID(name, number)
#define RUNTIME_CBID(name, number)
#define DRIVER_ALIAS(name, target) \
  if (auto it = t->by_name.find(#target); it != t->by_name.end()) t->by_name[#name] = it->second;
#include "names.inc"
#undef DRIVER_CBID
#undef RUNTIME_CBID
#undef DRIVER_ALIAS
#undef RESULT
    // "cudaMalloc_v3020", "cudaMalloc_ptsz_v7000": the newest version of each is what a program of today
    // calls.
    for (uint32_t i = 0; i < kRuntimeCbids; ++i) {
      if (!t->runtime[i]) continue;
      const std::string name = t->runtime[i];
      const size_t at = name.rfind("_v");
      const bool versioned = at != name.npos && name.size() - at > 5 &&
                             name.find_first_not_of("0123456789", at + 2) == name.npos;
      t->runtime_by_name[versioned ? name.substr(0, at) : name] = i;
    }
    return t;
  }();
  return *instance;
}

}  // namespace

uint32_t driver_cbid(std::string_view name) {
  const auto& names = tables().by_name;
  if (auto it = names.find(name); it != names.end()) return it->second;
  // The driver's own spelling of a function's first version.
  if (name.size() > 3 && name.substr(name.size() - 3) == "_v1") {
    for (uint32_t i = 0; i < kDriverCbids; ++i)
      if (const char* candidate = tables().driver[i];
          candidate && name.substr(0, name.size() - 3) == candidate)
        return i;
  }
  return 0;
}
const char* driver_name(uint32_t cbid) { return cbid < kDriverCbids ? tables().driver[cbid] : nullptr; }
uint32_t runtime_cbid(std::string_view name) {
  const auto& names = tables().runtime_by_name;
  const auto it = names.find(std::string(name));
  return it == names.end() ? 0 : it->second;
}
const char* runtime_name(uint32_t cbid) { return cbid < kRuntimeCbids ? tables().runtime[cbid] : nullptr; }

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  if (!name) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = domain == CUPTI_CB_DOMAIN_DRIVER_API    ? driver_name(cbid)
          : domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_name(cbid)
                                                  : nullptr;
  return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUPTI_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** str) {
  if (!str) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define DRIVER_CBID(name, number)
#define RUNTIME_CBID(name, number)
#define DRIVER_ALIAS(name, target)
#define RESULT(name) \
  case name:         \
    *str = #name;    \
    return CUPTI_SUCCESS;
#include "names.inc"
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}
