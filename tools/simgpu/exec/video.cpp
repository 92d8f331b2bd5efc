// Video instructions, scalar and packed: lowering and handlers.
#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {
namespace {

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

int64_t part(uint32_t v, uint32_t bits, uint32_t index, bool is_signed) {
  v >>= bits * index;
  if (bits < 32) v &= (1u << bits) - 1;
  if (!is_signed) return v;
  const uint32_t sign = 1u << (bits - 1);
  return static_cast<int64_t>(static_cast<int32_t>((v ^ sign) - sign));
}
int64_t clamp(int64_t v, uint32_t bits, bool is_signed) {
  const int64_t lo = is_signed ? -(int64_t{1} << (bits - 1)) : 0,
                hi = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  return v < lo ? lo : v > hi ? hi : v;
}
int64_t operate(const VideoOp& o, int64_t a, int64_t b, uint32_t bits) {
  switch (o.kind) {
    case VideoOp::add:
      return a + b;
    case VideoOp::sub:
      return a - b;
    case VideoOp::absdiff:
      return a > b ? a - b : b - a;
    case VideoOp::min:
      return a < b ? a : b;
    case VideoOp::max:
      return a > b ? a : b;
    case VideoOp::shl: {
      const uint64_t n =
          o.wrap ? static_cast<uint64_t>(b) & (bits - 1) : (b < 0 || b > 32 ? 32u : static_cast<uint64_t>(b));
      return static_cast<int64_t>(static_cast<uint64_t>(a) << n);
    }
    case VideoOp::shr: {
      const uint64_t n =
          o.wrap ? static_cast<uint64_t>(b) & (bits - 1) : (b < 0 || b > 32 ? 32u : static_cast<uint64_t>(b));
      return a >> n;
    }
    case VideoOp::set: {
      const bool r[6] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
      return r[o.compare];
    }
    case VideoOp::avrg: {
      const int64_t s = a + b;
      return (s + (s >= 0 ? 1 : 0)) >> 1;
    }
    case VideoOp::mad:
      return 0;
  }
  return 0;
}
uint32_t select(const uint32_t v, char selector, int component, bool is_signed, int64_t& out) {
  const uint32_t bits = selector == 'b' ? 8 : selector == 'h' ? 16 : 32;
  out = part(v, bits, component < 0 ? 0 : static_cast<uint32_t>(component), is_signed);
  return bits;
}

uint32_t scalar(const VideoOp& o, uint32_t av, uint32_t bv, uint32_t cv) {
  int64_t a, b;
  select(av, o.a_selector, o.a_component, o.a_signed, a);
  select(bv, o.b_selector, o.b_component, o.b_signed, b);
  int64_t r;
  if (o.kind == VideoOp::mad) {
    __int128 x = static_cast<__int128>(a) * b;
    __int128 c = (o.a_signed || o.b_signed || o.d_signed) ? static_cast<int64_t>(static_cast<int32_t>(cv))
                                                          : static_cast<int64_t>(cv);
    if (o.negate_product) x = -x;
    if (o.negate_c) c = -c;
    x += c + (o.plus_one ? 1 : 0);
    x >>= o.scale;
    r = static_cast<int64_t>(x);
    if (o.saturate) r = clamp(r, 32, o.d_signed);
    return static_cast<uint32_t>(r);
  }
  r = operate(o, a, b, 32);
  const uint32_t d_bits = o.second == VideoOp::merge ? (o.d_selector == 'b' ? 8 : 16) : 32;
  if (o.saturate) r = clamp(r, d_bits, o.d_signed);
  const uint32_t v = static_cast<uint32_t>(r);
  switch (o.second) {
    case VideoOp::none:
      return v;
    case VideoOp::plus:
      return v + cv;
    case VideoOp::second_min:
      return o.d_signed ? static_cast<uint32_t>(std::min(static_cast<int32_t>(v), static_cast<int32_t>(cv)))
                        : std::min(v, cv);
    case VideoOp::second_max:
      return o.d_signed ? static_cast<uint32_t>(std::max(static_cast<int32_t>(v), static_cast<int32_t>(cv)))
                        : std::max(v, cv);
    case VideoOp::merge: {
      const uint32_t shift = d_bits * static_cast<uint32_t>(o.d_component), mask = ((1u << d_bits) - 1)
                                                                                   << shift;
      return (cv & ~mask) | ((v << shift) & mask);
    }
  }
  return v;
}
uint32_t packed(const VideoOp& o, uint32_t av, uint32_t bv, uint32_t cv) {
  const uint32_t bits = 32 / o.lanes;
  uint32_t r = 0;
  uint32_t sum = cv;
  for (uint32_t k = 0; k < o.lanes; ++k) {
    int64_t v = operate(o, part(av, bits, k, o.a_signed), part(bv, bits, k, o.b_signed), bits);
    if (o.saturate) v = clamp(v, bits, o.d_signed);
    if (o.second == VideoOp::plus) sum += static_cast<uint32_t>(v);
    const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
    r |= static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(v) & mask} << (bits * k));
  }
  return o.second == VideoOp::plus ? sum : r;
}

const Inst* video(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const VideoOp*>(i->aux);
  const uint32_t *a = lanes_of<uint32_t>(c, i->a), *b = lanes_of<uint32_t>(c, i->b),
                 *e = lanes_of<uint32_t>(c, i->c);
  uint32_t* d = lanes_of<uint32_t>(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) d[l] = o.lanes == 1 ? scalar(o, a[l], b[l], e[l]) : packed(o, a[l], b[l], e[l]);
  return i + 1;
}

}  // namespace

bool lower_video(Lowering& l, const Instruction& in) {
  if (!need(l, in, 3)) return false;
  auto o = std::make_shared<VideoOp>();
  std::string name = in.opcode.substr(1);
  if (name.back() == '2' || name.back() == '4') {
    o->lanes = static_cast<uint8_t>(name.back() - '0');
    name.pop_back();
  }
  static const std::unordered_map<std::string, VideoOp::Kind> kinds = {
      {"add", VideoOp::add}, {"sub", VideoOp::sub},  {"absdiff", VideoOp::absdiff}, {"min", VideoOp::min},
      {"max", VideoOp::max}, {"shl", VideoOp::shl},  {"shr", VideoOp::shr},         {"mad", VideoOp::mad},
      {"set", VideoOp::set}, {"avrg", VideoOp::avrg}};
  auto kind = kinds.find(name);
  if (kind == kinds.end()) return l.fail("unknown video instruction");
  o->kind = kind->second;
  const size_t t = o->kind == VideoOp::set ? 0 : 1;
  if (in.types.size() < t + 2) return l.fail("video instruction needs its types");
  o->d_signed = t ? is_signed_int(in.types[0]) : false;
  o->a_signed = is_signed_int(in.types[t]);
  o->b_signed = is_signed_int(in.types[t + 1]);
  o->saturate = in.has("sat");
  o->wrap = !in.has("clamp");
  static const char* const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (uint8_t k = 0; k < 6; ++k)
    if (in.has(compares[k])) o->compare = k;
  if (in.has("shr7")) o->scale = 7;
  if (in.has("shr15")) o->scale = 15;
  o->plus_one = in.has("po");
  const Operand &d = in.operands[0], &a = in.operands[1], &b = in.operands[2];
  const auto plain = [](Operand x) {
    x.component = -1;
    x.selector = 0;
    x.negated = false;
    return x;
  };
  if (o->lanes > 1 && (d.selector || a.selector || b.selector))
    return l.fail("selectors of packed video instructions are not supported");
  o->a_component = static_cast<int8_t>(a.component);
  o->a_selector = a.selector;
  o->b_component = static_cast<int8_t>(b.component);
  o->b_selector = b.selector;
  o->d_component = static_cast<int8_t>(d.component);
  o->d_selector = d.selector;
  LOp c = l.constant32(0);
  if (in.operands.size() > 3) {
    c = l.src(plain(in.operands[3]), Type::u32);
    if (o->kind == VideoOp::mad) {
      o->negate_product = a.negated != b.negated;
      o->negate_c = in.operands[3].negated;
    } else if (d.selector)
      o->second = VideoOp::merge;
    else {
      // The second operation is the modifier after the types; min and max must not be confused with the
      // opcode.
      for (size_t k = in.modifiers.size(); k-- > 0;) {
        const auto& m = in.modifiers[k];
        if (m == "add") {
          o->second = VideoOp::plus;
          break;
        }
        if (m == "min") {
          o->second = VideoOp::second_min;
          break;
        }
        if (m == "max") {
          o->second = VideoOp::second_max;
          break;
        }
      }
      if (o->second == VideoOp::none && o->lanes == 1) return l.fail("unknown second operation");
    }
  }
  LOp sa = l.src(plain(a), Type::u32), sb = l.src(plain(b), Type::u32);
  LInst* i = l.emit("video", l.dst(plain(d), Type::u32), sa, sb, c);
  if (!i) return false;
  i->aux = o.get();
  l.linker.program.attachments.push_back(o);
  return true;
}

void register_video(HandlerTable* t) { add_handler(t, "video", &video, &video); }

}  // namespace simgpu::exec
