// One hook per slot. A hook is: rim (ordinals) -> is any link on? -> describe the call as an Op -> walk the
// links -> the real function with the program's own arguments -> describe what came out. The return code is
// the links' answer, else the driver's.
//
//   SHUNT_BEFORE(cuMemAlloc_v2, CUdeviceptr*& out, size_t& bytes) { op.kind = ...; }
//   SHUNT_AFTER(cuMemAlloc_v2, CUdeviceptr*& out, size_t& bytes)  { op.out = *out; }     // only after
//   success
//
// Both take the parameters of the driver function by reference. A function without BEFORE has kind `other`;
// its stream, if it has one, is found by type. Off path: one load and a predicted branch. On path: no
// allocation.
#pragma once
#include <type_traits>

#include "runtime/exec/bypass.h"
#include "runtime/exec/chain.h"
#include "runtime/exec/host.h"
#include "runtime/exec/rim.h"
#include "runtime/trace/call_site.h"

namespace shunt::exec {

template <uint32_t Slot>
struct Before {
  static constexpr bool kDefined = false;
};
template <uint32_t Slot>
struct After {
  static constexpr bool kDefined = false;
};

#define SHUNT_BEFORE(symbol, ...)                       \
  template <>                                           \
  struct Before<SHUNT_SLOT_##symbol> {                  \
    static constexpr bool kDefined = true;              \
    static inline void run(model::Op& op, __VA_ARGS__); \
  };                                                    \
  void Before<SHUNT_SLOT_##symbol>::run(model::Op& op, __VA_ARGS__)
#define SHUNT_AFTER(symbol, ...)                        \
  template <>                                           \
  struct After<SHUNT_SLOT_##symbol> {                   \
    static constexpr bool kDefined = true;              \
    static inline void run(model::Op& op, __VA_ARGS__); \
  };                                                    \
  void After<SHUNT_SLOT_##symbol>::run(model::Op& op, __VA_ARGS__)
// The same description for a variant with the same parameters (per-thread stream, older version).
#define SHUNT_SAME(variant, symbol)                                     \
  template <>                                                           \
  struct Before<SHUNT_SLOT_##variant> : Before<SHUNT_SLOT_##symbol> {}; \
  template <>                                                           \
  struct After<SHUNT_SLOT_##variant> : After<SHUNT_SLOT_##symbol> {};

// The kill switch after an exception in a link. Never throws.
void link_threw() noexcept;

struct HookEntry {
  uint32_t slot;
  void* hook;
};

namespace detail {
template <class T>
inline void take_stream(model::Op& op, const T& value) {
  if constexpr (std::is_same_v<T, CUstream>) op.stream = value;
}
// Launches that may go straight to the driver, and the stream they name.
template <uint32_t Slot>
inline constexpr bool kBypassable = Slot == SHUNT_SLOT_cuLaunchKernel || Slot == SHUNT_SLOT_cuLaunchKernelEx;
template <class T>
inline void stream_named(uint64_t& stream, const T& value) {
  if constexpr (std::is_same_v<T, CUstream>) stream = reinterpret_cast<uint64_t>(value);
  if constexpr (std::is_same_v<T, const CUlaunchConfig*>)
    if (value) stream = reinterpret_cast<uint64_t>(value->hStream);
}
// Names that end in Async, and launches, return before the work is done.
constexpr bool is_async(const SlotInfo& info) {
  if (info.op_class == model::OpClass::launch) return true;
  size_t n = 0;
  while (info.name[n]) n++;
  return n > 5 && info.name[n - 5] == 'A' && info.name[n - 4] == 's' && info.name[n - 3] == 'y' &&
         info.name[n - 2] == 'n' && info.name[n - 1] == 'c';
}
}  // namespace detail

// `Described` separates the instantiation of a translation unit that has BEFORE/AFTER from the generic one of
// the same slot.
template <uint32_t Slot, bool Described, class F = Fn<Slot>>
struct Hook;

template <uint32_t Slot, bool Described, class... A>
struct Hook<Slot, Described, CUresult (*)(A...)> {
  static CUresult entry(A... a) {
    if constexpr (detail::kBypassable<Slot>) {
      uint64_t stream = 0;
      (detail::stream_named(stream, a), ...);
      if (takes_bypass(stream)) {
        const CUresult answer = real<Slot>()(a...);
        Link* first = Chain::first();
        if (__builtin_expect(answer == CUDA_SUCCESS, 1) || !first) return answer;
        trace::note_caller(__builtin_return_address(0));
        return observe(first, &answer, a...);
      }
    }
    // The slot was jumped to, so this is where the program made its call.
    if (Chain::first() != nullptr) trace::note_caller(__builtin_return_address(0));
    return Rim<Slot>::run([](A... b) { return inner(b...); }, a...);
  }

 private:
  using Function = CUresult (*)(A...);

  static inline CUresult inner(A... a) {
    Link* first = Chain::first();
    if (__builtin_expect(first == nullptr, 1)) return real<Slot>()(a...);
    return observe(first, nullptr, a...);
  }

  // `known`: what the driver has answered already; the links' first attempt gets it.
  __attribute__((noinline)) static CUresult observe(Link* first, const CUresult* known, A... a) {
    constexpr const SlotInfo& info = kSlots[Slot];
    model::Op op;
    op.slot = Slot;
    op.op_class = info.op_class;
    op.per_thread = info.flag == 2;
    op.asynchronous = detail::is_async(info);
    (detail::take_stream(op, a), ...);
    if constexpr (Described && Before<Slot>::kDefined) Before<Slot>::run(op, a...);
    bool made = false;
    auto call = [&]() -> CUresult {
      made = true;
      op.result = known ? *known : real<Slot>()(a...);
      known = nullptr;
      if constexpr (Described && After<Slot>::kDefined)
        if (op.result == CUDA_SUCCESS) After<Slot>::run(op, a...);
      return op.result;
    };
    op.arguments = &call;
    op.invoke = [](model::Op& o) { return (*static_cast<decltype(call)*>(o.arguments))(); };
    // An application's C frames are above us: an allocation that failed in a link ends the engines, not the
    // program.
    try {
      return first->on_op(op);
    } catch (...) {
      link_threw();
      return made ? op.result : known ? *known : real<Slot>()(a...);
    }
  }
};

template <uint32_t Slot>
HookEntry described_hook() {
  return {Slot, reinterpret_cast<void*>(&Hook<Slot, true>::entry)};
}
#define SHUNT_HOOK(symbol) described_hook<SHUNT_SLOT_##symbol>()

}  // namespace shunt::exec
