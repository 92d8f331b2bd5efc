#include "runtime/ledger/ledger.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>

#include "runtime/base/process_id.h"
#include "runtime/ledger/file.h"

namespace shunt::ledger {

struct Ledger::State {
  File* file = nullptr;
  int fd = -1;
  uint32_t timeout_ms = 1000;
  uint64_t namespace_id = 0;
  std::atomic<int> slot{-1};
  std::atomic<uint32_t> pid{0};
  std::mutex sequence_mutex;  // one writer of the own slot's sequence at a time

  Slot* own() {
    int s = slot.load(std::memory_order_acquire);
    return s < 0 ? nullptr : &file->slots[s];
  }
  const Slot* own() const { return const_cast<State*>(this)->own(); }
  bool valid(int device) const { return device >= 0 && device < kMaxDevices; }

  bool alive(int s) const;
  void clear(int s);
  bool claim();
  void read_row(int s, int device, uint64_t out[5]) const;
  uint64_t sum(int device, std::atomic<uint64_t> DeviceUse::*field, int except = -1) const;
};

namespace {

template <class F>
void for_each_slot(const File* file, F f) {
  auto limit = std::min<uint32_t>(file->slots_in_use.load(), kMaxProcesses);
  for (uint32_t s = 0; s < limit; ++s)
    if (file->owners[s].load() != 0) f(static_cast<int>(s));
}

uint64_t add_capped(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// Never below zero: a count that wrapped would look like all the memory there is.
uint64_t subtract(std::atomic<uint64_t>& value, uint64_t bytes) {
  uint64_t now = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(now, now - std::min(now, bytes), std::memory_order_relaxed)) {
  }
  return std::min(now, bytes);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wake_waiters(DeviceEntry& device) {
  device.freed_word.fetch_add(1, std::memory_order_release);
  if (device.waiters.load(std::memory_order_acquire) != 0) futex_wake(device.freed_word);
}

// The process's ledger, for the fork handler: it has to be inert in the child even if nobody tells it.
std::atomic<Ledger*> g_current{nullptr};
void after_fork_in_child() {
  if (Ledger* ledger = g_current.exchange(nullptr)) ledger->fork_child();
}

// The first line of a small file of /proc. Not by a stream: setting one up costs more than the rest of
// opening a ledger.
std::string first_line(const char* path) {
  char text[64];
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? ::read(fd, text, sizeof text) : 0;
  if (fd >= 0) ::close(fd);
  std::string_view line(text, n > 0 ? static_cast<size_t>(n) : 0);
  return std::string(line.substr(0, line.find('\n')));
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id").substr(0, 8); }

}  // namespace

bool Ledger::State::alive(int s) const {
  uint32_t owner = file->owners[s].load(std::memory_order_acquire);
  if (owner == 0) return false;
  uint64_t start = file->slots[s].start_time.load(std::memory_order_acquire);
  bool comparable = file->slots[s].namespace_id.load(std::memory_order_relaxed) == namespace_id;
  // While a slot is being taken, and in other pid namespaces, only the kernel's lock tells.
  if (start == 0 || !comparable) return slot_held(fd, s);
  return process_start_time(owner) == start;
}

// Table lock held. The owner goes first: readers then no longer count the slot, so what is added for it below
// is never seen twice. A clearing that is killed is done again and may add twice: waiters then look once too
// often, no more.
void Ledger::State::clear(int s) {
  Slot& victim = file->slots[s];
  victim.dirty.store(1);
  file->owners[s].store(0, std::memory_order_release);
  step();
  for (int d = 0; d < kMaxDevices; ++d) {
    DeviceUse& use = victim.devices[d];
    // Its memory is free again, and what it had freed must not be forgotten: waiters compare a sum that only
    // grows.
    uint64_t gone = add_capped(use.used.load(), use.freed.load());
    bool relief = gone != 0 || use.reserved.load() != 0;
    bool wanted = use.wanted.load() != 0;
    file->devices[d].freed_by_dead.fetch_add(gone, std::memory_order_release);
    if (relief) wake_waiters(file->devices[d]);
    if (wanted) file->devices[d].pressure_word.fetch_add(1, std::memory_order_release);
    if (relief || wanted) step();
    use.used.store(0);
    use.freed.store(0);
    use.reserved.store(0);
    use.spilled.store(0);
    use.wanted.store(0);
  }
  victim.sequence.store(0);
  victim.start_time.store(0);
  step();
  victim.dirty.store(0);
}

// Without a lock: the kernel's lock on the slot's byte decides between two that want the same, and ends with
// its holder.
bool Ledger::State::claim() {
  auto self = static_cast<uint32_t>(getpid());
  uint64_t start = own_start_time(), image = image_id();
  int taken = -1;
  // After exec the slot is still there: promises made before stay, memory of the old image is gone.
  for_each_slot(file, [&](int s) {
    const Slot& candidate = file->slots[s];
    if (file->owners[s].load() == self && candidate.start_time.load() == start &&
        candidate.namespace_id.load() == namespace_id)
      taken = s;
  });
  if (taken >= 0) {
    Slot& again = file->slots[taken];
    hold_slot(fd, taken);
    if (again.image_id.load() != image) {
      for (DeviceUse& use : again.devices) use.used.store(0), use.spilled.store(0), use.wanted.store(0);
      again.sequence.store(0);
      again.image_id.store(image);
    }
  } else {
    std::string_view name = program_invocation_short_name;
    for (int s = 0; s < kMaxProcesses && taken < 0; ++s) {
      if (file->owners[s].load() != 0 || file->slots[s].dirty.load() != 0 || !hold_slot(fd, s)) continue;
      step();
      uint32_t nobody = 0;
      if (file->slots[s].dirty.load() == 0 && file->owners[s].compare_exchange_strong(nobody, self))
        taken = s;
      else
        drop_slot(fd, s);
    }
    if (taken < 0) return false;
    uint32_t limit = file->slots_in_use.load();
    while (limit <= static_cast<uint32_t>(taken) &&
           !file->slots_in_use.compare_exchange_weak(limit, static_cast<uint32_t>(taken) + 1)) {
    }
    step();
    Slot& fresh = file->slots[taken];
    fresh.namespace_id.store(namespace_id);
    fresh.image_id.store(image);
    fresh.heartbeat_ns.store(boottime_ns());
    std::memset(fresh.name, 0, sizeof fresh.name);
    std::memcpy(fresh.name, name.data(), std::min(name.size(), sizeof fresh.name - 1));
    step();
    fresh.start_time.store(start, std::memory_order_release);
  }
  slot.store(taken, std::memory_order_release);
  pid.store(self);
  return true;
}

uint64_t Ledger::State::sum(int device, std::atomic<uint64_t> DeviceUse::*field, int except) const {
  uint64_t total = 0;
  for_each_slot(file, [&](int s) {
    if (s != except) total = add_capped(total, (file->slots[s].devices[device].*field).load());
  });
  return total;
}

std::string Ledger::file_name(const Options& options) {
  std::string name =
      "/shunt-ledger" + std::to_string(kVersion) + "-" + std::to_string(geteuid()) + "-" + boot_id();
  if (options.scope.empty()) return name;
  name += "-";
  for (char c : options.scope.substr(0, 100)) name += c == '/' ? '_' : c;
  return name;
}

std::vector<std::string> Ledger::scopes() {
  std::vector<std::string> out;
  std::string real = file_name({}).substr(1);
  DIR* folder = opendir("/dev/shm");
  while (dirent* entry = folder ? readdir(folder) : nullptr) {
    std::string_view name = entry->d_name;
    if (name == real) out.emplace_back();
    if (name.size() > real.size() + 1 && name.starts_with(real) && name[real.size()] == '-')
      out.emplace_back(name.substr(real.size() + 1));
  }
  if (folder) closedir(folder);
  std::sort(out.begin(), out.end());
  return out;
}

std::unique_ptr<Ledger> Ledger::inspect(const Options& options, std::string& error) {
  auto state = std::make_unique<State>();
  state->file = map_file(file_name(options), false, state->fd, error);
  if (!state->file) return nullptr;
  state->timeout_ms = options.lock_timeout_ms;
  state->namespace_id = pid_namespace();
  return std::unique_ptr<Ledger>(new Ledger(std::move(state)));
}

std::unique_ptr<Ledger> Ledger::open(const Options& options, std::string& error) {
  auto state = std::make_unique<State>();
  state->file = map_file(file_name(options), true, state->fd, error);
  if (!state->file) return nullptr;
  state->timeout_ms = options.lock_timeout_ms;
  state->namespace_id = pid_namespace();
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(state)));
  if (!ledger->state_->claim()) ledger->sweep();
  if (ledger->registered() || ledger->state_->claim()) {
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
    g_current.store(ledger.get());
    return ledger;
  }
  error = "ledger " + file_name(options) +
          " has no free slot or is locked by a stopped process: shunt ledger shows whose";
  return nullptr;
}

bool Ledger::remove(const Options& options, std::string& error) {
  std::string name = file_name(options);
  if (shm_unlink(name.c_str()) == 0 || errno == ENOENT) return true;
  error = "ledger " + name + " cannot be removed: " + std::strerror(errno);
  return false;
}

Ledger::Ledger(std::unique_ptr<State> state) : state_(std::move(state)) {}

Ledger::~Ledger() {
  Ledger* self = this;
  g_current.compare_exchange_strong(self, nullptr);
  int s = state_->slot.load();
  if (s >= 0 && state_->pid.load() == static_cast<uint32_t>(getpid()) &&
      lock(&state_->file->mutex, state_->timeout_ms)) {
    state_->clear(s);
    drop_slot(state_->fd, s);
    unlock(&state_->file->mutex);
  }
  munmap(state_->file, sizeof(File));
  if (state_->fd >= 0) close(state_->fd);
}

int Ledger::device(const Uuid& uuid) {
  File* file = state_->file;
  auto find = [&] {
    for (int d = 0; d < kMaxDevices && file->devices[d].known.load(std::memory_order_acquire) == 1; ++d)
      if (std::memcmp(file->devices[d].uuid, uuid.data(), uuid.size()) == 0) return d;
    return -1;
  };
  int found = find();
  if (found >= 0 || !lock(&file->mutex, state_->timeout_ms)) return found;
  found = find();
  for (int d = 0; d < kMaxDevices && found < 0; ++d) {
    if (file->devices[d].known.load() == 1) continue;
    std::memcpy(file->devices[d].uuid, uuid.data(), uuid.size());
    step();
    file->devices[d].known.store(1, std::memory_order_release);
    found = d;
  }
  unlock(&file->mutex);
  return found;
}

int Ledger::device_count() const {
  int count = 0;
  while (count < kMaxDevices && state_->file->devices[count].known.load(std::memory_order_acquire) == 1)
    ++count;
  return count;
}

void Ledger::add_used(int device, uint64_t bytes) {
  Slot* own = state_->own();
  if (own && state_->valid(device)) own->devices[device].used.fetch_add(bytes, std::memory_order_relaxed);
}

void Ledger::sub_used(int device, uint64_t bytes) {
  Slot* own = state_->own();
  if (!own || !state_->valid(device)) return;
  uint64_t freed = subtract(own->devices[device].used, bytes);
  step();
  if (freed == 0) return;
  own->devices[device].freed.fetch_add(freed, std::memory_order_release);
  step();
  wake_waiters(state_->file->devices[device]);
}

void Ledger::add_spilled(int device, uint64_t bytes) {
  Slot* own = state_->own();
  if (own && state_->valid(device)) own->devices[device].spilled.fetch_add(bytes, std::memory_order_relaxed);
}
void Ledger::sub_spilled(int device, uint64_t bytes) {
  Slot* own = state_->own();
  if (own && state_->valid(device)) subtract(own->devices[device].spilled, bytes);
}

Grant Ledger::reserve(std::span<const Request> requests, Reservation& out) {
  out.parts.clear();
  Slot* own = state_->own();
  if (!own) return Grant::unavailable;
  std::vector<Request> parts;
  for (const Request& request : requests) {
    if (!state_->valid(request.device)) return Grant::unavailable;
    auto same = std::find_if(parts.begin(), parts.end(),
                             [&](const Request& p) { return p.device == request.device; });
    if (same == parts.end())
      parts.push_back(request);
    else
      same->bytes = add_capped(same->bytes, request.bytes),
      same->free_now = std::min(same->free_now, request.free_now);
  }
  constexpr uint64_t kImpossible = 1ull << 60;  // larger than any device: sums below cannot wrap
  for (const Request& part : parts)
    if (part.bytes > std::min(part.free_now, kImpossible)) return Grant::would_not_fit;
  // No lock, so nobody can be kept waiting by a process that was stopped: each adds its wish first and then
  // looks. Of two that look at the same time the later one sees both wishes, so never both are granted what
  // only one can have.
  auto promised_to_others = [&](const Request& part) {
    return state_->sum(part.device, &DeviceUse::reserved, state_->slot.load());
  };
  auto fits = [&](const Request& part, uint64_t others) {
    if (part.free_now == UINT64_MAX) return true;
    uint64_t own_promises = own->devices[part.device].reserved.load();
    return add_capped(others, own_promises) <= part.free_now;
  };
  constexpr int kTries = 8;
  Grant grant = Grant::would_not_fit;
  for (int attempt = 0; attempt < kTries && grant != Grant::granted; ++attempt) {
    for (const Request& part : parts) {
      std::atomic<uint64_t>& mine = own->devices[part.device].reserved;
      mine.fetch_add(part.bytes);
      step();
    }
    uint64_t seen = 0;
    grant = Grant::granted;
    for (const Request& part : parts) {
      uint64_t others = promised_to_others(part);
      seen = add_capped(seen, others);
      if (!fits(part, others)) grant = Grant::would_not_fit;
    }
    if (grant == Grant::granted) break;
    for (const Request& part : parts) {
      subtract(own->devices[part.device].reserved, part.bytes);
      step();
    }
    // Perhaps others were only looking too: when what they hold changes, it is worth another try.
    sched_yield();
    uint64_t now = 0;
    for (const Request& part : parts) now = add_capped(now, promised_to_others(part));
    if (now >= seen) break;
  }
  if (grant == Grant::granted)
    for (const Request& part : parts) out.parts.push_back({part.device, part.bytes});
  own->heartbeat_ns.store(boottime_ns(), std::memory_order_relaxed);
  return grant;
}

void Ledger::commit(Reservation& reservation, std::span<const uint64_t> used) {
  Slot* own = state_->own();
  if (own) {
    std::lock_guard writer(state_->sequence_mutex);
    own->sequence.fetch_add(1, std::memory_order_acq_rel);
    for (size_t i = 0; i < reservation.parts.size(); ++i) {
      const Reservation::Part& part = reservation.parts[i];
      // Used first: whoever looks between the two sees too much taken, never too little.
      own->devices[part.device].used.fetch_add(i < used.size() ? used[i] : part.bytes,
                                               std::memory_order_relaxed);
      step();
      subtract(own->devices[part.device].reserved, part.bytes);
      step();
    }
    own->sequence.fetch_add(1, std::memory_order_release);
    own->heartbeat_ns.store(boottime_ns(), std::memory_order_relaxed);
  }
  reservation.parts.clear();
}

void Ledger::cancel(Reservation& reservation) {
  Slot* own = state_->own();
  if (own) {
    for (const Reservation::Part& part : reservation.parts) {
      subtract(own->devices[part.device].reserved, part.bytes);
      step();
      // A promise given back is memory somebody else may now be promised.
      wake_waiters(state_->file->devices[part.device]);
    }
    own->heartbeat_ns.store(boottime_ns(), std::memory_order_relaxed);
  }
  reservation.parts.clear();
}

void Ledger::want(int device, uint64_t bytes) {
  Slot* own = state_->own();
  if (!own || !state_->valid(device)) return;
  if (own->devices[device].wanted.exchange(bytes) == bytes) return;
  step();
  state_->file->devices[device].pressure_word.fetch_add(1, std::memory_order_release);
}

uint64_t Ledger::wanted_by_others(int device) const {
  return state_->valid(device) ? state_->sum(device, &DeviceUse::wanted, state_->slot.load()) : 0;
}
uint32_t Ledger::pressure_word(int device) const {
  return state_->valid(device) ? state_->file->devices[device].pressure_word.load(std::memory_order_acquire)
                               : 0;
}
uint64_t Ledger::freed_by_others(int device) const {
  if (!state_->valid(device)) return 0;
  return add_capped(state_->sum(device, &DeviceUse::freed, state_->slot.load()),
                    state_->file->devices[device].freed_by_dead.load(std::memory_order_acquire));
}

bool Ledger::wait_freed(int device, uint64_t seen, uint32_t timeout_ms) {
  if (!state_->valid(device)) return false;
  constexpr uint64_t kSlice_ns = 20'000'000;  // how soon a killed neighbour's memory is noticed
  DeviceEntry& entry = state_->file->devices[device];
  uint64_t deadline = boottime_ns() + uint64_t{timeout_ms} * 1'000'000;
  bool freed = false;
  for (;;) {
    // A hint for those who free, set before looking; it may be left behind by a waiter that is killed, and
    // then costs them one needless system call until the next waiter clears it.
    entry.waiters.store(1, std::memory_order_release);
    uint32_t word = entry.freed_word.load(std::memory_order_acquire);
    if ((freed = freed_by_others(device) > seen)) break;
    uint64_t now = boottime_ns();
    if (now >= deadline) break;
    uint64_t left = std::min(deadline - now, kSlice_ns);
    timespec relative{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    syscall(SYS_futex, &entry.freed_word, FUTEX_WAIT, word, &relative, nullptr, 0);
    sweep();
  }
  if (wanted_by_others(device) == 0) entry.waiters.store(0, std::memory_order_release);
  return freed;
}

// A copy of one slot's row in which a commit is whole. A writer that lost its processor half-way is waited
// for a little; one that was killed there leaves the sequence odd for ever, and then the fields are taken as
// they are, each of them sound.
void Ledger::State::read_row(int s, int device, uint64_t out[5]) const {
  constexpr int kSpins = 200, kNaps = 200, kNap_us = 50;
  const Slot& slot_ref = file->slots[s];
  const DeviceUse& use = slot_ref.devices[device];
  for (int attempt = 0; attempt < kSpins + kNaps; ++attempt) {
    if (attempt == kSpins && !alive(s)) return;
    if (attempt >= kSpins) usleep(kNap_us);
    uint64_t before = slot_ref.sequence.load(std::memory_order_acquire);
    // Acquire: the second look at the sequence must not come before these.
    out[0] = use.used.load(std::memory_order_acquire);
    out[1] = use.reserved.load(std::memory_order_acquire);
    out[2] = use.spilled.load(std::memory_order_acquire);
    out[3] = use.wanted.load(std::memory_order_acquire);
    out[4] = use.freed.load(std::memory_order_acquire);
    if (before % 2 == 0 && slot_ref.sequence.load(std::memory_order_relaxed) == before) return;
  }
}

DeviceView Ledger::view(int device) const {
  DeviceView out;
  if (!state_->valid(device)) return out;
  const DeviceEntry& entry = state_->file->devices[device];
  std::memcpy(out.uuid.data(), entry.uuid, out.uuid.size());
  out.freed = entry.freed_by_dead.load(std::memory_order_acquire);
  for_each_slot(state_->file, [&](int s) {
    uint64_t row[5];
    state_->read_row(s, device, row);
    out.used = add_capped(out.used, row[0]);
    out.reserved = add_capped(out.reserved, row[1]);
    out.spilled = add_capped(out.spilled, row[2]);
    out.wanted = add_capped(out.wanted, row[3]);
    out.freed = add_capped(out.freed, row[4]);
    out.processes += row[0] != 0 || row[1] != 0;
  });
  return out;
}

std::vector<ProcessView> Ledger::processes() const {
  std::vector<ProcessView> list;
  int count = device_count();
  for_each_slot(state_->file, [&](int s) {
    const Slot& slot = state_->file->slots[s];
    ProcessView p;
    p.pid = state_->file->owners[s].load();
    p.same_namespace = slot.namespace_id.load() == state_->namespace_id;
    p.alive = state_->alive(s);
    p.self = s == state_->slot.load();
    p.name.assign(slot.name, strnlen(slot.name, sizeof slot.name));
    p.heartbeat_ns = slot.heartbeat_ns.load();
    for (int d = 0; d < count; ++d) {
      uint64_t row[5];
      state_->read_row(s, d, row);
      if (row[0] || row[1] || row[2] || row[3]) p.devices.push_back({d, row[0], row[1], row[2], row[3]});
    }
    list.push_back(std::move(p));
  });
  return list;
}

int Ledger::sweep() {
  File* file = state_->file;
  // Looking at processes is slow, so it is done without the lock; what was found dead is looked at again
  // under it.
  std::vector<int> dead;
  auto limit = std::min<uint32_t>(file->slots_in_use.load(std::memory_order_acquire), kMaxProcesses);
  for (uint32_t s = 0; s < limit; ++s) {
    bool owned = file->owners[s].load(std::memory_order_acquire) != 0;
    bool left_over = !owned && file->slots[s].dirty.load(std::memory_order_acquire) != 0;
    bool ended = owned && static_cast<int>(s) != state_->slot.load() && !state_->alive(static_cast<int>(s));
    if (left_over || ended) dead.push_back(static_cast<int>(s));
  }
  file->sweeps.fetch_add(1, std::memory_order_relaxed);
  if (dead.empty() || !lock(&file->mutex, state_->timeout_ms)) return 0;
  int cleared = 0;
  for (int s : dead) {
    bool owned = file->owners[s].load() != 0;
    if (owned ? state_->alive(s) : file->slots[s].dirty.load() == 0) continue;
    state_->clear(s);
    file->reclaimed_slots.fetch_add(1, std::memory_order_relaxed);
    ++cleared;
  }
  unlock(&file->mutex);
  return cleared;
}

void Ledger::fork_child() {
  state_->slot.store(-1, std::memory_order_release);
  state_->pid.store(0);
  // The descriptor shares the parent's slot lock; without this copy the lock ends with the parent.
  if (state_->fd >= 0) close(state_->fd);
  state_->fd = -1;
}

bool Ledger::registered() const { return state_->slot.load() >= 0; }

}  // namespace shunt::ledger
