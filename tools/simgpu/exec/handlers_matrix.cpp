#include "tools/simgpu/exec/float_bits.h"
namespace simgpu::exec::SIMGPU_ISA {
void register_matrix(HandlerTable*) {}
}  // namespace simgpu::exec::SIMGPU_ISA
