#include "runtime/monitor/sampler.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/monitor/monitor.h"

namespace shunt::monitor {
namespace {

constexpr uint64_t kMagic = 0x72'65'6c'70'6d'61'73'01;  // version in the last byte
constexpr size_t kMostDevices = 128;

static_assert(std::is_trivially_copyable_v<Sample>);

// Written by the elected process only, so a sequence is enough. A writer killed half-way leaves it odd; the
// next one starts with an even one again.
struct Head {
  uint64_t time_ns, number;
  uint32_t pid, count;
};
static_assert(sizeof(Sample) % 8 == 0 && sizeof(Head) % 8 == 0);
constexpr size_t kHeadWords = sizeof(Head) / 8, kSampleWords = sizeof(Sample) / 8;

// The figures as words, since they are read while they are being written.
struct Board {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> words[kHeadWords + kMostDevices * kSampleWords];
};

template <class T>
void put(std::atomic<uint64_t>* to, const T& value) {
  uint64_t words[sizeof(T) / 8];
  std::memcpy(words, &value, sizeof words);
  for (size_t i = 0; i < sizeof(T) / 8; ++i) to[i].store(words[i], std::memory_order_relaxed);
}
template <class T>
void get(const std::atomic<uint64_t>* from, T& value) {
  uint64_t words[sizeof(T) / 8];
  for (size_t i = 0; i < sizeof(T) / 8; ++i) words[i] = from[i].load(std::memory_order_acquire);
  std::memcpy(static_cast<void*>(&value), words, sizeof words);
}

uint64_t boottime_ns() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// An OFD lock: the kernel drops it with the process, however it ends.
bool try_elect(int fd) {
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  request.l_len = 1;
  return fcntl(fd, F_OFD_SETLK, &request) == 0;
}

Sample sample_of(const Device& d) {
  Sample s;
  s.uuid = d.identity.uuid_bytes;
  if (d.now.memory) {
    s.memory_known = true;
    s.total = d.now.memory->total;
    s.free = d.now.memory->free;
    s.used = d.now.memory->used;
    s.os_accounted = d.now.memory->os_accounted;
  }
  if (d.now.busy_percent) s.busy_percent = static_cast<int>(*d.now.busy_percent);
  if (d.now.rates) {
    s.sm_percent = static_cast<int>(std::lround(d.now.rates->sm_percent));
    s.dram_percent = static_cast<int>(std::lround(d.now.rates->dram_percent));
  }
  s.power_w = d.now.power.watts.value_or(-1);
  s.limit_w = d.now.power.limit_w.value_or(-1);
  if (d.now.celsius) s.celsius = static_cast<int>(*d.now.celsius);
  s.links = static_cast<uint32_t>(d.now.links.size());
  s.links_active = d.now.links_active();
  s.xid_count = d.now.health.xid_count;
  s.last_xid = d.now.health.last_xid;
  return s;
}

}  // namespace

const Sample* Samples::find(const std::array<uint8_t, 16>& uuid) const {
  for (const Sample& s : devices)
    if (s.uuid == uuid) return &s;
  return nullptr;
}

struct Sampler::State {
  Board* board = nullptr;
  std::atomic<int> fd{-1};
  Options options;
  nvml::Loader loader;
  std::atomic<bool> elected{false};
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;

  void run();
  void publish(const Snapshot& snapshot);
  bool rest();  // one period; false: it is time to end
};

namespace {
// A fork's child shares the lock; without its copy of the descriptor the lock ends with the parent.
std::mutex g_live_mutex;
std::vector<std::atomic<int>*>& live_descriptors() {
  static auto* const list = new std::vector<std::atomic<int>*>;
  return *list;
}
void before_fork() { g_live_mutex.lock(); }
void in_parent() { g_live_mutex.unlock(); }
void in_child() {
  for (std::atomic<int>* fd : live_descriptors())
    if (int number = fd->exchange(-1); number >= 0) close(number);
  g_live_mutex.unlock();
}
}  // namespace

bool Sampler::State::rest() {
  std::unique_lock lock(mutex);
  return !wake.wait_for(lock, std::chrono::milliseconds(options.period_ms), [&] { return stop; });
}

void Sampler::State::publish(const Snapshot& snapshot) {
  uint64_t even = (board->sequence.load(std::memory_order_relaxed) | 1) + 1;
  board->sequence.exchange(even - 1, std::memory_order_acq_rel);  // nothing below moves above it
  Head head;
  get(board->words, head);
  head = {boottime_ns(), head.number + 1, static_cast<uint32_t>(getpid()),
          static_cast<uint32_t>(std::min(snapshot.devices.size(), kMostDevices))};
  put(board->words, head);
  for (uint32_t i = 0; i < head.count; ++i)
    put(board->words + kHeadWords + i * kSampleWords, sample_of(snapshot.devices[i]));
  board->sequence.store(even, std::memory_order_release);
}

void Sampler::State::run() {
  std::unique_ptr<Monitor> monitor;
  do {
    if (!elected.load()) {
      if (!try_elect(fd.load())) continue;
      elected.store(true);
    }
    std::string ignored;
    // Opened only by the one who samples: the others do not start NVML at all.
    if (!monitor) monitor = Monitor::open(ignored, loader);
    if (!monitor) continue;
    publish(monitor->read(kMemory | kLoad | kPower | kLinks | kHealth));
  } while (rest());
}

std::string Sampler::file_name(const Options& options) {
  std::string name = "/shunt-samples1-" + std::to_string(geteuid());
  if (options.scope.empty()) return name;
  name += "-";
  for (char c : options.scope.substr(0, 100)) name += c == '/' ? '_' : c;
  return name;
}

std::unique_ptr<Sampler> Sampler::open(const Options& options, std::string& error,
                                       const nvml::Loader& loader) {
  std::string name = file_name(options);
  auto fail = [&](int fd, const std::string& what) -> std::unique_ptr<Sampler> {
    error = "samples " + name + " " + what;
    if (fd >= 0) close(fd);
    return nullptr;
  };
  int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return fail(fd, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
    return fail(fd, "belong to somebody else or are open to others: remove the file from /dev/shm");
  // Allocated now: on a full /dev/shm a later first touch would be a SIGBUS in the program.
  if (int rc = posix_fallocate(fd, 0, sizeof(Board)); rc != 0)
    return fail(fd, std::string("cannot be made: ") + std::strerror(rc) + "; is /dev/shm full?");
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return fail(fd, std::string("cannot be mapped: ") + std::strerror(errno));
  auto* board = static_cast<Board*>(memory);
  uint64_t zero = 0;
  if (!board->magic.compare_exchange_strong(zero, kMagic) && zero != kMagic) {
    munmap(memory, sizeof(Board));
    return fail(fd, "are damaged or of another version: remove the file from /dev/shm");
  }
  auto state = std::make_unique<State>();
  state->board = board;
  state->fd = fd;
  state->options = options;
  state->loader = loader;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(before_fork, in_parent, in_child); });
  {
    std::lock_guard lock(g_live_mutex);
    live_descriptors().push_back(&state->fd);
  }
  State* raw = state.get();
  std::unique_ptr<Sampler> sampler(new Sampler(std::move(state)));
  if (options.may_sample) raw->thread = std::thread([raw] { raw->run(); });
  return sampler;
}

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}

Sampler::~Sampler() {
  bool here = state_->fd.load() >= 0;  // not in a fork's child, where the thread does not exist
  if (here && state_->thread.joinable()) {
    {
      std::lock_guard lock(state_->mutex);
      state_->stop = true;
    }
    state_->wake.notify_all();
    state_->thread.join();
  }
  {
    std::lock_guard lock(g_live_mutex);
    std::erase(live_descriptors(), &state_->fd);
  }
  if (here) close(state_->fd.load());
  munmap(state_->board, sizeof(Board));
  if (!here && state_->thread.joinable()) (void)state_.release();  // its thread cannot be joined here: leaked
}

bool Sampler::elected() const { return state_->elected.load() && state_->fd.load() >= 0; }

bool Sampler::latest(Samples& out) const {
  const Board& board = *state_->board;
  constexpr int kTries = 1000;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    uint64_t before = board.sequence.load(std::memory_order_acquire);
    if (before == 0) return false;
    if (before % 2 == 1) {
      // Being written, or its writer was killed there: then the next sampler starts afresh, and until then
      // there is none.
      if (attempt % 100 == 99) usleep(100);
      continue;
    }
    Head head;
    get(board.words, head);
    out.time_ns = head.time_ns;
    out.number = head.number;
    out.sampler_pid = head.pid;
    out.devices.resize(std::min<size_t>(head.count, kMostDevices));
    for (size_t i = 0; i < out.devices.size(); ++i)
      get(board.words + kHeadWords + i * kSampleWords, out.devices[i]);
    if (board.sequence.load(std::memory_order_relaxed) == before) return true;
  }
  return false;
}

}  // namespace shunt::monitor
