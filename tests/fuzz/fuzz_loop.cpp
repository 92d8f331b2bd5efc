// A fuzz target of this folder without libFuzzer: each seed file as it is, then with deterministic mutations
// of its bytes and its words, under AddressSanitizer and UBSan, built by whatever compiler the tree uses.
// Always runs; libFuzzer explores further (SHUNT_FUZZ).
//   fuzz_loop SEED_FOLDER MUTATIONS_A_SEED
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '$') {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    if (c > ' ') words.push_back(std::string(1, c));
  }
  return words;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> words, uint32_t seed) : words_(std::move(words)), random_(seed) {}

  std::string operator()(std::string bytes) {
    for (unsigned n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
      const size_t at = below(bytes.size());
      switch (below(8)) {
        case 0:  // a bit
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 1: {  // a number of some width that somebody might trust
          static constexpr uint64_t kValues[] = {0,      1,      0x7F,       0x80,       0xFF,
                                                 0x8000, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~0ull};
          const uint64_t value = kValues[below(std::size(kValues))];
          memcpy(bytes.data() + at, &value, std::min<size_t>(size_t{1} << below(4), bytes.size() - at));
          break;
        }
        case 2:  // less
          bytes.erase(at, 1 + below(64));
          break;
        case 3:  // the same again
          bytes.insert(at, bytes.substr(at, 1 + below(64)));
          break;
        case 4:  // cut off
          if (below(4) == 0) bytes.resize(at);
          break;
        default: {  // another seed's word instead of one of its own
          if (words_.empty()) break;
          const std::string& other = words_[below(words_.size())];
          size_t end = at;
          while (end < bytes.size() && isalnum(static_cast<unsigned char>(bytes[end]))) ++end;
          bytes.replace(at, end - at, other);
        }
      }
    }
    return bytes;
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  const std::vector<std::string> words_;
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::map<std::string, std::string> seeds;  // in the same order everywhere
  std::vector<std::string> words;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (std::string& word : words_of(bytes)) words.push_back(std::move(word));
    seeds[entry.path().filename()] = std::move(bytes);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  if (seeds.empty()) return std::fprintf(stderr, "no seeds in %s\n", argv[1]), 1;
  unsigned long runs = 0;
  for (const auto& [name, bytes] : seeds) {
    Mutator mutate(words, static_cast<uint32_t>(runs) + 1);
    const int mutations = std::atoi(argv[2]);
    for (int i = 0; i <= mutations; ++i, ++runs) {
      const std::string input = i == 0 ? bytes : mutate(bytes);
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
