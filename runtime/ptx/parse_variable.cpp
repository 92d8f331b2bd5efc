// Variable declarations: qualifiers, names, dimensions, initialisers.
#include <cstring>

#include "runtime/ptx/parser.h"

namespace shunt::ptx {
namespace {

constexpr uint64_t kMaxRegisters = 1u << 24;  // of one range: consumers allocate by it
constexpr uint64_t kMaxAlign = 1u << 20;
constexpr uint64_t kMaxBytes = 1ull << 46;  // of one variable
constexpr uint64_t kMaxPadding = 1u << 20;  // initializer elements that the text does not contain
constexpr int kMaxDepth = 16;

bool is_opaque(Type type) {
  return type == Type::texref || type == Type::samplerref || type == Type::surfref;
}

// IEEE half from double, round to nearest even; only initializers need it.
uint16_t half_bits(double value) {
  const float f = static_cast<float>(value);
  uint32_t x;
  std::memcpy(&x, &f, 4);
  const uint32_t sign = x >> 16 & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude >= 0x7f800000u)
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7fffu : 0x7c00u));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x33000001u) return static_cast<uint16_t>(sign);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = exponent < -14 ? -14 - exponent + 13 : 13;
  const uint32_t half = 1u << (shift - 1), rest = mantissa & ((1u << shift) - 1);
  mantissa >>= shift;
  if (rest > half || (rest == half && (mantissa & 1))) ++mantissa;
  if (exponent < -14) return static_cast<uint16_t>(sign | mantissa);
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + mantissa));
}

uint64_t real_bits(double value, Type type) {
  uint64_t bits = 0;
  if (type == Type::f64) {
    std::memcpy(&bits, &value, 8);
  } else if (type == Type::f16) {
    bits = half_bits(value);
  } else {
    const float f = static_cast<float>(value);
    uint32_t x;
    std::memcpy(&x, &f, 4);
    bits = x;
  }
  return bits;
}

bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || type == Type::f16; }

}  // namespace

// .attribute(.managed, .unified(1,2))
bool Parser::attribute(Variable* variable) {
  advance();
  if (!expect('(')) return false;
  do {
    if (token_.is_dot("managed")) {
      advance();
      if (variable) variable->managed = true;
    } else if (token_.is_dot("unified")) {
      advance();
      uint64_t ignored = 0;
      if (!expect('(') || !constant(ignored)) return false;
      while (accept(',')) {
        if (!constant(ignored)) return false;
      }
      if (!expect(')')) return false;
    } else {
      return expected("'.managed' or '.unified'");
    }
  } while (accept(','));
  return expect(')');
}

bool Parser::variable_qualifiers(Variable& variable, Place place) {
  if (variable.space == Space::constant && accept('[')) {  // bank number of old PTX
    uint64_t bank = 0;
    if (!constant(bank) || !expect(']')) return false;
  }
  while (token_.kind == Token::Kind::dot_word) {
    const std::string_view word = token_.text;
    if (word == "align") {
      advance();
      uint64_t align = 0;
      const Token at = token_;
      if (!integer(align, "an alignment")) return false;
      if (align == 0 || (align & (align - 1)) != 0 || align > kMaxAlign)
        return fail(at, "alignment must be a power of two up to 1048576, found " + describe(at));
      (variable.is_ptr ? variable.ptr_align : variable.align) = static_cast<uint32_t>(align);
      continue;
    }
    if (word == "attribute") {
      if (!attribute(&variable)) return false;
      continue;
    }
    if (word == "v2" || word == "v4" || word == "v8") {
      variable.vector = static_cast<uint8_t>(word[1] - '0');
    } else if (word == "ptr" && place == Place::formal) {
      variable.is_ptr = true;
    } else if (variable.is_ptr && word == "global") {
      variable.ptr_space = Space::global;
    } else if (variable.is_ptr && word == "const") {
      variable.ptr_space = Space::constant;
    } else if (variable.is_ptr && word == "shared") {
      variable.ptr_space = Space::shared;
    } else if (variable.is_ptr && word == "local") {
      variable.ptr_space = Space::local;
    } else if (variable.type == Type::none && type_from_name(word) != Type::none) {
      variable.type = type_from_name(word);
      if (variable.type == Type::pred && variable.space != Space::reg)
        return fail(token_, "type '.pred' is for registers only");
    } else {
      return expected(variable.type == Type::none ? "a type" : "a variable name");
    }
    advance();
  }
  if (variable.type == Type::none) return expected("a type");
  return true;
}

// name, `name<n>`, name[4][8], name[]
bool Parser::declarator(Variable& variable, Place place, Token& token, bool& range) {
  range = false;
  if (!name(token, "a variable name")) return false;
  variable.line = token.line;
  if (variable.space == Space::reg && place != Place::formal && accept('<')) {
    uint64_t count = 0;
    const Token at = token_;
    if (!integer(count, "the number of registers")) return false;
    if (count > kMaxRegisters) return fail(at, "register range larger than 16777216: " + describe(at));
    if (!expect('>')) return false;
    range = true;
    variable.reg_count = static_cast<uint32_t>(count);
  }
  while (token_.is('[')) {
    const Token at = token_;
    if (variable.space == Space::reg) return fail(at, "a register cannot be an array");
    advance();
    uint64_t dim = 0;
    if (!token_.is(']')) {
      if (!constant(dim)) return false;
    } else if (!variable.dims.empty()) {
      return fail(at, "only the first array dimension may be empty");
    }
    if (!expect(']')) return false;
    if (variable.dims.size() == 16) return fail(at, "more than 16 array dimensions");
    variable.dims.push_back(dim);
  }
  if (variable.size_bytes() > kMaxBytes)
    return fail(token, "variable " + describe(token) + " is larger than 64 TiB");
  return true;
}

bool Parser::variables(Space space, Linkage linkage, Place place, std::vector<Variable>& out) {
  Variable common;
  common.space = space;
  common.linkage = linkage;
  if (!variable_qualifiers(common, place)) return false;
  for (;;) {
    Variable variable = common;
    Token token;
    bool range = false;
    if (!declarator(variable, place, token, range)) return false;
    variable.name = token.text;
    if (place == Place::module) {
      // A declaration may precede the definition, and concatenated text may repeat a weak or common one.
      uint8_t& state = symbols_[token.text];
      const bool defines = linkage == Linkage::internal || linkage == Linkage::visible;
      if (state == 2 && defines) return fail(token, "symbol " + describe(token) + " is defined twice");
      state = defines ? 2 : state == 2 ? 2 : 1;
    } else if (token.text != "_") {
      if (!scopes_.declare(token.text, space == Space::reg, range, variable.reg_count))
        return fail(token, describe(token) + " is declared twice in this scope");
      if (place == Place::body) variable.name = scopes_.unique(token.text, range);
    }
    if (token_.is('=')) {
      if (place == Place::formal || space == Space::reg || space == Space::param)
        return fail(token_, "a register or parameter cannot have an initializer");
      advance();
      if (!initializer(variable)) return false;
    }
    // `.reg .b32 %r<0>` declares nothing, but a count of 0 would read as a single register.
    if (!(range && variable.reg_count == 0)) out.push_back(std::move(variable));
    if (place == Place::formal) return true;
    if (accept(',')) continue;
    return expect(';');
  }
}

bool Parser::initializer(Variable& variable) {
  if (is_opaque(variable.type)) {
    if (token_.is('{')) return reference_fields();
    uint64_t ignored = 0;
    return constant(ignored);
  }
  uint64_t padding_budget = kMaxPadding;
  if (token_.is('{')) return initializer_braces(variable, 0, padding_budget, 0);
  return initializer_element(variable);
}

// { addr_mode_0 = wrap, filter_mode = nearest, ... }, or nested braces of those for an array of references
bool Parser::reference_fields() {
  int depth = 0;
  do {
    if (token_.is('{'))
      ++depth;
    else if (token_.is('}'))
      --depth;
    else if (token_.kind == Token::Kind::end)
      return expected("'}'");
    else if (token_.kind != Token::Kind::word && token_.kind != Token::Kind::integer && !token_.is('=') &&
             !token_.is(','))
      return expected("a texture, sampler or surface field");
    advance();
  } while (depth > 0);
  return true;
}

bool Parser::initializer_braces(Variable& variable, size_t dimension, uint64_t& budget, int depth) {
  if (depth > kMaxDepth) return fail(token_, "initializer nested deeper than 16");
  std::vector<Initializer::Element>& elements = variable.init.elements;
  if (!expect('{')) return false;
  // Elements that one inner pair of braces stands for.
  uint64_t inner = variable.vector;
  for (size_t i = dimension + 1; i < variable.dims.size(); ++i) {
    if (inner > kMaxPadding || variable.dims[i] > kMaxPadding)
      inner = kMaxPadding + 1;
    else
      inner *= variable.dims[i];
  }
  if (dimension >= variable.dims.size()) inner = 1;
  if (token_.is('}')) {
    advance();
    return true;
  }
  uint64_t owed = 0;  // padding due before another element
  for (;;) {
    const Token at = token_;
    if (owed != 0) {
      if (owed > budget) return fail(at, "initializer needs more than 1048576 padding zeros");
      budget -= owed;
      elements.resize(elements.size() + owed);
      owed = 0;
    }
    if (token_.is('{')) {
      const size_t before = elements.size();
      if (!initializer_braces(variable, dimension + 1, budget, depth + 1)) return false;
      const uint64_t got = elements.size() - before;
      if (got < inner) owed = inner - got;
    } else if (!initializer_element(variable)) {
      return false;
    }
    if (accept(',')) continue;
    return expect('}');
  }
}

// symbol, generic(symbol), either followed by + n
bool Parser::initializer_symbol(Initializer::Element& element, int depth) {
  Token token;
  if (!name(token, "a symbol")) return false;
  if (token.text == "generic" && token_.is('(')) {
    if (depth > 4) return fail(token, "address expression nested deeper than 4");
    advance();
    element.generic = true;
    if (!initializer_symbol(element, depth + 1) || !expect(')')) return false;
  } else {
    element.symbol = token.text;
    references_.push_back(token);
  }
  if (token_.is('+') || token_.is('-')) {
    uint64_t addend = 0;
    if (token_.is('+')) advance();
    if (!constant(addend)) return false;
    element.addend = static_cast<int64_t>(static_cast<uint64_t>(element.addend) + addend);
  }
  return true;
}

bool Parser::initializer_element(Variable& variable) {
  Initializer::Element element;
  const Type type = variable.type;
  const uint32_t bits = type_bits(type);
  const uint64_t width_mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  const Token at = token_;

  if (token_.kind == Token::Kind::word && token_.text != "WARP_SZ") {
    element.kind = Initializer::Element::Kind::symbol;
    if (!initializer_symbol(element, 0)) return false;
  } else if (token_.kind == Token::Kind::integer && lexer_.peek() == '(') {
    element.kind = Initializer::Element::Kind::mask;  // 0xFF00(symbol): one byte of an address
    const uint64_t mask = token_.bits;
    advance();
    advance();
    if (!initializer_symbol(element, 0) || !expect(')')) return false;
    element.bits = static_cast<uint64_t>(element.addend);
    element.addend = static_cast<int64_t>(mask);
  } else {
    bool negative = false;
    if (token_.is('-')) {
      // A sign before a floating literal; anything else is left to the constant expression.
      Lexer ahead = lexer_;
      const Token literal = ahead.next();
      if (literal.kind == Token::Kind::real || literal.kind == Token::Kind::f32 ||
          literal.kind == Token::Kind::f64) {
        negative = true;
        advance();
      }
    }
    double value = 0;
    switch (token_.kind) {
      case Token::Kind::real:
      case Token::Kind::f64:
        std::memcpy(&value, &token_.bits, 8);
        element.bits = is_float(type) ? real_bits(negative ? -value : value, type)
                                      : token_.bits ^ (negative ? 1ull << 63 : 0);
        advance();
        break;
      case Token::Kind::f32: {
        const uint32_t x = static_cast<uint32_t>(token_.bits) ^ (negative ? 0x80000000u : 0);
        float f;
        std::memcpy(&f, &x, 4);
        element.bits = type == Type::f64 || type == Type::f16 ? real_bits(f, type) : x;
        advance();
        break;
      }
      default: {
        uint64_t integer_value = 0;
        if (token_.kind == Token::Kind::end || token_.kind == Token::Kind::dot_word ||
            token_.kind == Token::Kind::string || token_.kind == Token::Kind::invalid || token_.is('}') ||
            token_.is(';') || token_.is(','))
          return expected("an initializer value");
        if (!constant(integer_value)) return false;
        element.bits = is_float(type)
                           ? real_bits(static_cast<double>(static_cast<int64_t>(integer_value)), type)
                           : integer_value & width_mask;
      }
    }
  }
  // More elements than the array holds is the program's error, and would overrun a consumer's buffer.
  const uint64_t element_bytes = (static_cast<uint64_t>(bits) + 7) / 8;
  const bool sized = variable.dims.empty() || variable.dims[0] != 0;
  if (sized && (variable.init.elements.size() + 1) * element_bytes > variable.size_bytes())
    return fail(at, "more initializer values than '" + variable.name + "' holds");
  variable.init.elements.push_back(std::move(element));
  return true;
}

// ( .param .u64 .ptr .global .align 4 a, .param .align 8 .b8 b[16] )
bool Parser::formals(std::vector<Variable>& out) {
  if (!expect('(')) return false;
  if (accept(')')) return true;
  for (;;) {
    if (token_.is_dot("param") || token_.is_dot("reg")) {
      const Space space = token_.text == "param" ? Space::param : Space::reg;
      advance();
      if (!variables(space, Linkage::internal, Place::formal, out)) return false;
    } else {
      return expected("'.param' or '.reg'");
    }
    if (accept(',')) continue;
    return expect(')');
  }
}

}  // namespace shunt::ptx
