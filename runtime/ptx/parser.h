// Recursive descent over PTX, single pass. Internal to runtime/ptx; callers use parse() of ir.h. One thread
// per parser. The first error is kept and ends the parse: every method returns false from then on.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/ptx/ir.h"
#include "runtime/ptx/lexer.h"
#include "runtime/ptx/scopes.h"

namespace shunt::ptx {

class Parser {
 public:
  Parser(std::string_view text, Module& module, Diagnostic& diagnostic);
  bool run();

 private:
  // parser.cpp: module level and shared pieces
  bool module_directive();
  bool version();
  bool target();
  bool alias();
  bool skip_file();
  bool skip_loc();
  bool skip_section();
  bool pragma();
  bool check_references();

  void advance();
  bool fail(const Token& at, std::string message);
  bool expected(std::string_view what);  // at the current token
  bool expect(char c);
  bool accept(char c);
  bool integer(uint64_t& value, std::string_view what);
  bool name(Token& token, std::string_view what);

  // expression.cpp: constant expressions
  struct Value {
    uint64_t bits = 0;
    bool is_unsigned = false;
  };
  bool constant(uint64_t& value);
  bool expression(Value& value, int depth);
  bool binary(Value& value, int min_precedence, int depth);
  bool unary(Value& value, int depth);
  bool binary_operator(int& op, int& precedence) const;
  bool apply(const Token& at, int op, Value& left, const Value& right);

  // parse_variable.cpp
  enum class Place : uint8_t { module, body, formal };
  bool variables(Space space, Linkage linkage, Place place, std::vector<Variable>& out);
  bool variable_qualifiers(Variable& variable, Place place);
  bool declarator(Variable& variable, Place place, Token& token, bool& range);
  bool attribute(Variable* variable);
  bool initializer(Variable& variable);
  bool initializer_braces(Variable& variable, const std::vector<uint64_t>& shape, size_t dimension,
                          uint64_t& padding_budget);
  bool initializer_element(Variable& variable);
  bool initializer_symbol(Initializer::Element& element);
  bool reference_fields();
  bool formals(std::vector<Variable>& out);

  // parse_function.cpp
  bool function(bool is_entry, Linkage linkage);
  bool function_directives(Function& function);
  bool three(uint32_t (&values)[3]);
  bool body();
  bool statement();
  bool body_directive();
  bool label(const Token& name_token);
  bool target_list(const Token& name_token, bool calls);
  bool prototype(const Token& name_token);
  bool close_scope();

  // parse_instruction.cpp
  bool instruction(const Token& opcode, std::string guard, bool negated);
  bool guard(std::string& name, bool& negated);
  bool operand(Operand& out, int depth);
  bool operand_word(Operand& out);
  bool operand_number(Operand& out);
  bool component(Operand& out);
  bool offset(Operand& out);
  bool vector_or_list(Operand& out, char close, int depth);
  bool address(Operand& out, int depth);
  bool special_register(const Token& word, Operand& out);

  // A name that is no declared register or local when it is met: a label of this or an outer scope, or a
  // module symbol.
  struct Pending {
    Token token;
    enum class Use : uint8_t { operand, nested, branch_target } use;
    uint32_t first = 0, second = 0;  // instruction and operand, or entry of branch_targets and its label
  };

  Lexer lexer_;
  Token token_;
  Module& module_;
  Diagnostic& diagnostic_;
  bool failed_ = false;

  Function* function_ = nullptr;
  Scopes scopes_;
  std::vector<size_t> pending_marks_;  // per open scope: where its uses begin in pending_
  std::vector<Pending> pending_;
  bool nested_operand_ = false;    // the operand being parsed is inside another one
  std::vector<Token> references_;  // names to be found among the module's symbols at the end
  struct Symbol {
    uint8_t state = 0;           // 1 declared, 2 defined
    uint32_t element_bytes = 0;  // of variables
  };
  std::unordered_map<std::string_view, Symbol>
      symbols_;  // module variables and functions; views into the text
};

}  // namespace shunt::ptx
