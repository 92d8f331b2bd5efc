// A link of the call path. The chain is built once, in the order of ARCHITECTURE.md:
//
//   model -> trace begin -> placement -> memory -> overlap -> graphs -> driver -> trace end
//
// on_op(): called on the application's thread for every call that is not harmless. A link passes the op on
// with next->on_op(op), possibly more than once or later, and returns the code the application gets. It holds
// no lock while it does. Ops a link makes itself (op.from_engine) also go to `next`, never straight to the
// driver. drain(): submit, in order, everything held back that falls into the scope; afterwards the link
// holds nothing of it. release_memory(): give back caches of device memory, return the bytes freed. Never
// synchronises. forget(): a handle is about to be destroyed by the application; submit what is held for it
// and drop what refers to it (context 0: some primary context). Links live as long as the process. Any thread
// may call any method.
#pragma once
#include <cstdint>

#include "runtime/model/op.h"

namespace shunt::exec {

struct Scope {
  enum class Kind : uint8_t { stream, event, context, range, all } kind = Kind::all;
  uint64_t handle = 0;           // CUstream, CUevent, CUcontext
  uint64_t base = 0, bytes = 0;  // range
  static Scope everything() { return {}; }
  static Scope of_stream(CUstream s) { return {Kind::stream, reinterpret_cast<uint64_t>(s), 0, 0}; }
  static Scope of_event(CUevent e) { return {Kind::event, reinterpret_cast<uint64_t>(e), 0, 0}; }
  static Scope of_context(CUcontext c) { return {Kind::context, reinterpret_cast<uint64_t>(c), 0, 0}; }
  static Scope of_range(uint64_t base, uint64_t bytes) { return {Kind::range, 0, base, bytes}; }
};

enum class HandleKind : uint8_t { context, stream, event, module, function, allocation };

enum class EngineMode : uint8_t { off, shadow, on, aggressive };

class Link {
 public:
  virtual ~Link() = default;
  virtual const char* name() const = 0;
  virtual CUresult on_op(model::Op& op) { return next->on_op(op); }
  virtual void drain(const Scope&, Reason) {}
  virtual uint64_t release_memory(uint64_t bytes) { return 0; }
  virtual void forget(HandleKind, uint64_t) {}
  // True when the link may hold calls back: then unknown entry points drain first.
  virtual bool delays() const { return false; }
  // False: a launch may go past this link while no link holds anything back and some engine grants it
  // (bypass.h); failed ones come here all the same.
  virtual bool sees_launches() const { return true; }
  // The kill switch: from now on pass everything through. Called after drain(everything).
  virtual void disable() {}
  // In a fork child, before any call arrives: what the link held belongs to the parent, and so do its threads
  // and locks.
  virtual void fork_child() {}

  Link* next = nullptr;
};

}  // namespace shunt::exec
