// Reader of .shnt files and NAME.shunt directories. Maps the file, trusts nothing in it: sizes are checked,
// damaged chunks are salvaged up to the first bad record, losses are counted. Works on files of running and
// killed processes. One thread per Reader.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/trace/decision.h"
#include "runtime/trace/format.h"

namespace shunt::trace {

struct Losses {
  uint64_t dropped = 0;      // records the writer had no room for
  uint64_t overwritten = 0;  // recycled by ring mode
  uint64_t bad_chunks = 0;   // chunks without a valid header although claimed
  uint64_t torn_chunks = 0;  // chunks salvaged up to a bad record
  bool truncated = false;    // the file is shorter than its chunks
};

class Reader {
 public:
  static Result<Reader> open(const std::string& path);
  Reader(Reader&& other) noexcept;
  Reader& operator=(Reader&&) = delete;
  Reader(const Reader&) = delete;
  ~Reader();

  const FileHeader& header() const { return *reinterpret_cast<const FileHeader*>(data_); }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return size_; }
  const Losses& losses() const { return losses_; }
  uint64_t record_count() const { return records_; }
  FileState state() const { return static_cast<FileState>(header().state.load(std::memory_order_relaxed)); }

  // Every record, chunk by chunk in claim order (time order within a chunk). `tid` is the writing thread.
  using Visit = std::function<void(const RecordHeader& record, uint32_t tid)>;
  void for_each(const Visit& visit) const;
  // The chunks, for readers that work on them in parallel: each is a span of whole, checked records.
  struct Chunk {
    const uint8_t* records;
    uint32_t bytes, tid;
    ChunkKind kind;
  };
  std::span<const Chunk> chunks() const { return chunks_; }
  std::string_view string(uint64_t id) const;  // "" for an unknown id

 private:
  Reader() = default;
  void scan();
  std::string path_;
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0, records_ = 0;
  Losses losses_;
  std::vector<Chunk> chunks_;
  std::unordered_map<uint64_t, std::string_view> strings_;
};

// The .shnt files of a directory (or the file itself), sorted by name. Empty when there are none.
std::vector<std::string> trace_files(const std::string& path);

}  // namespace shunt::trace
