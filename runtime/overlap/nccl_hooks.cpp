#include "runtime/overlap/nccl_hooks.h"

#include <stdlib.h>
#include <string.h>

#include <new>

#include "runtime/exec/chain.h"
#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/overlap/overlap_link.h"

namespace shunt::overlap {
namespace {

using nccl::Comm;
using nccl::Function;
using nccl::Operator;
using nccl::Result;
using nccl::Type;

OverlapLink* g_link;  // written before the hooks go in

template <class... A>
using Real = Result (*)(A...);

// Null: pass through (the engine is off, or NCCL calls itself).
OverlapLink* engine() {
  OverlapLink* link = g_link;
  if (!link || link->shared().off.load(std::memory_order_relaxed) || !exec::Chain::first() ||
      model::this_thread().inside_library)
    return nullptr;
  return link;
}

// No exception reaches the program: the engines end, the call is made once.
template <class Work, class Call>
Result guarded(Work work, Call call) {
  bool made = false;
  Result result = 0;
  auto once = [&](auto... arguments) {
    made = true;
    return result = call(arguments...);
  };
  try {
    return work(once);
  } catch (...) {
    try {
      exec::Chain::get().kill("out of memory inside shunt");
    } catch (...) {
    }
    return made ? result : -1;
  }
}

template <uint32_t Slot, class... A>
Real<A...> real_of(Result (*)(A...)) {
  return reinterpret_cast<Real<A...>>(exec::real_address(Slot));
}

template <class MakeReal>
Result moves(const Operation& o, MakeReal call) {
  OverlapLink* link = engine();
  if (!link) return call(o.stream);
  const Result result = guarded([&](auto& once) { return link->collectives().call(o, once); },
                                [&](CUstream s) { return call(s); });
  return result == -1 ? call(o.stream) : result;
}

// One struct per entry point, templated over the slot: the plain name and its twin.
#define SHUNT_REAL(...) reinterpret_cast<Result (*)(__VA_ARGS__)>(exec::real_address(Slot))

template <uint32_t Slot>
struct Hooks {
  static Result all_reduce(const void* in, void* out, size_t n, Type t, Operator op, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, Operator, Comm, CUstream);
    return moves({Function::all_reduce, in, out, n, t, op, 0, c, s},
                 [&](CUstream on) { return real(in, out, n, t, op, c, on); });
  }
  static Result reduce_scatter(const void* in, void* out, size_t n, Type t, Operator op, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, Operator, Comm, CUstream);
    return moves({Function::reduce_scatter, in, out, n, t, op, 0, c, s},
                 [&](CUstream on) { return real(in, out, n, t, op, c, on); });
  }
  static Result reduce(const void* in, void* out, size_t n, Type t, Operator op, int root, Comm c,
                       CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, Operator, int, Comm, CUstream);
    return moves({Function::reduce, in, out, n, t, op, root, c, s},
                 [&](CUstream on) { return real(in, out, n, t, op, root, c, on); });
  }
  static Result broadcast(const void* in, void* out, size_t n, Type t, int root, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::broadcast, in, out, n, t, 0, root, c, s},
                 [&](CUstream on) { return real(in, out, n, t, root, c, on); });
  }
  static Result bcast(void* both, size_t n, Type t, int root, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::broadcast, both, both, n, t, 0, root, c, s},
                 [&](CUstream on) { return real(both, n, t, root, c, on); });
  }
  static Result all_gather(const void* in, void* out, size_t n, Type t, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, Comm, CUstream);
    return moves({Function::all_gather, in, out, n, t, 0, 0, c, s},
                 [&](CUstream on) { return real(in, out, n, t, c, on); });
  }
  static Result all_to_all(const void* in, void* out, size_t n, Type t, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, Comm, CUstream);
    return moves({Function::all_to_all, in, out, n, t, 0, 0, c, s},
                 [&](CUstream on) { return real(in, out, n, t, c, on); });
  }
  static Result gather(const void* in, void* out, size_t n, Type t, int root, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::gather, in, out, n, t, 0, root, c, s},
                 [&](CUstream on) { return real(in, out, n, t, root, c, on); });
  }
  static Result scatter(const void* in, void* out, size_t n, Type t, int root, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::scatter, in, out, n, t, 0, root, c, s},
                 [&](CUstream on) { return real(in, out, n, t, root, c, on); });
  }
  static Result send(const void* in, size_t n, Type t, int peer, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(const void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::send, in, nullptr, n, t, 0, peer, c, s},
                 [&](CUstream on) { return real(in, n, t, peer, c, on); });
  }
  static Result recv(void* out, size_t n, Type t, int peer, Comm c, CUstream s) {
    const auto real = SHUNT_REAL(void*, size_t, Type, int, Comm, CUstream);
    return moves({Function::recv, nullptr, out, n, t, 0, peer, c, s},
                 [&](CUstream on) { return real(out, n, t, peer, c, on); });
  }

  static Result group_start() {
    const auto real = SHUNT_REAL();
    OverlapLink* link = engine();
    if (!link) return real();
    const Result r = guarded([&](auto& once) { return link->collectives().group_start(once); }, real);
    return r == -1 ? real() : r;
  }
  static Result group_end() {
    const auto real = SHUNT_REAL();
    OverlapLink* link = engine();
    if (!link) return real();
    const Result r = guarded([&](auto& once) { return link->collectives().group_end(once, false); }, real);
    return r == -1 ? real() : r;
  }
  static Result group_simulate_end(void* info) {
    const auto real = SHUNT_REAL(void*);
    OverlapLink* link = engine();
    auto call = [&] { return real(info); };
    if (!link) return call();
    const Result r = guarded([&](auto& once) { return link->collectives().group_end(once, true); }, call);
    return r == -1 ? call() : r;
  }

  // Making communicators. The configuration says whether calls return before the work is enqueued.
  static bool is_blocking(const nccl::ConfigHead* config) {
    constexpr int kUndefined = INT32_MIN;
    if (config && config->blocking != kUndefined) return config->blocking != 0;
    const char* variable = getenv("NCCL_COMM_BLOCKING");
    return !variable || strcmp(variable, "0") != 0;
  }
  template <class Call>
  static Result make(Comm* out, int count, bool blocking, Call call) {
    OverlapLink* link = engine();
    if (!link) return call();
    const Result r = guarded(
        [&](auto& once) {
          Result result;
          {
            model::this_thread().inside_library++;
            result = once();
            model::this_thread().inside_library--;
          }
          if (result == nccl::kSuccess || result == nccl::kInProgress)
            for (int i = 0; i < count; ++i) link->collectives().makes(out + i, blocking, count == 1);
          return result;
        },
        call);
    return r == -1 ? call() : r;
  }
  static Result init_all(Comm* comms, int n, const int* devices) {
    const auto real = SHUNT_REAL(Comm*, int, const int*);
    return make(comms, n, is_blocking(nullptr), [&] { return real(comms, n, devices); });
  }
  static Result init_rank(Comm* comm, int n, nccl::UniqueId id, int rank) {
    const auto real = SHUNT_REAL(Comm*, int, nccl::UniqueId, int);
    return make(comm, 1, is_blocking(nullptr), [&] { return real(comm, n, id, rank); });
  }
  static Result init_rank_config(Comm* comm, int n, nccl::UniqueId id, int rank, nccl::ConfigHead* config) {
    const auto real = SHUNT_REAL(Comm*, int, nccl::UniqueId, int, nccl::ConfigHead*);
    return make(comm, 1, is_blocking(config), [&] { return real(comm, n, id, rank, config); });
  }
  static Result init_rank_scalable(Comm* comm, int n, int rank, int ids, nccl::UniqueId* id,
                                   nccl::ConfigHead* config) {
    const auto real = SHUNT_REAL(Comm*, int, int, int, nccl::UniqueId*, nccl::ConfigHead*);
    return make(comm, 1, is_blocking(config), [&] { return real(comm, n, rank, ids, id, config); });
  }
  // A child without a configuration of its own has its parent's.
  static bool child_blocking(Comm parent, const nccl::ConfigHead* config) {
    if (OverlapLink* link = engine()) {
      const CommInfo* info = link->collectives().communicators().find(parent);
      if (!info || !info->blocking) return config && config->blocking == 1;
    }
    return is_blocking(config);
  }
  static Result split(Comm parent, int color, int key, Comm* out, nccl::ConfigHead* config) {
    const auto real = SHUNT_REAL(Comm, int, int, Comm*, nccl::ConfigHead*);
    auto call = [&] { return real(parent, color, key, out, config); };
    const bool blocking = child_blocking(parent, config);
    if (OverlapLink* link = engine()) link->join_everywhere(nullptr, Reason::join_communication);
    return make(out, 1, blocking, call);
  }
  static Result shrink(Comm parent, int* excluded, int n, Comm* out, nccl::ConfigHead* config, int flags) {
    const auto real = SHUNT_REAL(Comm, int*, int, Comm*, nccl::ConfigHead*, int);
    auto call = [&] { return real(parent, excluded, n, out, config, flags); };
    const bool blocking = child_blocking(parent, config);
    if (OverlapLink* link = engine()) link->join_everywhere(nullptr, Reason::join_communication);
    return make(out, 1, blocking, call);
  }

  // Ending them.
  template <class Call>
  static Result end(Comm comm, bool abort, bool gone, Call call) {
    OverlapLink* link = engine();
    if (!link) return call();
    const Result r = guarded([&](auto& once) { return link->collectives().ends(comm, abort, once); }, call);
    if (gone && r == nccl::kSuccess) link->collectives().communicators().forget(comm);
    return r == -1 ? call() : r;
  }
  static Result abort(Comm comm) {
    const auto real = SHUNT_REAL(Comm);
    return end(comm, true, true, [&] { return real(comm); });
  }
  static Result destroy(Comm comm) {
    const auto real = SHUNT_REAL(Comm);
    return end(comm, false, true, [&] { return real(comm); });
  }
  static Result finalize(Comm comm) {
    const auto real = SHUNT_REAL(Comm);
    return end(comm, false, false, [&] { return real(comm); });
  }
  static Result revoke(Comm comm, int flags) {
    const auto real = SHUNT_REAL(Comm, int);
    return end(comm, true, false, [&] { return real(comm, flags); });
  }
  static Result deregister(Comm comm, void* handle) {
    const auto real = SHUNT_REAL(Comm, void*);
    return end(comm, false, false, [&] { return real(comm, handle); });
  }
  static Result window_deregister(Comm comm, void* window) {
    const auto real = SHUNT_REAL(Comm, void*);
    return end(comm, false, false, [&] { return real(comm, window); });
  }
  static Result mem_free(void* memory) {
    const auto real = SHUNT_REAL(void*);
    return end(nullptr, false, false, [&] { return real(memory); });
  }
  // Peers may write into a window at any time: what is in it is not this stream's alone.
  static Result window_register(Comm comm, void* buffer, size_t bytes, void** window, int flags) {
    const auto real = SHUNT_REAL(Comm, void*, size_t, void**, int);
    const Result r = end(comm, false, false, [&] { return real(comm, buffer, bytes, window, flags); });
    if (OverlapLink* link = engine(); link && r == nccl::kSuccess && window && *window)
      link->collectives().poison(comm);
    return r;
  }

  static Result make_operator(Operator* op, void* scalar, Type type, int residence, Comm comm) {
    const auto real = SHUNT_REAL(Operator*, void*, Type, int, Comm);
    const Result r = real(op, scalar, type, residence, comm);
    if (OverlapLink* link = engine(); link && r == nccl::kSuccess && op) {
      const bool device = residence == nccl::kScalarDevice;
      link->collectives().communicators().operator_created(
          comm, *op, device ? reinterpret_cast<uint64_t>(scalar) : 0, device ? nccl::type_bytes(type) : 0);
    }
    return r;
  }
};

template <class F>
void put(uint32_t slot, F* hook) {
  // Takes effect once NCCL is there.
  exec::g_host->set_hook(slot, reinterpret_cast<void*>(hook));
}

}  // namespace

void install_nccl_hooks(OverlapLink& link) {
  g_link = &link;
#define SHUNT_NCCL(name, hook)                                     \
  put(SHUNT_SLOT_nccl##name, &Hooks<SHUNT_SLOT_nccl##name>::hook); \
  put(SHUNT_SLOT_pnccl##name, &Hooks<SHUNT_SLOT_pnccl##name>::hook);
#include "runtime/overlap/nccl_hooks.def"
#undef SHUNT_NCCL
}

}  // namespace shunt::overlap
