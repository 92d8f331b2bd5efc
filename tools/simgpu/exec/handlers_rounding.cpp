#include "tools/simgpu/exec/registry.h"
namespace simgpu::exec {
void register_rounding(HandlerTable*) {}
}  // namespace simgpu::exec
