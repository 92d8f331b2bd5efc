// Variable declarations: qualifiers, names, dimensions, initialisers.
#include <algorithm>
#include <cstring>

#include "runtime/ptx/parser.h"

namespace shunt::ptx {
namespace {

constexpr uint64_t kMaxRegisters = 1u << 24;  // of one range: consumers allocate by it
constexpr uint64_t kMaxAlign = 1u << 20;
constexpr uint64_t kMaxBytes = 1ull << 46;  // of one variable
constexpr uint64_t kMaxPadding = 1u << 20;  // initializer elements that the text does not contain

bool is_opaque(Type type) {
  return type == Type::texref || type == Type::samplerref || type == Type::surfref;
}

uint64_t real_bits(double value, Type type) {
  uint64_t bits = 0;
  if (type == Type::f64) {
    std::memcpy(&bits, &value, 8);
  } else {
    const float f = static_cast<float>(value);
    uint32_t x;
    std::memcpy(&x, &f, 4);
    bits = x;
  }
  return bits;
}

bool is_plain(Type type) { return type >= Type::b8 && type <= Type::s64; }
bool is_float(Type type) { return type == Type::f32 || type == Type::f64; }

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
  while (token_.kind == Token::Kind::dot_word) {
    const std::string_view word = token_.text;
    if (variable.type != Type::none && !variable.is_ptr && word != "ptr") return expected("a variable name");
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
  if (token.text == "_" && place != Place::formal) return fail(token, "expected a variable name, found '_'");
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
      if (!integer(dim, "an array size")) return false;
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
      // A declaration may precede the definition.
      Symbol& symbol = symbols_[token.text];
      symbol.element_bytes = type_bits(variable.type) / 8 * variable.vector;
      if (linkage == Linkage::external) {
        symbol.state = std::max<uint8_t>(symbol.state, 1);
      } else {
        if (symbol.state == 2) return fail(token, "symbol " + describe(token) + " is defined twice");
        symbol.state = 2;
      }
    } else if (token.text != "_") {
      if (!scopes_.declare(token.text, space == Space::reg, range, variable.reg_count,
                           type_bits(variable.type) / 8 * variable.vector))
        return fail(token, describe(token) + " is declared twice in this scope");
      if (place == Place::body) variable.name = scopes_.unique(token.text, range);
    }
    if (token_.is('=')) {
      if (space != Space::global && space != Space::constant)
        return fail(token_, "only .global and .const variables can have an initializer");
      advance();
      if (!initializer(variable)) return false;
    }
    if (variable.init.elements.empty() && !variable.dims.empty() && variable.dims[0] == 0 &&
        linkage != Linkage::external && place != Place::formal) {
      return fail(token, "array " + describe(token) + " needs a size or an initializer");
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
  if (!is_float(variable.type) && !is_plain(variable.type))
    return fail(token_, "a variable of type ." + std::string(type_name(variable.type)) +
                            " cannot have an initializer");
  // The components of a vector are its last dimension.
  std::vector<uint64_t> shape = variable.dims;
  if (variable.vector > 1) shape.push_back(variable.vector);
  uint64_t padding_budget = kMaxPadding;
  if (shape.empty()) return token_.is('{') ? expected("a single value") : initializer_element(variable);
  return initializer_braces(variable, shape, 0, padding_budget);
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

bool Parser::initializer_braces(Variable& variable, const std::vector<uint64_t>& shape, size_t dimension,
                                uint64_t& padding_budget) {
  std::vector<Initializer::Element>& elements = variable.init.elements;
  if (!token_.is('{')) return expected("'{' of an array or vector initializer");
  const Token open = token_;
  advance();
  const bool innermost = dimension + 1 == shape.size();
  uint64_t inner = 1;  // elements that one pair of braces of the next dimension stands for
  for (size_t i = dimension + 1; i < shape.size(); ++i)
    inner = inner > kMaxBytes || shape[i] > kMaxBytes ? kMaxBytes : inner * shape[i];
  if (accept('}')) return true;
  uint64_t count = 0, owed = 0;  // owed: padding due before another element
  for (;;) {
    const Token at = token_;
    if (shape[dimension] != 0 && count == shape[dimension])
      return fail(at, "more initializer values than '" + variable.name + "' holds");
    if (owed > padding_budget) return fail(at, "initializer needs more than 1048576 padding zeros");
    padding_budget -= owed;
    elements.resize(elements.size() + owed);
    if (innermost) {
      if (!initializer_element(variable)) return false;
    } else {
      const size_t before = elements.size();
      if (!initializer_braces(variable, shape, dimension + 1, padding_budget)) return false;
      owed = inner - (elements.size() - before);
    }
    ++count;
    if (accept(',')) continue;
    if (!accept('}')) return expected("',' or '}'");
    if (shape[dimension] == 0) {  // the size comes from the initializer: all of it must be there
      if (owed > padding_budget) return fail(open, "initializer needs more than 1048576 padding zeros");
      elements.resize(elements.size() + owed);
    }
    if (innermost && variable.vector > 1 && count != variable.vector)
      return fail(open, "initializer of a vector needs all of its components");
    return true;
  }
}

// symbol, generic(symbol), either followed by + n
bool Parser::initializer_symbol(Initializer::Element& element) {
  Token token;
  if (!name(token, "a symbol")) return false;
  if (token.text == "generic" && accept('(')) {
    element.generic = true;
    if (!name(token, "a symbol") || !expect(')')) return false;
  }
  element.symbol = token.text;
  references_.push_back(token);
  if (!accept('+')) return true;
  uint64_t addend = 0;
  if (!constant(addend)) return false;
  element.addend = static_cast<int64_t>(addend);
  return true;
}

bool Parser::initializer_element(Variable& variable) {
  Initializer::Element element;
  const Type type = variable.type;
  const uint32_t bits = type_bits(type);
  const uint64_t width_mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;

  if (token_.kind == Token::Kind::word && token_.text != "WARP_SZ") {
    element.kind = Initializer::Element::Kind::symbol;
    if (!initializer_symbol(element)) return false;
  } else if (token_.kind == Token::Kind::integer && lexer_.peek() == '(') {
    element.kind = Initializer::Element::Kind::mask;  // 0xFF00(symbol): one byte of an address
    const uint64_t mask = token_.bits;
    advance();
    advance();
    if (!initializer_symbol(element) || !expect(')')) return false;
    element.bits = static_cast<uint64_t>(element.addend);
    element.addend = static_cast<int64_t>(mask);
  } else {
    bool negative = false;
    if (token_.is('-')) {
      // A sign before a decimal floating literal; anything else is left to the constant expression.
      Lexer ahead = lexer_;
      const Token literal = ahead.next();
      if (literal.kind == Token::Kind::real) {
        negative = true;
        advance();
      }
    }
    const bool literal = token_.kind == Token::Kind::real || token_.kind == Token::Kind::f64 ||
                         token_.kind == Token::Kind::f32;
    if (literal && (type == Type::b128 || type >= Type::u8) && !is_float(type))
      return expected("an integer for a variable of type ." + std::string(type_name(type)));
    switch (token_.kind) {
      case Token::Kind::real:
      case Token::Kind::f64: {
        // A 32-bit variable takes the single of that value, any other the bits.
        const uint64_t double_bits = token_.bits ^ (negative ? 1ull << 63 : 0);
        double value;
        std::memcpy(&value, &double_bits, 8);
        element.bits =
            is_float(type) || type == Type::b32 ? real_bits(value, type) : double_bits & width_mask;
        advance();
        break;
      }
      case Token::Kind::f32: {
        const uint32_t x = static_cast<uint32_t>(token_.bits);
        float f;
        std::memcpy(&f, &x, 4);
        element.bits = type == Type::f64 ? real_bits(f, type) : x & width_mask;
        advance();
        break;
      }
      default: {
        uint64_t integer_value = 0;
        if (token_.kind == Token::Kind::end || token_.kind == Token::Kind::dot_word ||
            token_.kind == Token::Kind::string || token_.kind == Token::Kind::invalid || token_.is('}') ||
            token_.is(';') || token_.is(','))
          return expected("an initializer value");
        if (is_float(type)) return expected("a floating literal such as 0f3F800000 or 1.0");
        if (!constant(integer_value)) return false;
        element.bits = integer_value & width_mask;
      }
    }
  }
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
