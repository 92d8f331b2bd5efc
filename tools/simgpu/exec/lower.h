// From the PTX tree to lowered instructions over virtual registers, one function at a time. Used only while
// building.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/exec/linker.h"
#include "tools/simgpu/exec/program.h"

namespace simgpu::exec {

using shunt::ptx::Instruction;
using shunt::ptx::Operand;
using shunt::ptx::Space;
using shunt::ptx::Type;

enum class RegClass : uint8_t { r32, r64, pred };

struct LOp {
  enum class Kind : uint8_t {
    none,
    vreg,
    slot /* absolute slot */,
    out /* outgoing word: id */
  } kind = Kind::none;
  bool def = false, use = false;
  uint32_t id = 0;
  explicit operator bool() const { return kind != Kind::none; }
};

enum class Flow : uint8_t {
  none,
  branch,
  jump,
  table,
  leave /* ret exit trap: no successor in this function */
};

struct LInst {
  HandlerPair handler;
  LOp dst, a, b, c, d;
  std::vector<LOp> extra;
  uint64_t imm = 0;
  const void* aux = nullptr;
  Flow flow = Flow::none;
  std::vector<uint32_t> targets;  // label ids
  bool early = false;             // writes before it has read everything: no operand sharing
  bool dead_end = false;          // leave, but not by returning
  OpClass cls = OpClass::other;
  uint32_t flops = 0;  // tensor operations per thread
  bool atomic = false;
  uint32_t line = 0;
  bool counted = false;  // first of its PTX instruction
};

// A module-level or function-level name that an operand can mean.
struct Symbol {
  enum class Kind : uint8_t { global, shared, local, entry_param, func_param, function } kind;
  uint32_t index = 0;   // global or function
  uint64_t offset = 0;  // shared, local, entry parameter
  uint64_t size = 0;
  bool dynamic_shared = false;
  std::vector<uint32_t> words;  // func_param: virtual registers
};

struct Linker;  // link.cpp: everything the modules share

class Lowering {
 public:
  Lowering(Linker& linker, const shunt::ptx::Module& module, const shunt::ptx::Function& source,
           Function& out);
  bool run();  // false: error() says why
  const std::string& error() const { return error_; }

  // For the lower_* functions
  // -----------------------------------------------------------------------------------------
  bool fail(const std::string& why);  // remembers the first reason; returns false
  LInst* emit(const std::string& handler, LOp dst = {}, LOp a = {}, LOp b = {}, LOp c = {}, LOp d = {},
              uint64_t imm = 0);
  LOp temp(RegClass);
  LOp sink(RegClass cls) { return temp(cls); }
  LOp constant32(uint32_t v);
  LOp constant64(uint64_t v);
  LOp src(const Operand&, Type);      // value of that type; immediates are materialised
  LOp src_any(const Operand&, Type);  // like src, register may be wider than the type
  LOp dst(const Operand&, Type);
  LOp dst_any(const Operand&, RegClass fallback);
  LOp pred(const Operand&);  // predicate register as source (negation not applied)
  LOp pred_dst(const Operand&);
  bool is_wide(const LOp&) const;  // 64-bit row
  RegClass class_of(const LOp&) const;
  uint32_t width_of(const Operand&) const;  // declared bits of a register operand, else 0
  bool address(const Operand&, Space space, LOp& row, uint64_t& offset, bool& wide);
  bool resolver(LInst*, Space space, bool wide);  // sets aux
  LOp as64(LOp op);                               // zero-extends a 32-bit row
  uint32_t label(const std::string& name);        // label id
  uint32_t new_label();
  void place(uint32_t label);
  const Symbol* symbol(const std::string& name);
  bool lower_call(const Instruction&);
  LOp word(const Symbol&, uint64_t byte);          // func_param word containing the byte
  LOp carry();                                     // the CC.CF predicate
  LOp sreg(const std::string& name, bool want64);  // row of a special register or empty

  Linker& linker;
  const shunt::ptx::Module& module;
  const shunt::ptx::Function& source;
  Function& function;
  const Instruction* current = nullptr;
  std::vector<LInst> code;
  std::vector<uint32_t> label_at;  // label id -> index in code
  std::vector<RegClass> vregs;
  std::vector<bool> is_temp;
  std::unordered_map<std::string, std::pair<uint32_t, uint32_t>> registers;  // name -> vreg, bits
  std::unordered_map<std::string, Symbol> symbols;
  std::unordered_map<std::string, uint32_t> label_ids;
  std::vector<LOp> formal_words, return_words;
  uint32_t max_out = 0;
  uint64_t local_bytes = 0;
  bool order_dependent = false, uses_grid_sync = false;

  bool finish(ProgramImpl& program);  // blocks, post-dominators, registers, emission (compile_emit.cpp)

 private:
  bool declare();
  bool lower(const Instruction&);
  bool find_register(const std::string& name, uint32_t& vreg, uint32_t& bits);
  std::string error_;
  uint32_t carry_ = ~0u;
  std::vector<std::pair<std::string, std::pair<uint32_t, uint32_t>>> ranges_;  // "%r" -> first vreg, count
  std::unordered_map<std::string, std::tuple<uint32_t, uint32_t, uint32_t>>
      prefix_;  // prefix -> first vreg, count, bits
};

using LowerFn = bool (*)(Lowering&, const Instruction&);
// opcodes.def gives every opcode its lowering function.
LowerFn find_lowering(const std::string& opcode);

struct Linker {
  explicit Linker(ProgramImpl& p) : program(p) {}
  ProgramImpl& program;
  Fixups fixups;
  std::string error;
  std::unordered_map<std::string, Symbol> globals;  // external and module-unique names
  std::map<std::pair<const shunt::ptx::Module*, std::string>, Symbol> statics;  // internal linkage
  std::unordered_map<uint32_t, uint32_t> constants32;
  std::unordered_map<uint64_t, uint32_t> constants64;
  std::vector<uint8_t> constant_bytes;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> symbol_rows;  // (global, addend) -> row number
  std::map<std::pair<const shunt::ptx::Function*, std::string>, uint64_t> shared_offsets;  // per kernel
  uint32_t constant32(uint32_t v);
  uint32_t constant64(uint64_t v);
  uint32_t symbol_row(uint32_t global, int64_t addend);
  const Symbol* find(const shunt::ptx::Module& m, const std::string& name);
};

}  // namespace simgpu::exec
