#include "tools/shunt/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/config/options.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

// A file mapped read-only, with checked access: headers of strangers' files are not to be trusted.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat st {};
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
      void* memory = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (memory != MAP_FAILED)
        data_ = static_cast<const uint8_t*>(memory), size_ = static_cast<size_t>(st.st_size);
    }
    close(fd);
  }
  ~Mapping() {
    if (data_) munmap(const_cast<uint8_t*>(data_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const uint8_t* at(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset ? data_ + offset : nullptr;
  }
  template <class T>
  const T* get(uint64_t offset) const {
    return reinterpret_cast<const T*>(at(offset, sizeof(T)));
  }
  std::string_view text(uint64_t offset) const {
    const uint8_t* from = at(offset, 1);
    return from ? std::string_view(reinterpret_cast<const char*>(from),
                                   strnlen(reinterpret_cast<const char*>(from), size_ - offset))
                : std::string_view();
  }
  size_t size() const { return size_; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

struct ElfFacts {
  bool fatbin = false, interpreter = false, needs_cudart = false, imports_registration = false;
  bool runtime_strings = false;
};

void read_dynamic(const Mapping& file, const Elf64_Ehdr& ehdr, ElfFacts& facts) {
  uint64_t dyn_offset = 0, dyn_size = 0;
  std::vector<std::pair<uint64_t, std::pair<uint64_t, uint64_t>>> loads;  // vaddr -> (size, offset)
  for (uint16_t i = 0; i < ehdr.e_phnum; i++) {
    const auto* ph = file.get<Elf64_Phdr>(ehdr.e_phoff + uint64_t{i} * ehdr.e_phentsize);
    if (!ph) return;
    if (ph->p_type == PT_INTERP) facts.interpreter = true;
    if (ph->p_type == PT_DYNAMIC) dyn_offset = ph->p_offset, dyn_size = ph->p_filesz;
    if (ph->p_type == PT_LOAD) loads.push_back({ph->p_vaddr, {ph->p_filesz, ph->p_offset}});
  }
  uint64_t strtab_address = 0;
  std::vector<uint64_t> needed;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dyn_size; at += sizeof(Elf64_Dyn)) {
    const auto* d = file.get<Elf64_Dyn>(dyn_offset + at);
    if (!d || d->d_tag == DT_NULL) break;
    if (d->d_tag == DT_STRTAB) strtab_address = d->d_un.d_ptr;
    if (d->d_tag == DT_NEEDED) needed.push_back(d->d_un.d_val);
  }
  for (const auto& [vaddr, extent] : loads) {
    if (strtab_address < vaddr || strtab_address - vaddr >= extent.first) continue;
    const uint64_t strtab = extent.second + (strtab_address - vaddr);
    for (const uint64_t name : needed)
      if (file.text(strtab + name).starts_with("libcudart.so")) facts.needs_cudart = true;
  }
}

void read_sections(const Mapping& file, const Elf64_Ehdr& ehdr, ElfFacts& facts) {
  const auto* names = file.get<Elf64_Shdr>(ehdr.e_shoff + uint64_t{ehdr.e_shstrndx} * ehdr.e_shentsize);
  if (!names) return;
  for (uint16_t i = 0; i < ehdr.e_shnum; i++) {
    const auto* sh = file.get<Elf64_Shdr>(ehdr.e_shoff + uint64_t{i} * ehdr.e_shentsize);
    if (!sh) return;
    const std::string_view name = file.text(names->sh_offset + sh->sh_name);
    if (name == ".nv_fatbin") facts.fatbin = true;
    if (sh->sh_type == SHT_DYNSYM) {
      const auto* strings = file.get<Elf64_Shdr>(ehdr.e_shoff + uint64_t{sh->sh_link} * ehdr.e_shentsize);
      for (uint64_t at = 0; strings && at + sizeof(Elf64_Sym) <= sh->sh_size; at += sizeof(Elf64_Sym)) {
        const auto* symbol = file.get<Elf64_Sym>(sh->sh_offset + at);
        if (!symbol) break;
        if (symbol->st_shndx == SHN_UNDEF &&
            file.text(strings->sh_offset + symbol->st_name).starts_with("__cudaRegisterFatBinary"))
          facts.imports_registration = true;
      }
    }
    // The runtime finds the driver by these two names; a program that has them as constants and no libcudart
    // carries it inside.
    if (name == ".rodata") {
      const uint8_t* data = file.at(sh->sh_offset, sh->sh_size);
      if (!data) continue;
      const std::string_view all(reinterpret_cast<const char*>(data), sh->sh_size);
      facts.runtime_strings = all.find("cuGetProcAddress_v2") != std::string_view::npos &&
                              all.find("cudaErrorInsufficientDriver") != std::string_view::npos;
    }
  }
}

bool find_in_path(const std::string& name, std::string& path, int& error) {
  if (name.find('/') != std::string::npos) {
    path = name;
    return true;
  }
  const char* variable = getenv("PATH");
  error = ENOENT;
  std::string list = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= list.size();) {
    const size_t colon = std::min(list.find(':', at), list.size());
    const std::string folder = colon == at ? "." : list.substr(at, colon - at);
    const std::string candidate = folder + "/" + name;
    struct stat st {};
    if (stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode)) {
      if (access(candidate.c_str(), X_OK) == 0) return path = candidate, true;
      error = EACCES;
    }
    at = colon + 1;
  }
  return false;
}

}  // namespace

bool Program::has_ptx() const {
  return std::any_of(device_code.begin(), device_code.end(),
                     [](const auto& e) { return e.kind == shunt::binary::Entry::Kind::ptx; });
}

bool inspect_program(const std::string& name, Program& out, int& status, std::string& error) {
  auto refuse = [&](int code, const std::string& message) {
    status = code;
    error = message;
    return false;
  };
  int reason = 0;
  if (!find_in_path(name, out.path, reason))
    return reason == EACCES
               ? refuse(kCannotExecute, "program '" + name + "' is in PATH but not executable; chmod +x it")
               : refuse(kNotFound, "program '" + name + "' is not in PATH; give its path, or install it");
  struct stat st {};
  if (stat(out.path.c_str(), &st) != 0)
    return errno == EACCES
               ? refuse(kCannotExecute, "program '" + out.path + "' cannot be reached: " + strerror(errno))
               : refuse(kNotFound, "program '" + out.path + "': " + strerror(errno) + "; check the path");
  if (S_ISDIR(st.st_mode))
    return refuse(kCannotExecute, "program '" + out.path + "' is a folder; give the executable inside it");
  if (access(out.path.c_str(), X_OK) != 0)
    return refuse(kCannotExecute, "program '" + out.path + "' is not executable; chmod +x it");
  // The loader drops LD_PRELOAD when ids change: the program would run, silently without shunt or simgpu.
  if (((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
      ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()))
    return refuse(kCannotExecute, "program '" + out.path +
                                      "' is setuid or setgid: the loader ignores preloads for it; run it "
                                      "without shunt, or a copy without the bit");

  Mapping file(out.path);
  const auto* ident = file.at(0, EI_NIDENT);
  if (!ident || memcmp(ident, ELFMAG, SELFMAG) != 0)
    return true;  // a script: its interpreter inherits the preload
  if (ident[EI_CLASS] == ELFCLASS32)
    return refuse(kCannotExecute,
                  "program '" + out.path +
                      "' is a 32-bit executable: CUDA and shunt are 64-bit only; use its 64-bit build");
  const auto* ehdr = file.get<Elf64_Ehdr>(0);
  if (!ehdr || ident[EI_DATA] != ELFDATA2LSB || ehdr->e_machine != EM_X86_64)
    return refuse(kCannotExecute, "program '" + out.path + "' is built for another processor (ELF machine " +
                                      std::to_string(ehdr ? ehdr->e_machine : 0) + "); shunt needs x86-64");
  out.elf = true;
  ElfFacts facts;
  read_dynamic(file, *ehdr, facts);
  read_sections(file, *ehdr, facts);
  out.statically_linked = ehdr->e_type == ET_EXEC && !facts.interpreter;
  out.needs_cudart = facts.needs_cudart;
  out.static_cudart = facts.runtime_strings && !facts.needs_cudart && !facts.imports_registration;
  if (facts.fatbin) {
    std::string ignored;  // a damaged section only means that placement knows less
    shunt::binary::read_elf_file(out.path, out.device_code, out.device_code_backing, ignored);
  }
  return true;
}

}  // namespace shunt::tool
