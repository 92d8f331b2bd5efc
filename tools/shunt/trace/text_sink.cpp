#include "tools/shunt/trace/text_sink.h"

#include <cerrno>

namespace shunt::tool {

TextSink::TextSink(const std::string& path) : path_(path), buffer_(new char[kSize]) {
  file_ = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (!file_) error_ = errno;
}

TextSink::~TextSink() {
  if (file_ && file_ != stdout) std::fclose(file_);
  delete[] buffer_;
}

void TextSink::flush(size_t) {
  if (file_ && !error_ && used_ && std::fwrite(buffer_, 1, used_, file_) != used_)
    error_ = errno ? errno : EIO;
  used_ = 0;
}

TextSink& TextSink::direct(std::string_view text) {
  if (file_ && !error_ && std::fwrite(text.data(), 1, text.size(), file_) != text.size())
    error_ = errno ? errno : EIO;
  return *this;
}

bool TextSink::close(std::string& error) {
  flush(0);
  if (file_ && std::fflush(file_) != 0 && !error_) error_ = errno;
  if (file_ && file_ != stdout && std::fclose(file_) != 0 && !error_) error_ = errno;
  file_ = nullptr;
  if (error_) error = "cannot write '" + path_ + "': " + std::strerror(error_);
  return error_ == 0;
}

namespace {
// Length of the valid UTF-8 sequence at text[i], 0 when there is none (overlong, surrogate, truncated).
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
  };
  const auto tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const unsigned b = byte(0);
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    if (!tail(1) || !tail(2) || (b == 0xE0 && byte(1) < 0xA0) || (b == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3) || (b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) > 0x8F))
      return 0;
    return 4;
  }
  return 0;
}
}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i++];
    } else if (c < 0x20 || c == 0x7F) {
      static constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
      ++i;
    } else if (c < 0x80) {
      out += text[i++];
    } else if (const size_t n = utf8_length(text, i)) {
      out.append(text.substr(i, n));
      i += n;
    } else {
      out += "\xEF\xBF\xBD";
      ++i;
    }
  }
}

TextSink& TextSink::json(std::string_view text) {
  bool plain = true;
  for (char c : text) plain &= c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  if (plain) return put("\"").put(text).put("\"");
  std::string escaped;
  append_json_escaped(escaped, text);
  return put("\"").put(escaped).put("\"");
}

TextSink& TextSink::csv(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return put(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return put(quoted + "\"");
}

}  // namespace shunt::tool
