// Constant expressions: C precedence, 64-bit, unsigned when an operand is.
#include "runtime/ptx/parser.h"

namespace shunt::ptx {
namespace {

constexpr int kMaxDepth = 64;

enum Op {
  op_or_or,
  op_and_and,
  op_or,
  op_xor,
  op_and,
  op_eq,
  op_ne,
  op_lt,
  op_gt,
  op_le,
  op_ge,
  op_shl,
  op_shr,
  op_add,
  op_sub,
  op_mul,
  op_div,
  op_rem
};

}  // namespace

bool Parser::constant(uint64_t& value) {
  Value v;
  if (!expression(v, 0)) return false;
  value = v.bits;
  return true;
}

bool Parser::expression(Value& value, int depth) {
  if (depth > kMaxDepth) return fail(token_, "constant expression nested deeper than 64");
  if (!binary(value, 0, depth)) return false;
  if (!accept('?')) return true;
  Value yes, no;
  if (!expression(yes, depth + 1) || !expect(':') || !expression(no, depth + 1)) return false;
  value = value.bits ? yes : no;
  return true;
}

bool Parser::unary(Value& value, int depth) {
  if (depth > kMaxDepth) return fail(token_, "constant expression nested deeper than 64");
  if (token_.kind == Token::Kind::integer) {
    value.bits = token_.bits;
    value.is_unsigned = token_.text.back() == 'U' || token_.bits > 0x7fffffffffffffffull;
    advance();
    return true;
  }
  if (token_.kind == Token::Kind::word && token_.text == "WARP_SZ") {
    value = {32, false};
    advance();
    return true;
  }
  if (accept('(')) {
    if (token_.is_dot("s64") || token_.is_dot("u64")) {  // cast
      const bool to_unsigned = token_.is_dot("u64");
      advance();
      if (!expect(')') || !unary(value, depth + 1)) return false;
      value.is_unsigned = to_unsigned;
      return true;
    }
    return expression(value, depth + 1) && expect(')');
  }
  if (accept('+')) return unary(value, depth + 1);
  if (accept('-')) {
    if (!unary(value, depth + 1)) return false;
    value.bits = 0 - value.bits;
    return true;
  }
  if (accept('~')) {
    if (!unary(value, depth + 1)) return false;
    value.bits = ~value.bits;
    return true;
  }
  if (accept('!')) {
    if (!unary(value, depth + 1)) return false;
    value = {value.bits == 0, false};
    return true;
  }
  return expected("an integer constant");
}

// The operator at the current token. Two-character operators are looked up by adjacency, since the lexer
// knows none.
bool Parser::binary_operator(int& op, int& precedence) const {
  if (token_.kind != Token::Kind::punct) return false;
  const char c = token_.text[0];
  const char d = lexer_.peek();
  switch (c) {
    case '|':
      op = d == '|' ? op_or_or : op_or;
      precedence = d == '|' ? 1 : 3;
      return true;
    case '&':
      op = d == '&' ? op_and_and : op_and;
      precedence = d == '&' ? 2 : 5;
      return true;
    case '^':
      op = op_xor;
      precedence = 4;
      return true;
    case '=':
      if (d != '=') return false;
      op = op_eq;
      precedence = 6;
      return true;
    case '!':
      if (d != '=') return false;
      op = op_ne;
      precedence = 6;
      return true;
    case '<':
      op = d == '<' ? op_shl : d == '=' ? op_le : op_lt;
      precedence = d == '<' ? 8 : 7;
      return true;
    case '>':
      op = d == '>' ? op_shr : d == '=' ? op_ge : op_gt;
      precedence = d == '>' ? 8 : 7;
      return true;
    case '+':
      op = op_add;
      precedence = 9;
      return true;
    case '-':
      op = op_sub;
      precedence = 9;
      return true;
    case '*':
      op = op_mul;
      precedence = 10;
      return true;
    case '/':
      op = op_div;
      precedence = 10;
      return true;
    case '%':
      op = op_rem;
      precedence = 10;
      return true;
    default:
      return false;
  }
}

bool Parser::binary(Value& value, int min_precedence, int depth) {
  if (!unary(value, depth)) return false;
  int op = 0, precedence = 0;
  while (binary_operator(op, precedence) && precedence >= min_precedence) {
    const Token at = token_;
    const bool two = op == op_or_or || op == op_and_and || op == op_eq || op == op_ne || op == op_le ||
                     op == op_ge || op == op_shl || op == op_shr;
    advance();
    if (two) advance();
    Value right;
    if (!binary(right, precedence + 1, depth + 1) || !apply(at, op, value, right)) return false;
  }
  return !failed_;
}

bool Parser::apply(const Token& at, int op, Value& left, const Value& right) {
  const bool is_unsigned = left.is_unsigned || right.is_unsigned;
  const uint64_t a = left.bits, b = right.bits;
  const int64_t sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
  uint64_t r = 0;
  bool logical = false;
  switch (op) {
    case op_or_or:
      r = a || b;
      logical = true;
      break;
    case op_and_and:
      r = a && b;
      logical = true;
      break;
    case op_or:
      r = a | b;
      break;
    case op_xor:
      r = a ^ b;
      break;
    case op_and:
      r = a & b;
      break;
    case op_eq:
      r = a == b;
      logical = true;
      break;
    case op_ne:
      r = a != b;
      logical = true;
      break;
    case op_lt:
      r = is_unsigned ? a < b : sa < sb;
      logical = true;
      break;
    case op_gt:
      r = is_unsigned ? a > b : sa > sb;
      logical = true;
      break;
    case op_le:
      r = is_unsigned ? a <= b : sa <= sb;
      logical = true;
      break;
    case op_ge:
      r = is_unsigned ? a >= b : sa >= sb;
      logical = true;
      break;
    case op_shl:
      r = b < 64 ? a << b : 0;
      left.bits = r;
      return true;
    case op_shr:
      r = left.is_unsigned ? (b < 64 ? a >> b : 0) : static_cast<uint64_t>(sa >> (b < 64 ? b : 63));
      left.bits = r;
      return true;
    case op_add:
      r = a + b;
      break;
    case op_sub:
      r = a - b;
      break;
    case op_mul:
      r = a * b;
      break;
    case op_div:
    case op_rem:
      if (b == 0) return fail(at, "division by zero in a constant expression");
      if (is_unsigned)
        r = op == op_div ? a / b : a % b;
      else if (sb == -1)
        r = op == op_div ? 0 - a : 0;  // the one signed division that overflows
      else
        r = static_cast<uint64_t>(op == op_div ? sa / sb : sa % sb);
      break;
  }
  left.bits = r;
  left.is_unsigned = logical ? false : is_unsigned;
  return true;
}

}  // namespace shunt::ptx
