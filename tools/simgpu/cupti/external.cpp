#include "tools/simgpu/cupti/external.h"

#include <vector>

#include "tools/simgpu/cupti/lifetime.h"

namespace simgpu::cupti {
namespace {

struct Stacks {
  std::vector<uint64_t> of[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
};
thread_local Stacks* t_stacks = nullptr;  // leaked: calls from thread-local destructors stay valid
Stacks& stacks() {
  if (!t_stacks) t_stacks = new Stacks;
  return *t_stacks;
}
bool valid(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

}  // namespace

bool external_id(CUpti_ExternalCorrelationKind kind, uint64_t& id) {
  if (!t_stacks || t_stacks->of[kind].empty()) return false;
  id = t_stacks->of[kind].back();
  return true;
}

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                uint64_t id) {
  if (!valid(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  stacks().of[kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                               uint64_t* lastId) {
  if (!valid(kind)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  auto& stack = stacks().of[kind];
  if (stack.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (lastId) *lastId = stack.back();
  stack.pop_back();
  return CUPTI_SUCCESS;
}
