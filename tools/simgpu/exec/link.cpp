// Program::build: symbols of all modules, layout of shared memory, lowering of every function, final
// addresses.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tools/simgpu/exec/builtins.h"
#include "tools/simgpu/exec/lower.h"

namespace simgpu::exec {
namespace ptx = shunt::ptx;

ProgramImpl::~ProgramImpl() { std::free(constants); }
uint64_t ProgramImpl::next_generation() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

namespace {

struct FunctionSource {
  const ptx::Module* module;
  const ptx::Function* source;
};

void mentioned(const Operand& o, std::set<std::string>& out) {
  if (!o.symbol.empty()) out.insert(o.symbol);
  for (const auto& e : o.elements) mentioned(e, out);
}

uint64_t natural_align(const ptx::Variable& v) {
  if (v.align) return v.align;
  const uint64_t a = ptx::type_bits(v.type) / 8 * std::max<uint64_t>(1, v.vector);
  return a ? a : 8;
}

class Builder {
 public:
  Builder(const std::vector<const ptx::Module*>& modules, std::string& error)
      : modules_(modules), error_(error), program_(std::make_unique<ProgramImpl>()), linker_(*program_) {
    static std::atomic<uint32_t> serial{0};
    program_->serial =
        (serial.fetch_add(1, std::memory_order_relaxed) & 0xffffu) + 1;  // fits the function window
  }

  std::unique_ptr<Program> run() {
    if (!declare_functions() || !declare_variables() || !initialisers() || !layout_shared()) return nullptr;
    for (size_t f = 0; f < sources_.size(); ++f) {
      Function& out = *program_->functions[f];
      if (!sources_[f].source) continue;
      Lowering l(linker_, *sources_[f].module, *sources_[f].source, out);
      lowering_flags_.resize(program_->functions.size());
      if (!l.run() || !l.finish(*program_)) {
        error_ = l.error();
        return nullptr;
      }
      lowering_flags_[f] = {l.order_dependent, l.uses_grid_sync};
    }
    lowering_flags_.resize(program_->functions.size());
    link();
    make_kernels();
    return std::move(program_);
  }

 private:
  bool fail(const std::string& why) {
    error_ = why;
    return false;
  }

  bool define(const ptx::Module& m, ptx::Linkage linkage, const std::string& name, const Symbol& s) {
    if (linkage == ptx::Linkage::internal) {
      linker_.statics[{&m, name}] = s;
      return true;
    }
    linker_.globals[name] = s;
    return true;
  }

  bool declare_functions() {
    std::set<std::string> strong;
    for (const ptx::Module* m : modules_) {
      for (const auto& f : m->functions) {
        if (f.is_declaration) continue;
        if (f.linkage != ptx::Linkage::internal) {
          auto it = linker_.globals.find(f.name);
          if (it != linker_.globals.end()) {
            if (f.linkage == ptx::Linkage::weak) continue;
            if (strong.count(f.name)) return fail("function '" + f.name + "' is defined twice");
            sources_[it->second.index] = {m, &f};
            strong.insert(f.name);
            continue;
          }
          if (f.linkage != ptx::Linkage::weak) strong.insert(f.name);
        }
        auto out = std::make_unique<Function>();
        out->name = f.name;
        out->entry = f.is_entry;
        out->index = static_cast<uint32_t>(program_->functions.size());
        define(*m, f.linkage, f.name, {Symbol::Kind::function, out->index, 0, 0, false, {}});
        program_->functions.push_back(std::move(out));
        sources_.push_back({m, &f});
      }
    }
    // Declarations without a body: device runtime functions.
    for (const ptx::Module* m : modules_) {
      for (const auto& f : m->functions) {
        if (!f.is_declaration || linker_.find(*m, f.name)) continue;
        Fn builtin = find_builtin(f.name);
        if (!builtin) {
          missing_.insert(f.name);
          continue;
        }
        auto out = std::make_unique<Function>();
        out->name = f.name;
        out->builtin = builtin;
        out->index = static_cast<uint32_t>(program_->functions.size());
        linker_.globals[f.name] = {Symbol::Kind::function, out->index, 0, 0, false, {}};
        program_->functions.push_back(std::move(out));
        sources_.push_back({m, nullptr});
      }
    }
    for (const ptx::Module* m : modules_)
      for (const auto& [alias, target] : m->aliases) {
        const Symbol* s = linker_.find(*m, target);
        if (!s) return fail("alias '" + alias + "' of undefined '" + target + "'");
        linker_.globals[alias] = *s;
      }
    return true;
  }

  void add_global(const ptx::Module& m, const ptx::Variable& v, const std::string& key,
                  ptx::Linkage linkage) {
    GlobalVariable g;
    g.name = key;
    g.constant = v.space == Space::constant;
    g.visible = linkage != ptx::Linkage::internal;
    g.managed = v.managed;
    g.align = static_cast<uint32_t>(natural_align(v));
    g.size = v.size_bytes();
    if (g.size == 0 && !v.init.elements.empty())
      g.size = v.init.elements.size() * (ptx::type_bits(v.type) / 8);
    const Symbol s{
        Symbol::Kind::global, static_cast<uint32_t>(program_->global_variables.size()), 0, g.size, false, {}};
    define(m, linkage, key, s);
    program_->global_variables.push_back(std::move(g));
    global_sources_.push_back({&m, &v});
  }

  bool declare_variables() {
    for (const ptx::Module* m : modules_) {
      const auto declare = [&](const ptx::Variable& v, const std::string& key, ptx::Linkage linkage) {
        if (v.space == Space::global || v.space == Space::constant) {
          if (linkage == ptx::Linkage::external) return true;  // defined elsewhere, or reported at use
          if (linkage != ptx::Linkage::internal) {
            auto it = linker_.globals.find(key);
            if (it != linker_.globals.end()) {
              if (linkage == ptx::Linkage::weak || linkage == ptx::Linkage::common) return true;
              if (v.init.elements.empty()) return true;
              global_sources_[it->second.index] = {m, &v};
              return true;
            }
          }
          add_global(*m, v, key, linkage);
        } else if (v.space == Space::shared) {
          Symbol s{Symbol::Kind::shared, 0, 0, v.size_bytes(), v.size_bytes() == 0, {}};
          const ptx::Linkage l =
              linkage == ptx::Linkage::external && s.dynamic_shared ? ptx::Linkage::internal : linkage;
          define(*m, l, key, s);
          shared_variables_.push_back({m, key, &v});
        } else if (v.space == Space::tex || v.type == Type::texref || v.type == Type::samplerref ||
                   v.type == Type::surfref) {
          return fail("texture reference '" + v.name + "' is not supported (texture objects are)");
        }
        return true;
      };
      for (const auto& v : m->variables)
        if (!declare(v, v.name, v.linkage)) return false;
      for (const auto& f : m->functions)
        for (const auto& v : f.locals)
          if (v.space == Space::global || v.space == Space::constant || v.space == Space::shared)
            if (!declare(v, f.name + "::" + v.name, ptx::Linkage::internal)) return false;
    }
    return true;
  }

  bool initialisers() {
    for (size_t k = 0; k < global_sources_.size(); ++k) {
      const auto& [m, v] = global_sources_[k];
      GlobalVariable& g = program_->global_variables[k];
      if (v->init.elements.empty()) continue;
      const uint32_t bytes = ptx::type_bits(v->type) / 8;
      g.init.assign(g.size, 0);
      uint64_t at = 0;
      for (const auto& e : v->init.elements) {
        if (at + bytes > g.size) break;
        if (e.kind == ptx::Initializer::Element::Kind::bits) {
          std::memcpy(&g.init[at], &e.bits, std::min<size_t>(bytes, 8));
        } else if (e.kind == ptx::Initializer::Element::Kind::symbol) {
          const Symbol* s = linker_.find(*m, e.symbol);
          if (!s) return fail("initialiser of '" + g.name + "' names undefined '" + e.symbol + "'");
          GlobalVariable::Reloc r{};
          r.offset = at;
          r.addend = e.addend;
          r.bytes = static_cast<uint8_t>(bytes);
          if (s->kind == Symbol::Kind::function) {
            r.is_function = true;
            r.function = s->index;
          } else if (s->kind == Symbol::Kind::global)
            r.global = s->index;
          else
            return fail("initialiser of '" + g.name + "' names '" + e.symbol + "', which has no address");
          g.relocs.push_back(r);
        } else {
          return fail("mask() in the initialiser of '" + g.name + "' is not supported");
        }
        at += bytes;
      }
    }
    return true;
  }

  // Shared variables of one kernel start at 0; those that device functions use have one place for all
  // kernels.
  bool layout_shared() {
    const size_t n = sources_.size();
    std::vector<std::set<std::string>> names(n);
    reach_.assign(n, {});
    for (size_t f = 0; f < n; ++f) {
      if (!sources_[f].source) continue;
      for (const auto& i : sources_[f].source->body) {
        for (const auto& o : i.operands) mentioned(o, names[f]);
        if (i.opcode == "call")
          for (const auto& o : i.operands)
            if (o.kind == Operand::Kind::reg) indirect_.insert(f);
      }
      for (const auto& name : names[f]) {
        const Symbol* s = linker_.find(*sources_[f].module, name);
        if (s && s->kind == Symbol::Kind::function) reach_[f].insert(s->index);
      }
    }
    uint64_t common_end = 0;
    std::set<std::pair<const ptx::Module*, std::string>> common;
    std::set<size_t> users;  // device functions that use common shared memory
    const auto uses = [&](size_t f, const SharedVariable& v) {
      if (v.module != sources_[f].module) {
        if (v.variable->linkage == ptx::Linkage::internal) return false;
      }
      const std::string prefix = sources_[f].source->name + "::";
      if (v.key.rfind(prefix, 0) == 0) return v.module == sources_[f].module;
      return v.key.find("::") == std::string::npos && names[f].count(v.key) != 0;
    };
    for (const auto& v : shared_variables_) {
      if (v.variable->size_bytes() == 0) continue;
      for (size_t f = 0; f < n; ++f) {
        if (!sources_[f].source || sources_[f].source->is_entry || !uses(f, v)) continue;
        users.insert(f);
        if (!common.insert({v.module, v.key}).second) continue;
        const uint64_t a = natural_align(*v.variable);
        common_end = (common_end + a - 1) / a * a;
        Symbol* s = const_cast<Symbol*>(linker_.find(*v.module, v.key));
        s->offset = common_end;
        common_end += v.variable->size_bytes();
      }
    }
    static_shared_.assign(n, 0);
    for (size_t f = 0; f < n; ++f) {
      if (!sources_[f].source || !sources_[f].source->is_entry) continue;
      uint64_t at = 0;
      for (size_t g : closure(f))
        if (users.count(g)) at = common_end;
      if (indirect_.count(f)) at = common_end;
      for (const auto& v : shared_variables_) {
        if (v.variable->size_bytes() == 0 || !uses(f, v)) continue;
        if (common.count({v.module, v.key})) {
          at = std::max(at, common_end);
          continue;
        }
        const uint64_t a = natural_align(*v.variable);
        at = (at + a - 1) / a * a;
        if (v.key.find("::") != std::string::npos)
          const_cast<Symbol*>(linker_.find(*v.module, v.key))->offset = at;
        else
          linker_.shared_offsets[{sources_[f].source, v.key}] = at;
        at += v.variable->size_bytes();
      }
      static_shared_[f] = at;
    }
    return true;
  }

  std::set<size_t> closure(size_t f) {
    std::set<size_t> seen;
    std::vector<size_t> stack = {f};
    while (!stack.empty()) {
      const size_t g = stack.back();
      stack.pop_back();
      if (!seen.insert(g).second) continue;
      for (uint32_t h : reach_[g]) stack.push_back(h);
      // A pointer may reach any function whose address some function takes.
      if (indirect_.count(g))
        for (size_t k = 0; k < program_->functions.size(); ++k)
          if (!program_->functions[k]->entry) stack.push_back(k);
    }
    return seen;
  }

  void link() {
    Inst* base = program_->insts.data();
    for (const auto& j : linker_.fixups.jumps) {
      if (j.meeting)
        base[j.inst].imm = reinterpret_cast<uint64_t>(base + j.target);
      else
        base[j.inst].aux = base + j.target;
    }
    for (const auto& t : linker_.fixups.tables) {
      auto table = std::make_unique<const Inst*[]>(t.targets.size());
      for (size_t k = 0; k < t.targets.size(); ++k) table[k] = base + t.targets[k];
      base[t.inst].aux = table.get();
      base[t.inst].d = static_cast<uint32_t>(t.targets.size());
      program_->branch_tables.push_back(std::move(table));
    }
    for (const auto& [f, i] : linker_.fixups.starts) program_->functions[f]->start = base + i;
    program_->constants_bytes = linker_.constant_bytes.size();
    program_->constants =
        static_cast<uint8_t*>(std::aligned_alloc(256, (program_->constants_bytes + 511) & ~255ull));
    std::memcpy(program_->constants, linker_.constant_bytes.data(), program_->constants_bytes);
  }

  struct Need {
    uint64_t rows32 = 0, rows64 = 0, preds = 0, local = 0;
    bool open = false;
  };
  // Deepest stack below f; `open` when recursion or pointers make it unknown.
  Need need(size_t f, std::vector<uint8_t>& state, std::vector<Need>& known) {
    if (state[f] == 2) return known[f];
    const Function& fn = *program_->functions[f];
    Need r;
    if (state[f] == 1) {
      r.open = true;
      return r;
    }
    state[f] = 1;
    r.open = fn.calls_indirectly || fn.uses_alloca;
    for (uint32_t c : fn.callees) {
      const Need k = need(c, state, known);
      r.rows32 = std::max(r.rows32, k.rows32);
      r.rows64 = std::max(r.rows64, k.rows64);
      r.preds = std::max(r.preds, k.preds);
      r.local = std::max(r.local, k.local);
      r.open = r.open || k.open;
    }
    r.rows32 += fn.frame32;
    r.rows64 += fn.frame64;
    r.preds += fn.framep;
    r.local += fn.local_bytes;
    r.rows32 = std::max<uint64_t>(r.rows32, fn.frame32 + fn.out_words * 128);
    state[f] = 2;
    return known[f] = r;
  }

  // An estimate from the rows in use. Like the assembler it keeps within the launch bounds; without bounds
  // within what lets the largest block start, since an estimate must not refuse a launch that hardware takes.
  static uint32_t registers(const ptx::Function& src, const Function& fn) {
    uint64_t threads = 1;
    for (int d = 0; d < 3; ++d)
      threads *= src.reqntid[d] ? src.reqntid[d] : src.maxntid[d] ? src.maxntid[d] : 1;
    const bool bounded = src.reqntid[0] || src.maxntid[0];
    threads = bounded ? (threads + 31) / 32 * 32 : 1024;
    if (src.minnctapersm && threads * src.minnctapersm <= 2048) threads *= src.minnctapersm;
    uint32_t limit =
        static_cast<uint32_t>(std::min<uint64_t>(255, std::max<uint64_t>(16, 65536 / threads / 8 * 8)));
    if (src.maxnreg) limit = std::min(limit, src.maxnreg);
    return std::min(limit, std::max(16u, fn.frame32 / 128 + 2 * (fn.frame64 / 256)));
  }

  void make_kernels() {
    std::vector<uint8_t> state(program_->functions.size(), 0);
    std::vector<Need> known(program_->functions.size());
    for (size_t f = 0; f < sources_.size(); ++f) {
      if (!sources_[f].source || !sources_[f].source->is_entry) continue;
      const ptx::Function& src = *sources_[f].source;
      const Function& fn = *program_->functions[f];
      KernelInfo k;
      k.name = src.name;
      uint64_t off = 0;
      for (const auto& p : src.params) {
        const uint64_t size = p.size_bytes() ? p.size_bytes() : 8;
        uint64_t align = p.align ? p.align : ptx::type_bits(p.type) / 8;
        if (align == 0) align = 8;
        off = (off + align - 1) / align * align;
        k.params.push_back(
            {static_cast<uint32_t>(off), static_cast<uint32_t>(size), static_cast<uint32_t>(align)});
        off += size;
      }
      k.param_bytes = static_cast<uint32_t>(off);
      k.static_shared = static_cast<uint32_t>(static_shared_[f]);
      k.local_bytes = static_cast<uint32_t>(fn.local_bytes);
      k.registers = registers(src, fn);
      std::memcpy(k.maxntid, src.maxntid, sizeof(k.maxntid));
      std::memcpy(k.reqntid, src.reqntid, sizeof(k.reqntid));
      std::memcpy(k.cluster, src.reqnctapercluster, sizeof(k.cluster));
      k.minnctapersm = src.minnctapersm;
      KernelCode code;
      code.function = &fn;
      code.dynamic_shared_base = static_cast<uint32_t>((static_shared_[f] + 15) / 16 * 16);
      code.inst_begin = fn.inst_begin;
      code.inst_end = fn.inst_end;
      code.block_begin = fn.block_begin;
      code.block_end = fn.block_end;
      for (size_t g : closure(f)) {
        const Function& reached = *program_->functions[g];
        if (reached.defined) {
          code.inst_begin = std::min(code.inst_begin, reached.inst_begin);
          code.inst_end = std::max(code.inst_end, reached.inst_end);
          code.block_begin = std::min(code.block_begin, reached.block_begin);
          code.block_end = std::max(code.block_end, reached.block_end);
        }
        k.order_dependent = k.order_dependent || lowering_flags_[g].order_dependent;
        k.uses_grid_sync = k.uses_grid_sync || lowering_flags_[g].uses_grid_sync;
        code.serial = code.serial || program_->functions[g]->builtin != nullptr;
      }
      const Need r = need(f, state, known);
      code.rows32 = r.rows32 + (r.open ? 64 * 128 : 0);
      code.rows64 = r.rows64 + (r.open ? 32 * 256 : 0);
      code.preds = r.preds + 64;
      code.local_bytes = r.local;
      code.open_stack = r.open;
      program_->kernel_index[k.name] = static_cast<int>(program_->kernel_infos.size());
      program_->kernel_infos.push_back(std::move(k));
      program_->kernel_codes.push_back(code);
    }
  }

  struct SharedVariable {
    const ptx::Module* module;
    std::string key;
    const ptx::Variable* variable;
  };
  struct Flags {
    bool order_dependent = false, uses_grid_sync = false;
  };
  const std::vector<const ptx::Module*>& modules_;
  std::string& error_;
  std::unique_ptr<ProgramImpl> program_;
  Linker linker_;
  std::vector<FunctionSource> sources_;  // parallel to program functions
  std::vector<std::pair<const ptx::Module*, const ptx::Variable*>> global_sources_;
  std::vector<SharedVariable> shared_variables_;
  std::vector<std::set<uint32_t>> reach_;
  std::set<size_t> indirect_;
  std::vector<uint64_t> static_shared_;
  std::vector<Flags> lowering_flags_;
  std::set<std::string> missing_;
};

}  // namespace

std::unique_ptr<Program> Program::build(const std::vector<const ptx::Module*>& modules, std::string& error) {
  error.clear();
  for (const ptx::Module* m : modules)
    if (!m) {
      error = "null module";
      return nullptr;
    }
  Builder b(modules, error);
  return b.run();
}

}  // namespace simgpu::exec
