#include "tools/simgpu/exec/float_bits.h"
namespace simgpu::exec::SIMGPU_ISA {
void register_half(HandlerTable*) {}
}  // namespace simgpu::exec::SIMGPU_ISA
