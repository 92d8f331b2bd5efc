// libFuzzer: any bytes as a fat binary container; every entry is extracted and chosen from.
#include <cstdint>
#include <cstdlib>

#include "runtime/binary/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shunt::binary;
  std::vector<Entry> entries;
  std::string error;
  if (!read_container(data, size, entries, error) && error.empty()) std::abort();
  for (const Entry& entry : entries) {
    if (entry.payload < data || entry.payload_size > size || entry.payload + entry.payload_size > data + size)
      std::abort();
    std::string bytes;
    if (!extract(entry, bytes, error) && error.empty()) std::abort();
  }
  for (uint32_t cc : {75u, 90u, 100u, 103u, 121u}) {
    const Choice choice = choose(entries, cc, true);
    if (choice.elf >= static_cast<int>(entries.size()) || choice.ptx >= static_cast<int>(entries.size()))
      std::abort();
  }
  return 0;
}
