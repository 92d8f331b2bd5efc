#include "runtime/binary/fatbin.h"

#include <algorithm>
#include <cstring>

namespace shunt::binary {
namespace {

constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr size_t kContainerHeader = 16;
constexpr size_t kMinEntryHeader = 48;
enum : uint64_t { kLz4 = 0x2000, kZstd = 0x8000, kArchSpecific = 0x100000, kFamilySpecific = 0x200000 };

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Text at [offset, offset + length) of a header; empty when it does not lie inside.
std::string text_at(const uint8_t* header, uint32_t header_size, uint32_t offset, uint32_t length) {
  if (offset > header_size || length > header_size - offset) return {};
  const char* text = reinterpret_cast<const char*>(header) + offset;
  return std::string(text, strnlen(text, length));
}

bool fail(std::string& error, size_t index, size_t offset, const std::string& what) {
  error = "fat binary entry " + std::to_string(index) + " at offset " + std::to_string(offset) + ": " + what;
  return false;
}

Entry::Kind kind_of(uint16_t value) {
  switch (value) {
    case 1:
      return Entry::Kind::ptx;
    case 2:
      return Entry::Kind::elf;
    case 8:
      return Entry::Kind::nvvm;
    default:
      return Entry::Kind::other;
  }
}

}  // namespace

bool read_container(const uint8_t* data, size_t size_limit, std::vector<Entry>& entries, std::string& error) {
  error.clear();
  if (data == nullptr || size_limit < kContainerHeader || load<uint32_t>(data) != kContainerMagic) {
    error = "no fat binary container (magic BA55ED50)";
    return false;
  }
  const uint16_t version = load<uint16_t>(data + 4), header = load<uint16_t>(data + 6);
  const uint64_t size = load<uint64_t>(data + 8);
  if (version != 1) {
    error = "fat binary container version " + std::to_string(version) + " is unknown (expected 1)";
    return false;
  }
  if (header < kContainerHeader || header > size_limit || size > size_limit - header) {
    error = "fat binary container of " + std::to_string(size) + " bytes passes the end of its image";
    return false;
  }
  const uint8_t* const body = data + header;
  size_t offset = 0;
  for (size_t index = 0; offset < size; ++index) {
    const uint8_t* at = body + offset;
    const size_t left = static_cast<size_t>(size) - offset;
    if (left < kMinEntryHeader) {
      // Containers are padded to 8; less than a header of zeros is no entry.
      if (std::all_of(at, at + left, [](uint8_t byte) { return byte == 0; })) return true;
      return fail(error, index, header + offset, "header is cut off");
    }
    const uint32_t header_size = load<uint32_t>(at + 4);
    const uint64_t payload_size = load<uint64_t>(at + 8);
    if (header_size < kMinEntryHeader || header_size > left)
      return fail(error, index, header + offset,
                  "header size " + std::to_string(header_size) + " is out of range");
    if (payload_size > left - header_size)
      return fail(error, index, header + offset,
                  "payload of " + std::to_string(payload_size) + " bytes passes the end of the container");
    Entry entry;
    entry.kind = kind_of(load<uint16_t>(at));
    entry.flags = load<uint64_t>(at + 40);
    entry.sm = load<uint32_t>(at + 28);
    entry.arch_specific = (entry.flags & kArchSpecific) != 0;
    entry.family_specific = (entry.flags & kFamilySpecific) != 0;
    entry.version_minor = load<uint16_t>(at + 24);
    entry.version_major = load<uint16_t>(at + 26);
    entry.packing = (entry.flags & kZstd)  ? Entry::Packing::zstd
                    : (entry.flags & kLz4) ? Entry::Packing::lz4
                                           : Entry::Packing::raw;
    entry.payload = at + header_size;
    entry.payload_size = static_cast<size_t>(payload_size);
    entry.uncompressed_size = entry.payload_size;
    if (entry.packing != Entry::Packing::raw) {
      const uint32_t compressed = load<uint32_t>(at + 16);
      if (compressed > payload_size)
        return fail(error, index, header + offset,
                    "compressed size " + std::to_string(compressed) + " is larger than its payload");
      if (header_size < 64)
        return fail(error, index, header + offset, "compressed, but without its real size");
      entry.payload_size = compressed;  // without the padding
      entry.uncompressed_size = static_cast<size_t>(load<uint64_t>(at + 56));
    }
    entry.name = text_at(at, header_size, load<uint32_t>(at + 32), load<uint32_t>(at + 36));
    const uint32_t options = load<uint32_t>(at + 20);
    if (entry.kind == Entry::Kind::ptx && options >= kMinEntryHeader && options <= header_size - 8)
      entry.options =
          text_at(at, header_size, load<uint32_t>(at + options), load<uint32_t>(at + options + 4));
    entries.push_back(std::move(entry));
    offset += header_size + static_cast<size_t>(payload_size);
  }
  return true;
}

}  // namespace shunt::binary
