// One kernel per instruction form, in PTX text, against host references over edge and random values.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>

#include "tests/exec/fixture.h"

namespace simgpu::exec::test {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
struct Pred {
  bool v;
};

template <class T>
struct Ptx;
#define PTX(T, REG, MEM)                                \
  template <>                                           \
  struct Ptx<T> {                                       \
    static constexpr const char *reg = REG, *mem = MEM; \
  }
PTX(u8, ".b16", "u8");
PTX(s8, ".b16", "s8");
PTX(u16, ".b16", "u16");
PTX(s16, ".b16", "s16");
PTX(u32, ".b32", "u32");
PTX(s32, ".b32", "s32");
PTX(u64, ".b64", "u64");
PTX(s64, ".b64", "s64");
PTX(float, ".f32", "f32");
PTX(double, ".f64", "f64");

template <class T>
T bits_as(u64 b) {
  T v;
  std::memcpy(&v, &b, sizeof(T));
  return v;
}
template <class T>
u64 as_bits(T v) {
  u64 b = 0;
  std::memcpy(&b, &v, sizeof(T));
  return b;
}

template <class T>
const std::vector<T>& edges() {
  static const std::vector<T> v = [] {
    std::vector<T> r;
    if constexpr (std::is_floating_point_v<T>) {
      using L = std::numeric_limits<T>;
      for (T x : {T(0),
                  T(1),
                  T(2),
                  T(0.5),
                  T(1.5),
                  T(2.5),
                  T(3),
                  T(-7.25),
                  L::min(),
                  L::denorm_min(),
                  L::max(),
                  L::epsilon(),
                  L::infinity(),
                  T(L::min() / 2),
                  T(2147483648.0),
                  T(4294967296.0),
                  T(9.3e18),
                  T(255.5),
                  T(127),
                  T(65535.5)}) {
        r.push_back(x);
        r.push_back(-x);
      }
      r.push_back(L::quiet_NaN());
    } else {
      for (u64 x : {u64{0},
                    u64{1},
                    u64{2},
                    u64{3},
                    u64{7},
                    u64{31},
                    u64{32},
                    u64{33},
                    u64{63},
                    u64{64},
                    u64{127},
                    u64{128},
                    u64{255},
                    u64{0x7fff},
                    u64{0x8000},
                    u64{0xffff},
                    u64{0x7fffffff},
                    u64{0x80000000},
                    u64{0xffffffff},
                    u64{0x7fffffffffffffff},
                    u64{0x8000000000000000}}) {
        r.push_back(static_cast<T>(x));
        r.push_back(static_cast<T>(0 - x));
      }
    }
    return r;
  }();
  return v;
}
template <class T>
T random_value(std::mt19937_64& g) {
  const u64 r = g();
  if constexpr (std::is_floating_point_v<T>) {
    switch (r % 4) {
      case 0:
        return static_cast<T>(static_cast<double>(static_cast<s64>(g())) * 0x1p-40);
      case 1:
        return static_cast<T>(static_cast<double>(static_cast<s32>(g())) * 0x1p-28);
      default:
        return bits_as<T>(g());
    }
  } else {
    return static_cast<T>(r % 3 == 0 ? g() % 100 : g());
  }
}

class Opcodes : public ::testing::Test {
 protected:
  static constexpr size_t n = 2048;
  // `text` with {d} {a} {b} {c} for registers; F(a, b, c) the expected result. tolerance in ulps of D (0:
  // bits, any NaN equal).
  template <class D, class A, class B, class C, class F>
  void check(const std::string& text, F f, double tolerance = 0, bool payload = false) {
    std::string op = text;
    const auto put = [&](const std::string& k, const std::string& v) {
      for (size_t p; (p = op.find(k)) != std::string::npos;) op.replace(p, k.size(), v);
    };
    put("{d}", "%d");
    put("{a}", "%a");
    put("{b}", "%b");
    put("{c}", "%c");
    const auto load = [](const char* reg, const char* mem, u64 size, int at) {
      return "mul.wide.u32 %o, %i, " + std::to_string(size) + "; ld.param.u64 %p, [p" + std::to_string(at) +
             "]; add.s64 %p, %p, %o; ld.global." + mem + " " + reg + ", [%p];\n";
    };
    std::string ptx =
        ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, "
        ".param .u64 p2, .param .u64 p3) {\n"
        ".reg .b32 %i, %t; .reg .b64 %o, %p; .reg .pred %q, %r;\n";
    ptx += std::string(".reg ") + Ptx<D>::reg + " %d; .reg " + Ptx<A>::reg + " %a; .reg " + Ptx<B>::reg +
           " %b; .reg " + Ptx<C>::reg + " %c;\n";
    ptx +=
        "mov.u32 %i, %ctaid.x; mov.u32 %t, %ntid.x; mul.lo.u32 %i, %i, %t; mov.u32 %t, %tid.x; add.u32 %i, "
        "%i, %t;\n";
    ptx += load("%a", Ptx<A>::mem, sizeof(A), 1) + load("%b", Ptx<B>::mem, sizeof(B), 2) +
           load("%c", Ptx<C>::mem, sizeof(C), 3);
    ptx += op + "\n";
    ptx += "mul.wide.u32 %o, %i, " + std::to_string(sizeof(D)) +
           "; ld.param.u64 %p, [p0]; add.s64 %p, %p, %o; st.global." + Ptx<D>::mem + " [%p], %d;\nret;\n}\n";
    Device d;
    std::string error;
    if (!d.load(ptx, &error)) {
      ADD_FAILURE() << text << ": " << error;
      return;
    }
    std::mt19937_64 g(12345);
    std::vector<A> a(n);
    std::vector<B> b(n);
    std::vector<C> c(n);
    const auto& ea = edges<A>();
    const auto& eb = edges<B>();
    const auto& ec = edges<C>();
    for (size_t k = 0; k < n; ++k) {
      a[k] = k < n / 2 ? ea[k % ea.size()] : random_value<A>(g);
      b[k] = k < n / 2 ? eb[k / ea.size() % eb.size()] : random_value<B>(g);
      c[k] = k < n / 2 ? ec[g() % ec.size()] : random_value<C>(g);
      if (k % 8 == 7) {
        if constexpr (std::is_same_v<A, B>) b[k] = a[k];
      }
    }
    const u64 pa = d.memory.upload(a), pb = d.memory.upload(b), pc = d.memory.upload(c),
              pd = d.memory.allocate(n * sizeof(D));
    const Result r = d.run("k", {n / 128}, {128}, args(pd, pa, pb, pc));
    if (r.state != Execution::State::done) {
      ADD_FAILURE() << text << ": " << r.fault.text << r.error;
      return;
    }
    int bad = 0;
    for (size_t k = 0; k < n && bad < 4; ++k) {
      const D got = d.memory.host<D>(pd)[k], want = f(a[k], b[k], c[k]);
      bool same = as_bits(got) == as_bits(want);
      if constexpr (std::is_floating_point_v<D>) {
        if (!payload && got != got && want != want) {
          same = true;
          if (sizeof(D) == 4 && as_bits(got) != 0x7fffffffu) same = false;  // single precision has one NaN
        }
        if (!same && tolerance > 0 && std::isfinite(got) && std::isfinite(want)) {
          const D ulp =
              std::max(std::nextafter(std::fabs(want), std::numeric_limits<D>::infinity()) - std::fabs(want),
                       std::numeric_limits<D>::denorm_min());
          same = std::fabs(static_cast<double>(got) - static_cast<double>(want)) <=
                 tolerance * static_cast<double>(ulp);
        }
      }
      if (!same) {
        bad++;
        ADD_FAILURE() << text << " a=" << +a[k] << " b=" << +b[k] << " c=" << +c[k] << std::hex << " (a=0x"
                      << as_bits(a[k]) << " b=0x" << as_bits(b[k]) << " c=0x" << as_bits(c[k]) << "): got 0x"
                      << as_bits(got) << ", want 0x" << as_bits(want);
      }
    }
  }
  template <class T, class F>
  void check3(const std::string& t, F f, double tol = 0) {
    check<T, T, T, T>(t, f, tol);
  }
};

float ftz(float v) { return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v; }

template <class T>
void integer_ops(const std::function<void(const std::string&, std::function<T(T, T, T)>)>& check,
                 const std::string& su, const std::string& b) {
  using U = std::make_unsigned_t<T>;
  check("add." + su + " {d}, {a}, {b};",
        [](T a, T c, T) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(c)); });
  check("sub." + su + " {d}, {a}, {b};",
        [](T a, T c, T) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(c)); });
  check("mul.lo." + su + " {d}, {a}, {b};",
        [](T a, T c, T) { return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(c)); });
  check("mad.lo." + su + " {d}, {a}, {b}, {c};", [](T a, T c, T e) {
    return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(c) + static_cast<u64>(e));
  });
  check("mul.hi." + su + " {d}, {a}, {b};", [](T a, T c, T) {
    return static_cast<T>((static_cast<__int128>(a) * static_cast<__int128>(c)) >> (sizeof(T) * 8));
  });
  check("mad.hi." + su + " {d}, {a}, {b}, {c};", [](T a, T c, T e) {
    return static_cast<T>(
        static_cast<u64>((static_cast<__int128>(a) * static_cast<__int128>(c)) >> (sizeof(T) * 8)) +
        static_cast<u64>(e));
  });
  check("min." + su + " {d}, {a}, {b};", [](T a, T c, T) { return std::min(a, c); });
  check("max." + su + " {d}, {a}, {b};", [](T a, T c, T) { return std::max(a, c); });
  check("div." + su + " {d}, {a}, {b};", [](T a, T c, T) {
    return c == 0 ? static_cast<T>(-1) : static_cast<T>(static_cast<__int128>(a) / static_cast<__int128>(c));
  });
  check("rem." + su + " {d}, {a}, {b};", [](T a, T c, T) {
    return c == 0 ? a : static_cast<T>(static_cast<__int128>(a) % static_cast<__int128>(c));
  });
  check("sad." + su + " {d}, {a}, {b}, {c};", [](T a, T c, T e) {
    const __int128 x = static_cast<__int128>(a) - c;
    return static_cast<T>(static_cast<u64>(e) + static_cast<u64>(x < 0 ? -x : x));
  });
  check("xor." + b + " {d}, {a}, {b};", [](T a, T c, T) { return static_cast<T>(a ^ c); });
  check("not." + b + " {d}, {a};", [](T a, T, T) { return static_cast<T>(~a); });
  check("cnot." + b + " {d}, {a};", [](T a, T, T) { return static_cast<T>(a == 0); });
  check("{ .reg .u32 s; cvt.u32." + su + " s, {b}; and.b32 s, s, 127; shl." + b + " {d}, {a}, s; }",
        [](T a, T c, T) {
          const u32 s = static_cast<u32>(c) & 127;
          return s >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<u64>(a) << s);
        });
  check("{ .reg .u32 s; cvt.u32." + su + " s, {b}; and.b32 s, s, 127; shr." + su + " {d}, {a}, s; }",
        [](T a, T c, T) {
          const u32 s = static_cast<u32>(c) & 127;
          return static_cast<T>(static_cast<__int128>(a) >> s);
        });
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::string o = op;
    const auto cmp = [o](T a, T c) {
      return o == "eq"   ? a == c
             : o == "ne" ? a != c
             : o == "lt" ? a < c
             : o == "le" ? a <= c
             : o == "gt" ? a > c
                         : a >= c;
    };
    check("setp." + o + "." + su + " %q, {a}, {b}; selp." + b + " {d}, {a}, {c}, %q;",
          [cmp](T a, T c, T e) { return cmp(a, c) ? a : e; });
    check("setp.eq." + su + " %r, {b}, {c}; setp." + o + ".and." + su + " %q|%r, {a}, {b}, !%r; selp." + b +
              " {d}, {a}, {b}, %q; selp." + b + " {d}, {c}, {d}, %r;",
          [cmp](T a, T c, T e) {
            const bool p = cmp(a, c) && c != e, q = !cmp(a, c) && c != e;
            T d = p ? a : c;
            return q ? e : d;
          });
  }
}
#define INTEGERS(T, su, b) \
  integer_ops<T>([this](const std::string& t, std::function<T(T, T, T)> f) { check3<T>(t, f); }, su, b)
TEST_F(Opcodes, Integer16) {
  INTEGERS(u16, "u16", "b16");
  INTEGERS(s16, "s16", "b16");
}
TEST_F(Opcodes, Integer32) {
  INTEGERS(u32, "u32", "b32");
  INTEGERS(s32, "s32", "b32");
}
TEST_F(Opcodes, Integer64) {
  INTEGERS(u64, "u64", "b64");
  INTEGERS(s64, "s64", "b64");
}

TEST_F(Opcodes, IntegerSpecial) {
  check<u64, u32, u32, u32>("mul.wide.u32 {d}, {a}, {b};",
                            [](u32 a, u32 b, u32) { return static_cast<u64>(a) * b; });
  check<s64, s32, s32, s64>("mad.wide.s32 {d}, {a}, {b}, {c};", [](s32 a, s32 b, s64 c) {
    return static_cast<s64>(static_cast<u64>(static_cast<s64>(a) * b) + static_cast<u64>(c));
  });
  check<s32, s16, s16, s32>("mul.wide.s16 {d}, {a}, {b};", [](s16 a, s16 b, s32) { return a * b; });
  check3<s32>("add.sat.s32 {d}, {a}, {b};", [](s32 a, s32 b, s32) {
    return static_cast<s32>(std::clamp<s64>(static_cast<s64>(a) + b, INT32_MIN, INT32_MAX));
  });
  check3<u32>("popc.b32 {d}, {a};", [](u32 a, u32, u32) { return static_cast<u32>(__builtin_popcount(a)); });
  check<u32, u64, u64, u64>("popc.b64 {d}, {a};",
                            [](u64 a, u64, u64) { return static_cast<u32>(__builtin_popcountll(a)); });
  check3<u32>("clz.b32 {d}, {a};",
              [](u32 a, u32, u32) { return a ? static_cast<u32>(__builtin_clz(a)) : 32u; });
  check<u32, u64, u64, u64>("clz.b64 {d}, {a};",
                            [](u64 a, u64, u64) { return a ? static_cast<u32>(__builtin_clzll(a)) : 64u; });
  check3<u32>("brev.b32 {d}, {a};", [](u32 a, u32, u32) {
    u32 r = 0;
    for (int k = 0; k < 32; ++k) r |= ((a >> k) & 1) << (31 - k);
    return r;
  });
  check3<u64>("brev.b64 {d}, {a};", [](u64 a, u64, u64) {
    u64 r = 0;
    for (int k = 0; k < 64; ++k) r |= ((a >> k) & 1) << (63 - k);
    return r;
  });
  check<u32, s32, s32, s32>("bfind.s32 {d}, {a};", [](s32 a, s32, s32) {
    const u32 v = static_cast<u32>(a < 0 ? ~a : a);
    return v ? 31u - static_cast<u32>(__builtin_clz(v)) : ~0u;
  });
  check<u32, u64, u64, u64>("bfind.shiftamt.u64 {d}, {a};",
                            [](u64 a, u64, u64) { return a ? static_cast<u32>(__builtin_clzll(a)) : ~0u; });
  check3<u32>("prmt.b32 {d}, {a}, {b}, {c};", [](u32 a, u32 b, u32 c) {
    const u64 v = static_cast<u64>(b) << 32 | a;
    u32 r = 0;
    for (int k = 0; k < 4; ++k) {
      const u32 s = c >> (4 * k) & 15;
      u32 x = static_cast<u32>(v >> (8 * (s & 7))) & 255;
      if (s & 8) x = x & 128 ? 255 : 0;
      r |= x << (8 * k);
    }
    return r;
  });
  check3<u32>("shf.l.wrap.b32 {d}, {a}, {b}, {c};", [](u32 a, u32 b, u32 c) {
    const u32 k = c & 31;
    return k ? b << k | a >> (32 - k) : b;
  });
  check3<u32>("shf.r.clamp.b32 {d}, {a}, {b}, {c};", [](u32 a, u32 b, u32 c) {
    const u32 k = std::min(c, 32u);
    return k == 0 ? a : k == 32 ? b : b << (32 - k) | a >> k;
  });
  check3<u32>("lop3.b32 {d}, {a}, {b}, {c}, 0x96;", [](u32 a, u32 b, u32 c) { return a ^ b ^ c; });
  check3<u32>("lop3.b32 {d}, {a}, {b}, {c}, 0xCA;", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  const auto bfe = [](auto a, u32 p, u32 n, bool sign) {
    constexpr u32 w = sizeof(a) * 8;
    p &= 255;
    n &= 255;
    u64 r = 0;
    const u32 top = std::min(p + n - 1, w - 1);
    const u64 s = n && sign ? static_cast<u64>(a) >> top & 1 : 0;
    for (u32 k = 0; k < w; ++k) {
      const u64 bit = k < n && p + k < w ? static_cast<u64>(a) >> (p + k) & 1 : s;
      r |= bit << k;
    }
    return static_cast<decltype(a)>(r);
  };
  check<u32, u32, u32, u32>("bfe.u32 {d}, {a}, {b}, {c};",
                            [&](u32 a, u32 b, u32 c) { return bfe(a, b, c, false); });
  check<s32, s32, u32, u32>("bfe.s32 {d}, {a}, {b}, {c};",
                            [&](s32 a, u32 b, u32 c) { return bfe(a, b, c, true); });
  check<s64, s64, u32, u32>("bfe.s64 {d}, {a}, {b}, {c};",
                            [&](s64 a, u32 b, u32 c) { return bfe(a, b, c, true); });
  check3<u32>("bfi.b32 {d}, {a}, {b}, {c}, 9;", [](u32 a, u32 b, u32 c) {
    const u32 p = c & 255;
    u32 r = b;
    for (u32 k = 0; k < 9 && p + k < 32; ++k) r = (r & ~(1u << (p + k))) | ((a >> k & 1) << (p + k));
    return r;
  });
  check<s32, u32, u32, s32>("dp4a.s32.u32 {d}, {a}, {b}, {c};", [](u32 a, u32 b, s32 c) {
    u32 r = static_cast<u32>(c);
    for (int k = 0; k < 4; ++k)
      r += static_cast<u32>(static_cast<s8>(a >> 8 * k) * static_cast<u8>(b >> 8 * k));
    return static_cast<s32>(r);
  });
  check3<u32>("dp2a.hi.u32.u32 {d}, {a}, {b}, {c};",
              [](u32 a, u32 b, u32 c) { return c + (a & 65535) * (b >> 16 & 255) + (a >> 16) * (b >> 24); });
  check<u64, u64, u64, u64>(
      "{ .reg .u32 l, h, x, y; mov.b64 {l, h}, {a}; mov.b64 {x, y}, {b}; add.cc.u32 l, l, x; addc.u32 h, h, "
      "y; mov.b64 {d}, {l, h}; }",
      [](u64 a, u64 b, u64) { return a + b; });
  check<u64, u64, u64, u64>(
      "{ .reg .u32 l, h, x, y; mov.b64 {l, h}, {a}; mov.b64 {x, y}, {b}; sub.cc.u32 l, l, x; subc.u32 h, h, "
      "y; mov.b64 {d}, {l, h}; }",
      [](u64 a, u64 b, u64) { return a - b; });
  check<u64, u32, u32, u64>(
      "{ .reg .u32 l, h, x, y; mov.b64 {x, y}, {c}; mad.lo.cc.u32 l, {a}, {b}, x; madc.hi.u32 h, {a}, {b}, "
      "y; mov.b64 {d}, {l, h}; }",
      [](u32 a, u32 b, u64 c) { return static_cast<u64>(a) * b + c; });
  check3<u32>("vabsdiff4.u32.u32.u32.add {d}, {a}, {b}, {c};", [](u32 a, u32 b, u32 c) {
    for (int k = 0; k < 4; ++k) {
      const int x = a >> 8 * k & 255, y = b >> 8 * k & 255;
      c += static_cast<u32>(std::abs(x - y));
    }
    return c;
  });
  check3<u32>("vadd.u32.u32.u32.sat {d}, {a}.b1, {b}.h1;",
              [](u32 a, u32 b, u32) { return (a >> 8 & 255) + (b >> 16); });
  check3<s32>("mul24.lo.s32 {d}, {a}, {b};", [](s32 a, s32 b, s32) {
    const auto t = [](s32 v) { return static_cast<s64>(static_cast<s32>(static_cast<u32>(v) << 8) >> 8); };
    return static_cast<s32>(t(a) * t(b));
  });
  check<u32, u32, u32, s32>("slct.u32.s32 {d}, {a}, {b}, {c};",
                            [](u32 a, u32 b, s32 c) { return c >= 0 ? a : b; });
  check3<u32>(
      "@%q add.u32 {d}, {a}, {b}; setp.lt.u32 %q, {a}, {b}; mov.u32 {d}, {c}; @%q sub.u32 {d}, {a}, {b};",
      [](u32 a, u32 b, u32 c) { return a < b ? a - b : c; });
}

template <class T>
T num_min(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return std::min(a, b);
}
template <class T>
T num_max(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return std::max(a, b);
}

TEST_F(Opcodes, Single) {
  using F = float;
  check3<F>("add.f32 {d}, {a}, {b};", [](F a, F b, F) { return a + b; });
  check3<F>("sub.rn.f32 {d}, {a}, {b};", [](F a, F b, F) { return a - b; });
  check3<F>("mul.f32 {d}, {a}, {b};", [](F a, F b, F) {
    volatile F r = a * b;
    return r;
  });
  check3<F>("mul.ftz.f32 {d}, {a}, {b};", [](F a, F b, F) { return ftz(ftz(a) * ftz(b)); });
  check3<F>("add.sat.f32 {d}, {a}, {b};", [](F a, F b, F) {
    const F r = a + b;
    return r != r ? 0.0f : r > 0 ? std::min(r, 1.0f) : 0.0f;
  });
  check3<F>("fma.rn.f32 {d}, {a}, {b}, {c};", [](F a, F b, F c) { return std::fma(a, b, c); });
  check3<F>("fma.rn.ftz.f32 {d}, {a}, {b}, {c};",
            [](F a, F b, F c) { return ftz(std::fma(ftz(a), ftz(b), ftz(c))); });
  check3<F>("div.rn.f32 {d}, {a}, {b};", [](F a, F b, F) { return a / b; });
  check3<F>(
      "div.full.f32 {d}, {a}, {b};", [](F a, F b, F) { return a / b; }, 2);
  check3<F>("sqrt.rn.f32 {d}, {a};", [](F a, F, F) { return std::sqrt(a); });
  check3<F>("rcp.rn.f32 {d}, {a};", [](F a, F, F) { return 1 / a; });
  check3<F>(
      "rcp.approx.ftz.f32 {d}, {a};", [](F a, F, F) { return ftz(1 / ftz(a)); }, 1);
  check3<F>(
      "rsqrt.approx.f32 {d}, {a};",
      [](F a, F, F) { return static_cast<F>(1 / std::sqrt(static_cast<double>(a))); }, 2);
  check3<F>(
      "ex2.approx.f32 {d}, {a};", [](F a, F, F) { return static_cast<F>(std::exp2(static_cast<double>(a))); },
      2);
  check3<F>(
      "lg2.approx.f32 {d}, {a};", [](F a, F, F) { return static_cast<F>(std::log2(static_cast<double>(a))); },
      2);
  check3<F>(
      "tanh.approx.f32 {d}, {a};",
      [](F a, F, F) { return static_cast<F>(std::tanh(static_cast<double>(a))); },
      2000);  // 2^-10.987 relative
  check3<F>(
      "{ .reg .f32 t; mul.f32 t, {a}, 0f00000000; add.f32 t, t, 0f40490FDB; min.f32 t, t, {a}; max.f32 t, t, "
      "0fC0490FDB; sin.approx.f32 {d}, t; }",
      [](F a, F, F) {
        F t = a * 0 + 3.14159274f;
        t = num_min(t, a);
        t = num_max(t, -3.14159274f);
        return static_cast<F>(std::sin(static_cast<double>(t)));
      },
      8);
  check3<F>("min.f32 {d}, {a}, {b};", [](F a, F b, F) { return num_min(a, b); });
  check3<F>("max.f32 {d}, {a}, {b};", [](F a, F b, F) { return num_max(a, b); });
  check3<F>("max.NaN.f32 {d}, {a}, {b};", [](F a, F b, F) { return a != a || b != b ? NAN : num_max(a, b); });
  check<F, F, F, F>(
      "neg.f32 {d}, {a};", [](F a, F, F) { return bits_as<F>(as_bits(a) ^ 0x80000000u); }, 0, true);
  check<F, F, F, F>(
      "copysign.f32 {d}, {a}, {b};", [](F a, F b, F) { return std::copysign(b, a); }, 0, true);
  const auto directed = [this](const std::string& mode, int host) {
    const auto with = [host](auto f) {
      return [host, f](F a, F b, F c) {
        (void)c;
        const int old = std::fegetround();
        std::fesetround(host);
        volatile F x = a, y = b, z = c;
        volatile F r = f(x, y, z);
        std::fesetround(old);
        return static_cast<F>(r);
      };
    };
    check3<F>("add." + mode + ".f32 {d}, {a}, {b};", with([](F a, F b, F) { return a + b; }));
    check3<F>("mul." + mode + ".f32 {d}, {a}, {b};", with([](F a, F b, F) { return a * b; }));
    check3<F>("fma." + mode + ".f32 {d}, {a}, {b}, {c};",
              with([](F a, F b, F c) { return std::fma(a, b, c); }));
    check3<F>("div." + mode + ".f32 {d}, {a}, {b};", with([](F a, F b, F) { return a / b; }));
    check3<F>("sqrt." + mode + ".f32 {d}, {a};", with([](F a, F, F) { return std::sqrt(a); }));
  };
  directed("rz", 0xc00);
  directed("rm", 0x400);
  directed("rp", 0x800);
  for (const char* op : {"eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu", "num", "nan"}) {
    const std::string o = op;
    check<u32, F, F, F>("setp." + o + ".f32 %q, {a}, {b}; selp.u32 {d}, 1, 0, %q;", [o](F a, F b, F) -> u32 {
      const bool u = a != a || b != b;
      if (o == "num") return !u;
      if (o == "nan") return u;
      const bool r = o[0] == 'e' ? a == b : o[0] == 'n' ? a != b && !u : o[0] == 'l' ? a < b : a >= b;
      return r || (o.back() == 'u' && o.size() == 3 && u);
    });
  }
  check<float, F, F, F>("set.lt.f32.f32 {d}, {a}, {b};", [](F a, F b, F) { return a < b ? 1.0f : 0.0f; });
}
TEST_F(Opcodes, Double) {
  using F = double;
  check3<F>("add.f64 {d}, {a}, {b};", [](F a, F b, F) { return a + b; });
  check3<F>("mul.rn.f64 {d}, {a}, {b};", [](F a, F b, F) {
    volatile F r = a * b;
    return r;
  });
  check3<F>("fma.rn.f64 {d}, {a}, {b}, {c};", [](F a, F b, F c) { return std::fma(a, b, c); });
  check3<F>("div.rn.f64 {d}, {a}, {b};", [](F a, F b, F) { return a / b; });
  check3<F>("sqrt.rn.f64 {d}, {a};", [](F a, F, F) { return std::sqrt(a); });
  check3<F>("min.f64 {d}, {a}, {b};", [](F a, F b, F) { return num_min(a, b); });
  check3<F>("abs.f64 {d}, {a};", [](F a, F, F) { return std::fabs(a); });
  for (const auto& [mode, host] :
       std::vector<std::pair<std::string, int>>{{"rz", 0xc00}, {"rm", 0x400}, {"rp", 0x800}}) {
    const int h = host;
    check3<F>("add." + mode + ".f64 {d}, {a}, {b};", [h](F a, F b, F) {
      std::fesetround(h);
      volatile F x = a, y = b;
      volatile F r = x + y;
      std::fesetround(0);
      return static_cast<F>(r);
    });
    check3<F>("fma." + mode + ".f64 {d}, {a}, {b}, {c};", [h](F a, F b, F c) {
      std::fesetround(h);
      volatile F x = a, y = b, z = c;
      volatile F r = std::fma(x, y, z);
      std::fesetround(0);
      return static_cast<F>(r);
    });
  }
}

template <class I, class F>
I convert(F v, double (*round)(double)) {
  if (v != v) return sizeof(F) == 8 || sizeof(I) == 8 ? static_cast<I>(u64{1} << (sizeof(I) * 8 - 1)) : I{0};
  const long double r = round(static_cast<double>(v));
  if (r <= static_cast<long double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (r >= static_cast<long double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(r);
}
TEST_F(Opcodes, Conversions) {
#define TO_INT(I, in, F, fn)                                                                                 \
  check<I, F, F, F>("cvt.rzi." in "." fn " {d}, {a};",                                                       \
                    [](F a, F, F) { return convert<I, F>(a, [](double x) { return std::trunc(x); }); });     \
  check<I, F, F, F>("cvt.rni." in "." fn " {d}, {a};",                                                       \
                    [](F a, F, F) { return convert<I, F>(a, [](double x) { return std::nearbyint(x); }); }); \
  check<I, F, F, F>("cvt.rmi." in "." fn " {d}, {a};",                                                       \
                    [](F a, F, F) { return convert<I, F>(a, [](double x) { return std::floor(x); }); });     \
  check<I, F, F, F>("cvt.rpi." in "." fn " {d}, {a};",                                                       \
                    [](F a, F, F) { return convert<I, F>(a, [](double x) { return std::ceil(x); }); })
  TO_INT(s8, "s8", float, "f32");
  TO_INT(u8, "u8", float, "f32");
  TO_INT(s16, "s16", float, "f32");
  TO_INT(u16, "u16", float, "f32");
  TO_INT(s32, "s32", float, "f32");
  TO_INT(u32, "u32", float, "f32");
  TO_INT(s64, "s64", float, "f32");
  TO_INT(u64, "u64", float, "f32");
  TO_INT(s32, "s32", double, "f64");
  TO_INT(u32, "u32", double, "f64");
  TO_INT(s64, "s64", double, "f64");
  TO_INT(u64, "u64", double, "f64");
#define TO_FLOAT(F, fn, I, in) \
  check<F, I, I, I>("cvt.rn." fn "." in " {d}, {a};", [](I a, I, I) { return static_cast<F>(a); })
  TO_FLOAT(float, "f32", s8, "s8");
  TO_FLOAT(float, "f32", u16, "u16");
  TO_FLOAT(float, "f32", s32, "s32");
  TO_FLOAT(float, "f32", u32, "u32");
  TO_FLOAT(float, "f32", s64, "s64");
  TO_FLOAT(float, "f32", u64, "u64");
  TO_FLOAT(double, "f64", s32, "s32");
  TO_FLOAT(double, "f64", u32, "u32");
  TO_FLOAT(double, "f64", s64, "s64");
  TO_FLOAT(double, "f64", u64, "u64");
  check<float, u64, u64, u64>("cvt.rz.f32.u64 {d}, {a};", [](u64 a, u64, u64) {
    std::fesetround(0xc00);
    volatile u64 x = a;
    volatile float r = static_cast<float>(x);
    std::fesetround(0);
    return static_cast<float>(r);
  });
  check<float, double, double, double>("cvt.rn.f32.f64 {d}, {a};",
                                       [](double a, double, double) { return static_cast<float>(a); });
  check<double, float, float, float>("cvt.f64.f32 {d}, {a};",
                                     [](float a, float, float) { return static_cast<double>(a); });
  check3<float>("cvt.rmi.f32.f32 {d}, {a};", [](float a, float, float) { return std::floor(a); });
  check3<float>("cvt.rni.f32.f32 {d}, {a};", [](float a, float, float) { return std::nearbyint(a); });
  check3<double>("cvt.rzi.f64.f64 {d}, {a};", [](double a, double, double) { return std::trunc(a); });
  check3<float>("cvt.sat.f32.f32 {d}, {a};",
                [](float a, float, float) { return a > 0 ? std::min(a, 1.0f) : 0.0f; });
#define INT_INT(D, dn, S, sn)                                                                    \
  check<D, S, S, S>("cvt." dn "." sn " {d}, {a};", [](S a, S, S) { return static_cast<D>(a); }); \
  check<D, S, S, S>("cvt.sat." dn "." sn " {d}, {a};", [](S a, S, S) {                           \
    const __int128 v = a;                                                                        \
    return v < std::numeric_limits<D>::min()   ? std::numeric_limits<D>::min()                   \
           : v > std::numeric_limits<D>::max() ? std::numeric_limits<D>::max()                   \
                                               : static_cast<D>(a);                              \
  })
  INT_INT(s8, "s8", s32, "s32");
  INT_INT(u8, "u8", s64, "s64");
  INT_INT(s16, "s16", u32, "u32");
  INT_INT(u16, "u16", s16, "s16");
  INT_INT(s32, "s32", u64, "u64");
  INT_INT(u32, "u32", s16, "s16");
  INT_INT(s64, "s64", s8, "s8");
  INT_INT(u64, "u64", s32, "s32");
  INT_INT(s64, "s64", u32, "u32");
  INT_INT(u32, "u32", s8, "s8");
}

// Exact 16-bit references: the nearest by search is slow, so through double with explicit rounding.
double half_value(u16 h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const double v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
  return h & 0x8000 ? -v : v;
}
u16 to_half(long double v) {
  if (v != v) return 0x7fff;
  const u16 sign = std::signbit(static_cast<double>(v)) ? 0x8000 : 0;
  long double m = fabsl(v);
  if (m >= 65520) return sign | 0x7c00;
  int e;
  frexpl(m, &e);
  e = std::max(e - 1, -14);
  const long double scaled = ldexpl(m, 10 - e);
  long double w = floorl(scaled);
  const long double rest = scaled - w;
  if (rest > 0.5L || (rest == 0.5L && fmodl(w, 2) != 0)) w += 1;
  const double r = static_cast<double>(ldexpl(w, e - 10));
  for (u32 k = 0; k <= 0x7c00; ++k) {
    if (half_value(static_cast<u16>(k)) == r) return static_cast<u16>(sign | k);
  }
  return 0xdead;
}
TEST_F(Opcodes, Half) {
  const auto same_nan = [](u16 h) { return (h & 0x7fff) > 0x7c00 ? u16{0x7fff} : h; };
  check3<u16>("add.f16 {d}, {a}, {b};", [](u16 a, u16 b, u16) {
    return to_half(static_cast<long double>(half_value(a)) + half_value(b));
  });
  check3<u16>("mul.f16 {d}, {a}, {b};", [](u16 a, u16 b, u16) {
    return to_half(static_cast<long double>(half_value(a)) * half_value(b));
  });
  check3<u16>("fma.rn.f16 {d}, {a}, {b}, {c};", [](u16 a, u16 b, u16 c) {
    return to_half(static_cast<long double>(half_value(a)) * half_value(b) + half_value(c));
  });
  check3<u16>("neg.f16 {d}, {a};", [](u16 a, u16, u16) { return static_cast<u16>(a ^ 0x8000); });
  check3<u16>("max.f16 {d}, {a}, {b};", [&](u16 a, u16 b, u16) {
    const double x = half_value(a), y = half_value(b);
    if (x != x && y != y) return u16{0x7fff};
    const double r = num_max(x, y);
    return same_nan(as_bits(r) == as_bits(x) ? a : b);
  });
  check<u16, float, float, float>("cvt.rn.f16.f32 {d}, {a};",
                                  [](float a, float, float) { return to_half(a); });
  check<u16, double, double, double>("cvt.rn.f16.f64 {d}, {a};", [](double a, double, double) {
    return to_half(static_cast<long double>(a));
  });
  check<u16, s32, s32, s32>("cvt.rn.f16.s32 {d}, {a};", [](s32 a, s32, s32) { return to_half(a); });
  check<float, u16, u16, u16>("cvt.f32.f16 {d}, {a};",
                              [](u16 a, u16, u16) { return static_cast<float>(half_value(a)); });
  check<u32, u32, u32, u32>("add.f16x2 {d}, {a}, {b};", [](u32 a, u32 b, u32) {
    const auto s = [](u32 x, u32 y) {
      return static_cast<u32>(to_half(static_cast<long double>(half_value(static_cast<u16>(x))) +
                                      half_value(static_cast<u16>(y))));
    };
    return s(a, b) | s(a >> 16, b >> 16) << 16;
  });
  check<u32, float, float, float>("cvt.rn.f16x2.f32 {d}, {a}, {b};", [](float a, float b, float) {
    return static_cast<u32>(to_half(a)) << 16 | to_half(b);
  });
  const auto bf = [](float v) -> u16 {
    if (v != v) return 0x7fff;
    const u32 b = static_cast<u32>(as_bits(v));
    return static_cast<u16>((b + 0x7fff + (b >> 16 & 1)) >> 16);
  };
  check<u16, float, float, float>("cvt.rn.bf16.f32 {d}, {a};", [&](float a, float, float) { return bf(a); });
  check<u16, float, float, float>("cvt.rz.bf16.f32 {d}, {a};", [](float a, float, float) {
    return a != a ? u16{0x7fff} : static_cast<u16>(as_bits(a) >> 16);
  });
  check3<u16>("mul.bf16 {d}, {a}, {b};", [&](u16 a, u16 b, u16) {
    return bf(bits_as<float>(static_cast<u64>(a) << 16) * bits_as<float>(static_cast<u64>(b) << 16));
  });
}

}  // namespace
}  // namespace simgpu::exec::test
