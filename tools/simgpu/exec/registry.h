// Names of the functions that fill a handler table. The first group exists once per instruction set.
#pragma once

namespace simgpu::exec {
struct HandlerTable;

#define SIMGPU_DECLARE_ISA(ns)          \
  namespace ns {                        \
  void register_alu(HandlerTable*);     \
  void register_float(HandlerTable*);   \
  void register_convert(HandlerTable*); \
  void register_memory(HandlerTable*);  \
  void register_half(HandlerTable*);    \
  void register_matrix(HandlerTable*);  \
  }
SIMGPU_DECLARE_ISA(isa_base)
SIMGPU_DECLARE_ISA(isa_avx2)
SIMGPU_DECLARE_ISA(isa_avx512)

void register_rounding(HandlerTable*);  // other rounding modes, small formats
void register_control(HandlerTable*);   // branches, calls, block heads, guards
void register_sync(HandlerTable*);      // barriers, shuffles, votes, matches
void register_atomic(HandlerTable*);
void register_special(HandlerTable*);  // clocks, special registers, built-in functions, textures
void register_fragment(HandlerTable*);
void register_async(HandlerTable*);  // cp.async, mbarrier
void register_video(HandlerTable*);
void register_texture(HandlerTable*);
}  // namespace simgpu::exec
