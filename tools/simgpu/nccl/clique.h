// The ranks of one communicator, wherever they live: a shared-memory segment named after the unique id, in
// which ranks announce themselves and post their operations. Threads and processes use it alike. Any
// participant may be killed at any point: the mutex is robust, and a dead rank is noticed by the ones who
// wait for it.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace simgpu::nccl {

inline constexpr int kMaxRanks = 72, kPosts = 1024;

// Memory of a rank: an address in its process, and the file behind it for the others.
struct BufferRef {
  uint64_t address = 0, bytes = 0;
  int32_t fd = -1;
  uint32_t pid = 0;
  uint64_t offset = 0;
};

// What an operation is, as the others must see it to match.
struct Signature {
  uint32_t function = 0, type = 0, op = 0;
  int32_t root = 0;
  uint64_t count = 0;
  uint32_t captured = 0;  // a collective is in a graph on all ranks or on none
  bool operator==(const Signature&) const = default;
};

// What NCCL knows of an operation's buffers on one rank. Ranks choose their kernels by it, so they must
// agree.
struct Standing {
  enum : uint32_t { none, some, all } registered = none;  // of the buffers this rank uses
  uint32_t symmetric = 0;  // all of them in symmetric windows, at these offsets
  uint64_t in_offset = 0, out_offset = 0;
};

struct Post {
  enum State : uint32_t { free, posted, read, done };
  uint32_t state = free;
  int32_t rank = 0;
  int32_t peer = -1;  // -1: a collective; otherwise the other end of a send or receive
  uint32_t is_send = 0;
  uint64_t sequence = 0;  // of the communicator, or of the (sender, receiver) pair
  Signature signature;
  BufferRef in, out;
  Standing standing;
  uint64_t start_ns = 0;
  uint8_t scalar[8] = {};  // multiplier of this rank's input
  uint32_t has_scalar = 0;
};

struct RankSlot {
  std::atomic<uint32_t> joined, left, aborted, dead;
  uint32_t pid = 0;
  uint64_t process_start = 0;
  int32_t box_device = -1, cuda_device = -1;
  uint32_t cc = 0;
  uint64_t bus_hint = 0;
  // Exchanges for split and shrink: values of the rank's n-th exchange.
  std::atomic<uint64_t> exchanges;
  int32_t color[16] = {}, key[16] = {};
};

struct CliqueMemory {
  std::atomic<uint64_t> magic;
  uint32_t ranks = 0;
  std::atomic<uint32_t> joined;
  pthread_mutex_t mutex;
  RankSlot slot[kMaxRanks];
  Post posts[kPosts];
};

class Clique {
 public:
  // Opens or creates the segment of `name` for `ranks` ranks. Null with `error` when ranks disagree or the
  // system refuses.
  static Clique* open(const std::string& name, int ranks, std::string& error);
  // Announces a rank; false when it is taken already.
  bool join(int rank, int box_device, int cuda_device, uint32_t cc);
  // Waits until all have joined; false after the timeout, with the missing ranks named.
  bool wait_all(double timeout_s, std::string& missing) const;
  void leave(int rank);
  // An exchange of two integers among all ranks: announce() posts this rank's and returns the exchange's
  // number, await() blocks until everybody has posted theirs of that number.
  uint64_t announce(int rank, int color, int key);
  bool await(uint64_t number, double timeout_s, std::string& missing);

  CliqueMemory& memory() { return *memory_; }
  const std::string& name() const { return name_; }
  int ranks() const { return static_cast<int>(memory_->ranks); }
  // A process that died while it was a member.
  bool any_dead(std::string& who);
  bool aborted() const;

  class Guard {
   public:
    explicit Guard(Clique& clique);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    pthread_mutex_t* mutex_;
  };
  // Under the guard. Null when the table is full.
  Post* free_post();

 private:
  std::string name_;
  CliqueMemory* memory_ = nullptr;
};

double timeout_s();  // SIMGPU_NCCL_TIMEOUT, default 60 s of wall time

}  // namespace simgpu::nccl
