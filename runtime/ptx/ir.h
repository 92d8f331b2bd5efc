// PTX as parsed: a typed syntax tree without semantics. Shared by simgpu (which executes it) and by the
// access analysis of the overlap engine. Plain data, owned by the Module; immutable after parse(), so any
// thread may read it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shunt::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e2m3x2,
  e3m2x2,
  e2m1x2,
  ue8m0x2,
  u16x2,
  s16x2,
  u8x4,
  s8x4,
  b4x16,
  f32x2,
  s4,
  u4,
  b1,
  texref,
  samplerref,
  surfref,
  e3m2,
  e2m3,
  e2m1,
  ue8m0,
  ue4m3,  // scalars that only mma kinds name
};
uint32_t type_bits(Type type);          // 0 for none and opaque references; pred is 1
Type type_from_name(std::string_view);  // "f32" -> Type::f32; Type::none when it is no type
std::string_view type_name(Type);

enum class Space : uint8_t { none, reg, sreg, constant, global, local, param, shared, tex };

enum class Linkage : uint8_t { internal, visible, external, weak, common };

// One operand. `symbol` holds register, variable, function or label names exactly as written (registers keep
// their '%'), except that names declared inside an inner scope `{ }` are renamed name@N (N unique in the
// function), see Function::locals. Rules a consumer can rely on after parse(): every register and special
// register is declared or known, every label is defined in the function, every symbol names a parameter,
// local, module variable or function.
struct Operand {
  enum class Kind : uint8_t {
    none,
    reg,
    sreg /* %tid.x, %laneid, %clock64 ... whole name in symbol */,
    imm_int,
    imm_f32 /* 0f... */,
    imm_f64 /* 0d... and decimal literals: convert to the instruction's type */,
    symbol /* address of it, plus imm */,
    label /* also the names of .branchtargets, .calltargets and .callprototype */,
    address /* [base + offset], base a register or symbol, or an absolute immediate */,
    vector /* {a, b, _, 3} in elements; '_' is Kind::none */,
    tex_address /* [tex, {x, y}], [tex, samp, {..}], [tensor_map, {..}]: elements; an offset of the first is
                   in its imm */
    ,
    pair /* d|p as in setp and shfl: elements[0], elements[1] */,
    list /* parenthesised call arguments or returns: elements */,
  };
  Kind kind = Kind::none;
  bool negated = false;        // !p (predicates) or -r
  bool base_register = false;  // address: `symbol` is a register (which needs no '%'), not a variable
  int32_t component =
      -1;             // r.x / r.b0 selectors of video and vector instructions: index 0..3, and selector below
  char selector = 0;  // 'b' byte, 'h' half, 'x' vector component; 0 none. 'B', 'H': several, component holds
                      // the hex digits (.b3210 -> 0x3210)
  int64_t imm = 0;    // imm_int; offset of address; addend of symbol; bits of imm_f32 (low 32) and imm_f64
  std::string symbol;
  std::vector<Operand> elements;
};

struct Instruction {
  std::string opcode;                  // first word: "ld", "add", "mad", "bra", "cp", "mma"
  std::vector<std::string> modifiers;  // the rest in order, without dots, types included:
                                       // {"global","nc","v4","f32"}; "::" stays inside: "shared::cta"
  std::vector<Type> types;             // those modifiers that name a type, in order
  std::string guard;                   // predicate register, empty if none
  bool guard_negated = false;
  std::vector<Operand> operands;  // destination first, as written
  uint32_t line = 0;              // in the PTX text
  bool has(std::string_view modifier) const;
};

// Flattened element list in declaration order; inner braces are padded to their dimension, the end is not
// (missing: zero). `bits` is already in the variable's type (floats converted, integers truncated to its
// width). Texture, sampler and surface references keep no initializer.
struct Initializer {
  struct Element {
    enum class Kind : uint8_t {
      bits,
      symbol /* address of symbol + addend, generic() if generic */,
      mask /* 0xFF00(symbol+n): the mask in addend, n in bits */
    } kind = Kind::bits;
    uint64_t bits = 0;
    std::string symbol;
    int64_t addend = 0;
    bool generic = false;
  };
  std::vector<Element> elements;
};

struct Variable {  // module-, function- or block-scoped; parameters too
  std::string name;
  Space space = Space::none;
  Type type = Type::none;
  uint8_t vector = 1;  // .v2 .v4
  Linkage linkage = Linkage::internal;
  uint32_t align = 0;  // 0: natural
  std::vector<uint64_t>
      dims;  // array dimensions; a lone 0 is `[]` (extern shared or size from the initializer)
  uint32_t reg_count =
      0;  // `.reg .b32 %r<7>` -> name "%r", reg_count 7: registers %r0..%r6; 0: a single name.
          // In an inner scope the name becomes "%r@N@", so that name + index still holds.
  bool is_ptr = false;
  Space ptr_space = Space::none;
  uint32_t ptr_align = 0;  // .param .u64 .ptr .global .align 16
  bool managed = false;    // .attribute(.managed)
  Initializer init;
  uint32_t line = 0;
  uint64_t size_bytes() const;  // whole variable, 0 for `[]`
};

struct Label {
  std::string name;
  uint32_t index;
};  // index of the next instruction

struct BranchTargets {
  std::string name;
  std::vector<std::string> labels;
};  // .branchtargets, for brx.idx
struct CallPrototype {
  std::string name;
  std::vector<Variable> returns, params;
  bool noreturn = false;
};

struct Function {
  std::string name;
  bool is_entry = false, is_declaration = false, noreturn = false;
  Linkage linkage = Linkage::internal;
  std::vector<Variable> returns, params;
  std::vector<Variable> locals;  // .reg .local .shared .param .const inside the body; inner scopes `{ }`
                                 // renamed apart as name@scope
  std::vector<Instruction> body;
  std::vector<Label> labels;
  std::vector<BranchTargets> branch_targets;
  std::vector<BranchTargets> call_targets;  // .calltargets: names of functions an indirect call may reach
  std::vector<CallPrototype> prototypes;
  uint32_t maxntid[3] = {0, 0, 0}, reqntid[3] = {0, 0, 0}, reqnctapercluster[3] = {0, 0, 0};
  uint32_t minnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
  bool explicitcluster = false, blocks_are_clusters = false;
  uint32_t line = 0;
};

struct Module {
  uint32_t version_major = 0, version_minor = 0;
  std::string target;  // "sm_90", "sm_100a"
  std::vector<std::string> target_options;
  uint32_t address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<std::pair<std::string, std::string>> aliases;  // .alias a, b
};

struct Diagnostic {
  uint32_t line = 0, column = 0;
  std::string message;
};  // empty message: no error

// Never throws, never crashes on any bytes. On error returns null and fills `diagnostic` (what, where, what
// was expected).
std::unique_ptr<Module> parse(std::string_view text, Diagnostic& diagnostic);

}  // namespace shunt::ptx
