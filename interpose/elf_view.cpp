#include "interpose/elf_view.h"

#include "interpose/text.h"

namespace shunt::interpose {
namespace {

// glibc rewrites most d_ptr values to absolute addresses when it maps a library; the vDSO keeps offsets.
template <class T>
const T* pointer(const ElfW(Dyn) * entry, uintptr_t base) {
  uintptr_t value = entry->d_un.d_ptr;
  return reinterpret_cast<const T*>(value < base ? base + value : value);
}

bool read_dynamic(const ElfW(Dyn) * dynamic, ElfView* view) {
  size_t soname = 0;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        view->symbols = pointer<ElfW(Sym)>(entry, view->base);
        break;
      case DT_STRTAB:
        view->strings = pointer<char>(entry, view->base);
        break;
      case DT_GNU_HASH:
        view->gnu_hash = pointer<uint32_t>(entry, view->base);
        break;
      case DT_HASH:
        view->sysv_hash = pointer<uint32_t>(entry, view->base);
        break;
      case DT_VERSYM:
        view->versions = pointer<ElfW(Versym)>(entry, view->base);
        break;
      case DT_SONAME:
        soname = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (!view->symbols || !view->strings) return false;
  if (soname) view->soname = view->strings + soname;
  return true;
}

bool view_of(const dl_phdr_info& info, ElfView* view) {
  view->base = info.dlpi_addr;
  view->path = info.dlpi_name ? info.dlpi_name : "";
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(view->base + segment.p_vaddr);
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    uintptr_t begin = view->base + segment.p_vaddr, end = begin + segment.p_memsz;
    if (!view->text_begin || begin < view->text_begin) view->text_begin = begin;
    if (end > view->text_end) view->text_end = end;
  }
  return dynamic && read_dynamic(dynamic, view);
}

bool is_us(const ElfView& view) { return view.contains_text(shunt_exports); }

void* usable(const ElfView& library, uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = library.symbols[index];
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  // An indirect function's value is its resolver, which only the loader may run.
  if (symbol.st_shndx == SHN_UNDEF || type == STT_GNU_IFUNC || type == STT_TLS) return nullptr;
  if (library.versions && (library.versions[index] & 0x8000))
    return nullptr;  // an old version kept for old programs
  if (!equal(library.strings + symbol.st_name, name)) return nullptr;
  return reinterpret_cast<void*>(library.base + symbol.st_value);
}

void* find_gnu(const ElfView& library, const char* name) {
  uint32_t hash = 5381;
  for (const char* c = name; *c; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const uint32_t* table = library.gnu_hash;
  uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
  if (!buckets || !words) return nullptr;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(table + 4);
  constexpr unsigned kBits = sizeof(ElfW(Addr)) * 8;
  ElfW(Addr) mask = ElfW(Addr){1} << (hash % kBits) | ElfW(Addr){1} << ((hash >> shift) % kBits);
  if ((bloom[(hash / kBits) % words] & mask) != mask) return nullptr;
  const auto* bucket = reinterpret_cast<const uint32_t*>(bloom + words);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    uint32_t here = chain[index - first];
    if ((here | 1) == (hash | 1)) {
      if (void* address = usable(library, index, name)) return address;
    }
    if (here & 1) return nullptr;
  }
}

void* find_sysv(const ElfView& library, const char* name) {
  uint32_t hash = 0;
  for (const char* c = name; *c; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  const uint32_t* table = library.sysv_hash;
  if (!table[0]) return nullptr;
  const uint32_t* bucket = table + 2;
  const uint32_t* chain = bucket + table[0];
  for (uint32_t index = bucket[hash % table[0]]; index; index = chain[index]) {
    if (void* address = usable(library, index, name)) return address;
  }
  return nullptr;
}

using Visitor = int (*)(dl_phdr_info*, size_t, void*);
using Iterate = int (*)(Visitor, void*);

// libc's own, past any replacement; the loader's lock that it takes keeps the libraries while they are
// visited.
Iterate iterate_function() {
  static Iterate found;  // the same for every thread
  Iterate known = load(found);
  if (known) return known;
  known = reinterpret_cast<Iterate>(find_after_us("dl_iterate_phdr"));
  if (!known) known = dl_iterate_phdr;
  store(found, known);
  return known;
}

// Calls visit(view) for every loaded library in the loader's order until it returns true.
template <class Visit>
bool for_each_library(Visit visit) {
  return iterate_function()(
             [](dl_phdr_info* info, size_t, void* visit_pointer) -> int {
               ElfView view;
               return view_of(*info, &view) && (*static_cast<Visit*>(visit_pointer))(view);
             },
             &visit) != 0;
}

}  // namespace

void* find_symbol(const ElfView& library, const char* name) {
  if (library.gnu_hash) return find_gnu(library, name);
  return library.sysv_hash ? find_sysv(library, name) : nullptr;
}

bool find_library(const char* soname, ElfView* out) {
  return for_each_library([&](const ElfView& view) {
    if (is_us(view) || !equal(view.soname ? view.soname : file_name(view.path), soname)) return false;
    *out = view;
    return true;
  });
}

// Walks the link maps without the loader's lock, which only its own functions can take: what is found is a
// library the program started with, and those before it in the list have been there as long and are never
// unloaded.
void* find_after_us(const char* name) {
  const link_map* map = _r_debug.r_map;
  while (map && map->l_ld != _DYNAMIC) map = map->l_next;  // that is our own
  if (!map) return nullptr;
  for (map = map->l_next; map; map = map->l_next) {
    ElfView view;
    view.base = map->l_addr;
    if (!map->l_ld || !read_dynamic(map->l_ld, &view)) continue;
    if (void* address = find_symbol(view, name)) return address;
  }
  return nullptr;
}

bool find_definer(const char* name, ElfView* out) {
  return for_each_library([&](const ElfView& view) {
    if (is_us(view) || !find_symbol(view, name)) return false;
    *out = view;
    return true;
  });
}

bool comes_before_us(const void* address) {
  bool before = false;
  for_each_library([&](const ElfView& view) {
    if (is_us(view)) return true;
    before = view.contains_text(address);
    return before;
  });
  return before;
}

const char* own_path() {
  const char* path = "";
  for_each_library([&](const ElfView& view) {
    if (!is_us(view)) return false;
    path = view.path;
    return true;
  });
  return path;
}

}  // namespace shunt::interpose
