// Integer, logic, comparison and selection handlers. Compiled once per instruction set.
#include <type_traits>

#include "tools/simgpu/exec/lanes.h"

namespace simgpu::exec::SIMGPU_ISA {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using u128 = unsigned __int128;
using s128 = __int128;

// Two-operand arithmetic whose result bits do not depend on signedness.
template <class U>
void wrapping(HandlerTable* t, const char* add, const char* sub, const char* mul, const char* mad,
              const char* neg, const char* bnot, const char* band, const char* bor, const char* bxor,
              const char* sel, const char* mov, const char* cnot) {
  bin<U, U, U>(t, add, [](U a, U b) { return static_cast<U>(a + b); });
  bin<U, U, U>(t, sub, [](U a, U b) { return static_cast<U>(a - b); });
  bin<U, U, U>(t, mul, [](U a, U b) { return static_cast<U>(static_cast<u64>(a) * b); });
  ter<U, U, U, U>(t, mad, [](U a, U b, U c) { return static_cast<U>(static_cast<u64>(a) * b + c); });
  un<U, U>(t, neg, [](U a) { return static_cast<U>(0 - a); });
  un<U, U>(t, bnot, [](U a) { return static_cast<U>(~a); });
  bin<U, U, U>(t, band, [](U a, U b) { return static_cast<U>(a & b); });
  bin<U, U, U>(t, bor, [](U a, U b) { return static_cast<U>(a | b); });
  bin<U, U, U>(t, bxor, [](U a, U b) { return static_cast<U>(a ^ b); });
  un<U, U>(t, mov, [](U a) { return a; });
  un<U, U>(t, cnot, [](U a) { return static_cast<U>(a == 0); });
  (void)sel;
}

template <class T>
T shift_left(T a, u32 b) {
  return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << b);
}
template <class T>
T shift_right_unsigned(T a, u32 b) {
  return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a >> b);
}
template <class T>
T shift_right_signed(T a, u32 b) {
  return static_cast<T>(a >> (b >= sizeof(T) * 8 ? sizeof(T) * 8 - 1 : b));
}

// Division by zero is unspecified by the manual; the quotient of all ones and the dividend as remainder are
// what devices return, and the host must not trap.
template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (static_cast<T>(-1) < T{0}) {
    if (b == -1) return static_cast<T>(0 - static_cast<u64>(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (static_cast<T>(-1) < T{0}) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
T mul_high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    if constexpr (static_cast<T>(-1) < T{0})
      return static_cast<T>((static_cast<s128>(a) * b) >> 64);
    else
      return static_cast<T>((static_cast<u128>(a) * b) >> 64);
  } else if constexpr (static_cast<T>(-1) < T{0}) {
    return static_cast<T>((static_cast<s64>(a) * b) >> (sizeof(T) * 8));
  } else {
    return static_cast<T>((static_cast<u64>(a) * b) >> (sizeof(T) * 8));
  }
}

// Everything that depends on signedness; `k` holds the keys in the order used below.
template <class T>
void signedness(HandlerTable* t, const char* const (&k)[16]) {
  bin<T, T, T>(t, k[0], [](T a, T b) { return a < b ? a : b; });
  bin<T, T, T>(t, k[1], [](T a, T b) { return a > b ? a : b; });
  bin<T, T, T>(t, k[2], [](T a, T b) { return mul_high<T>(a, b); });
  bin<T, T, T>(t, k[3], [](T a, T b) { return divide<T>(a, b); });
  bin<T, T, T>(t, k[4], [](T a, T b) { return remainder<T>(a, b); });
  bin<T, T, u32>(t, k[5], [](T a, u32 b) {
    if constexpr (static_cast<T>(-1) < T{0})
      return shift_right_signed<T>(a, b);
    else
      return shift_right_unsigned<T>(a, b);
  });
  cmp<T, T>(t, k[6], [](T a, T b) { return a < b; });
  cmp<T, T>(t, k[7], [](T a, T b) { return a <= b; });
  cmp<T, T>(t, k[8], [](T a, T b) { return a > b; });
  cmp<T, T>(t, k[9], [](T a, T b) { return a >= b; });
  cmp<T, T>(t, k[10], [](T a, T b) { return a == b; });
  cmp<T, T>(t, k[11], [](T a, T b) { return a != b; });
  ter<T, T, T, T>(t, k[12], [](T a, T b, T c) {
    return static_cast<T>(static_cast<u64>(c) + (a < b ? static_cast<u64>(b) - static_cast<u64>(a)
                                                       : static_cast<u64>(a) - static_cast<u64>(b)));
  });
  ter<T, T, T, T>(t, k[13], [](T a, T b, T c) {
    return static_cast<T>(static_cast<u64>(mul_high<T>(a, b)) + static_cast<u64>(c));
  });
  un<T, T>(t, k[14],
           [](T a) { return static_cast<T>(a < 0 ? 0 - static_cast<u64>(a) : static_cast<u64>(a)); });
  (void)k[15];
}
#define SIGNED_KEYS(T)                                                                                       \
  {                                                                                                          \
    "min." T, "max." T, "mul.hi." T, "div." T, "rem." T, "shr." T, "setp.lt." T, "setp.le." T, "setp.gt." T, \
        "setp.ge." T, "setp.eq." T, "setp.ne." T, "sad." T, "mad.hi." T, "abs." T, ""                        \
  }

template <class W, class N>
void widening(HandlerTable* t, const char* mul, const char* mad) {
  bin<W, N, N>(t, mul, [](N a, N b) { return static_cast<W>(static_cast<W>(a) * static_cast<W>(b)); });
  using UW = std::conditional_t<sizeof(W) == 8, u64, u32>;
  ter<W, N, N, W>(t, mad, [](N a, N b, W c) {
    return static_cast<W>(static_cast<UW>(static_cast<W>(a) * static_cast<W>(b)) + static_cast<UW>(c));
  });
}

// d = p ? a : b
template <class T>
struct Select {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<T>(c, i->dst);
    const auto* a = row<T>(c, i->a);
    const auto* b = row<T>(c, i->b);
    const u32 p = c->pred[i->c] ^ static_cast<u32>(i->imm);
    [[maybe_unused]] const u32 m = c->mask;
    SIMGPU_LANES {
      T v = ((p >> l) & 1) ? a[l] : b[l];
      put<M, T>(d, l, m, v);
    }
    return i + 1;
  }
};

// Predicate logic: imm holds the truth table of (a, b), bit a*2+b.
template <bool M>
const Inst* pred_logic(Ctx* c, const Inst* i) {
  const u32 a = c->pred[i->a], b = c->pred[i->b], f = static_cast<u32>(i->imm);
  u32 r = 0;
  if (f & 8) r |= a & b;
  if (f & 4) r |= a & ~b;
  if (f & 2) r |= ~a & b;
  if (f & 1) r |= ~a & ~b;
  put_pred<M>(c, i->dst, r);
  return i + 1;
}

// Carry chains. c: carry-in predicate, d: carry-out predicate; imm bit 0: use carry-in, bit 1: write
// carry-out.
template <class T, bool Sub>
struct Carry {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<T>(c, i->dst);
    const auto* a = row<T>(c, i->a);
    const auto* b = row<T>(c, i->b);
    const u32 in = (i->imm & 1) ? c->pred[i->c] : 0u;
    [[maybe_unused]] const u32 m = c->mask;
    u32 out = 0;
    SIMGPU_LANES {
      const T cin = (in >> l) & 1, x = a[l], y = b[l];
      T r;
      bool carry;
      if constexpr (Sub) {
        r = x - y - cin;
        carry = x < y || (x == y && cin);
      } else {
        r = x + y + cin;
        carry = r < x || (r == x && cin && y == static_cast<T>(~T{0}));
      }
      out |= carry ? (1u << l) : 0u;
      put<M, T>(d, l, m, r);
    }
    if (i->imm & 2) put_pred<M>(c, i->d, out);
    return i + 1;
  }
};

template <class T>
u32 find_leading(T a, bool is_signed, bool shift_amount) {
  using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
  U v = static_cast<U>(a);
  if (is_signed && static_cast<std::conditional_t<sizeof(T) == 8, s64, s32>>(a) < 0) v = ~v;
  if (v == 0) return 0xffffffffu;
  const u32 top = sizeof(T) * 8 - 1;
  const u32 lead = sizeof(T) == 8 ? static_cast<u32>(__builtin_clzll(v))
                                  : static_cast<u32>(__builtin_clz(static_cast<u32>(v)));
  return shift_amount ? lead : top - lead;
}
inline __attribute__((always_inline)) u32 bit_reverse32(u32 v) {
  v = ((v >> 1) & 0x55555555u) | ((v & 0x55555555u) << 1);
  v = ((v >> 2) & 0x33333333u) | ((v & 0x33333333u) << 2);
  v = ((v >> 4) & 0x0f0f0f0fu) | ((v & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(v);
}

template <class T>
T extract(T a, u32 pos, u32 len, bool is_signed) {
  using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
  constexpr u32 bits = sizeof(T) * 8;
  pos &= 0xff;
  len &= 0xff;
  const U v = static_cast<U>(a);
  U sign = 0;
  if (is_signed && len != 0) {
    u32 top = pos + len - 1;
    sign = (v >> (top < bits - 1 ? top : bits - 1)) & 1;
  }
  U field = pos >= bits ? 0 : v >> pos;
  const u32 valid = pos >= bits ? 0 : (len < bits - pos ? len : bits - pos);
  const U mask = valid >= bits ? ~U{0} : (U{1} << valid) - 1;
  field &= mask;
  if (sign) field |= ~mask;
  return static_cast<T>(field);
}
template <class U>
U insert(U a, U b, u32 pos, u32 len) {
  constexpr u32 bits = sizeof(U) * 8;
  pos &= 0xff;
  len &= 0xff;
  if (pos >= bits || len == 0) return b;
  const u32 n = len < bits - pos ? len : bits - pos;
  const U mask = (n >= bits ? ~U{0} : (U{1} << n) - 1) << pos;
  return (b & ~mask) | ((a << pos) & mask);
}

u32 permute(u32 a, u32 b, u32 sel) {
  const u64 both = (static_cast<u64>(b) << 32) | a;
  u32 r = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 s = (sel >> (4 * k)) & 0xf;
    u32 v = static_cast<u32>(both >> (8 * (s & 7))) & 0xff;
    if (s & 8) v = (v & 0x80) ? 0xff : 0;
    r |= v << (8 * k);
  }
  return r;
}
// prmt's special modes, imm: 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16
u32 permute_mode(u32 a, u32 b, u32 c, u64 mode) {
  static constexpr u16 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                      {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                      {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return permute(a, b, table[mode - 1][c & 3]);
}

// lop3 with the truth table in imm.
template <bool M>
const Inst* lop3(Ctx* c, const Inst* i) {
  auto* d = row<u32>(c, i->dst);
  const auto* a = row<u32>(c, i->a);
  const auto* b = row<u32>(c, i->b);
  const auto* e = row<u32>(c, i->c);
  [[maybe_unused]] const u32 m = c->mask;
  u32 k[8];
  for (u32 n = 0; n < 8; ++n) k[n] = (i->imm >> n) & 1 ? kFullMask : 0;
  SIMGPU_LANES {
    const u32 x = a[l], y = b[l], z = e[l];
    const u32 v = (k[0] & ~x & ~y & ~z) | (k[1] & ~x & ~y & z) | (k[2] & ~x & y & ~z) | (k[3] & ~x & y & z) |
                  (k[4] & x & ~y & ~z) | (k[5] & x & ~y & z) | (k[6] & x & y & ~z) | (k[7] & x & y & z);
    put<M, u32>(d, l, m, v);
  }
  return i + 1;
}

// find n-th set bit: base b, offset c (signed)
u32 find_nth(u32 mask, u32 base, s32 offset) {
  base &= 31;
  if (offset == 0) return (mask >> base) & 1 ? base : 0xffffffffu;
  s32 step = offset > 0 ? 1 : -1;
  s32 left = offset > 0 ? offset : -offset;
  for (s32 p = static_cast<s32>(base); p >= 0 && p < 32; p += step) {
    if ((mask >> p) & 1) {
      if (--left == 0) return static_cast<u32>(p);
    }
  }
  return 0xffffffffu;
}

template <class A, class B>
s32 dot4(u32 a, u32 b, u32 c) {
  u32 r = c;
  for (u32 k = 0; k < 4; ++k)
    r += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (8 * k))) *
                          static_cast<s32>(static_cast<B>(b >> (8 * k))));
  return static_cast<s32>(r);
}
template <class A, class B>
u32 dot2(u32 a, u32 b, u32 c, u32 hi) {
  u32 r = c;
  for (u32 k = 0; k < 2; ++k)
    r += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (16 * k))) *
                          static_cast<s32>(static_cast<B>(b >> (8 * k + hi * 16))));
  return r;
}

template <bool M>
const Inst* pred_mov(Ctx* c, const Inst* i) {
  put_pred<M>(c, i->dst, c->pred[i->a] ^ static_cast<u32>(i->imm));
  return i + 1;
}
template <bool M>
const Inst* pred_set(Ctx* c, const Inst* i) {
  put_pred<M>(c, i->dst, static_cast<u32>(i->imm));
  return i + 1;
}

// bfi: a inserted into b at c, length in the fourth operand
template <class T>
struct Bfi {
  template <bool M>
  static const Inst* run(Ctx* c, const Inst* i) {
    auto* d = row<T>(c, i->dst);
    const auto* a = row<T>(c, i->a);
    const auto* b = row<T>(c, i->b);
    const auto* p = row<u32>(c, i->c);
    const auto* n = row<u32>(c, i->d);
    [[maybe_unused]] const u32 m = c->mask;
    SIMGPU_LANES put<M, T>(d, l, m, insert<T>(a[l], b[l], p[l], n[l]));
    return i + 1;
  }
};

// 16-bit halves in 32-bit registers.
template <class T, class F>
u32 halves(u32 a, u32 b, F f) {
  const u32 lo = static_cast<u16>(f(static_cast<T>(a), static_cast<T>(b)));
  const u32 hi = static_cast<u16>(f(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return lo | (hi << 16);
}

}  // namespace

void register_alu(HandlerTable* t) {
#define WRAP(U, B)                                                                                    \
  wrapping<U>(t, "add." B, "sub." B, "mul.lo." B, "mad.lo." B, "neg." B, "not." B, "and." B, "or." B, \
              "xor." B, "selp." B, "mov." B, "cnot." B)
  WRAP(u16, "b16");
  WRAP(u32, "b32");
  WRAP(u64, "b64");
  signedness<u16>(t, SIGNED_KEYS("u16"));
  signedness<s16>(t, SIGNED_KEYS("s16"));
  signedness<u32>(t, SIGNED_KEYS("u32"));
  signedness<s32>(t, SIGNED_KEYS("s32"));
  signedness<u64>(t, SIGNED_KEYS("u64"));
  signedness<s64>(t, SIGNED_KEYS("s64"));
  bin<u16, u16, u32>(t, "shl.b16", [](u16 a, u32 b) { return b >= 16 ? u16{0} : static_cast<u16>(a << b); });
  bin<u32, u32, u32>(t, "shl.b32", [](u32 a, u32 b) { return b >= 32 ? 0u : a << b; });
  bin<u64, u64, u32>(t, "shl.b64", [](u64 a, u32 b) { return b >= 64 ? 0ull : a << b; });
  widening<u32, u16>(t, "mul.wide.u16", "mad.wide.u16");
  widening<s32, s16>(t, "mul.wide.s16", "mad.wide.s16");
  widening<u64, u32>(t, "mul.wide.u32", "mad.wide.u32");
  widening<s64, s32>(t, "mul.wide.s32", "mad.wide.s32");
  // Index arithmetic: address = base + index * size in one instruction (fused from mul.wide and add).
  bin<s32, s32, s32>(t, "add.sat.s32", [](s32 a, s32 b) {
    s64 r = static_cast<s64>(a) + b;
    r = r > 0x7fffffffll ? 0x7fffffffll : r;
    r = r < -0x80000000ll ? -0x80000000ll : r;
    return static_cast<s32>(r);
  });
  bin<s32, s32, s32>(t, "sub.sat.s32", [](s32 a, s32 b) {
    s64 r = static_cast<s64>(a) - b;
    r = r > 0x7fffffffll ? 0x7fffffffll : r;
    r = r < -0x80000000ll ? -0x80000000ll : r;
    return static_cast<s32>(r);
  });
  ter<s32, s32, s32, s32>(t, "mad.hi.sat.s32", [](s32 a, s32 b, s32 c) {
    s64 r = ((static_cast<s64>(a) * b) >> 32) + c;
    r = r > 0x7fffffffll ? 0x7fffffffll : r;
    r = r < -0x80000000ll ? -0x80000000ll : r;
    return static_cast<s32>(r);
  });
  bin<s32, s32, s32>(t, "max.relu.s32", [](s32 a, s32 b) {
    s32 r = a > b ? a : b;
    return r > 0 ? r : 0;
  });
  bin<s32, s32, s32>(t, "min.relu.s32", [](s32 a, s32 b) {
    s32 r = a < b ? a : b;
    return r > 0 ? r : 0;
  });
  bin<u32, u32, u32>(t, "mul24.lo.u32", [](u32 a, u32 b) { return (a & 0xffffffu) * (b & 0xffffffu); });
  bin<u32, u32, u32>(t, "mul24.hi.u32", [](u32 a, u32 b) {
    return static_cast<u32>((static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu)) >> 16);
  });
  bin<s32, s32, s32>(t, "mul24.lo.s32", [](s32 a, s32 b) {
    return static_cast<s32>(static_cast<s64>(static_cast<s32>(static_cast<u32>(a) << 8) >> 8) *
                            (static_cast<s32>(static_cast<u32>(b) << 8) >> 8));
  });
  bin<s32, s32, s32>(t, "mul24.hi.s32", [](s32 a, s32 b) {
    return static_cast<s32>((static_cast<s64>(static_cast<s32>(static_cast<u32>(a) << 8) >> 8) *
                             (static_cast<s32>(static_cast<u32>(b) << 8) >> 8)) >>
                            16);
  });
  add_handler(t, "selp.b32", &Select<u32>::run<false>, &Select<u32>::run<true>);
  add_handler(t, "selp.b64", &Select<u64>::run<false>, &Select<u64>::run<true>);
  ter<u32, u32, u32, s32>(t, "slct.b32.s32", [](u32 a, u32 b, s32 c) { return c >= 0 ? a : b; });
  ter<u64, u64, u64, s32>(t, "slct.b64.s32", [](u64 a, u64 b, s32 c) { return c >= 0 ? a : b; });
  ter<u32, u32, u32, float>(t, "slct.b32.f32", [](u32 a, u32 b, float c) { return c >= 0 ? a : b; });
  ter<u64, u64, u64, float>(t, "slct.b64.f32", [](u64 a, u64 b, float c) { return c >= 0 ? a : b; });
  add_handler(t, "pred.logic", &pred_logic<false>, &pred_logic<true>);
  add_handler(t, "pred.mov", &pred_mov<false>, &pred_mov<true>);
  add_handler(t, "pred.set", &pred_set<false>, &pred_set<true>);
  add_handler(t, "addc.b32", &Carry<u32, false>::run<false>, &Carry<u32, false>::run<true>);
  add_handler(t, "addc.b64", &Carry<u64, false>::run<false>, &Carry<u64, false>::run<true>);
  add_handler(t, "subc.b32", &Carry<u32, true>::run<false>, &Carry<u32, true>::run<true>);
  add_handler(t, "subc.b64", &Carry<u64, true>::run<false>, &Carry<u64, true>::run<true>);
  add_handler(t, "lop3.b32", &lop3<false>, &lop3<true>);
  un<u32, u32>(t, "popc.b32", [](u32 a) {
    a -= (a >> 1) & 0x55555555u;
    a = (a & 0x33333333u) + ((a >> 2) & 0x33333333u);
    a = (a + (a >> 4)) & 0x0f0f0f0fu;
    return (a * 0x01010101u) >> 24;
  });
  un<u32, u64>(t, "popc.b64", [](u64 a) { return static_cast<u32>(__builtin_popcountll(a)); });
  un<u32, u32>(t, "clz.b32", [](u32 a) { return a ? static_cast<u32>(__builtin_clz(a)) : 32u; });
  un<u32, u64>(t, "clz.b64", [](u64 a) { return a ? static_cast<u32>(__builtin_clzll(a)) : 64u; });
  un<u32, u32>(t, "brev.b32", [](u32 a) { return bit_reverse32(a); });
  un<u64, u64>(t, "brev.b64", [](u64 a) {
    return (static_cast<u64>(bit_reverse32(static_cast<u32>(a))) << 32) |
           bit_reverse32(static_cast<u32>(a >> 32));
  });
  un<u32, u32>(t, "bfind.u32", [](u32 a) { return find_leading<u32>(a, false, false); });
  un<u32, u32>(t, "bfind.s32", [](u32 a) { return find_leading<u32>(a, true, false); });
  un<u32, u64>(t, "bfind.u64", [](u64 a) { return find_leading<u64>(a, false, false); });
  un<u32, u64>(t, "bfind.s64", [](u64 a) { return find_leading<u64>(a, true, false); });
  un<u32, u32>(t, "bfind.shiftamt.u32", [](u32 a) { return find_leading<u32>(a, false, true); });
  un<u32, u32>(t, "bfind.shiftamt.s32", [](u32 a) { return find_leading<u32>(a, true, true); });
  un<u32, u64>(t, "bfind.shiftamt.u64", [](u64 a) { return find_leading<u64>(a, false, true); });
  un<u32, u64>(t, "bfind.shiftamt.s64", [](u64 a) { return find_leading<u64>(a, true, true); });
  ter<u32, u32, u32, u32>(t, "bfe.u32", [](u32 a, u32 p, u32 n) { return extract<u32>(a, p, n, false); });
  ter<u32, u32, u32, u32>(t, "bfe.s32", [](u32 a, u32 p, u32 n) { return extract<u32>(a, p, n, true); });
  ter<u64, u64, u32, u32>(t, "bfe.u64", [](u64 a, u32 p, u32 n) { return extract<u64>(a, p, n, false); });
  ter<u64, u64, u32, u32>(t, "bfe.s64", [](u64 a, u32 p, u32 n) { return extract<u64>(a, p, n, true); });
  bin<u32, u32, u32>(t, "bmsk.clamp.b32", [](u32 a, u32 b) {
    if (a >= 32) return 0u;
    u32 n = b >= 32 ? 32 : b;
    u64 m = (1ull << n) - 1;
    return static_cast<u32>(m << a);
  });
  bin<u32, u32, u32>(t, "bmsk.wrap.b32", [](u32 a, u32 b) {
    u64 m = (1ull << (b & 31)) - 1;
    return static_cast<u32>(m << (a & 31));
  });
  bin<u32, u32, u32>(t, "szext.clamp.u32", [](u32 a, u32 b) { return b >= 32 ? a : a & ((1u << b) - 1); });
  bin<u32, u32, u32>(t, "szext.wrap.u32", [](u32 a, u32 b) {
    b &= 31;
    return a & ((1u << b) - 1);
  });
  bin<u32, u32, u32>(t, "szext.clamp.s32", [](u32 a, u32 b) {
    if (b == 0) return 0u;
    if (b >= 32) return a;
    u32 s = 32 - b;
    return static_cast<u32>(static_cast<s32>(a << s) >> s);
  });
  bin<u32, u32, u32>(t, "szext.wrap.s32", [](u32 a, u32 b) {
    b &= 31;
    if (b == 0) return 0u;
    u32 s = 32 - b;
    return static_cast<u32>(static_cast<s32>(a << s) >> s);
  });
  ter<u32, u32, u32, u32>(t, "fns.b32",
                          [](u32 a, u32 b, u32 c) { return find_nth(a, b, static_cast<s32>(c)); });
  ter<u32, u32, u32, u32>(t, "prmt.b32", [](u32 a, u32 b, u32 s) { return permute(a, b, s); });
  ter_imm<u32, u32, u32, u32>(t, "prmt.mode.b32",
                              [](u32 a, u32 b, u32 s, u64 mode) { return permute_mode(a, b, s, mode); });
  ter<u32, u32, u32, u32>(t, "shf.l.wrap.b32", [](u32 a, u32 b, u32 n) {
    u64 v = (static_cast<u64>(b) << 32) | a;
    return static_cast<u32>((v << (n & 31)) >> 32);
  });
  ter<u32, u32, u32, u32>(t, "shf.r.wrap.b32", [](u32 a, u32 b, u32 n) {
    u64 v = (static_cast<u64>(b) << 32) | a;
    return static_cast<u32>(v >> (n & 31));
  });
  ter<u32, u32, u32, u32>(t, "shf.l.clamp.b32", [](u32 a, u32 b, u32 n) {
    u64 v = (static_cast<u64>(b) << 32) | a;
    u32 k = n > 32 ? 32 : n;
    return static_cast<u32>((v << k) >> 32);
  });
  ter<u32, u32, u32, u32>(t, "shf.r.clamp.b32", [](u32 a, u32 b, u32 n) {
    u64 v = (static_cast<u64>(b) << 32) | a;
    u32 k = n > 32 ? 32 : n;
    return static_cast<u32>(v >> k);
  });
  ter<s32, u32, u32, u32>(t, "dp4a.s32.s32", [](u32 a, u32 b, u32 c) { return dot4<s8, s8>(a, b, c); });
  ter<s32, u32, u32, u32>(t, "dp4a.s32.u32", [](u32 a, u32 b, u32 c) { return dot4<s8, u8>(a, b, c); });
  ter<s32, u32, u32, u32>(t, "dp4a.u32.s32", [](u32 a, u32 b, u32 c) { return dot4<u8, s8>(a, b, c); });
  ter<s32, u32, u32, u32>(t, "dp4a.u32.u32", [](u32 a, u32 b, u32 c) { return dot4<u8, u8>(a, b, c); });
  ter_imm<u32, u32, u32, u32>(t, "dp2a.s32.s32", [](u32 a, u32 b, u32 c, u64 h) {
    return dot2<s16, s8>(a, b, c, static_cast<u32>(h));
  });
  ter_imm<u32, u32, u32, u32>(t, "dp2a.s32.u32", [](u32 a, u32 b, u32 c, u64 h) {
    return dot2<s16, u8>(a, b, c, static_cast<u32>(h));
  });
  ter_imm<u32, u32, u32, u32>(t, "dp2a.u32.s32", [](u32 a, u32 b, u32 c, u64 h) {
    return dot2<u16, s8>(a, b, c, static_cast<u32>(h));
  });
  ter_imm<u32, u32, u32, u32>(t, "dp2a.u32.u32", [](u32 a, u32 b, u32 c, u64 h) {
    return dot2<u16, u8>(a, b, c, static_cast<u32>(h));
  });
  bin<u32, u32, u32>(t, "add.x2",
                     [](u32 a, u32 b) { return halves<u16>(a, b, [](u16 x, u16 y) { return x + y; }); });
  bin<u32, u32, u32>(t, "min.u16x2", [](u32 a, u32 b) {
    return halves<u16>(a, b, [](u16 x, u16 y) { return x < y ? x : y; });
  });
  bin<u32, u32, u32>(t, "max.u16x2", [](u32 a, u32 b) {
    return halves<u16>(a, b, [](u16 x, u16 y) { return x > y ? x : y; });
  });
  bin<u32, u32, u32>(t, "min.s16x2", [](u32 a, u32 b) {
    return halves<s16>(a, b, [](s16 x, s16 y) { return x < y ? x : y; });
  });
  bin<u32, u32, u32>(t, "max.s16x2", [](u32 a, u32 b) {
    return halves<s16>(a, b, [](s16 x, s16 y) { return x > y ? x : y; });
  });
  bin<u32, u32, u32>(t, "min.relu.s16x2", [](u32 a, u32 b) {
    return halves<s16>(a, b, [](s16 x, s16 y) {
      s16 r = x < y ? x : y;
      return r > 0 ? r : s16{0};
    });
  });
  bin<u32, u32, u32>(t, "max.relu.s16x2", [](u32 a, u32 b) {
    return halves<s16>(a, b, [](s16 x, s16 y) {
      s16 r = x > y ? x : y;
      return r > 0 ? r : s16{0};
    });
  });
  add_handler(t, "bfi.b32", &Bfi<u32>::run<false>, &Bfi<u32>::run<true>);
  add_handler(t, "bfi.b64", &Bfi<u64>::run<false>, &Bfi<u64>::run<true>);
  // Integer width changes. The 16-bit registers are zero-extended, so these few cover every pair.
  un<u64, u32>(t, "cvt.u64.u32", [](u32 a) { return static_cast<u64>(a); });
  un<s64, s32>(t, "cvt.s64.s32", [](s32 a) { return static_cast<s64>(a); });
  un<u32, u64>(t, "cvt.u32.u64", [](u64 a) { return static_cast<u32>(a); });
  un<u32, u32>(t, "cvt.u32.u8", [](u32 a) { return a & 0xffu; });
  un<u32, u32>(t, "cvt.u32.u16", [](u32 a) { return a & 0xffffu; });
  un<s32, u32>(t, "cvt.s32.s8", [](u32 a) { return static_cast<s32>(static_cast<s8>(a)); });
  un<s32, u32>(t, "cvt.s32.s16", [](u32 a) { return static_cast<s32>(static_cast<s16>(a)); });
  un<u32, u32>(t, "cvt.s16.s8", [](u32 a) { return static_cast<u32>(static_cast<u16>(static_cast<s8>(a))); });
  // Two 32-bit rows <-> one 64-bit row.
  bin<u64, u32, u32>(t, "pack.b64", [](u32 lo, u32 hi) { return (static_cast<u64>(hi) << 32) | lo; });
  un<u32, u64>(t, "high.b64", [](u64 a) { return static_cast<u32>(a >> 32); });
  un<u32, u32>(t, "high.b32", [](u32 a) { return a >> 16; });
  bin<u32, u32, u32>(t, "pack.b32", [](u32 lo, u32 hi) { return (hi << 16) | (lo & 0xffffu); });
}

}  // namespace simgpu::exec::SIMGPU_ISA
