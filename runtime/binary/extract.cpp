#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "runtime/binary/fatbin.h"
#include "runtime/binary/lz4_block.h"

namespace shunt::binary {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 30;  // of one entry
constexpr size_t kChunk = size_t{1} << 20;
constexpr int kMaxWindowLog = 27;

bool unpack_lz4(const Entry& entry, std::string& bytes) {
  // The format cannot expand more than 255 times, so the claimed size is checked before it is allocated.
  if (entry.uncompressed_size / 255 > entry.payload_size) return false;
  bytes.resize(entry.uncompressed_size);
  return lz4_decode(entry.payload, entry.payload_size, reinterpret_cast<uint8_t*>(bytes.data()),
                    bytes.size());
}

// Grows with what really comes out: a claimed size is only an upper bound.
bool unpack_zstd(const Entry& entry, std::string& bytes) {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  ZSTD_inBuffer in{entry.payload, entry.payload_size, 0};
  const size_t limit = entry.uncompressed_size;
  size_t written = 0;
  for (;;) {
    if (written == bytes.size()) {
      if (written > limit) return false;
      bytes.resize(
          std::min(std::max(kChunk, written * 2), limit + 1));  // + 1: to see that there is more than claimed
    }
    ZSTD_outBuffer out{bytes.data(), bytes.size(), written};
    const size_t rest = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(rest)) return false;
    const bool progress = out.pos != written;
    written = out.pos;
    if (rest == 0) break;
    if (in.pos == in.size && !progress) return false;  // cut off
  }
  bytes.resize(written);
  return written == limit;
}

}  // namespace

bool extract(const Entry& entry, std::string& bytes, std::string& error) {
  error.clear();
  bytes.clear();
  try {
    bool ok = entry.uncompressed_size <= kMaxBytes && (entry.payload != nullptr || entry.payload_size == 0);
    switch (entry.packing) {
      case Entry::Packing::raw:
        if (ok && entry.payload_size != 0)
          bytes.assign(reinterpret_cast<const char*>(entry.payload), entry.payload_size);
        break;
      case Entry::Packing::lz4:
        ok = ok && unpack_lz4(entry, bytes);
        break;
      case Entry::Packing::zstd:
        ok = ok && unpack_zstd(entry, bytes);
        break;
    }
    if (!ok) {
      bytes.clear();
      error = std::string("fat binary entry for sm_") + std::to_string(entry.sm) +
              " cannot be decompressed (" +
              (entry.packing == Entry::Packing::lz4    ? "LZ4"
               : entry.packing == Entry::Packing::zstd ? "zstd"
                                                       : "raw") +
              ", " + std::to_string(entry.payload_size) + " bytes to " +
              std::to_string(entry.uncompressed_size) + ")";
      return false;
    }
    if (entry.kind == Entry::Kind::ptx) {
      while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
    }
    return true;
  } catch (const std::bad_alloc&) {
    bytes.clear();
    error = "out of memory while decompressing a fat binary entry";
    return false;
  }
}

}  // namespace shunt::binary
