// PTX tokens. The lexer reads one token at a time from a text it does not own; tokens are views into that
// text. One thread; no allocation; any bytes are accepted (unknown ones become Kind::invalid).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace shunt::ptx {

struct Token {
  enum class Kind : uint8_t {
    end,
    word,      // identifier: opcode, register, symbol, label
    dot_word,  // ".global", ".shared::cta"; text without the leading dot
    integer,   // value in bits
    real,      // decimal floating literal; bits of the double
    f32,
    f64,      // 0f... 0d... ; bits
    string,   // text without the quotes
    punct,    // one character
    invalid,  // bytes that start no token, or a literal out of range
  };
  Kind kind = Kind::end;
  std::string_view text;
  const char* begin = nullptr;
  uint32_t line = 1;
  uint64_t bits = 0;
  bool is(char c) const { return kind == Kind::punct && text[0] == c; }
  bool is_dot(std::string_view word) const { return kind == Kind::dot_word && text == word; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text);  // ends at the first NUL, as drivers read PTX
  Token next();
  // Column (from 1) of a token of this text.
  uint32_t column(const Token& token) const;
  char peek() const { return at_ < end_ ? *at_ : 0; }  // the byte right after the last token

 private:
  void skip_blank();
  void number(Token& token);
  void dot(Token& token);

  const char* begin_;
  const char* at_;
  const char* end_;
  uint32_t line_ = 1;
};

// "';'", "'.global'", "integer '12'", "end of text": for messages.
std::string describe(const Token& token);

}  // namespace shunt::ptx
