// The loaded library (or program) that an address lies in, asked from the dynamic loader. Takes the loader's
// lock: not for hot paths. Any thread.
#pragma once
#include <link.h>

#include <cstdint>
#include <string_view>

namespace shunt {

struct LoadedObject {
  std::string_view path;  // as the loader lists it: empty for the program itself
  uintptr_t base = 0;
  const ElfW(Phdr) * headers = nullptr;  // valid while it stays loaded
  int header_count = 0;
  std::string_view file() const { return path.substr(path.rfind('/') + 1); }
};

// False: in nothing that is loaded (generated code).
bool find_loaded_object(const void* address, LoadedObject& out);

}  // namespace shunt
