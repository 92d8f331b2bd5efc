// Images as programs hand them to the driver: pointers without a size, so each part is trusted for what its
// header says.
#include <cstring>

#include "runtime/binary/fatbin.h"

namespace shunt::binary {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1, kContainerMagic = 0xBA55ED50, kElfMagic = 0x464c457f;
constexpr size_t kMaxMembers = 1u << 20;  // object files of one program; a missing NULL must not run for ever

struct RawWrapper {
  uint32_t magic, version;
  const uint8_t* data;
  const uint8_t* const* prelinked;
};
static_assert(sizeof(RawWrapper) == 24);

bool read_pointer(const uint8_t* container, std::vector<Entry>& entries, std::string& error) {
  if (container == nullptr) {
    error = "fat binary wrapper without a container";
    return false;
  }
  uint32_t magic;
  std::memcpy(&magic, container, 4);
  if (magic != kContainerMagic) {
    error = "fat binary wrapper points to no container (magic BA55ED50)";
    return false;
  }
  uint16_t header;
  uint64_t size;
  std::memcpy(&header, container + 6, 2);
  std::memcpy(&size, container + 8, 8);
  if (size > SIZE_MAX - header) {
    error = "fat binary container size is out of range";
    return false;
  }
  return read_container(container, static_cast<size_t>(size) + header, entries, error);
}

}  // namespace

bool read_wrapper(const void* wrapper, Wrapper& out, std::string& error) {
  error.clear();
  out = Wrapper();
  RawWrapper raw;
  if (wrapper == nullptr) {
    error = "no fat binary wrapper";
    return false;
  }
  std::memcpy(&raw, wrapper, sizeof raw);
  if (raw.magic != kWrapperMagic) {
    error = "no fat binary wrapper (magic 466243B1)";
    return false;
  }
  if (raw.version != 1 && raw.version != 2) {
    error = "fat binary wrapper version " + std::to_string(raw.version) + " is unknown (expected 1 or 2)";
    return false;
  }
  if (raw.version == 1) {
    out.members.emplace_back();
    return read_pointer(raw.data, out.members.back(), error);
  }
  out.linked = true;
  if (raw.data != nullptr && !read_pointer(raw.data, out.device_linked, error)) return false;
  if (raw.prelinked == nullptr) return true;
  for (size_t i = 0; raw.prelinked[i] != nullptr; ++i) {
    if (i == kMaxMembers) {
      error = "fat binary wrapper lists more than 1048576 members";
      return false;
    }
    out.members.emplace_back();
    if (!read_pointer(raw.prelinked[i], out.members.back(), error)) return false;
  }
  return true;
}

ImageKind classify(const void* image) {
  if (image == nullptr) return ImageKind::unknown;
  const char* text = static_cast<const char*>(image);
  // Byte by byte: a PTX text may be shorter than a magic number.
  auto starts_with = [text](uint32_t magic) {
    for (int i = 0; i < 4; ++i) {
      if (static_cast<uint8_t>(text[i]) != (magic >> (8 * i) & 0xff)) return false;
    }
    return true;
  };
  if (starts_with(kWrapperMagic)) return ImageKind::wrapper;
  if (starts_with(kContainerMagic)) return ImageKind::container;
  if (starts_with(kElfMagic)) return ImageKind::elf;
  // PTX: blanks and comments, then `.version`.
  for (;;) {
    while (*text == ' ' || (*text >= '\t' && *text <= '\r')) ++text;
    if (text[0] == '/' && text[1] == '/') {
      while (*text != 0 && *text != '\n') ++text;
    } else if (text[0] == '/' && text[1] == '*') {
      text += 2;
      while (*text != 0 && !(text[0] == '*' && text[1] == '/')) ++text;
      if (*text == 0) return ImageKind::unknown;
      text += 2;
    } else {
      return std::strncmp(text, ".version", 8) == 0 ? ImageKind::ptx_text : ImageKind::unknown;
    }
  }
}

}  // namespace shunt::binary
