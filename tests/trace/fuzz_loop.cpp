// The fuzz target of tests/fuzz without libFuzzer: named seeds made from the golden file, each as it is and
// with deterministic mutations of the places a reader trusts most (headers, sizes, lengths). Runs everywhere,
// with g++ under AddressSanitizer; clang's libFuzzer explores further (fuzz_short.py).
//   fuzz_loop GOLDEN MUTATIONS_A_SEED
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kHeader = 4096, kChunk = 64;

template <class T>
std::string patched(std::string bytes, size_t at, T value) {
  memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

std::map<std::string, std::string> seeds(const std::string& good) {
  return {
      {"good", good},
      {"empty", ""},
      {"header_only", good.substr(0, kHeader)},
      {"cut_in_a_record", good.substr(0, kHeader + kChunk + 40)},
      {"foreign_endian", patched<uint32_t>(good, 12, 0x04030201)},
      {"future_version", patched<uint32_t>(good, 8, 99)},
      {"record_size_zero", patched<uint16_t>(good, kHeader + kChunk + 2, 0)},
      {"record_size_huge", patched<uint16_t>(good, kHeader + kChunk + 2, 0xFFF0)},
      {"committed_past_the_chunk", patched<uint32_t>(good, kHeader + 8, 0xFFFFFFFF)},
      {"string_longer_than_its_record", patched<uint32_t>(good, kHeader + kChunk + 4, 0xFFFFFFFF)},
      {"bad_chunk_magic", patched<uint32_t>(good, kHeader, 0x12345678)},
      {"more_chunks_than_bytes", patched<uint32_t>(good, 88, 0xFFFFFFFF)},
  };
}

std::string mutated(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  static constexpr uint64_t kValues[] = {0,      1,      0x7F,       0x80,       0xFF,
                                         0xFFFF, 0x8000, 0x7FFFFFFF, 0xFFFFFFFF, ~0ull};
  for (unsigned n = 1 + random() % 4; n > 0; --n) {
    // The file header, chunk headers, and anywhere in the first chunk's records.
    const size_t area = random() % 3;
    size_t at = area == 0   ? random() % 256
                : area == 1 ? kHeader + random() % kChunk
                            : kHeader + random() % 4096;
    at %= bytes.size();
    const size_t width = std::min<size_t>(size_t{1} << random() % 4, bytes.size() - at);
    const uint64_t value =
        random() % 2 ? kValues[random() % std::size(kValues)] : uint64_t{random()} << 16 | random();
    memcpy(bytes.data() + at, &value, width);
  }
  if (random() % 8 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  if (golden.size() < kHeader + kChunk + 64) {
    std::fprintf(stderr, "no golden file at %s\n", argv[1]);
    return 1;
  }
  // The last half is empty space of the chunk: a short file lets every mutation count.
  const std::string good = golden.substr(0, kHeader + 16384);
  const int mutations = std::atoi(argv[2]);
  unsigned long runs = 0;
  for (const auto& [name, bytes] : seeds(good)) {
    std::mt19937 random(static_cast<uint32_t>(runs) + 1);
    for (int i = 0; i <= mutations; ++i, ++runs) {
      const std::string input = i == 0 ? bytes : mutated(bytes, random);
      // Exactly as large as the input: a read past its end is seen.
      const std::vector<uint8_t> exact(input.begin(), input.end());
      LLVMFuzzerTestOneInput(exact.data(), exact.size());
    }
    std::printf("%s: %d inputs\n", name.c_str(), mutations + 1);
    std::fflush(stdout);
  }
  std::printf("%lu inputs read\n", runs);
  return 0;
}
