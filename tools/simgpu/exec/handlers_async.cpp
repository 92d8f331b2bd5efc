// Asynchronous copies (done at once) and mbarrier objects.
#include <cstring>

#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {
namespace {

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

// The 64-bit object: phase (bit 63), expected arrivals (20 bits), pending arrivals (20 bits), transactions
// (21 bits, biased).
constexpr uint64_t kTxBias = 1u << 20;
struct Barrier64 {
  uint64_t phase, expected, pending;
  int64_t tx;
  explicit Barrier64(uint64_t v)
      : phase(v >> 63),
        expected((v >> 41) & 0xfffff),
        pending((v >> 21) & 0xfffff),
        tx(static_cast<int64_t>(v & 0x1fffff) - static_cast<int64_t>(kTxBias)) {}
  uint64_t pack() const {
    return (phase << 63) | (expected << 41) | (pending << 21) |
           static_cast<uint64_t>(tx + static_cast<int64_t>(kTxBias));
  }
  void settle() {
    if (pending == 0 && tx == 0) {
      phase ^= 1;
      pending = expected;
    }
  }
};
Barrier64 load(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return Barrier64(v);
}
void store(uint8_t* p, const Barrier64& b) {
  const uint64_t v = b.pack();
  std::memcpy(p, &v, 8);
}

template <class F>
const Inst* each(Ctx* c, const Inst* i, F f) {
  if (static_cast<const Resolver*>(i->aux)[c->mode](c, i, i->a, 8, kRead | kWrite | kScatterOnly) == kFault)
    return nullptr;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    f(l, c->ptrs[l]);
  }
  return i + 1;
}

const Inst* init(Ctx* c, const Inst* i) {
  const uint32_t* n = lanes_of<uint32_t>(c, i->b);
  return each(c, i, [n](uint32_t l, uint8_t* p) {
    Barrier64 b(0);
    b.phase = 0;
    b.expected = b.pending = n[l] & 0xfffff;
    b.tx = 0;
    store(p, b);
  });
}
template <bool Drop>
const Inst* arrive(Ctx* c, const Inst* i) {
  const uint32_t *n = lanes_of<uint32_t>(c, i->b), *tx = lanes_of<uint32_t>(c, i->c);
  uint64_t* d = lanes_of<uint64_t>(c, i->dst);
  return each(c, i, [n, tx, d](uint32_t l, uint8_t* p) {
    Barrier64 b = load(p);
    d[l] = b.pack();
    b.tx += tx[l];
    if (Drop) b.expected -= 1;
    b.pending -= n[l] < b.pending ? n[l] : b.pending;
    b.settle();
    store(p, b);
  });
}
template <int Sign>
const Inst* transactions(Ctx* c, const Inst* i) {
  const uint32_t* tx = lanes_of<uint32_t>(c, i->b);
  return each(c, i, [tx](uint32_t l, uint8_t* p) {
    Barrier64 b = load(p);
    b.tx += Sign * static_cast<int64_t>(tx[l]);
    if (Sign < 0) b.settle();
    store(p, b);
  });
}
template <bool Parity>
const Inst* test(Ctx* c, const Inst* i) {
  uint32_t r = 0;
  const Inst* next = each(c, i, [&](uint32_t l, uint8_t* p) {
    const uint64_t phase = load(p).phase;
    const uint64_t waited =
        Parity ? lanes_of<uint32_t>(c, i->b)[l] & 1 : lanes_of<uint64_t>(c, i->b)[l] >> 63;
    if (phase != waited) r |= 1u << l;
  });
  if (next) c->pred[i->dst] = (c->pred[i->dst] & ~c->mask) | (r & c->mask);
  return next;
}
const Inst* pending_count(Ctx* c, const Inst* i) {
  const uint64_t* a = lanes_of<uint64_t>(c, i->a);
  uint32_t* d = lanes_of<uint32_t>(c, i->dst);
  for (uint32_t l = 0; l < kLanes; ++l)
    if ((c->mask >> l) & 1) d[l] = static_cast<uint32_t>(Barrier64(a[l]).pending);
  return i + 1;
}

const Inst* copy_async(Ctx* c, const Inst* i) {
  const auto& k = *static_cast<const AsyncCopy*>(i->aux);
  const uint64_t *d = lanes_of<uint64_t>(c, i->a), *s = lanes_of<uint64_t>(c, i->b);
  const uint32_t ignore = k.has_ignore ? c->pred[i->d] ^ (k.ignore_negated ? kFullMask : 0) : 0;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    uint32_t n = k.has_size ? lanes_of<uint32_t>(c, i->c)[l] : k.bytes;
    if ((ignore >> l) & 1) n = 0;
    n = n < k.bytes ? n : k.bytes;
    uint8_t* to = checked_pointer(c, i, Window::shared, d[l] + k.dst_offset, k.bytes, l, kWrite);
    if (!to) return nullptr;
    uint8_t data[16] = {};
    if (n) {
      if ((s[l] + k.src_offset) & (k.bytes - 1))
        return raise_fault(c, i, Fault::misaligned_address, s[l] + k.src_offset, l, nullptr);
      const uint8_t* from = checked_pointer(c, i, Window::generic, s[l] + k.src_offset, n, l, kRead);
      if (!from) return nullptr;
      std::memcpy(data, from, n);
    }
    std::memcpy(to, data, k.bytes);
  }
  return i + 1;
}
const Inst* copy_bulk(Ctx* c, const Inst* i) {
  const auto& k = *static_cast<const AsyncCopy*>(i->aux);
  const uint64_t *d = lanes_of<uint64_t>(c, i->a), *s = lanes_of<uint64_t>(c, i->b);
  const uint32_t* size = lanes_of<uint32_t>(c, i->c);
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m)), n = size[l];
    const uint64_t to_address = d[l] + k.dst_offset, from_address = s[l] + k.src_offset;
    if ((to_address | from_address | n) & 15)
      return raise_fault(c, i, Fault::misaligned_address, from_address, l,
                         "bulk copies need 16-byte alignment");
    if (n) {
      uint8_t* to = checked_pointer(c, i, k.dst, to_address, n, l, kWrite);
      if (!to) return nullptr;
      const uint8_t* from = checked_pointer(c, i, k.src, from_address, n, l, kRead);
      if (!from) return nullptr;
      std::memcpy(to, from, n);
    }
    if (k.has_barrier) {
      // The barrier lives with the destination block; addresses name it the same way.
      uint8_t* p = checked_pointer(c, i, k.barrier, lanes_of<uint64_t>(c, i->d)[l] + k.barrier_offset, 8, l,
                                   kRead | kWrite);
      if (!p) return nullptr;
      Barrier64 b = load(p);
      b.tx -= n;
      b.settle();
      store(p, b);
    }
  }
  return i + 1;
}

}  // namespace

void register_async(HandlerTable* t) {
  const auto reg = [t](const char* key, Fn f) { add_handler(t, key, f, f); };
  reg("mbarrier.init", &init);
  reg("mbarrier.arrive", &arrive<false>);
  reg("mbarrier.arrive_drop", &arrive<true>);
  reg("mbarrier.expect_tx", &transactions<1>);
  reg("mbarrier.complete_tx", &transactions<-1>);
  reg("mbarrier.test", &test<false>);
  reg("mbarrier.test.parity", &test<true>);
  reg("mbarrier.pending_count", &pending_count);
  reg("cp.async", &copy_async);
  reg("cp.async.bulk", &copy_bulk);
}

}  // namespace simgpu::exec
