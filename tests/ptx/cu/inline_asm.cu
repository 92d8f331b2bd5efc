// Scopes, labels and registers of inline assembly, twice in one kernel so that names must be kept apart.
__device__ __forceinline__ unsigned clamp_asm(unsigned x) {
  unsigned r;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\t.reg .b32 t<3>;\n\t"
      "setp.gt.u32 p|q, %1, 100;\n\t"
      "@p bra BIG;\n\t"
      "mov.b32 t0, %1; mov.b32 t1, 1;\n\t"
      "{ .reg .b32 t1; mov.b32 t1, 7; add.u32 t0, t0, t1; }\n\t"
      "add.u32 t2, t0, t1;\n\t"
      "bra.uni DONE;\n\t"
      "BIG: mov.b32 t2, 0x64;\n\t"
      "DONE: mov.b32 %0, t2; /* block\n comment */\n\t}"
      : "=r"(r)
      : "r"(x));
  return r;
}
__global__ void scopes(unsigned* data) {
  data[threadIdx.x] = clamp_asm(data[threadIdx.x]) + clamp_asm(data[threadIdx.x + 1]);
}
__global__ void specials(unsigned long long* out) {
  unsigned a, b, c;
  unsigned long long d, e;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(a));
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(b));
  asm volatile("mov.u32 %0, %%envreg3;" : "=r"(c));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(d));
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(e));
  out[0] = a + b + c + d + e;
}
__global__ void offsets(int* p, int q) {
  int r, lo, hi;
  asm volatile("ld.global.s32 %0, [%1 + 4*3];" : "=r"(r) : "l"(p));
  asm volatile("{ .reg .b64 t; cvt.s64.s32 t, %2; mov.b64 {%0, %1}, t; }" : "=r"(lo), "=r"(hi) : "r"(q));
  asm volatile("st.global.s32 [%0+-8], %1;" ::"l"(p), "r"(r + lo + hi) : "memory");
  asm volatile(
      "{ .reg .pred e; .reg .b32 x; shfl.sync.bfly.b32 x|e, %0, 1, 31, 0xffffffff; @!e trap; }" ::"r"(q));
  asm volatile("vadd2.s32.s32.s32 %0, %1.h10, %2.h32, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(q));
}
#if __CUDA_ARCH__ >= 900
__global__ void bulk_copies(const void* map, unsigned long long* out, const void* global_memory) {
  __shared__ __align__(128) char tile[1024];
  __shared__ unsigned long long barrier;
  unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(tile)),
           b = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(1));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(s),
      "l"(map), "r"(3), "r"(5), "r"(b)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(s),
      "l"(global_memory), "r"(512), "r"(b), "l"(0x12f0000000000000ull)
      : "memory");
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra "
      "DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(b),
      "r"(0));
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%0], [%1], 16;" ::"l"(out), "r"(s)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;");
  asm volatile("{ .reg .pred e; elect.sync _|e, 0xffffffff; @e prefetch.tensormap [%0]; }" ::"l"(map));
}
#endif
