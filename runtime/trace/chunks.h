// The file behind a trace: claims, allocates and maps chunks. Space is allocated on disk before it is mapped,
// so a full disk ends the trace instead of killing the application with SIGBUS. Any thread; owned by Writer,
// leaked on purpose.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/spin.h"
#include "runtime/trace/format.h"

namespace shunt::trace {

struct FileOptions {
  std::string directory, run_id;
  uint64_t max_bytes = 1ull << 30, ring_bytes = 0;
  int rank = -1;
};

class ChunkFile {
 public:
  // Creates HOST.PID.SEQ.shnt with the next free SEQ.
  static Result<ChunkFile*> create(const FileOptions& options);

  // A fresh chunk for this thread, or null when the cap, the disk or the ring's owners leave none (the caller
  // counts a drop).
  ChunkHeader* claim(ChunkKind kind);
  // A chunk that will not be written any more: unmapped, or in ring mode free for recycling.
  void retire(ChunkHeader* chunk);
  // A thread ended with room left in its chunk: the next thread that needs one takes it over. False: no room
  // to note it.
  void park(ChunkHeader* chunk);
  ChunkHeader* unpark();

  void drop() { header_->dropped.fetch_add(1, std::memory_order_relaxed); }
  void close();
  FileHeader& header() { return *header_; }
  const std::string& path() const { return path_; }

 private:
  ChunkFile() = default;
  ChunkHeader* map(uint32_t index);
  static constexpr uint32_t kParked = 64;

  FileHeader* header_ = nullptr;
  int fd_ = -1;
  bool ring_ = false;
  uint32_t max_chunks_ = 0;
  std::string path_;
  std::atomic<bool> stopped_{false};
  // Ring mode: chunk index -> mapping, kept for good; busy while a thread writes it.
  struct RingSlot {
    std::atomic<ChunkHeader*> chunk{nullptr};
    std::atomic<bool> busy{false};
  };
  RingSlot* slots_ = nullptr;
  SpinRwLock parked_lock_;
  ChunkHeader* parked_[kParked] = {};
  uint32_t parked_count_ = 0;
};

}  // namespace shunt::trace
