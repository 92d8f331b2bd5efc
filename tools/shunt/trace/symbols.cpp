#include "tools/shunt/trace/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace shunt::tool {

// A C function named `f` is no type.
std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && plain ? plain : name;
  free(plain);
  return out;
}

namespace {

// A bounded view of an ELF file's bytes.
struct Bytes {
  std::vector<char> data;
  template <class T>
  bool read(uint64_t at, T& out) const {
    if (at > data.size() || data.size() - at < sizeof(T)) return false;
    memcpy(&out, data.data() + at, sizeof(T));
    return true;
  }
  std::string text(uint64_t at, uint64_t end) const {
    end = std::min<uint64_t>(end, data.size());
    if (at >= end) return {};
    return std::string(data.data() + at, strnlen(data.data() + at, end - at));
  }
};

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string build_id_of(const Bytes& file, const Elf64_Shdr& s) {
  uint64_t at = s.sh_offset;
  const uint64_t end = std::min<uint64_t>(s.sh_offset + s.sh_size, file.data.size());
  Elf64_Nhdr note;
  while (at < end && file.read(at, note)) {
    const uint64_t name = at + sizeof note, desc = name + ((note.n_namesz + 3ull) & ~3ull);
    if (desc > end || end - desc < note.n_descsz) break;
    if (note.n_type == NT_GNU_BUILD_ID && file.text(name, name + note.n_namesz) == "GNU")
      return std::string(file.data.data() + desc, note.n_descsz);
    at = desc + ((note.n_descsz + 3ull) & ~3ull);
  }
  return {};
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool SymbolFile::load(const std::string& path, const std::string& build_id) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  Bytes file;
  file.data.assign(std::istreambuf_iterator<char>(in), {});
  Elf64_Ehdr header;
  if (!file.read(0, header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i)
    if (!file.read(header.e_shoff + i * sizeof(Elf64_Shdr), sections[i])) return false;
  std::string found_id;
  const Elf64_Shdr* table = nullptr;
  for (const auto& s : sections) {
    if (s.sh_type == SHT_NOTE && found_id.empty()) found_id = build_id_of(file, s);
    if (s.sh_type == SHT_SYMTAB || (s.sh_type == SHT_DYNSYM && !table)) table = &s;
  }
  if (found_id != build_id) return false;
  matches_ = true;
  if (!table || table->sh_link >= sections.size()) return true;
  const Elf64_Shdr& names = sections[table->sh_link];
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!file.read(table->sh_offset + at, symbol)) break;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    functions_.push_back({symbol.st_value, symbol.st_size,
                          file.text(names.sh_offset + symbol.st_name, names.sh_offset + names.sh_size)});
  }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.start < b.start; });
  return true;
}

SymbolFile::SymbolFile(const std::string& path, const std::string& build_id) {
  const std::string id = hex(build_id);
  // The debug file has the full table; the program itself may be stripped.
  if (id.size() > 2 &&
      load("/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug", build_id) &&
      !functions_.empty())
    return;
  functions_.clear();
  load(path, build_id);
}

std::string SymbolFile::name(uint64_t offset) const {
  auto at = std::upper_bound(functions_.begin(), functions_.end(), offset,
                             [](uint64_t o, const Function& f) { return o < f.start; });
  if (at == functions_.begin()) return {};
  --at;
  if (offset - at->start >= std::max<uint64_t>(at->size, 1)) return {};
  return fmt::format("{}+{:#x}", demangled(at->name), offset - at->start);
}

CallSites::CallSites(const TraceProcess& process) {
  for (const auto& chunk : process.reader.chunks()) {
    if (chunk.kind != trace::ChunkKind::meta) continue;
    for (uint32_t at = 0; at < chunk.bytes;) {
      const auto& r = *reinterpret_cast<const trace::RecordHeader*>(chunk.records + at);
      at += r.size;
      const auto type = static_cast<trace::RecordType>(r.type);
      if (type == trace::RecordType::module && r.flags <= r.size - sizeof r) {
        modules_[r.id] = {std::string(process.reader.string(r.id)),
                          std::string(reinterpret_cast<const char*>(&r + 1), r.flags)};
      } else if (type == trace::RecordType::stack &&
                 r.flags <= (r.size - sizeof(trace::StackRecord)) / sizeof(trace::StackFrame)) {
        const auto& s = reinterpret_cast<const trace::StackRecord&>(r);
        const auto* frames = reinterpret_cast<const trace::StackFrame*>(&s + 1);
        stacks_[static_cast<uint32_t>(r.id)].assign(frames, frames + r.flags);
        if (s.python) python_[static_cast<uint32_t>(r.id)] = process.reader.string(s.python);
      }
    }
  }
}

std::string CallSites::text(uint32_t stack, size_t frames) {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  std::string out;
  if (const auto python = python_.find(stack); python != python_.end()) out = python->second;
  for (size_t i = 0; i < std::min(frames, found->second.size()); ++i) {
    const trace::StackFrame& frame = found->second[i];
    if (!out.empty()) out += " < ";
    const auto module = modules_.find(frame.module);
    if (module == modules_.end()) {
      out += fmt::format("{:#x}", frame.offset);
      continue;
    }
    auto file = files_.find(frame.module);
    if (file == files_.end())
      file = files_.emplace(frame.module, SymbolFile(module->second.path, module->second.build_id)).first;
    const std::string name = file->second.name(frame.offset);
    out += fmt::format("{} ({}{})", name.empty() ? fmt::format("{:#x}", frame.offset) : name,
                       base_name(module->second.path), file->second.matches() ? "" : ", other build");
  }
  return out;
}

}  // namespace shunt::tool
