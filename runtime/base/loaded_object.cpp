#include "runtime/base/loaded_object.h"

namespace shunt {
namespace {

struct Search {
  uintptr_t address;
  LoadedObject& out;
};

int match(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& p = info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + p.p_vaddr;
    if (p.p_type != PT_LOAD || search.address < at || search.address >= at + p.p_memsz) continue;
    search.out = {info->dlpi_name ? info->dlpi_name : "", info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    return 1;
  }
  return 0;
}

}  // namespace

bool find_loaded_object(const void* address, LoadedObject& out) {
  Search search{reinterpret_cast<uintptr_t>(address), out};
  return dl_iterate_phdr(match, &search) != 0;
}

}  // namespace shunt
