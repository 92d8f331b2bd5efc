#include "runtime/trace/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/trace/paths.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace shunt::trace {
namespace {

uint64_t tsc() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

int allocate(int fd, off_t offset, off_t size) {
  int error;
  do error = posix_fallocate(fd, offset, size);
  while (error == EINTR);
  return error;
}

// Zeros written through the page cache come in large pieces; the same pages faulted in one by one through the
// mapping cost three times as much. After the allocation above it cannot run out of space; a short write only
// means slower faults.
void warm(int fd, off_t offset) {
  static char zeros[64 * 1024];  // never written: one shared page of zeros
  for (off_t at = 0; at < static_cast<off_t>(kChunkBytes); at += static_cast<off_t>(sizeof zeros))
    if (pwrite(fd, zeros, sizeof zeros, offset + at) != static_cast<ssize_t>(sizeof zeros)) return;
}

void copy_text(char* to, size_t size, const std::string& text) {
  const size_t n = std::min(size - 1, text.size());
  memcpy(to, text.data(), n);
  to[n] = 0;
}

}  // namespace

Result<ChunkFile*> ChunkFile::create(const FileOptions& options) {
  const std::string& directory = options.directory;
  // Growing a file past the process's limit raises SIGXFSZ, which would end the application.
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur < kHeaderBytes)
    return {Reason::trace_full, "file size limit of " + std::to_string(limit.rlim_cur) +
                                    " bytes leaves no room for a trace; raise it (ulimit -f)"};
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST)
    return {Reason::io_failed,
            "trace directory " + directory + ": " + strerror(errno) + "; give -o a writable place"};
  const std::string host = host_name();
  const int pid = getpid();
  std::string path;
  int fd = -1;
  uint32_t sequence = 0;
  for (; sequence < 10000; sequence++) {
    path = directory + "/" + host + "." + std::to_string(pid) + "." + std::to_string(sequence) + ".shnt";
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) break;
  }
  if (fd < 0)
    return {Reason::io_failed, "trace file " + path + ": " + strerror(errno) + "; give -o a writable place"};
  if (const int error = allocate(fd, 0, kHeaderBytes)) {
    ::close(fd);
    unlink(path.c_str());
    return {Reason::trace_full,
            "trace file " + path + ": " + strerror(error) + "; free space or give -o another place"};
  }
  void* memory = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    ::close(fd);
    return {Reason::io_failed, "trace file " + path + ": mmap: " + strerror(errno)};
  }
  auto* file = new ChunkFile();
  file->fd_ = fd;
  file->path_ = path;
  file->ring_ = options.ring_bytes != 0;
  const uint64_t allowed = limit.rlim_cur == RLIM_INFINITY ? ~uint64_t{0} : limit.rlim_cur - kHeaderBytes;
  const uint64_t room = std::min<uint64_t>(allowed, file->ring_ ? options.ring_bytes : options.max_bytes);
  // A ring needs one pinned chunk for strings and at least two to alternate between.
  const uint64_t wanted = std::clamp<uint64_t>(room / kChunkBytes, file->ring_ ? 4 : 2, 1u << 22);
  file->max_chunks_ = static_cast<uint32_t>(std::min(wanted, allowed / kChunkBytes));
  if (file->ring_) file->slots_ = new RingSlot[file->max_chunks_];
  FileHeader& h = *(file->header_ = static_cast<FileHeader*>(memory));
  h.version = kVersion;
  h.endian = kEndianTag;
  h.header_bytes = kHeaderBytes;
  h.chunk_bytes = kChunkBytes;
  h.flags = (file->ring_ ? kFlagRing : 0) | (clock::is_virtual() ? kFlagVirtualClock : 0);
  h.pid = static_cast<uint32_t>(pid);
  h.parent_pid = static_cast<uint32_t>(getppid());
  h.process_start = process_start();
  h.rank = options.rank;
  h.sequence = sequence;
  h.monotonic = clock::monotonic_ns();
  h.realtime = clock::realtime_ns();
  h.boottime = clock::boottime_ns();
  h.tsc = tsc();
  h.max_chunks = file->max_chunks_;
  copy_text(h.host, sizeof h.host, host);
  copy_text(h.run_id, sizeof h.run_id, options.run_id);
  char exe[512];
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  copy_text(h.executable, sizeof h.executable, n > 0 ? std::string(exe, static_cast<size_t>(n)) : "");
  memcpy(h.magic, kMagic, sizeof kMagic);  // last: a file without magic was never finished
  return file;
}

ChunkHeader* ChunkFile::map(uint32_t index) {
  const off_t offset = static_cast<off_t>(kHeaderBytes) + static_cast<off_t>(index) * kChunkBytes;
  if (const int error = allocate(fd_, offset, kChunkBytes)) {
    if (!stopped_.exchange(true)) {
      header_->state.store(static_cast<uint32_t>(FileState::stopped_disk_full), std::memory_order_relaxed);
      SHUNT_LOG_WARN(trace, "%s: %s; recording stops, later records are counted as dropped", path_.c_str(),
                     strerror(error));
    }
    return nullptr;
  }
  warm(fd_, offset);
  void* memory = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, offset);
  // Faulted in for writing in one go: 64 single page faults would cost more than the records. Older kernels
  // refuse; no harm.
  if (memory != MAP_FAILED) madvise(memory, kChunkBytes, MADV_POPULATE_WRITE);
  return memory == MAP_FAILED ? nullptr : static_cast<ChunkHeader*>(memory);
}

ChunkHeader* ChunkFile::claim(ChunkKind kind) {
  if (stopped_.load(std::memory_order_relaxed)) return nullptr;
  ChunkHeader* chunk = nullptr;
  uint32_t sequence = 0;
  if (!ring_) {
    sequence = header_->next_chunk.fetch_add(1, std::memory_order_relaxed);
    if (sequence >= max_chunks_) {
      header_->next_chunk.fetch_sub(1, std::memory_order_relaxed);
      if (!stopped_.exchange(true)) {
        header_->state.store(static_cast<uint32_t>(FileState::stopped_at_cap), std::memory_order_relaxed);
        SHUNT_LOG_WARN(trace,
                       "%s reached its cap; later records are counted as dropped (raise --trace-max, or use "
                       "--trace-ring)",
                       path_.c_str());
      }
      return nullptr;
    }
    chunk = map(sequence);
  } else {
    for (uint32_t tries = 0; tries < max_chunks_ && !chunk; tries++) {
      sequence = header_->next_chunk.fetch_add(1, std::memory_order_relaxed);
      RingSlot& slot = slots_[sequence % max_chunks_];
      if (slot.busy.exchange(true, std::memory_order_acquire)) continue;
      chunk = slot.chunk.load(std::memory_order_relaxed);
      if (chunk) {
        header_->overwritten.fetch_add(chunk->records, std::memory_order_relaxed);
      } else if ((chunk = map(sequence % max_chunks_)) != nullptr) {
        slot.chunk.store(chunk, std::memory_order_relaxed);
      } else {
        slot.busy.store(false, std::memory_order_release);
        return nullptr;
      }
    }
  }
  if (!chunk) return nullptr;
  // A reader of a recycled chunk must never see old bytes under the new sequence: length goes first.
  chunk->committed.exchange(0, std::memory_order_acq_rel);
  chunk->tid = static_cast<uint32_t>(gettid());
  chunk->kind = static_cast<uint32_t>(kind);
  chunk->sequence = sequence;
  chunk->records = 0;
  chunk->magic = kChunkMagic;
  return chunk;
}

void ChunkFile::retire(ChunkHeader* chunk) {
  if (!ring_) {
    munmap(chunk, kChunkBytes);
    return;
  }
  slots_[chunk->sequence % max_chunks_].busy.store(false, std::memory_order_release);
}

void ChunkFile::park(ChunkHeader* chunk) {
  if (!ring_) {
    WriteGuard guard(parked_lock_);
    if (parked_count_ < kParked) {
      parked_[parked_count_++] = chunk;
      return;
    }
  }
  retire(chunk);
}

ChunkHeader* ChunkFile::unpark() {
  WriteGuard guard(parked_lock_);
  return parked_count_ ? parked_[--parked_count_] : nullptr;
}

void ChunkFile::close() {
  uint32_t writing = static_cast<uint32_t>(FileState::writing);
  header_->state.compare_exchange_strong(writing, static_cast<uint32_t>(FileState::closed));
}

}  // namespace shunt::trace
