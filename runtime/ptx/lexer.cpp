#include "runtime/ptx/lexer.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace shunt::ptx {
namespace {

enum : uint8_t { kStart = 1, kInner = 2, kDigit = 4, kHex = 8, kBlank = 16 };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> c{};
  for (int i = 'a'; i <= 'z'; ++i) c[i] = kStart | kInner;
  for (int i = 'A'; i <= 'Z'; ++i) c[i] = kStart | kInner;
  for (int i = '0'; i <= '9'; ++i) c[i] = kInner | kDigit | kHex;
  for (int i = 'a'; i <= 'f'; ++i) c[i] |= kHex;
  for (int i = 'A'; i <= 'F'; ++i) c[i] |= kHex;
  c['_'] = c['$'] = kStart | kInner;
  c['%'] = kStart;
  c[' '] = c['\t'] = c['\r'] = c['\v'] = c['\f'] = kBlank;
  return c;
}
constexpr std::array<uint8_t, 256> kClasses = make_classes();
bool is(char c, uint8_t mask) { return (kClasses[static_cast<uint8_t>(c)] & mask) != 0; }

int hex_value(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

// Accumulates digits of a base; false when the value leaves 64 bits.
bool accumulate(std::string_view digits, uint64_t base, uint64_t& value) {
  value = 0;
  for (char c : digits) {
    const uint64_t digit = static_cast<uint64_t>(hex_value(c));
    if (digit >= base) return false;
    uint64_t next;
    if (__builtin_mul_overflow(value, base, &next) || __builtin_add_overflow(next, digit, &next))
      return false;
    value = next;
  }
  return true;
}

}  // namespace

Lexer::Lexer(std::string_view text) : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {
  if (text.empty())
    begin_ = at_ = end_ = "";
  else if (const void* nul = std::memchr(begin_, 0, text.size()))
    end_ = static_cast<const char*>(nul);
}

void Lexer::skip_blank() {
  while (at_ < end_) {
    const char c = *at_;
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (is(c, kBlank)) {
      ++at_;
    } else if (c == '/' && at_ + 1 < end_ && at_[1] == '/') {
      const void* eol = std::memchr(at_, '\n', static_cast<size_t>(end_ - at_));
      at_ = eol ? static_cast<const char*>(eol) : end_;
    } else if (c == '/' && at_ + 1 < end_ && at_[1] == '*') {
      const char* p = at_ + 2;
      uint32_t lines = 0;
      while (p + 1 < end_ && !(p[0] == '*' && p[1] == '/')) lines += *p++ == '\n';
      if (p + 1 >= end_) return;  // unterminated: next() reports it as invalid
      line_ += lines;
      at_ = p + 2;
    } else if (c == '\\' && at_ + 1 < end_ &&
               (at_[1] == '\n' || (at_[1] == '\r' && at_ + 2 < end_ && at_[2] == '\n'))) {
      ++at_;  // line continuation
    } else {
      return;
    }
  }
}

void Lexer::number(Token& token) {
  const char* p = at_;
  if (*p == '0' && p + 1 < end_ && ((p[1] | 32) == 'f' || (p[1] | 32) == 'd')) {
    const bool single = (p[1] | 32) == 'f';
    const ptrdiff_t digits = single ? 8 : 16;
    const char* q = p + 2;
    while (q < end_ && is(*q, kInner)) ++q;
    token.text = {p, static_cast<size_t>(q - p)};
    at_ = q;
    token.kind = Token::Kind::invalid;
    if (q - p != digits + 2) return;
    for (const char* r = p + 2; r < q; ++r) {
      if (!is(*r, kHex)) return;
    }
    accumulate(token.text.substr(2), 16, token.bits);
    token.kind = single ? Token::Kind::f32 : Token::Kind::f64;
    return;
  }
  const char* q = p;
  while (q < end_ && is(*q, kDigit)) ++q;
  const bool fraction = q < end_ && *q == '.' && !(q + 1 < end_ && is(q[1], kStart) && (q[1] | 32) != 'e');
  const bool exponent =
      q < end_ && (*q | 32) == 'e' && q + 1 < end_ &&
      (is(q[1], kDigit) || ((q[1] == '+' || q[1] == '-') && q + 2 < end_ && is(q[2], kDigit)));
  if (fraction || exponent) {
    if (fraction) {
      ++q;
      while (q < end_ && is(*q, kDigit)) ++q;
    }
    if (q < end_ && (*q | 32) == 'e') {
      const char* e = q + 1;
      if (e < end_ && (*e == '+' || *e == '-')) ++e;
      if (e < end_ && is(*e, kDigit)) {
        while (e < end_ && is(*e, kDigit)) ++e;
        q = e;
      }
    }
    token.text = {p, static_cast<size_t>(q - p)};
    at_ = q;
    token.kind = Token::Kind::invalid;
    if (q < end_ && is(*q, kStart)) return;
    double value = 0;  // from_chars: strtod would follow the program's locale
    if (std::from_chars(p, q, value).ec != std::errc()) return;
    std::memcpy(&token.bits, &value, 8);
    token.kind = Token::Kind::real;
    return;
  }
  while (q < end_ && is(*q, kInner)) ++q;
  token.text = {p, static_cast<size_t>(q - p)};
  at_ = q;
  std::string_view digits = token.text;
  if (digits.back() == 'U') digits.remove_suffix(1);
  uint64_t base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    if ((digits[1] | 32) == 'x') {
      base = 16;
      digits.remove_prefix(2);
    } else if ((digits[1] | 32) == 'b') {
      base = 2;
      digits.remove_prefix(2);
    } else {
      base = 8;
      digits.remove_prefix(1);
    }
  }
  token.kind = Token::Kind::invalid;
  if (digits.empty()) return;
  for (char c : digits) {
    if (!is(c, kHex)) return;
  }
  if (accumulate(digits, base, token.bits)) token.kind = Token::Kind::integer;
}

// ".word", ".2d", ".shared::cta", ".mbarrier::complete_tx::bytes"
void Lexer::dot(Token& token) {
  const char* q = at_ + 1;
  while (q < end_ && is(*q, kInner)) ++q;
  if (q == at_ + 1) {
    token.kind = Token::Kind::punct;
    token.text = {at_, 1};
    ++at_;
    return;
  }
  while (q + 2 < end_ && q[0] == ':' && q[1] == ':' && is(q[2], kInner)) {
    q += 3;
    while (q < end_ && is(*q, kInner)) ++q;
  }
  token.kind = Token::Kind::dot_word;
  token.text = {at_ + 1, static_cast<size_t>(q - at_ - 1)};
  at_ = q;
}

Token Lexer::next() {
  skip_blank();
  Token token;
  token.begin = at_;
  token.line = line_;
  if (at_ >= end_) return token;
  const char c = *at_;
  if (is(c, kStart)) {
    const char* q = at_ + 1;
    while (q < end_ && is(*q, kInner)) ++q;
    token.kind = Token::Kind::word;
    token.text = {at_, static_cast<size_t>(q - at_)};
    at_ = q;
    if (token.text == "%") token.kind = Token::Kind::punct;  // the remainder operator
  } else if (c == '.') {
    // ".5" is a number, ".2d" a modifier: digits up to something that no word goes on with.
    const char* q = at_ + 1;
    while (q < end_ && is(*q, kDigit)) ++q;
    if (q > at_ + 1 && (q == end_ || !is(*q, kInner) || (*q | 32) == 'e'))
      number(token);
    else
      dot(token);
  } else if (is(c, kDigit)) {
    number(token);
  } else if (c == '"') {
    const char* q = at_ + 1;
    while (q < end_ && *q != '"' && *q != '\n') q += (*q == '\\' && q + 1 < end_ && q[1] != '\n') ? 2 : 1;
    if (q >= end_ || *q != '"') {
      token.kind = Token::Kind::invalid;
      q = q > end_ ? end_ : q;
      token.text = {at_, static_cast<size_t>(q - at_)};
      at_ = q;
    } else {
      token.kind = Token::Kind::string;
      token.text = {at_ + 1, static_cast<size_t>(q - at_ - 1)};
      at_ = q + 1;
    }
  } else if (std::strchr("@!|,;:()[]{}<>=+-*&^~?/", c)) {
    if (c == '/' && at_ + 1 < end_ && at_[1] == '*') {  // comment that never ends
      token.kind = Token::Kind::invalid;
      token.text = {at_, 2};
      at_ = end_;
    } else {
      token.kind = Token::Kind::punct;
      token.text = {at_, 1};
      ++at_;
    }
  } else {
    token.kind = Token::Kind::invalid;
    token.text = {at_, 1};
    ++at_;
  }
  return token;
}

uint32_t Lexer::column(const Token& token) const {
  const char* p = token.begin;
  while (p > begin_ && p[-1] != '\n') --p;
  return static_cast<uint32_t>(token.begin - p) + 1;
}

std::string describe(const Token& token) {
  std::string text(token.text.substr(0, 60));
  for (char& c : text) {
    if (static_cast<uint8_t>(c) < 32 || static_cast<uint8_t>(c) > 126) c = '?';
  }
  switch (token.kind) {
    case Token::Kind::end:
      return "end of text";
    case Token::Kind::dot_word:
      return "'." + text + "'";
    case Token::Kind::string:
      return "string \"" + text + "\"";
    case Token::Kind::invalid:
      if (token.text.size() == 1 &&
          (static_cast<uint8_t>(token.text[0]) < 32 || static_cast<uint8_t>(token.text[0]) > 126)) {
        static const char* kHexDigits = "0123456789abcdef";
        const uint8_t byte = static_cast<uint8_t>(token.text[0]);
        return std::string("byte 0x") + kHexDigits[byte >> 4] + kHexDigits[byte & 15];
      }
      if (token.text == "/*") return "comment without end";
      if (token.text[0] == '"') return "string without end";
      if (token.text[0] >= '0' && token.text[0] <= '9') return "malformed or too large number '" + text + "'";
      return "'" + text + "'";
    default:
      return "'" + text + "'";
  }
}

}  // namespace shunt::ptx
