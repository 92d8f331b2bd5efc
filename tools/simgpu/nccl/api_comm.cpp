// Communicators: identity, initialisation in its forms, split, shrink, finalisation, abort, queries.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "tools/simgpu/nccl/api.h"
#include "tools/simgpu/nccl/group.h"

namespace simgpu::nccl {

namespace {

void nap() {
  const timespec t{0, 200'000};
  nanosleep(&t, nullptr);
}

// The unique id is the name of the clique's segment, after a word that tells simgpu's from others.
constexpr char kIdWord[8] = {'s', 'i', 'm', 'n', 'c', 'c', 'l', 1};

std::string clique_name(const ncclUniqueId& id) {
  if (memcmp(id.internal, kIdWord, sizeof kIdWord) != 0) return "";
  return std::string(id.internal + 8, strnlen(id.internal + 8, sizeof id.internal - 8));
}

bool current_device(int& device, CUcontext& context) {
  const Driver& d = driver();
  if (!d.ok) return false;
  CUdevice current = 0;
  if (d.cuCtxGetDevice(&current) != CUDA_SUCCESS) {
    if (d.cuInit(0) != CUDA_SUCCESS || d.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        d.cuCtxSetCurrent(context) != CUDA_SUCCESS)
      return false;
  }
  device = current;
  return d.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
}

// Members of a new communicator made from an old one, in its rank order.
struct Membership {
  std::string name;
  int rank = 0, ranks = 1;
};

ncclResult_t begin_join(ncclComm* comm, const Membership& m) {
  std::string error;
  comm->rank = m.rank;
  comm->ranks = m.ranks;
  comm->clique = Clique::open(m.name, m.ranks, error);
  if (!comm->clique) return fail(nullptr, ncclInvalidUsage, error);
  comm->send_sequence.assign(static_cast<size_t>(m.ranks), 0);
  comm->recv_sequence.assign(static_cast<size_t>(m.ranks), 0);
  int major = 0, minor = 0;
  driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, comm->device);
  driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, comm->device);
  if (!comm->clique->join(m.rank, driver().box_index(comm->device), comm->device,
                          static_cast<uint32_t>(10 * major + minor))) {
    return fail(nullptr, ncclInvalidUsage,
                "rank " + std::to_string(m.rank) + " joined this communicator twice");
  }
  return ncclSuccess;
}

ncclResult_t complete_join(ncclComm* comm) {
  std::string missing;
  if (!comm->clique->wait_all(timeout_s(), missing)) {
    report("rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->ranks) + " waited for rank " +
           missing + ", which never came");
    return fail(comm, ncclSystemError, "rank " + missing + " never joined");
  }
  const auto& slots = comm->clique->memory().slot;
  for (int a = 0; a < comm->ranks; ++a) {
    for (int b = a + 1; b < comm->ranks; ++b) {
      if (slots[a].box_device == slots[b].box_device)
        return fail(comm, ncclInvalidUsage,
                    "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " + std::to_string(b) +
                        " both on device " + std::to_string(slots[a].box_device));
    }
  }
  return ncclSuccess;
}

// A child's own configuration, or its parent's.
bool child_blocks(const ncclComm* parent, const ncclConfig_t* config, bool asked) {
  return config ? asked : parent->blocking;
}

ncclResult_t check_config(const ncclConfig_t* config, bool& blocking) {
  blocking = true;
  if (!config) return ncclSuccess;
  if (config->magic != 0xcafebeef)
    return fail(nullptr, ncclInvalidArgument,
                "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
    return fail(nullptr, ncclInvalidArgument,
                "config.blocking is " + std::to_string(config->blocking) + ": 0 or 1");
  if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config->minCTAs > config->maxCTAs)
    return fail(nullptr, ncclInvalidArgument, "config.minCTAs is above config.maxCTAs");
  blocking = config->blocking != 0;
  return ncclSuccess;
}

// Registers the communicator and starts or runs its initialisation. Ownership of the memory stays with the
// registry for good.
ncclResult_t start(ncclComm_t* out, std::unique_ptr<ncclComm> made, const Membership& m,
                   const ncclConfig_t* config) {
  bool blocking;
  if (const ncclResult_t r = check_config(config, blocking); r != ncclSuccess) return r;
  if (!current_device(made->device, made->context))
    return fail(nullptr, ncclUnhandledCudaError, "no CUDA device: is simgpu's libcuda loaded?");
  made->blocking = blocking;
  ncclComm* comm = made.release();
  remember(comm);
  *out = comm;
  if (blocking) {
    return enqueue_init(nullptr, {[=] { return begin_join(comm, m); },
                                  [=] {
                                    const ncclResult_t r = complete_join(comm);
                                    if (r != ncclSuccess) *out = nullptr;
                                    return r;
                                  }});
  }
  comm->async_error.store(ncclInProgress);
  std::thread([=] {
    ncclResult_t r = begin_join(comm, m);
    if (r == ncclSuccess) r = complete_join(comm);
    comm->async_error.store(r);
  }).detach();
  return ncclInProgress;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  if (!comm) return fail(nullptr, ncclInvalidArgument, "comm is NULL");
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    *comm = nullptr;
    return fail(nullptr, ncclInvalidArgument,
                "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  if (ranks > kMaxRanks)
    return fail(nullptr, ncclInvalidArgument,
                std::to_string(ranks) + " ranks: simgpu's box holds at most " + std::to_string(kMaxRanks));
  const std::string name = clique_name(id);
  if (name.empty())
    return fail(nullptr, ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId");
  return start(comm, std::make_unique<ncclComm>(), {name, rank, ranks}, config);
}

std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t hash(const std::string& text) {
  uint64_t h = 1469598103934665603ull;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

// Aborted before anything got into a stream: it never will.
void drop_deferred(ncclComm* comm) {
  std::lock_guard lock(comm->mutex);
  for (auto& [operation, stream] : comm->deferred) delete operation;
  comm->deferred.clear();
}

void wait_pending(ncclComm* comm) {
  while (comm->pending.load() > 0 && !comm->aborted.load()) {
    driver().poke();
    nap();
  }
}

}  // namespace

ncclResult_t check(const ncclComm* comm) {
  if (!comm) return fail(nullptr, ncclInvalidArgument, "comm argument is NULL");
  if (!is_comm(comm))
    return fail(nullptr, ncclInvalidArgument, "comm argument is no communicator, or was destroyed");
  return ncclSuccess;
}

ncclResult_t check_settled(ncclComm* comm) {
  const auto state = static_cast<ncclResult_t>(comm->async_error.load());
  if (state == ncclInProgress)
    return fail(comm, ncclInvalidArgument,
                "the call before is still in progress: poll ncclCommGetAsyncError until it says otherwise");
  return state;
}

}  // namespace simgpu::nccl

using namespace simgpu::nccl;

NCCL_FUNCTION(ncclGetVersion, (int* version), (version)) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_FUNCTION(ncclGetUniqueId, (ncclUniqueId * id), (id)) {
  if (!id) return fail(nullptr, ncclInvalidArgument, "uniqueId is NULL");
  uint64_t random[2] = {};
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return fail(nullptr, ncclSystemError, "getrandom failed");
  memset(id, 0, sizeof *id);
  memcpy(id->internal, kIdWord, sizeof kIdWord);
  snprintf(id->internal + 8, sizeof id->internal - 8, "/simgpu-nccl-%016llx%016llx",
           static_cast<unsigned long long>(random[0]), static_cast<unsigned long long>(random[1]));
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank),
              (comm, nranks, id, rank)) {
  return init_rank(comm, nranks, id, rank, nullptr);
}

NCCL_FUNCTION(ncclCommInitRankConfig,
              (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config),
              (comm, nranks, id, rank, config)) {
  return init_rank(comm, nranks, id, rank, config);
}

NCCL_FUNCTION(ncclCommInitRankScalable,
              (ncclComm_t * comm, int nranks, int rank, int count, ncclUniqueId* ids, ncclConfig_t* config),
              (comm, nranks, rank, count, ids, config)) {
  if (count < 1 || !ids || count > nranks)
    return fail(nullptr, ncclInvalidArgument,
                "nId is " + std::to_string(count) + ": between 1 and the number of ranks");
  return init_rank(comm, nranks, ids[0], rank, config);
}

NCCL_FUNCTION(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices), (comms, count, devices)) {
  int available = 0;
  if (!driver().ok || driver().cuInit(0) != CUDA_SUCCESS ||
      driver().cuDeviceGetCount(&available) != CUDA_SUCCESS)
    return fail(nullptr, ncclUnhandledCudaError, "no CUDA device: is simgpu's libcuda loaded?");
  if (!comms || count < 1)
    return fail(nullptr, ncclInvalidArgument, "ncclCommInitAll needs an array and at least one device");
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= available)
      return fail(
          nullptr, devices ? ncclInvalidArgument : ncclInvalidUsage,
          "device " + std::to_string(device) + " does not exist: there are " + std::to_string(available));
    for (int j = 0; j < i && devices; ++j) {
      if (devices[j] == device)
        return fail(nullptr, ncclInvalidUsage, "device " + std::to_string(device) + " is named twice");
    }
  }
  ncclUniqueId id;
  if (const ncclResult_t r = ncclGetUniqueId(&id); r != ncclSuccess) return r;
  CUcontext before = nullptr;
  driver().cuCtxGetCurrent(&before);
  group_start();
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    CUcontext context = nullptr;
    if (driver().cuDevicePrimaryCtxRetain(&context, devices ? devices[i] : i) != CUDA_SUCCESS ||
        driver().cuCtxSetCurrent(context) != CUDA_SUCCESS)
      result = ncclUnhandledCudaError;
    else
      result = init_rank(&comms[i], count, id, i, nullptr);
  }
  const ncclResult_t ended = group_end();
  driver().cuCtxSetCurrent(before);
  return result == ncclSuccess ? ended : result;
}

NCCL_FUNCTION(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config),
              (comm, color, key, out, config)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!out) return fail(comm, ncclInvalidArgument, "newcomm is NULL");
  if (const ncclResult_t r = check_settled(comm); r == ncclInvalidArgument) return r;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return fail(comm, ncclInvalidArgument,
                "color is " + std::to_string(color) + ": not negative, or NCCL_SPLIT_NOCOLOR");
  *out = nullptr;
  bool blocking;
  if (const ncclResult_t r = check_config(config, blocking); r != ncclSuccess) return r;
  auto* fresh = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm;
  const uint64_t number = comm->splits++;
  auto membership = std::make_shared<Membership>();
  auto turn = std::make_shared<uint64_t>(0);
  auto announce = [=]() -> ncclResult_t {
    *turn = comm->clique->announce(comm->rank, color, key);
    return ncclSuccess;
  };
  auto begin = [=]() -> ncclResult_t {
    std::string missing;
    const uint64_t slot = *turn % 16;
    if (!comm->clique->await(*turn, timeout_s(), missing))
      return fail(comm, ncclSystemError, "ncclCommSplit: rank " + missing + " never called it");
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    std::vector<std::pair<int, int>> members;
    for (int r = 0; r < comm->ranks; ++r) {
      const RankSlot& s = comm->clique->memory().slot[r];
      if (s.color[slot] == color) members.emplace_back(s.key[slot], r);
    }
    std::sort(members.begin(), members.end());
    membership->ranks = static_cast<int>(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i].second == comm->rank) membership->rank = static_cast<int>(i);
    }
    membership->name =
        "/simgpu-nccl-" +
        hex(hash(comm->clique->name() + " split " + std::to_string(number) + " " + std::to_string(color)));
    return begin_join(fresh, *membership);
  };
  auto complete = [=]() -> ncclResult_t {
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    const ncclResult_t r = complete_join(fresh);
    if (r == ncclSuccess) *out = fresh;
    return r;
  };
  if (fresh) {
    fresh->device = comm->device;
    fresh->context = comm->context;
    fresh->blocking = child_blocks(comm, config, blocking);
    remember(fresh);
  }
  return enqueue_init(comm, {announce, begin, complete});
}

NCCL_FUNCTION(ncclCommShrink,
              (ncclComm_t comm, int* excluded, int count, ncclComm_t* out, ncclConfig_t* config, int flags),
              (comm, excluded, count, out, config, flags)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!out || !excluded || count < 1 || count >= comm->ranks)
    return fail(comm, ncclInvalidArgument,
                "ncclCommShrink needs a list of 1 to " + std::to_string(comm->ranks - 1) + " excluded ranks");
  if (flags & NCCL_SHRINK_ABORT) comm->aborted.store(true), driver().poke();
  bool stays[kMaxRanks];
  std::fill(stays, stays + comm->ranks, true);
  for (int i = 0; i < count; ++i) {
    if (excluded[i] < 0 || excluded[i] >= comm->ranks)
      return fail(comm, ncclInvalidArgument,
                  "excluded rank " + std::to_string(excluded[i]) + " is not in the communicator");
    stays[excluded[i]] = false;
  }
  if (!stays[comm->rank])
    return fail(comm, ncclInvalidArgument, "an excluded rank must not call ncclCommShrink");
  bool blocking;
  if (const ncclResult_t r = check_config(config, blocking); r != ncclSuccess) return r;
  Membership m;
  m.ranks = 0;
  std::string list;
  for (int r = 0; r < comm->ranks; ++r) {
    if (!stays[r]) continue;
    if (r == comm->rank) m.rank = m.ranks;
    ++m.ranks;
    list += " " + std::to_string(r);
  }
  m.name =
      "/simgpu-nccl-" + hex(hash(comm->clique->name() + " shrink " + std::to_string(comm->splits++) + list));
  auto* fresh = new ncclComm;
  fresh->device = comm->device;
  fresh->context = comm->context;
  fresh->blocking = child_blocks(comm, config, blocking);
  remember(fresh);
  *out = nullptr;
  return enqueue_init(comm, {[=] { return begin_join(fresh, m); },
                             [=] {
                               const ncclResult_t r = complete_join(fresh);
                               if (r == ncclSuccess) *out = fresh;
                               return r;
                             }});
}

NCCL_FUNCTION(ncclCommFinalize, (ncclComm_t comm), (comm)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (const ncclResult_t r = check_settled(comm); r != ncclSuccess) return r;
  if (comm->finalized.exchange(true))
    return fail(comm, ncclInvalidArgument, "ncclCommFinalize was called before");
  return enqueue_init(comm, {[=] {
                        wait_pending(comm);
                        return ncclSuccess;
                      }});
}

NCCL_FUNCTION(ncclCommDestroy, (ncclComm_t comm), (comm)) {
  if (!comm) return ncclSuccess;
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (const ncclResult_t r = check_settled(comm); r == ncclInvalidArgument) return r;
  wait_pending(comm);
  if (comm->clique) comm->clique->leave(comm->rank);
  forget(comm);
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommAbort, (ncclComm_t comm), (comm)) {
  if (!comm) return ncclSuccess;
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  comm->aborted.store(true);
  drop_deferred(comm);
  if (comm->clique) comm->clique->memory().slot[comm->rank].aborted.store(1);
  driver().poke();
  wait_pending(comm);
  if (comm->clique) comm->clique->leave(comm->rank);
  forget(comm);
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommRevoke, (ncclComm_t comm, int flags), (comm, flags)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (flags != NCCL_REVOKE_DEFAULT)
    return fail(comm, ncclInvalidArgument, "revokeFlags must be NCCL_REVOKE_DEFAULT");
  comm->aborted.store(true);
  drop_deferred(comm);
  comm->revoked = true;
  driver().poke();
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error), (comm, error)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!error) return fail(comm, ncclInvalidArgument, "asyncError is NULL");
  submit_deferred(comm);
  *error = static_cast<ncclResult_t>(comm->async_error.load());
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommCount, (const ncclComm_t comm, int* count), (comm, count)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!count) return fail(comm, ncclInvalidArgument, "count is NULL");
  *count = comm->ranks;
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommCuDevice, (const ncclComm_t comm, int* device), (comm, device)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!device) return fail(comm, ncclInvalidArgument, "device is NULL");
  *device = comm->device;
  return ncclSuccess;
}

NCCL_FUNCTION(ncclCommUserRank, (const ncclComm_t comm, int* rank), (comm, rank)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!rank) return fail(comm, ncclInvalidArgument, "rank is NULL");
  *rank = comm->rank;
  return ncclSuccess;
}

extern "C" {
NCCL_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
NCCL_EXPORT const char* pncclGetErrorString(ncclResult_t result) { return ncclGetErrorString(result); }
NCCL_EXPORT const char* ncclGetLastError(ncclComm_t comm) { return last_error(comm); }
NCCL_EXPORT const char* pncclGetLastError(ncclComm_t comm) { return last_error(comm); }
NCCL_EXPORT void ncclResetDebugInit() {}
NCCL_EXPORT void pncclResetDebugInit() {}
}
