// Buffered text output for exports: numbers without locale or allocation, strings escaped for JSON or CSV
// whatever bytes they hold. Errors are sticky and reported once by close(). One thread.
#pragma once
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace shunt::tool {

class TextSink {
 public:
  explicit TextSink(const std::string& path);  // "-": stdout
  ~TextSink();
  TextSink(const TextSink&) = delete;
  TextSink& operator=(const TextSink&) = delete;

  TextSink& put(std::string_view text) {
    if (used_ + text.size() > kSize) flush(text.size());
    if (text.size() > kSize) return direct(text);
    std::memcpy(buffer_ + used_, text.data(), text.size());
    used_ += text.size();
    return *this;
  }
  TextSink& number(uint64_t value) { return to_chars(value); }
  TextSink& signed_number(int64_t value) { return to_chars(value); }
  // Nanoseconds as microseconds with three decimals.
  TextSink& micros(uint64_t ns) {
    to_chars(ns / 1000);
    const char digits[4] = {'.', static_cast<char>('0' + ns / 100 % 10),
                            static_cast<char>('0' + ns / 10 % 10), static_cast<char>('0' + ns % 10)};
    return put({digits, 4});
  }
  TextSink& json(std::string_view text);  // quoted; invalid UTF-8 becomes U+FFFD
  TextSink& csv(std::string_view text);   // quoted only where needed (RFC 4180)
  bool close(std::string& error);         // flushes; false with the reason when anything failed

 private:
  static constexpr size_t kSize = 1 << 20;
  template <class T>
  TextSink& to_chars(T value) {
    if (used_ + 24 > kSize) flush(24);
    used_ = static_cast<size_t>(std::to_chars(buffer_ + used_, buffer_ + kSize, value).ptr - buffer_);
    return *this;
  }
  void flush(size_t room);
  TextSink& direct(std::string_view text);
  std::string path_;
  FILE* file_;
  char* buffer_;
  size_t used_ = 0;
  int error_ = 0;
};

// Appends `text` as the inside of a JSON string.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace shunt::tool
