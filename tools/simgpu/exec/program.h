// The compiled form of linked modules. Immutable once built; shared by all executions and threads.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/exec/core.h"

namespace simgpu::exec {

// What a thread-instruction counts as in Stats.
enum class OpClass : uint8_t {
  other,
  fp64,
  fp32,
  fp16,
  integer,
  special,
  tensor_fp16,
  tensor_bf16,
  tensor_tf32,
  tensor_fp64,
  tensor_int8,
  tensor_fp8,
  count
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  uint32_t index = 0;  // in ProgramImpl::functions
  const Inst* start = nullptr;
  uint32_t frame32 = 0, frame64 = 0, framep = 0;  // bytes, bytes, words
  uint32_t out_words = 0;                         // words of outgoing arguments and results, beyond frame32
  uint32_t param_words = 0, return_words = 0;
  uint64_t local_bytes = 0;  // own frame of local memory
  uint32_t inst_begin = 0, inst_end = 0, block_begin = 0,
           block_end = 0;  // ranges in ProgramImpl::insts, blocks
  bool uses_alloca = false;
  Fn builtin = nullptr;           // vprintf, malloc, ...: arguments lie in the caller's out words
  std::vector<uint32_t> callees;  // for stack depth and shared memory
  bool calls_indirectly = false;
};

struct CallSite {
  const Function* callee = nullptr;
  uint32_t arg_words = 0, return_words = 0;
  bool noreturn = false;
};

struct BlockInfo {
  std::array<uint16_t, static_cast<size_t>(OpClass::count)> ops{};
  std::array<uint32_t, 6> tensor_flops{};
  uint32_t instructions = 0, atomics = 0;
};

struct SymbolRow {
  uint32_t global;
  int64_t addend;
};

struct KernelCode {
  const Function* function = nullptr;
  // What this kernel can reach: launches keep counters and caches for these only.
  uint32_t inst_begin = 0, inst_end = 0, block_begin = 0, block_end = 0;
  uint32_t dynamic_shared_base = 0;            // first byte of extern shared arrays
  uint64_t rows32 = 0, rows64 = 0, preds = 0;  // stack needed without recursion
  uint64_t local_bytes = 0;                    // per thread, without recursion
  bool serial = false;      // prints or allocates: one worker, so that the order is repeatable
  bool open_stack = false;  // recursion, pointers or alloca: depth known at run time only
};

class ProgramImpl final : public Program {
 public:
  const std::vector<KernelInfo>& kernels() const override { return kernel_infos; }
  const std::vector<GlobalVariable>& globals() const override { return global_variables; }
  int find_kernel(const std::string& name) const override {
    auto it = kernel_index.find(name);
    return it == kernel_index.end() ? -1 : it->second;
  }
  uint64_t function_address(uint32_t function) const override {
    return kFunctionWindow + (static_cast<uint64_t>(serial) << 24) +
           (static_cast<uint64_t>(function + 1) << 4);
  }
  const Function* function_at(uint64_t address) const {
    const uint64_t off = address - function_address(0);
    if (off % 16 != 0 || off / 16 >= functions.size()) return nullptr;
    return functions[off / 16].get();
  }
  uint32_t line_of(uint32_t inst) const { return inst < lines.size() ? lines[inst] : 0; }

  uint32_t serial = 0;
  const uint64_t generation = next_generation();  // never used again, unlike an address
  std::vector<Inst> insts;
  std::vector<uint32_t> lines;
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<std::unique_ptr<CallSite>> call_sites;
  std::vector<std::unique_ptr<uint32_t[]>> extras;
  std::vector<std::unique_ptr<const Inst*[]>> branch_tables;
  std::vector<std::shared_ptr<const void>> attachments;  // what Inst::aux of rarer instructions points to
  std::vector<BlockInfo> blocks;
  uint8_t* constants = nullptr;  // splat rows, 256-aligned
  uint64_t constants_bytes = 0;
  std::vector<SymbolRow> symbol_rows;
  std::vector<KernelInfo> kernel_infos;
  std::vector<KernelCode> kernel_codes;
  std::vector<GlobalVariable> global_variables;
  std::unordered_map<std::string, int> kernel_index;
  ~ProgramImpl() override;

 private:
  static uint64_t next_generation();
};

}  // namespace simgpu::exec
