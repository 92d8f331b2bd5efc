// Lowering: declarations, operands, guards.
#include "tools/simgpu/exec/lower.h"

#include <cstring>

namespace simgpu::exec {
namespace ptx = shunt::ptx;

uint32_t Linker::constant32(uint32_t v) {
  auto [it, fresh] = constants32.try_emplace(v, 0);
  if (fresh) {
    it->second = static_cast<uint32_t>(constant_bytes.size());
    constant_bytes.resize(constant_bytes.size() + 128);
    for (uint32_t l = 0; l < kLanes; ++l) std::memcpy(&constant_bytes[it->second + l * 4], &v, 4);
  }
  return it->second;
}
uint32_t Linker::constant64(uint64_t v) {
  auto [it, fresh] = constants64.try_emplace(v, 0);
  if (fresh) {
    it->second = static_cast<uint32_t>(constant_bytes.size());
    constant_bytes.resize(constant_bytes.size() + 256);
    for (uint32_t l = 0; l < kLanes; ++l) std::memcpy(&constant_bytes[it->second + l * 8], &v, 8);
  }
  return it->second;
}
uint32_t Linker::symbol_row(uint32_t global, int64_t addend) {
  auto [it, fresh] =
      symbol_rows.try_emplace({global, addend}, static_cast<uint32_t>(program.symbol_rows.size()));
  if (fresh) program.symbol_rows.push_back({global, addend});
  return it->second;
}
const Symbol* Linker::find(const ptx::Module& m, const std::string& name) {
  auto s = statics.find({&m, name});
  if (s != statics.end()) return &s->second;
  auto g = globals.find(name);
  return g == globals.end() ? nullptr : &g->second;
}

Lowering::Lowering(Linker& l, const ptx::Module& m, const ptx::Function& s, Function& f)
    : linker(l), module(m), source(s), function(f) {}

bool Lowering::fail(const std::string& why) {
  if (error_.empty()) error_ = why;
  return false;
}

static std::string text_of(const Instruction& in) {
  std::string t = in.opcode;
  for (const auto& m : in.modifiers) t += "." + m;
  return t;
}

LInst* Lowering::emit(const std::string& handler, LOp dst, LOp a, LOp b, LOp c, LOp d, uint64_t imm) {
  LInst i;
  if (!find_handler(handler.c_str(), i.handler)) {
    fail("unsupported PTX instruction '" + text_of(*current) + "' (no form '" + handler + "')");
    return nullptr;
  }
  if (dst) dst.def = true;
  for (LOp* o : {&a, &b, &c, &d})
    if (*o && !o->def) o->use = true;
  i.dst = dst;
  i.a = a;
  i.b = b;
  i.c = c;
  i.d = d;
  i.imm = imm;
  i.line = current ? current->line : 0;
  code.push_back(std::move(i));
  return &code.back();
}

static LOp vreg_op(uint32_t id) {
  LOp o;
  o.kind = LOp::Kind::vreg;
  o.id = id;
  return o;
}
static LOp slot_op(Base base, uint32_t offset) {
  LOp o;
  o.kind = LOp::Kind::slot;
  o.id = (static_cast<uint32_t>(base) << kBaseShift) | offset;
  return o;
}

LOp Lowering::temp(RegClass c) {
  vregs.push_back(c);
  is_temp.push_back(true);
  return vreg_op(static_cast<uint32_t>(vregs.size() - 1));
}
LOp Lowering::constant32(uint32_t v) { return slot_op(kConstants, linker.constant32(v)); }
LOp Lowering::constant64(uint64_t v) { return slot_op(kConstants, linker.constant64(v)); }

RegClass Lowering::class_of(const LOp& o) const {
  if (o.kind == LOp::Kind::vreg) return vregs[o.id];
  if (o.kind == LOp::Kind::slot) {
    // Constants know their width by the pool that holds them; launch rows by position.
    const uint32_t base = o.id >> kBaseShift, off = o.id & kOffsetMask;
    if (base == kLaunchRows) return off >= kLaunchRow64Start ? RegClass::r64 : RegClass::r32;
    if (base == kConstants) {
      for (uint32_t l = 1; l < 2; ++l) {
        uint64_t w;
        std::memcpy(&w, &linker.constant_bytes[off], 8);
        auto it = linker.constants64.find(w);
        if (it != linker.constants64.end() && it->second == off) return RegClass::r64;
      }
    }
    return RegClass::r32;
  }
  return RegClass::r32;
}
bool Lowering::is_wide(const LOp& o) const { return class_of(o) == RegClass::r64; }

bool Lowering::find_register(const std::string& name, uint32_t& vreg, uint32_t& bits) {
  auto it = registers.find(name);
  if (it != registers.end()) {
    vreg = it->second.first;
    bits = it->second.second;
    return true;
  }
  for (size_t cut = name.size(); cut > 0 && name[cut - 1] >= '0' && name[cut - 1] <= '9'; --cut) {
    auto p = prefix_.find(name.substr(0, cut - 1));
    if (p == prefix_.end()) continue;
    const std::string digits = name.substr(cut - 1);
    if (digits.size() > 9) continue;
    const auto [first, count, b] = p->second;
    const uint32_t n = static_cast<uint32_t>(std::stoul(digits));
    if (n >= count) continue;
    vreg = b == 128 ? first + 2 * n : first + n;
    bits = b;
    registers.emplace(name, std::pair(vreg, bits));
    return true;
  }
  return false;
}
uint32_t Lowering::width_of(const Operand& o) const {
  if (o.kind != Operand::Kind::reg) return 0;
  uint32_t v, b;
  return const_cast<Lowering*>(this)->find_register(o.symbol, v, b) ? b : 0;
}

static uint64_t immediate_bits(const Operand& o, Type t) {
  const uint32_t bits = ptx::type_bits(t);
  if (o.kind == Operand::Kind::imm_int) {
    if (t == Type::f32) {
      float f = static_cast<float>(o.imm);
      uint32_t b;
      std::memcpy(&b, &f, 4);
      return b;
    }
    if (t == Type::f64) {
      double f = static_cast<double>(o.imm);
      uint64_t b;
      std::memcpy(&b, &f, 8);
      return b;
    }
    const uint64_t v = static_cast<uint64_t>(o.imm);
    if (bits == 16) return v & 0xffff;
    if (bits == 8) return v & 0xff;
    if (bits <= 32) return v & 0xffffffffu;
    return v;
  }
  if (o.kind == Operand::Kind::imm_f32) {
    const uint32_t b = static_cast<uint32_t>(o.imm);
    if (t != Type::f64) return b;
    float f;
    std::memcpy(&f, &b, 4);
    const double d = static_cast<double>(f);
    uint64_t r;
    std::memcpy(&r, &d, 8);
    return r;
  }
  const uint64_t b = static_cast<uint64_t>(o.imm);
  if (bits == 64) return b;
  double d;
  std::memcpy(&d, &b, 8);
  const float f = static_cast<float>(d);
  uint32_t r;
  std::memcpy(&r, &f, 4);
  return r;
}

LOp Lowering::src_any(const Operand& o, Type t) {
  const bool wide = ptx::type_bits(t) == 64;
  switch (o.kind) {
    case Operand::Kind::reg: {
      uint32_t v, b;
      if (!find_register(o.symbol, v, b)) {
        fail("unknown register '" + o.symbol + "'");
        return {};
      }
      LOp r = vreg_op(v);
      if (o.component >= 0 && o.selector == 'x') {
        fail("vector component of a register is not supported");
        return {};
      }
      return r;
    }
    case Operand::Kind::sreg: {
      LOp r = sreg(o.symbol, wide);
      if (!r) fail("unsupported special register '" + o.symbol + "'");
      return r;
    }
    case Operand::Kind::imm_int:
    case Operand::Kind::imm_f32:
    case Operand::Kind::imm_f64: {
      uint64_t v = immediate_bits(o, t);
      return wide ? constant64(v) : constant32(static_cast<uint32_t>(v));
    }
    case Operand::Kind::symbol:
    case Operand::Kind::label: {
      LOp row;
      uint64_t off;
      bool w;
      Operand a;
      a.kind = Operand::Kind::address;
      a.elements.push_back(o);
      a.symbol = o.symbol;
      a.imm = 0;
      if (!address(a, Space::none, row, off, w)) return {};
      if (off != 0) {
        LOp sum = temp(w ? RegClass::r64 : RegClass::r32);
        emit(w ? "add.b64" : "add.b32", sum, row,
             w ? constant64(off) : constant32(static_cast<uint32_t>(off)));
        row = sum;
      }
      if (w == wide) return row;
      LOp r = temp(wide ? RegClass::r64 : RegClass::r32);
      emit(wide ? "cvt.u64.u32" : "cvt.u32.u64", r, row);
      return r;
    }
    default:
      fail("operand kind not usable here");
      return {};
  }
}
LOp Lowering::src(const Operand& o, Type t) {
  LOp r = src_any(o, t);
  if (!r) return r;
  const bool wide = ptx::type_bits(t) == 64;
  if (is_wide(r) != wide) {
    if (class_of(r) == RegClass::pred) {
      fail("predicate used as a value");
      return {};
    }
    LOp n = temp(wide ? RegClass::r64 : RegClass::r32);
    emit(wide ? "cvt.u64.u32" : "cvt.u32.u64", n, r);
    r = n;
  }
  return r;
}
LOp Lowering::dst_any(const Operand& o, RegClass fallback) {
  if (o.kind == Operand::Kind::none) return sink(fallback);
  if (o.kind != Operand::Kind::reg) {
    fail("destination is not a register");
    return {};
  }
  uint32_t v, b;
  if (!find_register(o.symbol, v, b)) {
    fail("unknown register '" + o.symbol + "'");
    return {};
  }
  LOp r = vreg_op(v);
  r.def = true;
  return r;
}
LOp Lowering::dst(const Operand& o, Type t) {
  const RegClass want = t == Type::pred           ? RegClass::pred
                        : ptx::type_bits(t) == 64 ? RegClass::r64
                                                  : RegClass::r32;
  LOp r = dst_any(o, want);
  if (r && class_of(r) != want) {
    fail("register '" + o.symbol + "' has the wrong width for this instruction");
    return {};
  }
  return r;
}
LOp Lowering::pred(const Operand& o) {
  if (o.kind != Operand::Kind::reg) {
    if (o.kind == Operand::Kind::imm_int) {
      LOp t = temp(RegClass::pred);
      emit("pred.set", t, {}, {}, {}, {}, o.imm ? kFullMask : 0);
      return t;
    }
    fail("predicate operand expected");
    return {};
  }
  uint32_t v, b;
  if (!find_register(o.symbol, v, b) || vregs[v] != RegClass::pred) {
    fail("'" + o.symbol + "' is not a predicate register");
    return {};
  }
  return vreg_op(v);
}
LOp Lowering::pred_dst(const Operand& o) {
  if (o.kind == Operand::Kind::none) return temp(RegClass::pred);
  LOp r = pred(o);
  r.def = true;
  return r;
}
LOp Lowering::carry() {
  if (carry_ == ~0u) {
    vregs.push_back(RegClass::pred);
    is_temp.push_back(false);
    carry_ = static_cast<uint32_t>(vregs.size() - 1);
  }
  return vreg_op(carry_);
}
LOp Lowering::as64(LOp o) {
  if (!o || is_wide(o)) return o;
  LOp t = temp(RegClass::r64);
  emit("cvt.u64.u32", t, o);
  return t;
}

LOp Lowering::sreg(const std::string& name, bool want64) {
  const auto warp = [](WarpRow r) { return slot_op(kWarpRows, r * 128); };
  const auto block = [](BlockRow r) { return slot_op(kBlockRows, r * 128); };
  const auto launch = [](LaunchRow r) { return slot_op(kLaunchRows, r * 128); };
  const auto per_lane = [&](auto f) {
    // A row of per-lane constants, kept in the constant pool after the splats.
    std::array<uint32_t, kLanes> v;
    for (uint32_t l = 0; l < kLanes; ++l) v[l] = f(l);
    const uint32_t off = static_cast<uint32_t>(linker.constant_bytes.size());
    linker.constant_bytes.resize(off + 128);
    std::memcpy(&linker.constant_bytes[off], v.data(), 128);
    return slot_op(kConstants, off);
  };
  const auto dynamic = [&](uint64_t what, bool wide) {
    LOp t = temp(wide ? RegClass::r64 : RegClass::r32);
    emit(wide ? "special.64" : "special.32", t, {}, {}, {}, {}, what);
    return t;
  };
  static const std::unordered_map<std::string_view, WarpRow> warp_rows = {
      {"%tid.x", kTidX}, {"%tid.y", kTidY}, {"%tid.z", kTidZ}, {"%warpid", kWarpId}};
  static const std::unordered_map<std::string_view, BlockRow> block_rows = {
      {"%ctaid.x", kCtaX},
      {"%ctaid.y", kCtaY},
      {"%ctaid.z", kCtaZ},
      {"%clusterid.x", kClusterIdX},
      {"%clusterid.y", kClusterIdY},
      {"%clusterid.z", kClusterIdZ},
      {"%cluster_ctaid.x", kClusterCtaX},
      {"%cluster_ctaid.y", kClusterCtaY},
      {"%cluster_ctaid.z", kClusterCtaZ},
      {"%cluster_ctarank", kClusterCtaRank},
      {"%smid", kSmId}};
  static const std::unordered_map<std::string_view, LaunchRow> launch_rows = {
      {"%ntid.x", kNtidX},
      {"%ntid.y", kNtidY},
      {"%ntid.z", kNtidZ},
      {"%nctaid.x", kNctaX},
      {"%nctaid.y", kNctaY},
      {"%nctaid.z", kNctaZ},
      {"%nclusterid.x", kNclusterX},
      {"%nclusterid.y", kNclusterY},
      {"%nclusterid.z", kNclusterZ},
      {"%cluster_nctaid.x", kClusterNctaX},
      {"%cluster_nctaid.y", kClusterNctaY},
      {"%cluster_nctaid.z", kClusterNctaZ},
      {"%cluster_nctarank", kClusterNctaRank},
      {"%nwarpid", kNwarpId},
      {"%nsmid", kNsmId},
      {"%dynamic_smem_size", kDynamicSharedSize},
      {"%total_smem_size", kTotalSharedSize},
      {"%aggr_smem_size", kTotalSharedSize},
      {"%is_explicit_cluster", kIsExplicitCluster}};
  if (name == "%envreg1" || name == "%envreg2") {  // cooperative groups find the grid's workspace here
    uses_grid_sync = true;
    return launch(name == "%envreg1" ? kEnvReg1 : kEnvReg2);
  }
  if (name == "%gridid")
    return want64 ? slot_op(kLaunchRows, kLaunchRow64Start + kGridId64 * 256) : launch(kGridIdLo);
  if (name == "%clock64") return dynamic(0, true);
  if (name == "%globaltimer") return dynamic(1, true);
  if (name == "%clock") return dynamic(0, false);
  if (name == "%clock_hi") return dynamic(2, false);
  if (name == "%globaltimer_lo") return dynamic(1, false);
  if (name == "%globaltimer_hi") return dynamic(3, false);
  LOp r;
  if (auto w = warp_rows.find(name); w != warp_rows.end())
    r = warp(w->second);
  else if (auto b = block_rows.find(name); b != block_rows.end())
    r = block(b->second);
  else if (auto l = launch_rows.find(name); l != launch_rows.end())
    r = launch(l->second);
  else if (name == "%laneid")
    r = per_lane([](uint32_t k) { return k; });
  else if (name == "%lanemask_eq")
    r = per_lane([](uint32_t k) { return 1u << k; });
  else if (name == "%lanemask_lt")
    r = per_lane([](uint32_t k) { return (1u << k) - 1; });
  else if (name == "%lanemask_le")
    r = per_lane([](uint32_t k) { return (2u << k) - 1; });
  else if (name == "%lanemask_gt")
    r = per_lane([](uint32_t k) { return ~((2u << k) - 1); });
  else if (name == "%lanemask_ge")
    r = per_lane([](uint32_t k) { return ~((1u << k) - 1); });
  else if (name == "WARP_SZ")
    r = constant32(32);
  else if (name == "%reserved_smem_offset_begin" || name == "%reserved_smem_offset_end" ||
           name == "%reserved_smem_offset_cap" || name.rfind("%envreg", 0) == 0 || name.rfind("%pm", 0) == 0)
    r = constant32(0);
  if (r && want64) return as64(r);
  return r;
}

const Symbol* Lowering::symbol(const std::string& name) {
  auto it = symbols.find(name);
  if (it != symbols.end()) return &it->second;
  return linker.find(module, name);
}

// [base + offset]: the row that holds the base, what to add, and whether the row is 64 bits wide. For
// Space::none the address of a symbol as mov gives it (an offset in the symbol's own window).
bool Lowering::address(const Operand& o, Space space, LOp& row, uint64_t& offset, bool& wide) {
  if (o.kind != Operand::Kind::address) return fail("address operand expected");
  offset = static_cast<uint64_t>(o.imm);
  (void)space;
  if (o.symbol.empty()) {
    row = constant64(0);
    wide = true;
    return true;
  }
  uint32_t v, b;
  if (find_register(o.symbol, v, b)) {
    row = vreg_op(v);
    wide = vregs[v] == RegClass::r64;
    return vregs[v] != RegClass::pred || fail("predicate used as address");
  }
  const Symbol* s = symbol(o.symbol);
  if (!s) return fail("undefined symbol '" + o.symbol + "'");
  switch (s->kind) {
    case Symbol::Kind::global: {
      row = slot_op(kLaunchRows,
                    kLaunchRow64Start + (kLaunchRow64Count + linker.symbol_row(s->index, 0)) * 256);
      wide = true;
      return true;
    }
    case Symbol::Kind::shared:
      if (s->dynamic_shared) {
        row = slot_op(kLaunchRows, kLaunchRow64Start + kDynamicSharedBase64 * 256);
        wide = true;
        return true;
      }
      row = constant64(0);
      wide = true;
      offset += s->offset;
      return true;
    case Symbol::Kind::local: {
      if (function.entry) {
        row = constant64(0);
        wide = true;
        offset += s->offset;
        return true;
      }
      row = temp(RegClass::r64);
      wide = true;
      emit("local.base", row);
      offset += s->offset;
      return true;
    }
    case Symbol::Kind::entry_param:
      row = constant64(0);
      wide = true;
      offset += s->offset;
      return true;
    case Symbol::Kind::function:
      row = constant64(linker.program.function_address(s->index));
      wide = true;
      return true;
    case Symbol::Kind::func_param:
      return fail("the address of parameter '" + o.symbol + "' of a device function is not supported");
  }
  return fail("unusable symbol '" + o.symbol + "'");
}

bool Lowering::resolver(LInst* i, Space space, bool wide) {
  if (!i) return false;
  const char* key = nullptr;
  switch (space) {
    case Space::none:
      key = wide ? "generic.64" : nullptr;
      break;
    case Space::global:
    case Space::constant:
      key = wide ? "global.64" : nullptr;
      break;
    case Space::shared:
      key = wide ? "shared.64" : "shared.32";
      break;
    case Space::local:
      key = wide ? "local.64" : "local.32";
      break;
    case Space::param:
      key = wide ? "param.64" : "param.32";
      break;
    default:
      break;
  }
  const Resolver* r = key ? find_resolver(key) : nullptr;
  if (!r) return fail("unsupported address width or state space in '" + text_of(*current) + "'");
  i->aux = r;
  return true;
}

uint32_t Lowering::new_label() {
  label_at.push_back(~0u);
  return static_cast<uint32_t>(label_at.size() - 1);
}
uint32_t Lowering::label(const std::string& name) {
  auto it = label_ids.find(name);
  if (it != label_ids.end()) return it->second;
  const uint32_t id = new_label();
  label_ids.emplace(name, id);
  return id;
}
void Lowering::place(uint32_t id) { label_at[id] = static_cast<uint32_t>(code.size()); }

LOp Lowering::word(const Symbol& s, uint64_t byte) {
  if (byte / 4 >= s.words.size()) {
    fail("parameter access out of range");
    return {};
  }
  return vreg_op(s.words[byte / 4]);
}

bool Lowering::declare() {
  const auto words_for = [&](const ptx::Variable& v, std::vector<uint32_t>& words) {
    const uint64_t size = v.size_bytes();
    for (uint64_t k = 0; k < (size + 3) / 4; ++k) {
      vregs.push_back(RegClass::r32);
      is_temp.push_back(false);
      words.push_back(static_cast<uint32_t>(vregs.size() - 1));
    }
  };
  if (source.is_entry) {
    uint64_t off = 0;
    for (const auto& p : source.params) {
      const uint64_t size = p.size_bytes();
      uint64_t align = p.align ? p.align : ptx::type_bits(p.type) / 8;
      if (align == 0) align = 8;
      off = (off + align - 1) / align * align;
      Symbol s{Symbol::Kind::entry_param, 0, off, size ? size : 8, false, {}};
      symbols[p.name] = s;
      off += s.size;
    }
  } else {
    for (const auto* list : {&source.params, &source.returns}) {
      for (const auto& p : *list) {
        if (p.space == Space::reg) {
          const uint32_t bits = ptx::type_bits(p.type);
          vregs.push_back(p.type == Type::pred ? RegClass::pred : bits == 64 ? RegClass::r64 : RegClass::r32);
          is_temp.push_back(false);
          return fail("register parameters of device functions are not supported");
        }
        Symbol s{Symbol::Kind::func_param, 0, 0, p.size_bytes(), false, {}};
        words_for(p, s.words);
        for (uint32_t w : s.words)
          (list == &source.params ? formal_words : return_words).push_back(vreg_op(w));
        symbols[p.name] = s;
      }
    }
  }
  for (const auto& v : source.locals) {
    switch (v.space) {
      case Space::reg: {
        const uint32_t bits = ptx::type_bits(v.type);
        const RegClass cls = v.type == Type::pred ? RegClass::pred
                             : bits >= 64         ? RegClass::r64
                                                  : RegClass::r32;
        const uint32_t n = v.reg_count ? v.reg_count : 1, first = static_cast<uint32_t>(vregs.size());
        if (v.vector > 1) return fail("vector registers are not supported ('" + v.name + "')");
        const uint32_t each = bits == 128 ? 2 : 1;
        vregs.insert(vregs.end(), n * each, cls);
        is_temp.insert(is_temp.end(), n * each, false);
        if (v.reg_count)
          prefix_[v.name] = {first, n, bits};
        else
          registers[v.name] = {first, bits};
        break;
      }
      case Space::local: {
        uint64_t align = v.align ? v.align : std::max<uint64_t>(1, ptx::type_bits(v.type) / 8 * v.vector);
        local_bytes = (local_bytes + align - 1) / align * align;
        symbols[v.name] = {Symbol::Kind::local, 0, local_bytes, v.size_bytes(), false, {}};
        local_bytes += v.size_bytes();
        break;
      }
      case Space::param: {
        Symbol s{Symbol::Kind::func_param, 0, 0, v.size_bytes(), false, {}};
        words_for(v, s.words);
        symbols[v.name] = s;
        break;
      }
      case Space::shared:
      case Space::global:
      case Space::constant: {
        const Symbol* s = linker.find(module, source.name + "::" + v.name);
        if (!s) return fail("variable '" + v.name + "' was not laid out");
        symbols[v.name] = *s;
        break;
      }
      default:
        return fail("variable '" + v.name + "' is in an unsupported state space");
    }
  }
  // Module-level shared variables of a kernel have their own offsets in each kernel.
  for (const auto& [key, off] : linker.shared_offsets) {
    if (key.first != &source) continue;
    auto it = symbols.find(key.second);
    const Symbol* base = it != symbols.end() ? &it->second : linker.find(module, key.second);
    if (!base) continue;
    Symbol s = *base;
    s.offset = off;
    symbols[key.second] = s;
  }
  local_bytes = (local_bytes + 15) / 16 * 16;
  return true;
}

// Instructions after which other lanes may run, or that leave: a guard on them is a branch around them.
static bool guard_by_branch(const Instruction& in) {
  static const std::array<std::string_view, 20> names = {
      "bar",      "barrier",  "shfl",       "vote",  "match",     "redux",         "call",
      "ret",      "exit",     "brx",        "elect", "nanosleep", "mma",           "wmma",
      "ldmatrix", "stmatrix", "activemask", "trap",  "brkpt",     "griddepcontrol"};
  for (auto n : names)
    if (in.opcode == n) return true;
  return false;
}

bool Lowering::lower(const Instruction& in) {
  current = &in;
  LowerFn fn = find_lowering(in.opcode);
  if (!fn) return fail("unsupported PTX instruction '" + text_of(in) + "'");
  const size_t begin = code.size();
  uint32_t skip = ~0u;
  if (!in.guard.empty() && in.opcode != "bra") {
    Operand g;
    g.kind = Operand::Kind::reg;
    g.symbol = in.guard;
    LOp p = pred(g);
    if (!p) return false;
    if (guard_by_branch(in)) {
      skip = new_label();
      LInst* b = emit(in.guard_negated ? "bra.p" : "bra.np", {}, p);
      if (!b) return false;
      b->flow = Flow::branch;
      b->targets = {skip};
    } else {
      if (!emit("guard", {}, p)) return false;
    }
  }
  const size_t body = code.size();
  if (!fn(*this, in)) return fail("unsupported PTX instruction '" + text_of(in) + "'");
  if (!error_.empty()) return false;
  if (skip != ~0u) {
    place(skip);
  } else if (body != begin) {
    const size_t n = code.size() - body;
    code[begin].imm = (n << 1) | (in.guard_negated ? 1 : 0);
    if (n == 0) code.pop_back();
    for (size_t k = body; k < code.size(); ++k) {  // a guarded write keeps the old value in other lanes
      LInst& i = code[k];
      if (i.flow != Flow::none) return fail("a guarded '" + text_of(in) + "' is not supported");
      const auto partial = [&](LOp& o) {
        if (o.def && o.kind == LOp::Kind::vreg && !is_temp[o.id]) o.use = true;
      };
      partial(i.dst);
      partial(i.a);
      partial(i.b);
      partial(i.c);
      partial(i.d);
      for (auto& o : i.extra) partial(o);
    }
  }
  if (code.size() > begin) code[begin].counted = true;
  return true;
}

bool Lowering::run() {
  if (!declare()) return false;
  std::vector<std::vector<uint32_t>> labels_at(source.body.size() + 1);
  for (const auto& l : source.labels)
    if (l.index <= source.body.size()) labels_at[l.index].push_back(label(l.name));
  for (size_t k = 0; k <= source.body.size(); ++k) {
    for (uint32_t id : labels_at[k]) place(id);
    if (k == source.body.size()) break;
    if (!lower(source.body[k])) {
      error_ += " at line " + std::to_string(source.body[k].line) + " in '" + source.name + "'";
      return false;
    }
  }
  // Falling off the end is a return.
  static const Instruction end_ret = [] {
    Instruction i;
    i.opcode = "ret";
    return i;
  }();
  if (!lower(end_ret)) return false;
  return true;
}

}  // namespace simgpu::exec
