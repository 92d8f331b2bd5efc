#include "runtime/memory/oom_link.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/exec/chain.h"
#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/trace/writer.h"

namespace shunt::memory {

using model::Op;
using model::OpClass;
using model::OpKind;
using trace::Action;
using trace::Outcome;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kRetries = 1;
constexpr uint32_t kUnobservedFreesMs = 50, kNeighbourWithNcclMs = 200, kNeighbourAloneMs = 10'000;

bool allocates(const Op& op) { return op.op_class == OpClass::alloc || op.kind == OpKind::map_vmm; }

bool spillable(const Op& op) {
  return (op.kind == OpKind::alloc_linear || op.kind == OpKind::alloc_pitch) && op.deliver != nullptr;
}

uint64_t thread_id() { return static_cast<uint64_t>(model::this_thread().index) + 1; }

void nap_ms(uint32_t ms) {
  const timespec t{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
  nanosleep(&t, nullptr);
}

}  // namespace

// One failed call on its way up the ladder.
struct OomLink::Episode {
  Op& op;
  int device;
  bool capturing;
  uint64_t id, started_ns;
  const ClientProfile& client;

  void decide(Action action, Reason reason, Outcome outcome) const {
    trace::decide({.feature = trace::Feature::oom,
                   .action = action,
                   .reason = reason,
                   .outcome = outcome,
                   .device = static_cast<int16_t>(device),
                   .stream = reinterpret_cast<uint64_t>(op.stream),
                   .context = reinterpret_cast<uint64_t>(op.context),
                   .bytes = op.bytes});
  }
};

void OomLink::fork_child() {
  spilled_.fork_child();
  if (ledger::Ledger* l = ledger_.load()) l->fork_child();
}

CUresult OomLink::on_op(Op& op) {
  if (off_.load(std::memory_order_relaxed)) return next->on_op(op);
  switch (op.kind) {
    case OpKind::free_async:
      async_frees_seen_.store(true, std::memory_order_relaxed);
      break;
    case OpKind::free_linear:
      if (auto block = spilled_.take(op.object)) return free_spilled(*block);
      break;
    case OpKind::pointer_attribute:
    case OpKind::pointer_attributes:
    case OpKind::address_range:
      if (!spilled_.empty()) return answer(op);
      break;
    default:
      break;
  }
  const CUresult result = next->on_op(op);
  note(op, result);
  if (__builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY && allocates(op) && !op.from_engine, 0))
    return ladder(op, result);
  return result;
}

// The ledger hears of device memory taken and given back: that is what neighbours wait for.
void OomLink::note(const Op& op, CUresult result) {
  if (!settings_.use_ledger || result != CUDA_SUCCESS) return;
  switch (op.kind) {
    case OpKind::alloc_linear:
    case OpKind::alloc_pitch:
    case OpKind::alloc_async:
      if (ledger::Ledger* l = ledger())
        l->add_used(ledger_device(model::Model::get().device_of(
                        op.context ? op.context : model::Model::get().current_context())),
                    op.bytes);
      return;
    case OpKind::free_linear:
    case OpKind::free_async:
      if (ledger::Ledger* l = ledger(); l && op.device >= 0) l->sub_used(ledger_device(op.device), op.bytes);
      return;
    default:
      return;
  }
}

CUresult OomLink::free_spilled(const SpilledBlock& block) {
  const CUresult result = release(block);
  if (ledger::Ledger* l = ledger_.load()) l->sub_spilled(ledger_device(block.device), block.bytes);
  return result;
}

CUresult OomLink::ladder(Op& op, CUresult original) {
  // R0: who asks, for what, when.
  model::Model& model = model::Model::get();
  const ClientProfile* client = client_.load(std::memory_order_acquire);
  if (!client) client_.store(client = &detect_client(settings_.client), std::memory_order_release);
  const CUcontext context = op.context ? op.context : model.current_context();
  // Waiting during anybody's capture could invalidate it, so one live capture is enough to be careful.
  Episode e{op,     model.device_of(context), model.any_capture(), trace::new_id(), clock::monotonic_ns(),
            *client};
  const EpisodeKey key{thread_id(), e.device, static_cast<uint32_t>(op.slot), Episodes::round(op.bytes)};
  const uint32_t failures = episodes_.failed(key, e.started_ns, client->window_ms * kMs);
  if (settings_.mode == Mode::shadow) {
    e.decide(Action::oom_return, Reason::mode_shadow, Outcome::shadow);
    return original;
  }
  // R1: the memory may just have come free.
  for (uint32_t i = 0; i < kRetries; ++i) {
    const CUresult again = next->on_op(op);
    if (again != CUDA_ERROR_OUT_OF_MEMORY) {
      e.decide(Action::oom_retry, Reason::oom_retried,
               again == CUDA_SUCCESS ? Outcome::applied : Outcome::failed);
      return again;
    }
  }
  // R2: what shunt and the driver cache.
  if (trim(e)) {
    const CUresult again = next->on_op(op);
    if (again != CUDA_ERROR_OUT_OF_MEMORY) {
      e.decide(Action::oom_trim, Reason::oom_trimmed,
               again == CUDA_SUCCESS ? Outcome::applied : Outcome::failed);
      return again;
    }
  }
  // R3: a client that flushes its own cache on the first failure is told at once.
  if (failures <= (e.capturing ? client->self_healing_in_capture : client->self_healing_failures)) {
    e.decide(Action::oom_return, Reason::oom_self_healing, Outcome::declined);
    return original;
  }
  // R4: neighbours.
  if (!e.capturing && wait_for_neighbours(e)) {
    episodes_.forget(key);
    return CUDA_SUCCESS;
  }
  // R5: somewhere else.
  if (settings_.mode == Mode::automatic || settings_.mode == Mode::spill) {
    Reason reason = Reason::oom_not_spillable;
    std::optional<SpilledBlock> block;
    if (e.capturing)
      reason = Reason::application_capture;
    else if (spillable(op))
      block = spill(op.bytes, e.device, context, spilled_, settings_.limits, reason);
    if (block) {
      if (op.deliver_pitch) *op.deliver_pitch = op.pitch;
      *op.deliver = block->base;
      op.out = block->base;
      spilled_.insert(*block);
      if (ledger::Ledger* l = ledger()) l->add_spilled(ledger_device(e.device), block->bytes);
      episodes_.forget(key);
      e.decide(Action::oom_spill, reason, Outcome::applied);
      SHUNT_LOG_INFO(memory, "device %d is full: %llu bytes live in host memory now [%s]", e.device,
                     static_cast<unsigned long long>(op.bytes), std::string(reason_name(reason)).c_str());
      return CUDA_SUCCESS;
    }
    e.decide(Action::oom_spill, reason, Outcome::declined);
  }
  // R6: the driver's own answer.
  e.decide(Action::oom_return, Reason::oom_exhausted, Outcome::declined);
  SHUNT_LOG_INFO(memory,
                 "device %d: %llu bytes could not be had after every rung; the program gets the driver's "
                 "error (client %s) [oom-exhausted]",
                 e.device, static_cast<unsigned long long>(op.bytes), std::string(client->name).c_str());
  return original;
}

// Never synchronises: pools are trimmed to what is in use, and frees the host has not seen yet are polled for
// briefly.
bool OomLink::trim(const Episode& e) {
  if (e.device < 0) return false;
  const exec::Driver& d = exec::Driver::get();
  bool trimmed = exec::Chain::get().release_memory(e.op.bytes) > 0;
  if (e.capturing) return trimmed;
  if (async_frees_seen_.load(std::memory_order_relaxed) && d.stream_query) {
    for (uint32_t ms = 0; ms < kUnobservedFreesMs && d.stream_query(e.op.stream) == CUDA_ERROR_NOT_READY;
         ++ms)
      nap_ms(1);
  }
  CUmemoryPool pool = nullptr;
  if (d.device_get_default_mem_pool && d.mem_pool_trim_to &&
      d.device_get_default_mem_pool(&pool, e.device) == CUDA_SUCCESS && pool)
    trimmed |= d.mem_pool_trim_to(pool, 0) == CUDA_SUCCESS;
  if (d.device_graph_mem_trim) trimmed |= d.device_graph_mem_trim(e.device) == CUDA_SUCCESS;
  return trimmed;
}

bool OomLink::wait_for_neighbours(const Episode& e) {
  ledger::Ledger* l = ledger();
  const int device = l ? ledger_device(e.device) : -1;
  if (device < 0) return false;
  bool others = false;
  for (const auto& p : l->processes()) {
    for (const auto& use : p.devices) others |= !p.self && p.alive && use.device == device && use.used > 0;
  }
  if (!others) {
    e.decide(Action::oom_wait, Reason::oom_no_neighbour, Outcome::declined);
    return false;
  }
  // A rank that waits long holds up its whole collective.
  const uint64_t limit_ms = nccl_is_loaded() ? kNeighbourWithNcclMs : kNeighbourAloneMs;
  const uint64_t until = clock::monotonic_ns() + limit_ms * kMs;
  l->want(device, e.op.bytes);
  bool done = false;
  for (uint32_t pause_ms = 1; !done; pause_ms = pause_ms < 64 ? pause_ms * 2 : 64) {
    const uint64_t now = clock::monotonic_ns();
    if (now >= until) break;
    const uint64_t seen = l->freed_by_others(device);
    l->wait_freed(device, seen, static_cast<uint32_t>(std::min<uint64_t>(pause_ms, (until - now) / kMs + 1)));
    const CUresult again = next->on_op(e.op);
    done = again == CUDA_SUCCESS;
    if (!done && again != CUDA_ERROR_OUT_OF_MEMORY) break;
  }
  l->want(device, 0);
  e.decide(Action::oom_wait, done ? Reason::oom_neighbour_freed : Reason::oom_neighbour_timeout,
           done ? Outcome::applied : Outcome::declined);
  return done;
}

// Spilled memory answers as the device memory the program asked for; what it cannot do (IPC, RDMA) it says.
CUresult OomLink::answer(Op& op) {
  const CUresult result = next->on_op(op);
  const auto block = spilled_.find(op.object);
  if (!block) return result;
  if (op.kind == OpKind::address_range) {
    if (result != CUDA_SUCCESS) return result;
    if (op.deliver) *op.deliver = block->base;
    if (op.deliver_pitch) *op.deliver_pitch = block->bytes;
    return result;
  }
  auto write = [&](CUpointer_attribute attribute, void* data) {
    if (!data) return;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(data) = block->context;
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr*>(data) = op.object;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(data) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data) = block->device;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(data) = block->base;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(data) = block->bytes;
        break;
      case CU_POINTER_ATTRIBUTE_MAPPED:
        *static_cast<unsigned*>(data) = 1;
        break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *static_cast<unsigned*>(data) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *static_cast<uint64_t*>(data) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *static_cast<void**>(data) = nullptr;
        break;
      default:
        break;
    }
  };
  if (result != CUDA_SUCCESS) return result;
  if (op.kind == OpKind::pointer_attribute) {
    write(static_cast<CUpointer_attribute>(op.aux), op.detail[0]);
  } else {
    const auto* attributes = static_cast<const CUpointer_attribute*>(op.detail[0]);
    auto* const* data = static_cast<void* const*>(op.detail[1]);
    for (uint64_t i = 0; i < op.aux && attributes && data; ++i) write(attributes[i], data[i]);
  }
  return result;
}

// Opened at the first allocation.
ledger::Ledger* OomLink::ledger() {
  if (ledger::Ledger* l = ledger_.load(std::memory_order_acquire)) return l;
  if (!settings_.use_ledger || ledger_tried_.exchange(true)) return nullptr;
  ledger::Options options;
  if (const char* box = getenv("SIMGPU_BOX")) options.scope = box;
  std::string error;
  ledger::Ledger* l = ledger::Ledger::open(options, error).release();
  if (!l) SHUNT_LOG_INFO(memory, "no ledger: %s; neighbours are not waited for", error.c_str());
  ledger_.store(l, std::memory_order_release);
  return l;
}

int OomLink::ledger_device(int device) {
  if (device < 0 || device >= kDevices) return -1;
  if (const int known = ledger_devices_[device].load(std::memory_order_relaxed)) return known - 1;
  const exec::Driver& d = exec::Driver::get();
  ledger::Ledger* l = ledger_.load(std::memory_order_acquire);
  CUuuid uuid;
  if (!l || !d.device_get_uuid || d.device_get_uuid(&uuid, device) != CUDA_SUCCESS) return -1;
  ledger::Uuid id;
  memcpy(id.data(), uuid.bytes, id.size());
  const int number = l->device(id);
  if (number >= 0) ledger_devices_[device].store(number + 1, std::memory_order_relaxed);
  return number;
}

exec::Link* create_oom(const std::string& mode, const config::Config& config) {
  OomLink::Settings s;
  s.mode = mode == "shadow"  ? Mode::shadow
           : mode == "auto"  ? Mode::automatic
           : mode == "spill" ? Mode::spill
                             : Mode::retry;
  s.limits.capped = s.mode == Mode::automatic;
  s.limits.most_bytes = config.bytes(config::OptionId::spill_max);
  s.limits.host_floor_bytes = config.bytes(config::OptionId::spill_host_floor);
  s.client = config.text(config::OptionId::oom_client);
  s.use_ledger = config.given(config::OptionId::run_id);
  return new OomLink(std::move(s));
}

}  // namespace shunt::memory
