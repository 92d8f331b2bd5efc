// libFuzzer on the reader: any bytes are a file. No crash, no record outside its chunk, and what for_each
// visits is what record_count said. Built with clang; seeds in tests/trace/fuzz_short.py. One process, one
// thread.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "runtime/trace/reader.h"

namespace {
void require(bool truth) {
  if (!truth) abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shunt::trace;
  static const int fd = memfd_create("fuzz.shnt", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  auto reader = Reader::open(path);
  if (!reader.ok()) {
    require(!reader.error().message.empty());
    return 0;
  }
  uint64_t visited = 0, sum = 0;
  reader->for_each([&](const RecordHeader& record, uint32_t tid) {
    require(record.size >= kMinRecordBytes && record.size % 16 == 0);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    for (uint16_t i = 0; i < record.size; i++) sum += bytes[i];  // every byte is there to be read
    sum += tid + reader->string(record.id).size();
    visited++;
  });
  require(visited == reader->record_count());
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
