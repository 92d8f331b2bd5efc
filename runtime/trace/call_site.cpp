#include "runtime/trace/call_site.h"

#include <dlfcn.h>
#include <elf.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/flat_map.h"
#include "runtime/base/loaded_object.h"
#include "runtime/trace/writer.h"

namespace shunt::trace {

thread_local const void* detail::caller __attribute__((tls_model("initial-exec"))) = nullptr;
std::atomic<bool> detail::call_sites_on{false};

namespace {

constexpr int kMaxFrames = 24;
using Backtrace = int (*)(void** frames, int size);

std::atomic<Backtrace> g_backtrace{nullptr};

// The last few pairs of a thread: decisions come in runs from one place. Small, since the library is opened
// late and shares a few hundred bytes of static TLS (runtime_library_test); a miss is answered by the table
// behind it. Belongs to one file's numbering.
struct Cache {
  struct Entry {
    const void* address;
    uint32_t stack;
    uint8_t feature;
  };
  Entry entries[4];
  uint32_t generation;
};
thread_local Cache t_cache __attribute__((tls_model("initial-exec")));

std::string_view build_id_of(const LoadedObject& object) {
  for (int i = 0; i < object.header_count; i++) {
    const auto& p = object.headers[i];
    if (p.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object.base + p.p_vaddr);
    const char* end = at + p.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof *note;
      const char* desc = name + ((note->n_namesz + 3u) & ~3u);
      if (desc + note->n_descsz > end) break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0)
        return {desc, std::min<size_t>(note->n_descsz, 64)};
      at = desc + ((note->n_descsz + 3u) & ~3u);
    }
  }
  return {};
}

StackFrame locate(const void* return_address) {
  // It may be the first byte of the next function; the call is one byte before.
  const auto address = reinterpret_cast<uintptr_t>(return_address) - 1;
  LoadedObject object;
  if (!find_loaded_object(reinterpret_cast<const void*>(address), object))
    return {0, address};  // generated code: the address is all there is
  char self[512];
  if (object.path.empty()) {  // the program itself has no name in the loader's list
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    object.path = n > 0 ? std::string_view(self, static_cast<size_t>(n)) : std::string_view("?");
  }
  const std::string_view build_id = build_id_of(object);
  return {detail::module_id(object.path, reinterpret_cast<const uint8_t*>(build_id.data()),
                            static_cast<uint32_t>(build_id.size())),
          address - object.base};
}

uint32_t walk(const void* return_address) {
  void* found[64];
  int count = 0;
  if (const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire)) count = backtrace(found, 64);
  // Frames above the return address are shunt's own.
  int first = 0;
  while (first < count && found[first] != return_address) first++;
  StackFrame frames[kMaxFrames];
  int used = 0;
  if (first >= count) frames[used++] = locate(return_address);
  for (int i = first; i < count && used < kMaxFrames; i++) frames[used++] = locate(found[i]);
  return detail::stack_id(frames, static_cast<uint32_t>(used));
}

}  // namespace

void start_call_sites(bool enabled) {
  if (enabled && !g_backtrace.load()) {
    for (const char* name : {"libunwind.so.8", "libunwind.so.1", "libunwind.so"}) {
      // Its `unw_backtrace` walks the calling thread by the unwind tables; LLVM's library of the same name
      // has no such function and is passed over.
      void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
      void* symbol = library ? dlsym(library, "unw_backtrace") : nullptr;
      if (!symbol) {
        if (library) dlclose(library);
        continue;
      }
      g_backtrace.store(reinterpret_cast<Backtrace>(symbol), std::memory_order_release);
      break;
    }
  }
  detail::call_sites_on.store(enabled, std::memory_order_release);
}

uint32_t detail::call_site(Feature feature, const void* return_address) {
  const uint32_t now = generation.load(std::memory_order_acquire);
  if (now == 0) return 0;
  Cache& cache = t_cache;
  if (cache.generation != now) {
    memset(&cache, 0, sizeof cache);
    cache.generation = now;
  }
  const uint64_t key = reinterpret_cast<uintptr_t>(return_address) << 8 | static_cast<uint8_t>(feature);
  Cache::Entry& entry = cache.entries[mix64(key) % std::size(cache.entries)];
  if (entry.address == return_address && entry.feature == static_cast<uint8_t>(feature)) return entry.stack;
  uint32_t stack = known_site(key);
  if (stack == 0 && (stack = walk(return_address)) != 0) remember_site(key, stack);
  entry = {return_address, stack, static_cast<uint8_t>(feature)};
  return stack;
}

}  // namespace shunt::trace
