// Reader of what nvcc puts into programs: fat binary wrappers, containers, PTX and ELF entries, LZ4 and zstd
// payloads. Never trusts a size; no allocation proportional to an unchecked field. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shunt::binary {

struct Entry {
  enum class Kind : uint16_t { ptx = 1, elf = 2, nvvm = 8, other = 0 } kind = Kind::other;
  uint32_t sm = 0;                                // 75, 100, 120
  bool arch_specific = false;                     // compiled for sm_XXa
  bool family_specific = false;                   // compiled for sm_XXf
  uint16_t version_major = 0, version_minor = 0;  // PTX ISA for ptx entries
  uint64_t flags = 0;
  std::string name;
  std::string options;               // of ptx entries: what ptxas was given, "-O1 -maxrregcount=64"
  const uint8_t* payload = nullptr;  // still compressed; points into the image given to read_*()
  size_t payload_size = 0, uncompressed_size = 0;
  enum class Packing : uint8_t { raw, lz4, zstd } packing = Packing::raw;
};

// Container (magic BA55ED50). Returns false with `error` set on malformed input; entries read so far are
// kept.
bool read_container(const uint8_t* data, size_t size_limit, std::vector<Entry>& entries, std::string& error);
// Wrapper (magic 466243B1, versions 1 and 2), as the runtime passes to cuLibraryLoadData. `linked` is true
// for version 2
// (-rdc=true: all PTX entries of the contained fat binaries are to be linked together); `members` then holds
// one vector per object file, and `device_linked` what nvlink made of them (ELF only). Version 1: one member.
struct Wrapper {
  bool linked = false;
  std::vector<std::vector<Entry>> members;
  std::vector<Entry> device_linked;
};
bool read_wrapper(const void* wrapper, Wrapper& out, std::string& error);

// The bytes of an entry, decompressed; trailing NULs of PTX removed.
bool extract(const Entry& entry, std::string& bytes, std::string& error);

// What an image pointer given to cuModuleLoadData / cuLibraryLoadData is.
enum class ImageKind { wrapper, container, elf, ptx_text, unknown };
ImageKind classify(const void* image);

// The driver's documented rule: the best entry for a device of compute capability cc (100 = 10.0).
// Exact/compatible ELF (same major, minor <= cc; `a` exact only; `f` same family) and the highest runnable
// PTX. -1: none. At the same sm an `a` entry is preferred to `f`, and `f` to plain. allow_newer_ptx: when no
// PTX is runnable, the lowest plain one above cc.
struct Choice {
  int elf = -1, ptx = -1;
};
Choice choose(const std::vector<Entry>& entries, uint32_t cc, bool allow_newer_ptx = false);

// All fat binaries of an ELF executable or shared object on disk (section .nv_fatbin), for doctor and the
// binary check.
bool read_elf_file(const std::string& path, std::vector<Entry>& entries, std::vector<std::string>& backing,
                   std::string& error);

}  // namespace shunt::binary
