#include "runtime/trace/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace shunt::trace {

Result<Reader> Reader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {Reason::io_failed, path + ": " + strerror(errno)};
  struct stat st {};
  fstat(fd, &st);
  if (st.st_size < static_cast<off_t>(kHeaderBytes)) {
    ::close(fd);
    return {Reason::corrupt_file, path + ": " + std::to_string(st.st_size) +
                                      " bytes, shorter than a trace header; not a shunt trace or cut off"};
  }
  void* memory = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) return {Reason::io_failed, path + ": mmap: " + strerror(error)};
  Reader reader;
  reader.path_ = path;
  reader.data_ = static_cast<const uint8_t*>(memory);
  reader.size_ = static_cast<uint64_t>(st.st_size);
  const FileHeader& h = reader.header();
  if (memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    return {Reason::corrupt_file, path + ": no trace magic; not a shunt trace"};
  if (h.endian != kEndianTag)
    return {Reason::corrupt_file, path + ": written on a machine of the other byte order; read it there"};
  if (h.version != kVersion)
    return {Reason::corrupt_file, path + ": trace version " + std::to_string(h.version) +
                                      ", this build reads " + std::to_string(kVersion)};
  if (h.header_bytes != kHeaderBytes || h.chunk_bytes != kChunkBytes)
    return {Reason::corrupt_file, path + ": header of " + std::to_string(h.header_bytes) + " and chunks of " +
                                      std::to_string(h.chunk_bytes) + " bytes; damaged header"};
  reader.scan();
  return reader;
}

Reader::Reader(Reader&& o) noexcept
    : path_(std::move(o.path_)),
      data_(o.data_),
      size_(o.size_),
      records_(o.records_),
      losses_(o.losses_),
      chunks_(std::move(o.chunks_)),
      strings_(std::move(o.strings_)) {
  o.data_ = nullptr;
}

Reader::~Reader() {
  if (data_) munmap(const_cast<uint8_t*>(data_), size_);
}

void Reader::scan() {
  const FileHeader& h = header();
  losses_.dropped = h.dropped.load(std::memory_order_relaxed);
  losses_.overwritten = h.overwritten.load(std::memory_order_relaxed);
  const uint64_t body = size_ - kHeaderBytes;
  const uint64_t present = (body + kChunkBytes - 1) / kChunkBytes;
  const uint64_t claimed = std::min<uint64_t>(h.next_chunk.load(std::memory_order_relaxed), h.max_chunks);
  losses_.truncated =
      body < claimed * uint64_t{kChunkBytes} &&
      h.state.load(std::memory_order_relaxed) != static_cast<uint32_t>(FileState::stopped_disk_full);
  struct Found {
    uint64_t sequence;
    Chunk chunk;
  };
  std::vector<Found> found;
  for (uint64_t i = 0; i < present; i++) {
    const uint8_t* base = data_ + kHeaderBytes + i * kChunkBytes;
    const uint64_t room = std::min<uint64_t>(kChunkBytes, body - i * kChunkBytes);
    const auto* header = reinterpret_cast<const ChunkHeader*>(base);
    if (room < sizeof(ChunkHeader) || header->magic != kChunkMagic) {
      // Allocated but not yet taken into use: the process ended in between. Only content would be a loss.
      if (room >= sizeof(ChunkHeader) && header->magic != 0) losses_.bad_chunks++;
      continue;
    }
    const uint64_t committed = header->committed.load(std::memory_order_acquire);
    const uint64_t limit = std::min<uint64_t>(committed, room - sizeof(ChunkHeader));
    uint64_t at = 0;
    while (at + kMinRecordBytes <= limit) {
      const auto* record = reinterpret_cast<const RecordHeader*>(base + sizeof(ChunkHeader) + at);
      if (record->size < kMinRecordBytes || record->size % 16 != 0 || at + record->size > limit) break;
      if (record->type == static_cast<uint16_t>(RecordType::string) &&
          record->flags + sizeof(RecordHeader) <= record->size)
        strings_[record->id] = {reinterpret_cast<const char*>(record + 1), record->flags};
      at += record->size;
      records_++;
    }
    if (at != committed) losses_.torn_chunks++;
    // Pages of a file larger than memory must not pile up; whoever reads the chunk later faults them in
    // again.
    if (header->kind == static_cast<uint32_t>(ChunkKind::data))
      madvise(const_cast<uint8_t*>(base), room & ~uint64_t{4095}, MADV_DONTNEED);
    if (at == 0) continue;
    found.push_back({header->sequence,
                     {base + sizeof(ChunkHeader), static_cast<uint32_t>(at), header->tid,
                      static_cast<ChunkKind>(header->kind)}});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.sequence < b.sequence; });
  for (const Found& f : found) chunks_.push_back(f.chunk);
}

void Reader::for_each(const Visit& visit) const {
  for (const Chunk& chunk : chunks_) {
    uint32_t tid = chunk.tid;
    for (uint32_t at = 0; at < chunk.bytes;) {
      const auto* record = reinterpret_cast<const RecordHeader*>(chunk.records + at);
      if (record->type == static_cast<uint16_t>(RecordType::thread)) tid = static_cast<uint32_t>(record->id);
      visit(*record, tid);
      at += record->size;
    }
  }
}

std::string_view Reader::string(uint64_t id) const {
  const auto found = strings_.find(id);
  return found == strings_.end() ? std::string_view() : found->second;
}

std::vector<std::string> trace_files(const std::string& path) {
  std::vector<std::string> out;
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return out;
  if (!S_ISDIR(st.st_mode)) return {path};
  DIR* dir = opendir(path.c_str());
  if (!dir) return out;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.substr(name.size() - 5) == ".shnt") out.push_back(path + "/" + name);
  }
  closedir(dir);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace shunt::trace
