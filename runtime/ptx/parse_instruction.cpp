// Instructions and operands.
#include "runtime/ptx/parser.h"
#include "runtime/ptx/special_registers.h"

namespace shunt::ptx {
namespace {

constexpr int kMaxDepth = 4;
constexpr size_t kMaxModifiers = 64;

bool is_opcode(std::string_view word) {
  for (char c : word) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

}  // namespace

bool Parser::guard(std::string& predicate, bool& negated) {
  advance();
  negated = accept('!');
  Token token;
  if (!name(token, "a predicate register")) return false;
  if (scopes_.lookup(token.text, predicate) != Scopes::Found::reg)
    return fail(token, "predicate register " + describe(token) + " is not declared");
  return true;
}

bool Parser::instruction(const Token& opcode, std::string predicate, bool negated) {
  if (!is_opcode(opcode.text))
    return fail(opcode, "expected an instruction or a label, found " + describe(opcode));
  function_->body.emplace_back();
  Instruction& in = function_->body.back();
  in.opcode = opcode.text;
  in.guard = std::move(predicate);
  in.guard_negated = negated;
  in.line = opcode.line;
  while (token_.kind == Token::Kind::dot_word) {
    if (in.modifiers.size() == kMaxModifiers) return fail(token_, "more than 64 modifiers");
    in.modifiers.emplace_back(token_.text);
    const Type type = type_from_name(token_.text);
    if (type != Type::none) in.types.push_back(type);
    advance();
  }
  if (accept(';')) return true;
  const Token first = token_;
  for (;;) {
    in.operands.emplace_back();
    if (!operand(in.operands.back(), 0)) return false;
    if (accept(',')) continue;
    if (!token_.is(';')) return expected("',' or ';' after an operand");
    if (in.opcode == "bra" && in.operands[0].kind != Operand::Kind::symbol)
      return fail(first, "expected a label, found " + describe(first));
    advance();
    return true;
  }
}

bool Parser::operand(Operand& out, int depth) {
  if (depth > kMaxDepth) return fail(token_, "operands nested deeper than 4");
  switch (token_.kind) {
    case Token::Kind::word:
      if (token_.text == "WARP_SZ") return operand_number(out);
      if (!operand_word(out)) return false;
      break;
    case Token::Kind::punct:
      switch (token_.text[0]) {
        case '{':
          advance();
          out.kind = Operand::Kind::vector;
          return vector_or_list(out, '}', depth);
        case '(':
          if (depth == 0 && (function_->body.back().opcode == "call")) {
            advance();
            out.kind = Operand::Kind::list;
            if (accept(')')) return true;
            return vector_or_list(out, ')', depth);
          }
          return operand_number(out);
        case '[':
          return address(out, depth);
        case '!': {
          Lexer ahead = lexer_;
          const Token next = ahead.next();
          if (next.kind != Token::Kind::word || next.text == "WARP_SZ") return operand_number(out);
          advance();
          out.negated = true;
          if (!operand_word(out)) return false;
          break;
        }
        default:
          return operand_number(out);
      }
      break;
    default:
      return operand_number(out);
  }
  if (token_.is('|') && depth < kMaxDepth) {  // d|p
    if (out.kind != Operand::Kind::reg && out.kind != Operand::Kind::none)
      return expected("',' or ';' after a symbol");
    advance();
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.elements.resize(2);
    pair.elements[0] = std::move(out);
    out = std::move(pair);
    const Token at = token_;
    if (at.kind != Token::Kind::word) return expected("a register or '_' after '|'");
    if (!operand_word(out.elements[1])) return false;
    const Operand::Kind second = out.elements[1].kind;
    return second == Operand::Kind::reg || second == Operand::Kind::none ||
           fail(at, "expected a register or '_' after '|', found " + describe(at));
  }
  return true;
}

bool Parser::operand_number(Operand& out) {
  uint64_t sign = 0;
  if (token_.is('-')) {  // of a decimal literal; 0f and 0d carry their own
    Lexer ahead = lexer_;
    if (ahead.next().kind == Token::Kind::real) {
      advance();
      sign = 1ull << 63;
    }
  }
  switch (token_.kind) {
    case Token::Kind::f32:
      out.kind = Operand::Kind::imm_f32;
      out.imm = static_cast<int64_t>(token_.bits);
      advance();
      return true;
    case Token::Kind::real:
    case Token::Kind::f64:
      out.kind = Operand::Kind::imm_f64;
      out.imm = static_cast<int64_t>(token_.bits ^ sign);
      advance();
      return true;
    case Token::Kind::word:  // WARP_SZ, with the caller's leave
    case Token::Kind::integer:
    case Token::Kind::punct: {
      if (token_.kind == Token::Kind::punct && !token_.is('-') && !token_.is('+') && !token_.is('~') &&
          !token_.is('!') && !token_.is('('))
        return expected("an operand");
      uint64_t value = 0;
      if (!constant(value)) return false;
      out.kind = Operand::Kind::imm_int;
      out.imm = static_cast<int64_t>(value);
      return true;
    }
    default:
      return expected("an operand");
  }
}

bool Parser::special_register(const Token& word, Operand& out) {
  if (!is_special_register(word.text)) return fail(word, "register " + describe(word) + " is not declared");
  out.kind = Operand::Kind::sreg;
  out.symbol = word.text;
  if (special_register_has_components(word.text) && token_.kind == Token::Kind::dot_word) {
    const std::string_view c = token_.text;
    if (c != "x" && c != "y" && c != "z" && c != "w") return expected("'.x', '.y', '.z' or '.w'");
    out.symbol += '.';
    out.symbol += c;
    advance();
  }
  return true;
}

bool Parser::operand_word(Operand& out) {
  const Token word = token_;
  advance();
  if (word.text == "_") return true;  // Kind::none
  uint32_t element_bytes = 0;
  switch (scopes_.lookup(word.text, out.symbol, &element_bytes)) {
    case Scopes::Found::reg:
      out.kind = Operand::Kind::reg;
      return token_.kind != Token::Kind::dot_word || component(out);
    case Scopes::Found::variable:
      out.kind = Operand::Kind::symbol;
      break;
    case Scopes::Found::nothing:
      if (word.text[0] == '%') return special_register(word, out);
      out.kind = Operand::Kind::symbol;
      out.symbol = word.text;
      pending_.push_back({word, nested_operand_ ? Pending::Use::nested : Pending::Use::operand,
                          static_cast<uint32_t>(function_->body.size() - 1),
                          static_cast<uint32_t>(function_->body.back().operands.size() - 1)});
      if (auto known = symbols_.find(word.text); known != symbols_.end())
        element_bytes = known->second.element_bytes;
  }
  if (token_.is('[') && element_bytes != 0) {  // array[3]: the address of an element, or what it holds
    advance();
    uint64_t index = 0;
    if (!constant(index) || !expect(']')) return false;
    const std::string_view opcode = function_->body.back().opcode;
    if (!nested_operand_ && opcode != "mov" && opcode != "cvta") out.kind = Operand::Kind::address;
    out.imm = static_cast<int64_t>(index * element_bytes);
    return true;
  }
  return token_.is('+') ? offset(out) : true;
}

// + constant. PTX knows no minus here: [r+-8].
bool Parser::offset(Operand& out) {
  advance();
  uint64_t value = 0;
  if (!constant(value)) return false;
  out.imm = static_cast<int64_t>(value);
  return true;
}

// .x .y .z .w (or .r .g .b .a), .b0 .h1, .b3210
bool Parser::component(Operand& out) {
  const std::string_view text = token_.text;
  const char c = text[0];
  if (text.size() == 1) {
    const size_t xyzw = std::string_view("xyzw").find(c), rgba = std::string_view("rgba").find(c);
    if (xyzw == std::string_view::npos && rgba == std::string_view::npos)
      return expected("a vector component");
    out.component = static_cast<int32_t>(xyzw != std::string_view::npos ? xyzw : rgba);
    out.selector = 'x';
  } else if ((c == 'b' || c == 'h') && text.size() <= 5) {
    int32_t digits = 0;
    for (char d : text.substr(1)) {
      if (d < '0' || d > (c == 'b' ? '7' : '3')) return expected("a byte or half selector");
      digits = digits * 16 + (d - '0');
    }
    out.component = digits;
    out.selector = text.size() == 2 ? c : static_cast<char>(c - 'a' + 'A');
  } else {
    return expected("a component such as '.x', '.b0' or '.h1'");
  }
  advance();
  return true;
}

bool Parser::vector_or_list(Operand& out, char close, int depth) {
  const bool outer = nested_operand_;
  nested_operand_ = true;
  for (;;) {
    out.elements.emplace_back();
    if (!operand(out.elements.back(), depth + 1)) return false;
    if (accept(',')) continue;
    nested_operand_ = outer;
    if (accept(close)) return true;
    return expected(std::string("',' or '") + close + "'");
  }
}

bool Parser::address(Operand& out, int depth) {
  advance();
  out.kind = Operand::Kind::address;
  const bool outer = nested_operand_;
  nested_operand_ = true;
  if (token_.kind == Token::Kind::word && token_.text != "WARP_SZ") {
    Operand base;
    if (!operand_word(base)) return false;  // takes the offset of a symbol
    if (base.kind != Operand::Kind::reg && base.kind != Operand::Kind::symbol)
      return expected("a register or symbol before this as address");
    out.base_register = base.kind == Operand::Kind::reg;
    out.symbol = std::move(base.symbol);
    out.component = base.component;
    out.selector = base.selector;
    out.imm = base.imm;
    if (out.base_register && token_.is('+') && !offset(out)) return false;
  } else {
    uint64_t absolute = 0;
    if (!constant(absolute)) return false;
    out.imm = static_cast<int64_t>(absolute);
  }
  if (token_.is(',')) {
    advance();
    Operand first = std::move(out);
    first.kind = first.base_register    ? Operand::Kind::reg
                 : first.symbol.empty() ? Operand::Kind::imm_int
                                        : Operand::Kind::symbol;
    out = Operand();
    out.kind = Operand::Kind::tex_address;
    out.elements.push_back(std::move(first));
    do {
      out.elements.emplace_back();
      if (!operand(out.elements.back(), depth + 1)) return false;
    } while (accept(','));
  }
  nested_operand_ = outer;
  if (accept(']')) return true;
  return expected("',' or ']' in an address");
}

}  // namespace shunt::ptx
