#!/usr/bin/env python3
"""Writes one .cu file with kernels made from a seed, and a host evaluation of the same expression trees.

Each kernel is a tree of phases over a few variables a thread: arithmetic on 32- and 64-bit integers and floats, loops with
data-dependent trip counts, divergent branches, a shared array exchanged across barriers, and commuting atomics on shared and
global memory. The device runs the kernel; the host walks the trees thread by thread, phase by phase. The results must agree
bit for bit, so floats use exactly rounded operations only (the file is compiled with -fmad=false -ffp-contract=off) and every
NaN is made one NaN before it is looked at.

Inside loops integer updates pass through a rotation: nvcc 13.0 evaluates a second-order recurrence that is then masked
(`for (i) { ... x & 7 ...; x += i; }`) with too few bits, so the device would rightly compute something else than the host.
"""
import argparse
import random

BLOCK, GRID = 96, 5


class Kernel:
    """One kernel: `phases` are lists of statements; a barrier stands between two phases."""

    def __init__(self, rng, index):
        self.rng, self.index = rng, index
        self.ints = [f"u{i}" for i in range(rng.randint(3, 5))]
        self.longs = [f"w{i}" for i in range(rng.randint(1, 2))]
        self.floats = [f"f{i}" for i in range(rng.randint(2, 3))]
        self.loops = 0
        self.depth = 0  # of loops around the statement being made
        self.phases = []
        for p in range(rng.randint(2, 4)):
            self.phases.append([self.statement(2) for _ in range(rng.randint(3, 6))] + self.exchange(p))
        self.phases.append([self.statement(2) for _ in range(2)] + self.atomics())

    # --- expressions -------------------------------------------------------------------------------------------------
    def u32(self, depth):
        r = self.rng
        if depth == 0 or r.random() < 0.15:
            return r.choice(self.ints + ["tid", "gid", f"{r.getrandbits(r.choice([3, 8, 32]))}u"])
        a, b = self.u32(depth - 1), self.u32(depth - 1)
        return r.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} ^ {b})", f"({a} & {b})", f"({a} | {b})",
            f"({a} / ({b} | 1u))", f"({a} % ({b} | 1u))", f"({a} << ({b} & 31u))", f"({a} >> ({b} & 31u))",
            f"shift_right({a}, {b})", f"min_u({a}, {b})", f"max_s({a}, {b})", f"({a} < {b} ? {self.u32(depth - 1)} : {b})",
            f"count_bits({a})", f"high_product({a}, {b})", f"(uint32_t)({self.u64(depth - 1)} >> 17)",
            f"float_bits({self.f32(depth - 1)})", f"to_int({self.f32(depth - 1)})", f"((int32_t){a} < (int32_t){b})",
            f"divide_s({a}, {b})", f"(uint32_t)(int16_t){a}"])

    def u64(self, depth):
        r = self.rng
        if depth == 0 or r.random() < 0.2:
            return r.choice(self.longs + [f"(uint64_t){r.choice(self.ints)}", f"{r.getrandbits(60)}ull"])
        a, b = self.u64(depth - 1), self.u64(depth - 1)
        return r.choice([f"({a} + {b})", f"({a} * {b})", f"({a} ^ {b})", f"({a} >> ({self.u32(depth - 1)} & 63u))",
                         f"({a} << ({self.u32(depth - 1)} & 63u))", f"({a} / ({b} | 1ull))",
                         f"((uint64_t){self.u32(depth - 1)} * {self.u32(depth - 1)})"])

    def f32(self, depth):
        r = self.rng
        if depth == 0 or r.random() < 0.2:
            return r.choice(self.floats + [f"({r.uniform(-4, 4):.6f}f)", f"(float)({r.choice(self.ints)} & 1023u)"])
        a, b = self.f32(depth - 1), self.f32(depth - 1)
        return r.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"sqrtf(fabsf({a}))",
                         f"fmaf({a}, {b}, {self.f32(depth - 1)})", f"(-{a})", f"({a} < {b} ? {a} : {self.f32(depth - 1)})",
                         f"(float)(int32_t){self.u32(depth - 1)}", f"floorf({a})", f"(float)((double){a} * (double){b})"])

    def condition(self):
        r = self.rng
        return r.choice([f"({self.u32(1)} & {1 << r.randrange(6)}u)", f"({self.u32(2)} < {self.u32(1)})",
                         f"({self.f32(1)} < {self.f32(1)})", f"(tid % {r.randint(2, 9)}u == {r.randint(0, 1)}u)",
                         f"((int32_t){self.u32(1)} > {r.randint(-999, 999)})"])

    # --- statements --------------------------------------------------------------------------------------------------
    def assign(self):
        kind = self.rng.choice(["u", "u", "u", "w", "f", "f"])
        turn = "turn" if self.depth else ""
        if kind == "u":
            return f"{self.rng.choice(self.ints)} {self.rng.choice(['=', '+=', '^='])} {turn}({self.u32(3)});"
        if kind == "w":
            return f"{self.rng.choice(self.longs)} {self.rng.choice(['=', '+=', '^='])} {turn + '64' * bool(turn)}({self.u64(2)});"
        return f"{self.rng.choice(self.floats)} = {self.f32(3)};"

    def block(self, depth, n):
        return "{ " + " ".join(self.statement(depth) for _ in range(n)) + " }"

    def statement(self, depth):
        r = self.rng
        if depth == 0 or r.random() < 0.45:
            return self.assign()
        kind = r.choice(["if", "if", "loop", "while", "switch"])
        if kind == "if":
            text = f"if {self.condition()} {self.block(depth - 1, 2)}"
            return text + (f" else {self.block(depth - 1, r.randint(1, 2))}" if r.random() < 0.6 else "")
        i = f"i{self.loops}"
        self.loops += 1
        if kind == "loop":
            self.depth += 1
            leave = f"if {self.condition()} break; " if r.random() < 0.4 else ""
            skip = f"if {self.condition()} continue; " if r.random() < 0.3 else ""
            text = (f"for (uint32_t {i} = 0; {i} < ({self.u32(1)} & {r.choice([3, 7, 15])}u); ++{i}) "
                    f"{{ {skip}{self.statement(depth - 1)} {leave}{r.choice(self.ints)} += turn({i}); }}")
            self.depth -= 1
            return text
        if kind == "while":
            v = r.choice(self.ints)
            self.depth += 1
            text = (f"{{ uint32_t {i} = {v} & 255u; while ({i}) {{ {self.statement(depth - 1)} "
                    f"{i} = {i} & 1u ? {i} - 1u : {i} >> 1; }} }}")
            self.depth -= 1
            return text
        cases = " ".join(f"case {c}: {self.statement(depth - 1)} {'break;' if r.random() < 0.7 else ''}" for c in range(3))
        return f"switch ({self.u32(1)} & 3u) {{ {cases} default: {self.statement(depth - 1)} }}"

    # --- phases ------------------------------------------------------------------------------------------------------
    def exchange(self, phase):
        """Writes the thread's own slot of this phase's shared array; the next phase reads somebody else's."""
        r = self.rng
        out = [f"shared[{phase}][tid] = {r.choice(self.ints)} ^ (uint32_t)({r.choice(self.longs)} >> 9);"]
        if r.random() < 0.7:
            op = r.choice(["add", "xor", "max"])
            out.append(f"if {self.condition()} shared_{op}(&shared_total[{phase}], {self.u32(2)});")
        return out

    def reads(self, phase):
        r = self.rng
        k = r.randint(1, BLOCK - 1)
        v, x = r.choice(self.ints), r.choice(self.ints)
        return [f"{v} += shared[{phase}][(tid + {k}u) % {BLOCK}u];", f"{x} ^= shared_total[{phase}];"]

    def atomics(self):
        r = self.rng
        out = []
        for i in range(4):
            op = r.choice(["add", "xor", "max", "min", "or", "and"])
            out.append(f"if {self.condition()} global_{op}(&atomics[{i * 8} + ({r.choice(self.ints)} & 7u)], {self.u32(1)});")
        out.append(f"global_add64(&sum, {self.u64(1)});")
        return out

    # --- text --------------------------------------------------------------------------------------------------------
    def emit(self):
        n, k = len(self.phases), self.index
        variables = ([f"uint32_t {v};" for v in self.ints] + [f"uint64_t {v};" for v in self.longs] +
                     [f"float {v};" for v in self.floats])
        lines = [f"struct State{k} {{ {' '.join(variables)} }};"]
        refs = [f"uint32_t &{v} = s.{v};" for v in self.ints] + [f"uint64_t &{v} = s.{v};" for v in self.longs] + \
               [f"float &{v} = s.{v};" for v in self.floats]
        for p, statements in enumerate(self.phases):
            body = (self.reads(p - 1) if p else []) + statements
            lines.append(f"HD void kernel{k}_phase{p}(State{k}& s, uint32_t tid, uint32_t gid, uint32_t (*shared)[{BLOCK}], "
                         f"uint32_t* shared_total, uint32_t* atomics, unsigned long long& sum) {{")
            lines += ["  " + line for line in refs]
            lines += ["  " + line for line in body]
            lines.append("}")
        init = " ".join([f"s.{v} = mix(gid * {7 * i + 3}u + {self.rng.getrandbits(32)}u);" for i, v in enumerate(self.ints)] +
                        [f"s.{v} = mix(gid + {i}u) * 6364136223846793005ull;" for i, v in enumerate(self.longs)] +
                        [f"s.{v} = (float)(mix(gid ^ {i + 77}u) % 4001u) * 0.25f - 500.0f;" for i, v in enumerate(self.floats)])
        lines.append(f"HD void kernel{k}_init(State{k}& s, uint32_t gid) {{ {init} }}")
        digest = " ".join([f"h = mix(h ^ s.{v});" for v in self.ints] +
                          [f"h = mix(h ^ (uint32_t)s.{v} ^ (uint32_t)(s.{v} >> 32));" for v in self.longs] +
                          [f"h = mix(h ^ float_bits(s.{v}));" for v in self.floats])
        lines.append(f"HD uint32_t kernel{k}_digest(const State{k}& s) {{ uint32_t h = 17; {digest} return h; }}")
        lines.append(f"__global__ void kernel{k}(uint32_t* out, uint32_t* atomics, unsigned long long* sum) {{")
        lines.append(f"  __shared__ uint32_t shared[{n}][{BLOCK}], shared_total[{n}];")
        lines.append(f"  const uint32_t tid = threadIdx.x, gid = blockIdx.x * {BLOCK} + tid;")
        lines.append(f"  if (tid < {n}) shared_total[tid] = 0;")
        lines.append("  __syncthreads();")
        lines.append(f"  State{k} s; kernel{k}_init(s, gid);")
        for p in range(n):
            lines.append(f"  kernel{k}_phase{p}(s, tid, gid, shared, shared_total, atomics, *sum);")
            if p + 1 < n:
                lines.append("  __syncthreads();")
        lines.append(f"  out[gid] = kernel{k}_digest(s);")
        lines.append("}")
        lines.append(f"static void host{k}(uint32_t* out, uint32_t* atomics, unsigned long long* sum) {{")
        lines.append(f"  for (uint32_t block = 0; block < {GRID}; ++block) {{")
        lines.append(f"    static State{k} s[{BLOCK}]; static uint32_t shared[{n}][{BLOCK}]; uint32_t shared_total[{n}] = {{}};")
        lines.append(f"    for (uint32_t t = 0; t < {BLOCK}; ++t) kernel{k}_init(s[t], block * {BLOCK} + t);")
        for p in range(n):
            lines.append(f"    for (uint32_t t = 0; t < {BLOCK}; ++t) kernel{k}_phase{p}(s[t], t, block * {BLOCK} + t, shared, "
                         "shared_total, atomics, *sum);")
        lines.append(f"    for (uint32_t t = 0; t < {BLOCK}; ++t) out[block * {BLOCK} + t] = kernel{k}_digest(s[t]);")
        lines.append("  }")
        lines.append("}")
        return "\n".join(lines)


PRELUDE = r'''// Generated by tests/apps/gen_kernels.py, seed @SEED@. Do not edit.
#include <cmath>
#include "check.h"
#define HD static __host__ __device__ __noinline__
HD uint32_t mix(uint32_t v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
HD uint32_t float_bits(float f) {
  if (f != f) return 0x7fc00000u;  // the two machines differ in a NaN's payload only
  union { float f; uint32_t u; } bits; bits.f = f; return bits.u;
}
HD uint32_t to_int(float f) {  // in range, so that both round towards zero
  return f > -1e9f && f < 1e9f ? (uint32_t)(int32_t)f : 12345u;
}
HD uint32_t turn(uint32_t v) { return (v << 7) | (v >> 25); }
HD uint64_t turn64(uint64_t v) { return (v << 23) | (v >> 41); }
HD uint32_t shift_right(uint32_t a, uint32_t b) { return (uint32_t)((int32_t)a >> (b & 31u)); }
HD uint32_t min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
HD uint32_t max_s(uint32_t a, uint32_t b) { return (int32_t)a > (int32_t)b ? a : b; }
HD uint32_t divide_s(uint32_t a, uint32_t b) { return (uint32_t)((int32_t)(a >> 1) / ((int32_t)b | 1)); }
HD uint32_t high_product(uint32_t a, uint32_t b) { return (uint32_t)(((uint64_t)a * b) >> 32); }
HD uint32_t count_bits(uint32_t a) {
#ifdef __CUDA_ARCH__
  return __popc(a);
#else
  return __builtin_popcount(a);
#endif
}
#ifdef __CUDA_ARCH__
#define ATOMIC(name, call, host) name { call; }
#else
#define ATOMIC(name, call, host) name { host; }
#endif
HD void ATOMIC(shared_add(uint32_t* p, uint32_t v), atomicAdd(p, v), *p += v)
HD void ATOMIC(shared_xor(uint32_t* p, uint32_t v), atomicXor(p, v & 0xffff0000u), *p ^= v & 0xffff0000u)
HD void ATOMIC(shared_max(uint32_t* p, uint32_t v), atomicMax(p, v), *p = *p > v ? *p : v)
HD void ATOMIC(global_add(uint32_t* p, uint32_t v), atomicAdd(p, v), *p += v)
HD void ATOMIC(global_xor(uint32_t* p, uint32_t v), atomicXor(p, v), *p ^= v)
HD void ATOMIC(global_max(uint32_t* p, uint32_t v), atomicMax((int*)p, (int)v), *p = (int)*p > (int)v ? *p : v)
HD void ATOMIC(global_min(uint32_t* p, uint32_t v), atomicMin(p, v), *p = *p < v ? *p : v)
HD void ATOMIC(global_or(uint32_t* p, uint32_t v), atomicOr(p, v), *p |= v)
HD void ATOMIC(global_and(uint32_t* p, uint32_t v), atomicAnd(p, v), *p &= v)
HD void ATOMIC(global_add64(unsigned long long* p, unsigned long long v), atomicAdd(p, v), *p += v)
'''

MAIN = r'''
int main() {
  Report report;
  const size_t n = @BLOCK@ * @GRID@;
  struct { const char* name; void (*device)(uint32_t*, uint32_t*, unsigned long long*); void (*host)(uint32_t*, uint32_t*, unsigned long long*); } list[] = {@LIST@};
  for (auto& k : list) {
    std::vector<uint32_t> want(n), start(32), atomics;
    for (int i = 0; i < 32; ++i) start[i] = mix(i);
    unsigned long long sum = 5;
    atomics = start;
    uint32_t* d_out = device_array<uint32_t>(n);
    uint32_t* d_atomics = device_copy(start);
    unsigned long long* d_sum = device_copy(std::vector<unsigned long long>(1, sum));
    k.device<<<@GRID@, @BLOCK@>>>(d_out, d_atomics, d_sum);
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    k.host(want.data(), atomics.data(), &sum);
    const std::vector<uint32_t> got = host_copy(d_out, n);
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      if (got[i] != want[i] && wrong++ == 0) std::printf("%s: thread %zu is %08x, expected %08x\n", k.name, i, got[i], want[i]);
    }
    report.check(k.name, wrong == 0 && same(host_copy(d_atomics, 32), atomics) && host_copy(d_sum, 1)[0] == sum, digest(got));
  }
  return report.finish();
}
'''


def generate(seed, count):
    rng = random.Random(seed)
    kernels = [Kernel(rng, i) for i in range(count)]
    text = PRELUDE.replace("@SEED@", str(seed)) + "\n".join(k.emit() for k in kernels)
    listed = ", ".join(f'{{"kernel{i}", kernel{i}, host{i}}}' for i in range(count))
    return text + MAIN.replace("@LIST@", listed).replace("@BLOCK@", str(BLOCK)).replace("@GRID@", str(GRID))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", required=True, help="any text; the same seed gives the same file")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    with open(args.out, "w") as f:
        f.write(generate(args.seed, args.count))


if __name__ == "__main__":
    main()
