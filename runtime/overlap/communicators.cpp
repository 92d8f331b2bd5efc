#include "runtime/overlap/communicators.h"

#include <bit>

#include "runtime/exec/driver.h"

namespace shunt::overlap {
namespace {

uint64_t u(const void* p) { return reinterpret_cast<uint64_t>(p); }

using AskInt = nccl::Result (*)(nccl::Comm, int*);

}  // namespace

void Communicators::created(nccl::Comm comm, bool blocking, CUcontext context) {
  if (!comm) return;
  auto* info = new CommInfo();
  info->handle = comm;
  info->blocking = blocking;
  info->context = context;
  info->generation = next_generation_.fetch_add(1, std::memory_order_relaxed);
  WriteGuard guard(lock_);
  comms_.put(u(comm), info);  // an older info of the handle is left behind: somebody may be reading it
}

void Communicators::forget(nccl::Comm comm) {
  CommInfo* info = nullptr;
  {
    WriteGuard guard(lock_);
    comms_.erase(u(comm), &info);
  }
  if (info) info->poisoned.store(true, std::memory_order_release);
}

CommInfo* Communicators::find(nccl::Comm comm) {
  CommInfo* info = nullptr;
  {
    SharedGuard guard(lock_);
    if (CommInfo** there = comms_.find(u(comm))) info = *there;
  }
  if (!info || info->ranks > 0) return info;
  // Asked at the first use: inside a group the communicator is not complete before the group's end.
  const auto count = reinterpret_cast<AskInt>(exec::real_address(SHUNT_SLOT_ncclCommCount));
  const auto rank = reinterpret_cast<AskInt>(exec::real_address(SHUNT_SLOT_ncclCommUserRank));
  int n = 0, r = -1;
  if (!count || !rank || count(comm, &n) != nccl::kSuccess || rank(comm, &r) != nccl::kSuccess || n < 1)
    return nullptr;
  WriteGuard guard(lock_);
  info->rank = r;
  info->ranks = n;
  return info;
}

uint64_t Communicators::kind_of(const CommInfo& comm, nccl::Function function, uint64_t bytes) {
  return mix64(comm.generation * 64 + static_cast<uint64_t>(function)) * 64 +
         static_cast<uint64_t>(std::bit_width(bytes));
}

uint32_t Communicators::note_use(uint64_t kind) {
  WriteGuard guard(lock_);
  return uses_[kind]++;
}

void Communicators::operator_created(nccl::Comm comm, nccl::Operator op, uint64_t device_scalar,
                                     uint64_t bytes) {
  WriteGuard guard(lock_);
  operators_.put(mix64(u(comm)) + static_cast<uint64_t>(op), {device_scalar, bytes});
}

bool Communicators::operator_reads(const Operation& o, Footprint& footprint) {
  using nccl::Function;
  if (o.function != Function::all_reduce && o.function != Function::reduce &&
      o.function != Function::reduce_scatter)
    return true;
  if (o.op >= 0 && o.op < nccl::kBuiltInOperators) return true;
  SharedGuard guard(lock_);
  const Scalar* scalar = operators_.find(mix64(u(o.comm)) + static_cast<uint64_t>(o.op));
  if (!scalar) return false;
  footprint.add(scalar->address, scalar->bytes, false);
  return true;
}

void Communicators::reset_after_fork() { lock_.reset_after_fork(); }

}  // namespace shunt::overlap
