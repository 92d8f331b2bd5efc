#include "runtime/ptx/parser.h"

#include <new>

namespace shunt::ptx {

Parser::Parser(std::string_view text, Module& module, Diagnostic& diagnostic)
    : lexer_(text), module_(module), diagnostic_(diagnostic) {
  token_ = lexer_.next();
}

void Parser::advance() {
  if (!failed_) token_ = lexer_.next();
}

bool Parser::fail(const Token& at, std::string message) {
  if (!failed_) {
    failed_ = true;
    diagnostic_.line = at.line;
    diagnostic_.column = lexer_.column(at);
    diagnostic_.message = std::move(message);
    token_ = Token();  // loops that look for a terminator end
    token_.line = at.line;
    token_.begin = at.begin;
  }
  return false;
}

bool Parser::expected(std::string_view what) {
  if (failed_) return false;
  return fail(token_, "expected " + std::string(what) + ", found " + describe(token_));
}

bool Parser::accept(char c) {
  if (!token_.is(c)) return false;
  advance();
  return true;
}

bool Parser::expect(char c) {
  if (accept(c)) return true;
  return expected(std::string("'") + c + "'");
}

bool Parser::integer(uint64_t& value, std::string_view what) {
  if (token_.kind != Token::Kind::integer) return expected(what);
  value = token_.bits;
  advance();
  return true;
}

bool Parser::name(Token& token, std::string_view what) {
  if (token_.kind != Token::Kind::word) return expected(what);
  token = token_;
  advance();
  return true;
}

bool Parser::run() {
  if (!token_.is_dot("version")) return expected("'.version'");
  if (!version()) return false;
  if (!token_.is_dot("target")) return expected("'.target' after '.version'");
  if (!target()) return false;
  while (token_.kind != Token::Kind::end) {
    if (!module_directive()) return false;
  }
  return !failed_ && check_references();
}

bool Parser::version() {
  advance();
  if (token_.kind != Token::Kind::real) return expected("a PTX version such as 9.0");
  // The literal's text, not its value: 8.10 is not 8.1.
  const std::string_view text = token_.text;
  uint32_t parts[2] = {0, 0};
  size_t part = 0, digits = 0;
  for (char c : text) {
    if (c == '.') {
      ++part;
      digits = 0;
    } else if (c < '0' || c > '9' || ++digits > 4 || part > 1) {
      return expected("a PTX version such as 9.0");
    } else {
      parts[part] = parts[part] * 10 + static_cast<uint32_t>(c - '0');
    }
  }
  if (digits == 0) return expected("a PTX version such as 9.0");
  module_.version_major = parts[0];
  module_.version_minor = parts[1];
  advance();
  return true;
}

bool Parser::target() {
  advance();
  bool first = true;
  do {
    Token word;
    if (!name(word, first ? "a target such as sm_90" : "a target option")) return false;
    if (first && word.text.substr(0, 3) == "sm_" && module_.target.empty())
      module_.target = word.text;
    else
      module_.target_options.emplace_back(word.text);
    first = false;
  } while (accept(','));
  if (module_.target.empty()) return fail(token_, "no sm_... target after '.target'");
  return true;
}

bool Parser::module_directive() {
  if (token_.kind != Token::Kind::dot_word)
    return expected("a module directive such as '.entry' or '.global'");

  const bool has_linkage =
      token_.is_dot("visible") || token_.is_dot("extern") || token_.is_dot("weak") || token_.is_dot("common");
  Linkage linkage = Linkage::internal;
  if (has_linkage) {
    linkage = token_.is_dot("visible")  ? Linkage::visible
              : token_.is_dot("extern") ? Linkage::external
              : token_.is_dot("weak")   ? Linkage::weak
                                        : Linkage::common;
    advance();
    if (linkage == Linkage::common && !token_.is_dot("global")) return expected("'.global' after '.common'");
  }

  if (token_.is_dot("entry")) return function(true, linkage);
  if (token_.is_dot("func")) return function(false, linkage);
  struct {
    std::string_view word;
    Space space;
  } static constexpr kSpaces[] = {
      {"global", Space::global}, {"const", Space::constant}, {"shared", Space::shared}};
  for (const auto& s : kSpaces) {
    if (!token_.is_dot(s.word)) continue;
    advance();
    return variables(s.space, linkage, Place::module, module_.variables);
  }
  if (has_linkage) return expected("'.entry', '.func', '.global', '.const' or '.shared' after the linkage");
  if (token_.is_dot("file")) return skip_file();
  if (token_.is_dot("section")) return skip_section();
  if (token_.is_dot("pragma")) return pragma();
  if (token_.is_dot("alias")) return alias();
  if (token_.is_dot("address_size")) {
    advance();
    uint64_t size = 0;
    const Token at = token_;
    if (!integer(size, "32 or 64")) return false;
    if (size != 32 && size != 64) return fail(at, "address size must be 32 or 64, found " + describe(at));
    module_.address_size = static_cast<uint32_t>(size);
    return true;
  }
  return fail(token_, "unknown module directive " + describe(token_));
}

bool Parser::alias() {
  advance();
  Token a, b;
  if (!name(a, "a function name") || !expect(',') || !name(b, "the aliased function") || !expect(';'))
    return false;
  module_.aliases.emplace_back(a.text, b.text);
  references_.push_back(a);
  references_.push_back(b);
  return true;
}

// .file 1 "name" {, time, size}
bool Parser::skip_file() {
  advance();
  uint64_t ignored = 0;
  if (!integer(ignored, "a file number")) return false;
  if (token_.kind != Token::Kind::string) return expected("a file name");
  advance();
  while (accept(',')) {
    if (!integer(ignored, "an integer")) return false;
  }
  return true;
}

// .loc file line column {, function_name label {+ n}, inlined_at file line column}
bool Parser::skip_loc() {
  advance();
  uint64_t ignored = 0;
  for (const char* what : {"a file number", "a line number", "a column"}) {
    if (!integer(ignored, what)) return false;
  }
  while (accept(',')) {
    Token word, symbol;
    if (!name(word, "'function_name' or 'inlined_at'")) return false;
    if (word.text == "function_name") {
      if (!name(symbol, "a label")) return false;
      if (accept('+') && !integer(ignored, "an offset")) return false;
    } else if (word.text == "inlined_at") {
      for (const char* what : {"a file number", "a line number", "a column"}) {
        if (!integer(ignored, what)) return false;
      }
    } else {
      return fail(word, "expected 'function_name' or 'inlined_at', found " + describe(word));
    }
  }
  return true;
}

// Debug sections carry nothing that runs.
bool Parser::skip_section() {
  const Token at = token_;
  advance();
  if (token_.kind != Token::Kind::dot_word && token_.kind != Token::Kind::word)
    return expected("a section name");
  advance();
  if (!expect('{')) return false;
  for (uint64_t depth = 1; depth != 0; advance()) {
    if (token_.kind == Token::Kind::end) return fail(at, "section without closing '}'");
    if (token_.is('{'))
      ++depth;
    else if (token_.is('}'))
      --depth;
  }
  return true;
}

// Hints to the optimiser ("nounroll") or to tools.
bool Parser::pragma() {
  advance();
  do {
    if (token_.kind != Token::Kind::string) return expected("a string after '.pragma'");
    advance();
  } while (accept(','));
  return expect(';');
}

bool Parser::check_references() {
  for (const Token& token : references_) {
    if (symbols_.count(token.text) == 0) return fail(token, "undefined symbol " + describe(token));
  }
  return true;
}

std::unique_ptr<Module> parse(std::string_view text, Diagnostic& diagnostic) {
  diagnostic = Diagnostic();
  try {
    if (text.size() > 0xfffffff0u) {
      diagnostic.message = "PTX text larger than 4 GiB";
      return nullptr;
    }
    auto module = std::make_unique<Module>();
    Parser parser(text, *module, diagnostic);
    if (parser.run()) return module;
  } catch (const std::bad_alloc&) {
    diagnostic.message = "out of memory while parsing PTX";
  }
  return nullptr;
}

}  // namespace shunt::ptx
