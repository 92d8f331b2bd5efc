// Kernels and functions: header, directives, scopes, labels and statements.
#include "runtime/ptx/parser.h"

namespace shunt::ptx {
namespace {

constexpr size_t kMaxScopes = 256;

}  // namespace

bool Parser::function(bool is_entry, Linkage linkage) {
  advance();
  Function function;
  function.is_entry = is_entry;
  function.linkage = linkage;
  scopes_.reset();
  pending_.clear();
  pending_marks_.assign(1, 0);

  if (token_.is_dot("attribute") && !attribute(nullptr)) return false;
  if (!is_entry && token_.is('(') && !formals(function.returns)) return false;
  Token token;
  if (!name(token, is_entry ? "a kernel name" : "a function name")) return false;
  function.name = token.text;
  function.line = token.line;
  if (token_.is('(') && !formals(function.params)) return false;
  if (is_entry) {
    for (const Variable& param : function.params) {
      if (param.space != Space::param)
        return fail(token, "parameter '" + param.name + "' of a kernel must be in .param");
      if (!param.dims.empty() && param.dims[0] == 0)
        return fail(token, "parameter '" + param.name + "' of a kernel must have a size");
    }
  }
  if (!function_directives(function)) return false;

  uint8_t& state = symbols_[token.text].state;
  if (accept(';')) {
    function.is_declaration = true;
    if (state == 2) return fail(token, "function " + describe(token) + " is declared after its definition");
    state = 1;
    module_.functions.push_back(std::move(function));
    return true;
  }
  if (!token_.is('{')) return expected("'{' or ';' after the function header");
  if (state == 2) return fail(token, "function " + describe(token) + " is defined twice");
  state = 2;
  module_.functions.push_back(std::move(function));
  function_ = &module_.functions.back();
  const bool ok = body();
  function_ = nullptr;
  return ok;
}

bool Parser::three(uint32_t (&values)[3]) {
  advance();
  values[0] = values[1] = values[2] = 1;
  for (int i = 0; i < 3; ++i) {
    uint64_t value = 0;
    const Token at = token_;
    if (!integer(value, "an integer")) return false;
    if (value > 0xffffffffu) return fail(at, "value does not fit 32 bits");
    values[i] = static_cast<uint32_t>(value);
    if (i == 2 || !accept(',')) break;
  }
  return true;
}

bool Parser::function_directives(Function& function) {
  auto number = [this](uint32_t& out) {
    advance();
    uint64_t value = 0;
    const Token at = token_;
    if (!integer(value, "an integer")) return false;
    if (value > 0xffffffffu) return fail(at, "value does not fit 32 bits");
    out = static_cast<uint32_t>(value);
    return true;
  };
  while (token_.kind == Token::Kind::dot_word) {
    uint32_t ignored = 0;
    const std::string_view word = token_.text;
    bool ok = true;
    if (word == "maxntid")
      ok = three(function.maxntid);
    else if (word == "reqntid")
      ok = three(function.reqntid);
    else if (word == "reqnctapercluster")
      ok = three(function.reqnctapercluster);
    else if (word == "minnctapersm")
      ok = number(function.minnctapersm);
    else if (word == "maxnctapersm")
      ok = number(ignored);  // the old name of a limit that PTX ISA 2.0 dropped
    else if (word == "maxnreg")
      ok = number(function.maxnreg);
    else if (word == "local_maxnreg")
      ok = number(ignored);
    else if (word == "maxclusterrank")
      ok = number(function.maxclusterrank);
    else if (word == "abi_preserve" || word == "abi_preserve_control")
      ok = number(ignored);
    else if (word == "explicitcluster")
      advance(), function.explicitcluster = true;
    else if (word == "blocksareclusters")
      advance(), function.blocks_are_clusters = true;
    else if (word == "noreturn" && !function.is_entry)
      advance(), function.noreturn = true;
    else if (word == "pragma")
      ok = pragma();
    else if (word == "attribute")
      ok = attribute(nullptr);
    else
      return fail(token_, "unknown function directive " + describe(token_));
    if (!ok) return false;
  }
  return true;
}

bool Parser::body() {
  const Token open = token_;
  advance();
  while (!(token_.is('}') && scopes_.depth() == 1)) {
    if (token_.kind == Token::Kind::end) {
      return failed_ ? false : fail(open, "'{' of function '" + function_->name + "' is never closed");
    }
    if (!statement()) return false;
  }
  return close_scope() && (advance(), true);
}

bool Parser::statement() {
  if (token_.is('{')) {
    if (scopes_.depth() >= kMaxScopes) return fail(token_, "scopes nested deeper than 256");
    advance();
    scopes_.open();
    pending_marks_.push_back(pending_.size());
    return true;
  }
  if (token_.is('}')) {
    if (!close_scope()) return false;
    advance();
    return true;
  }
  if (token_.kind == Token::Kind::dot_word) return body_directive();
  if (token_.is('@')) {
    std::string predicate;
    bool negated = false;
    if (!guard(predicate, negated)) return false;
    Token opcode;
    return name(opcode, "an instruction after the guard") &&
           instruction(opcode, std::move(predicate), negated);
  }
  if (token_.kind != Token::Kind::word) return expected("an instruction, label or directive");
  const Token word = token_;
  advance();
  if (accept(':')) return label(word);
  return instruction(word, std::string(), false);
}

bool Parser::body_directive() {
  struct {
    std::string_view word;
    Space space;
  } static constexpr kSpaces[] = {{"reg", Space::reg},       {"param", Space::param},
                                  {"local", Space::local},   {"shared", Space::shared},
                                  {"global", Space::global}, {"const", Space::constant}};
  for (const auto& s : kSpaces) {
    if (!token_.is_dot(s.word)) continue;
    advance();
    return variables(s.space, Linkage::internal, Place::body, function_->locals);
  }
  if (token_.is_dot("loc")) return skip_loc();
  if (token_.is_dot("pragma")) return pragma();
  if (token_.is_dot("section")) return skip_section();
  return fail(token_, "unknown directive " + describe(token_) + " in a function body");
}

bool Parser::label(const Token& name_token) {
  if (name_token.text[0] == '%')
    return fail(name_token, "a label cannot begin with '%': " + describe(name_token));
  if (!scopes_.declare_label(name_token.text))
    return fail(name_token, describe(name_token) + " is declared twice in this scope");
  if (token_.is_dot("branchtargets")) return target_list(name_token, false);
  if (token_.is_dot("calltargets")) return target_list(name_token, true);
  if (token_.is_dot("callprototype")) return prototype(name_token);
  function_->labels.push_back(
      {scopes_.unique(name_token.text), static_cast<uint32_t>(function_->body.size())});
  return true;
}

bool Parser::target_list(const Token& name_token, bool calls) {
  advance();
  BranchTargets targets;
  targets.name = scopes_.unique(name_token.text);
  const uint32_t index = static_cast<uint32_t>(function_->branch_targets.size());
  do {
    Token target;
    if (!name(target, calls ? "a function" : "a label")) return false;
    if (calls)
      references_.push_back(target);
    else
      pending_.push_back(
          {target, Pending::Use::branch_target, index, static_cast<uint32_t>(targets.labels.size())});
    targets.labels.emplace_back(target.text);
  } while (accept(','));
  (calls ? function_->call_targets : function_->branch_targets).push_back(std::move(targets));
  return expect(';');
}

// proto: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
bool Parser::prototype(const Token& name_token) {
  advance();
  CallPrototype result;
  result.name = scopes_.unique(name_token.text);
  // Its parameter names are local to it and mean nothing.
  Scopes outer;
  outer.reset();
  std::swap(outer, scopes_);
  bool ok = !token_.is('(') || formals(result.returns);
  Token ignored;
  ok = ok && name(ignored, "'_'") && (!token_.is('(') || formals(result.params));
  std::swap(outer, scopes_);
  if (!ok) return false;
  Function directives;
  if (!function_directives(directives)) return false;
  result.noreturn = directives.noreturn;
  function_->prototypes.push_back(std::move(result));
  return expect(';');
}

// Uses of names that this scope's labels satisfy are settled; the others are the outer scope's, and in the
// end the module's.
bool Parser::close_scope() {
  const size_t from = pending_marks_.back();
  size_t kept = from;
  const bool outermost = scopes_.depth() == 1;
  for (size_t i = from; i < pending_.size(); ++i) {
    Pending& use = pending_[i];
    if (!scopes_.has_label(use.token.text)) {
      if (!outermost) {
        pending_[kept++] = use;
        continue;
      }
      const bool wants_label =
          use.use == Pending::Use::branch_target ||
          (use.use == Pending::Use::operand && function_->body[use.first].opcode == "bra");
      if (wants_label)
        return fail(use.token,
                    "label " + describe(use.token) + " is not defined in function '" + function_->name + "'");
      references_.push_back(use.token);
      continue;
    }
    std::string unique = scopes_.unique(use.token.text);
    switch (use.use) {
      case Pending::Use::operand: {
        Operand& operand = function_->body[use.first].operands[use.second];
        operand.kind = Operand::Kind::label;
        operand.symbol = std::move(unique);
        break;
      }
      case Pending::Use::branch_target:
        function_->branch_targets[use.first].labels[use.second] = std::move(unique);
        break;
      case Pending::Use::nested:
        return fail(use.token, "label " + describe(use.token) + " cannot be used here");
    }
  }
  pending_.resize(kept);
  pending_marks_.pop_back();
  scopes_.close();
  return true;
}

}  // namespace shunt::ptx
