// Fat binaries inside host ELF files. Only the sections that hold them are read: libraries reach 500 MB.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "runtime/binary/fatbin.h"

namespace shunt::binary {
namespace {

constexpr uint64_t kContainerStart = 0x00100001BA55ED50;  // magic, version 1, header of 16 bytes

struct File {
  int fd = -1;
  uint64_t size = 0;
  ~File() {
    if (fd >= 0) close(fd);
  }
  bool read(uint64_t offset, void* to, size_t bytes) const {
    if (offset > size || bytes > size - offset) return false;
    char* at = static_cast<char*>(to);
    while (bytes != 0) {
      const ssize_t got = pread(fd, at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }
};

bool is_fatbin_section(const char* name) {
  return std::strcmp(name, ".nv_fatbin") == 0 || std::strcmp(name, "__nv_relfatbin") == 0;
}

// Containers lie back to back, aligned to 8, with padding between.
bool scan(const std::string& section, std::vector<Entry>& entries, std::string& error) {
  const uint8_t* data = reinterpret_cast<const uint8_t*>(section.data());
  bool ok = true;
  for (size_t at = 0; section.size() - at >= 16;) {
    uint32_t magic;
    std::memcpy(&magic, data + at, 4);
    if (magic != 0xBA55ED50) {
      at += 8;
      if (at > section.size()) break;
      continue;
    }
    std::string problem;
    if (!read_container(data + at, section.size() - at, entries, problem)) {
      if (error.empty()) error = problem;
      ok = false;
      at += 8;  // a magic number inside other data: look on behind it
      continue;
    }
    uint16_t header;
    uint64_t size;
    std::memcpy(&header, data + at + 6, 2);
    std::memcpy(&size, data + at + 8, 8);
    at = std::min<size_t>(section.size(), (at + header + static_cast<size_t>(size) + 7) & ~size_t{7});
  }
  return ok;
}

// Containers that a program embeds as data of its own and hands to the driver itself (cuFFT keeps all of its
// kernels so). Anything may look like a magic number here: only what reads as a whole container counts.
// False: the file cannot be read.
bool scan_embedded(const File& file, const Elf64_Shdr& section, std::vector<Entry>& entries,
                   std::vector<std::string>& backing) {
  constexpr uint64_t kWindow = 4u << 20;
  const uint64_t end = section.sh_offset + section.sh_size;
  std::string window;
  for (uint64_t at = section.sh_offset; end - at >= 16;) {
    window.resize(static_cast<size_t>(std::min(kWindow, end - at)));
    if (!file.read(at, window.data(), window.size())) return false;
    uint64_t next = at + window.size();
    if (next < end) next -= 16;  // a header across the border is seen in the next window
    for (size_t i = 0; window.size() - i >= 16; i += 4) {  // a section may begin off the 8 that its data keep
      uint64_t word;
      std::memcpy(&word, window.data() + i, 8);
      if (word != kContainerStart) continue;
      uint64_t size;
      std::memcpy(&size, window.data() + i + 8, 8);
      const uint64_t from = at + i;
      if (size == 0 || size > end - from - 16) continue;
      std::string bytes(static_cast<size_t>(size + 16), 0);
      if (!file.read(from, bytes.data(), bytes.size())) return false;
      std::vector<Entry> found;
      std::string problem;
      if (!read_container(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), found, problem))
        continue;
      backing.push_back(std::move(bytes));
      entries.insert(entries.end(), found.begin(), found.end());
      const uint64_t behind = from + 16 + ((size + 3) & ~uint64_t{3});
      if (behind + 16 > at + window.size()) {
        next = behind;
        break;
      }
      i = static_cast<size_t>(behind - at) - 4;
    }
    at = std::min(next, end);
  }
  return true;
}

}  // namespace

bool read_elf_file(const std::string& path, std::vector<Entry>& entries, std::vector<std::string>& backing,
                   std::string& error) {
  error.clear();
  try {
    File file;
    file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file.fd < 0 || fstat(file.fd, &status) != 0) {
      error = path + ": " + std::strerror(errno);
      return false;
    }
    if (!S_ISREG(status.st_mode)) {
      error = path + ": not a regular file";
      return false;
    }
    file.size = static_cast<uint64_t>(status.st_size);
    Elf64_Ehdr elf;
    if (!file.read(0, &elf, sizeof elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) {
      error = path + ": not an ELF file";
      return false;
    }
    if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB) {
      error = path + ": not a 64-bit little-endian ELF file";
      return false;
    }
    if (elf.e_shoff == 0) return true;
    if (elf.e_shentsize != sizeof(Elf64_Shdr)) {
      error = path + ": unknown size of section headers";
      return false;
    }
    Elf64_Shdr first;
    if (!file.read(elf.e_shoff, &first, sizeof first)) {
      error = path + ": section headers pass the end of the file";
      return false;
    }
    // Files with very many sections keep the counts in section 0.
    const uint64_t count = elf.e_shnum != 0 ? elf.e_shnum : first.sh_size;
    const uint64_t names_index = elf.e_shstrndx != SHN_XINDEX ? elf.e_shstrndx : first.sh_link;
    if (count > (file.size - elf.e_shoff) / sizeof(Elf64_Shdr) || names_index >= count) {
      error = path + ": section headers pass the end of the file";
      return false;
    }
    std::vector<Elf64_Shdr> sections(static_cast<size_t>(count));
    file.read(elf.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
    const Elf64_Shdr& table = sections[static_cast<size_t>(names_index)];
    if (table.sh_offset > file.size || table.sh_size > file.size - table.sh_offset) {
      error = path + ": section names pass the end of the file";
      return false;
    }
    std::string names(static_cast<size_t>(table.sh_size), 0);
    file.read(table.sh_offset, names.data(), names.size());
    bool ok = true;
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != SHT_PROGBITS) continue;  // debug files keep the headers only
      const bool fatbins =
          section.sh_name < names.size() && is_fatbin_section(names.c_str() + section.sh_name);
      if (!fatbins && ((section.sh_flags & SHF_ALLOC) == 0 || (section.sh_flags & SHF_EXECINSTR) != 0))
        continue;
      if (section.sh_offset > file.size || section.sh_size > file.size - section.sh_offset) {
        error = path + ": a section passes the end of the file";
        return false;
      }
      if (!fatbins) {
        if (!scan_embedded(file, section, entries, backing)) {
          error = path + ": cannot be read";
          return false;
        }
        continue;
      }
      std::string bytes(static_cast<size_t>(section.sh_size), 0);
      if (bytes.size() < 16) continue;  // also keeps the text off the short-string buffer, which moves
      if (!file.read(section.sh_offset, bytes.data(), bytes.size())) {
        error = path + ": cannot be read";
        return false;
      }
      backing.push_back(std::move(bytes));
      ok = scan(backing.back(), entries, error) && ok;
    }
    if (!ok) error = path + ": " + error;
    return ok;
  } catch (const std::bad_alloc&) {
    error = path + ": out of memory";
    return false;
  }
}

}  // namespace shunt::binary
