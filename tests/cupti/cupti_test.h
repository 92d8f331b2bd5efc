// Shared by the CUPTI tests: a client with buffers of a chosen size that keeps what it is given.
#pragma once
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/driver/driver_test.h"

#define CUPTI_OK(call) ASSERT_EQ(call, CUPTI_SUCCESS) << #call

namespace cupti_test {

// Whole records, copied out of the buffers.
struct Client {
  size_t buffer_bytes = 1 << 20, max_records = 0;
  bool refuse = false;
  size_t requests = 0, completions = 0, bytes_lent = 0, bytes_back = 0;
  std::vector<std::vector<uint64_t>> records;  // uint64_t: aligned
  std::mutex mutex;

  template <class T>
  std::vector<T> of(CUpti_ActivityKind kind) {
    std::vector<T> found;
    for (const auto& bytes : records) {
      const auto* record = reinterpret_cast<const CUpti_Activity*>(bytes.data());
      if (record->kind != kind) continue;
      EXPECT_GE(bytes.size() * 8, sizeof(T));
      T value;
      memcpy(&value, bytes.data(), sizeof value);
      found.push_back(value);
    }
    return found;
  }
  void clear() {
    records.clear();
    requests = completions = bytes_lent = bytes_back = 0;
  }
};
inline Client client;

inline void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* max_records) {
  std::lock_guard lock(client.mutex);
  ++client.requests;
  *buffer = nullptr;
  *size = 0;
  *max_records = client.max_records;
  if (client.refuse) return;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, (client.buffer_bytes + 7) / 8 * 8));
  memset(*buffer, 0xaa, client.buffer_bytes);
  *size = client.buffer_bytes;
  client.bytes_lent += *size;
}
inline void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                              size_t valid) {
  std::lock_guard lock(client.mutex);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(stream, 0u);
  EXPECT_LE(valid, size);
  ++client.completions;
  client.bytes_back += size;
  std::vector<uint8_t*> starts;
  CUpti_Activity* record = nullptr;
  CUptiResult result;
  while ((result = cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS)
    starts.push_back(reinterpret_cast<uint8_t*>(record));
  EXPECT_EQ(result, CUPTI_ERROR_MAX_LIMIT_REACHED);
  for (size_t i = 0; i < starts.size(); ++i) {
    const uint8_t* end = i + 1 < starts.size() ? starts[i + 1] : buffer + valid;
    std::vector<uint64_t> bytes(size_t(end - starts[i]) / 8);
    memcpy(bytes.data(), starts[i], size_t(end - starts[i]));
    client.records.push_back(bytes);
  }
  free(buffer);
}

struct Cupti : driver_test::Driver {
  void SetUp() override {
    Driver::SetUp();
    load();
    client.clear();
    client.buffer_bytes = 1 << 20;
    client.max_records = 0;
    client.refuse = false;
    CUPTI_OK(cuptiActivityRegisterCallbacks(request, complete));
  }
  void TearDown() override {
    EXPECT_EQ(cuptiFinalize(), CUPTI_SUCCESS);
    Driver::TearDown();
  }
  void enable(std::initializer_list<CUpti_ActivityKind> kinds) {
    for (CUpti_ActivityKind kind : kinds) CUPTI_OK(cuptiActivityEnable(kind)) << kind;
  }
};

}  // namespace cupti_test
