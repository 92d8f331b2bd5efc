// Textures and surfaces: lowering, and handlers that ask the launch's TextureSource lane by lane.
#include <cstring>

#include "tools/simgpu/exec/execution.h"
#include "tools/simgpu/exec/fragments.h"
#include "tools/simgpu/exec/lower_util.h"
#include "tools/simgpu/exec/opcodes.h"
#include "tools/simgpu/exec/registry.h"

namespace simgpu::exec {
namespace {

template <class T>
T* lanes_of(Ctx* c, uint32_t slot) {
  return reinterpret_cast<T*>(c->base[slot >> kBaseShift] + (slot & kOffsetMask));
}

bool geometry(const Instruction& in, TextureOp& o, uint32_t& coords) {
  static const struct {
    const char* name;
    int dims;
    bool layered;
    uint32_t coords;
  } table[] = {{"1d", 1, false, 1},
               {"2d", 2, false, 2},
               {"3d", 3, false, 3},
               {"a1d", 1, true, 1},
               {"a2d", 2, true, 2}};
  for (const auto& g : table)
    if (in.has(g.name)) {
      o.geometry = g.dims;
      o.layered = g.layered;
      coords = g.coords;
      return true;
    }
  return false;
}
// [handle, {x, y}] : handle row and coordinate rows (layer first when layered).
bool texture_operands(Lowering& l, const Operand& o, Type coord, LOp& handle, std::vector<LOp>& rows) {
  if (o.kind != Operand::Kind::tex_address || o.elements.size() < 2)
    return l.fail("texture operand expected");
  if (o.elements.size() > 2) return l.fail("separate samplers are not supported");
  handle = l.src(o.elements[0], Type::b64);
  const Operand& v = o.elements[1];
  const auto add = [&](const Operand& e) {
    LOp r = l.src_any(e, coord);
    r.use = true;
    rows.push_back(r);
  };
  if (v.kind == Operand::Kind::vector)
    for (const auto& e : v.elements) add(e);
  else
    add(v);
  return l.error().empty();
}

const Inst* sample(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const TextureOp*>(i->aux);
  const TextureSource* source = c->worker->execution->launch.textures;
  const uint64_t* handle = lanes_of<uint64_t>(c, i->a);
  const uint32_t* rest = i->extra + o.n_dst;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    float xyz[4] = {};
    int32_t ixyz[4] = {};
    uint32_t at = 0;
    const uint32_t layer = o.layered ? lanes_of<uint32_t>(c, rest[at++])[l] : 0;
    for (uint32_t k = 0; k < o.coords; ++k, ++at) {
      if (o.float_coords)
        xyz[k] = lanes_of<float>(c, rest[at])[l];
      else
        ixyz[k] = lanes_of<int32_t>(c, rest[at])[l];
    }
    if (o.layered) {
      ixyz[3] = static_cast<int32_t>(layer);
      xyz[3] = static_cast<float>(layer);
    }
    const float lod = o.level ? lanes_of<float>(c, rest[o.coords + (o.layered ? 1 : 0)])[l] : 0.0f;
    uint32_t out[4] = {};
    if (o.gather) {
      // The four texels of the bilinear footprint, one component, counter-clockwise from lower left.
      static const int dx[4] = {0, 1, 1, 0}, dy[4] = {1, 1, 0, 0};
      for (int k = 0; k < 4; ++k) {
        const float at2[4] = {xyz[0] - 0.5f + static_cast<float>(dx[k]),
                              xyz[1] - 0.5f + static_cast<float>(dy[k]), 0, xyz[3]};
        const float centre[4] = {__builtin_floorf(at2[0]) + 0.5f, __builtin_floorf(at2[1]) + 0.5f, 0, at2[3]};
        uint32_t texel[4];
        if (!source || !source->sample(handle[l], o.geometry, o.layered, true, centre, ixyz, 0.0f, texel))
          return raise_fault(c, i, Fault::illegal_address, handle[l], l, "texture handle");
        out[k] = texel[o.gather - 1];
      }
    } else if (!source ||
               !source->sample(handle[l], o.geometry, o.layered, o.float_coords, xyz, ixyz, lod, out)) {
      return raise_fault(c, i, Fault::illegal_address, handle[l], l, "texture handle");
    }
    for (uint32_t k = 0; k < o.n_dst; ++k) lanes_of<uint32_t>(c, i->extra[k])[l] = out[k];
  }
  return i + 1;
}

const Inst* surface(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const TextureOp*>(i->aux);
  const TextureSource* source = c->worker->execution->launch.textures;
  const uint64_t* handle = lanes_of<uint64_t>(c, i->a);
  const uint32_t* rest = i->extra + o.elements;
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    int32_t xyz[4] = {};
    uint32_t at = 0;
    if (o.layered) xyz[3] = lanes_of<int32_t>(c, rest[at++])[l];
    for (uint32_t k = 0; k < o.coords; ++k) xyz[k] = lanes_of<int32_t>(c, rest[at++])[l];
    uint8_t data[32] = {};
    const auto cell = [&](uint32_t k) {
      return o.wide ? reinterpret_cast<uint8_t*>(lanes_of<uint64_t>(c, i->extra[k]) + l)
                    : reinterpret_cast<uint8_t*>(lanes_of<uint32_t>(c, i->extra[k]) + l);
    };
    if (o.write)
      for (uint32_t k = 0; k < o.elements; ++k) std::memcpy(data + k * o.bytes, cell(k), o.bytes);
    if (!source || !source->surface(handle[l], o.geometry, xyz, data, o.bytes * o.elements, o.write)) {
      if (o.clamp == 0 || !source)
        return raise_fault(c, i, Fault::illegal_address, handle[l], l, "surface access");
      std::memset(data, 0, sizeof(data));
    }
    if (!o.write)
      for (uint32_t k = 0; k < o.elements; ++k) {
        uint64_t v = 0;
        std::memcpy(&v, data + k * o.bytes, o.bytes);
        if (o.wide)
          lanes_of<uint64_t>(c, i->extra[k])[l] = v;
        else
          lanes_of<uint32_t>(c, i->extra[k])[l] = static_cast<uint32_t>(v);
      }
  }
  return i + 1;
}

const Inst* query(Ctx* c, const Inst* i) {
  const auto& o = *static_cast<const TextureOp*>(i->aux);
  const TextureSource* source = c->worker->execution->launch.textures;
  const uint64_t* handle = lanes_of<uint64_t>(c, i->a);
  for (uint32_t m = c->mask; m; m &= m - 1) {
    const uint32_t l = static_cast<uint32_t>(__builtin_ctz(m));
    uint32_t v = 0;
    if (!source || !source->query(handle[l], o.query.c_str(), v))
      return raise_fault(c, i, Fault::illegal_address, handle[l], l, "texture query");
    lanes_of<uint32_t>(c, i->dst)[l] = v;
  }
  return i + 1;
}

bool finish(Lowering& l, const char* key, LOp handle, std::shared_ptr<TextureOp> o, std::vector<LOp> extra) {
  LInst* i = l.emit(key, {}, handle);
  if (!i) return false;
  i->aux = o.get();
  i->extra = std::move(extra);
  i->early = true;
  l.linker.program.attachments.push_back(o);
  return true;
}

}  // namespace

bool lower_tex(Lowering& l, const Instruction& in) {  // tex.geom.v4.dtype.ctype, tld4.comp.2d.v4.dtype.f32
  if (!need(l, in, 2) || in.types.size() < 2) return l.fail("texture instruction needs its types");
  auto o = std::make_shared<TextureOp>();
  if (!geometry(in, *o, o->coords)) return l.fail("unsupported texture geometry");
  if (in.has("grad")) return l.fail("texture gradients are not supported");
  o->float_coords = in.types.back() == Type::f32;
  o->level = in.has("level");
  if (in.opcode == "tld4") o->gather = in.has("g") ? 2 : in.has("b") ? 3 : in.has("a") ? 4 : 1;
  LOp handle;
  std::vector<LOp> coords, extra;
  if (!texture_operands(l, in.operands[1], in.types.back(), handle, coords)) return false;
  if (coords.size() < o->coords + (o->layered ? 1 : 0)) return l.fail("too few texture coordinates");
  coords.resize(o->coords + (o->layered ? 1 : 0));
  const Operand& d = in.operands[0];
  if (d.kind == Operand::Kind::vector)
    for (const auto& e : d.elements) {
      LOp r = l.dst_any(e, RegClass::r32);
      r.def = true;
      extra.push_back(r);
    }
  else {
    LOp r = l.dst_any(d, RegClass::r32);
    r.def = true;
    extra.push_back(r);
  }
  o->n_dst = static_cast<uint32_t>(extra.size());
  extra.insert(extra.end(), coords.begin(), coords.end());
  if (o->level) {
    LOp lod = l.src(in.operands.at(2), Type::f32);
    lod.use = true;
    extra.push_back(lod);
  }
  return finish(l, "texture.sample", handle, o, std::move(extra));
}

bool lower_surface(Lowering& l,
                   const Instruction& in) {  // suld.b.geom.v.type.clamp {d}, [s, {x}]; sust.b [s, {x}], {d}
  if (!need(l, in, 2)) return false;
  auto o = std::make_shared<TextureOp>();
  if (!in.has("b")) return l.fail("formatted surface access is not supported");
  if (!geometry(in, *o, o->coords)) return l.fail("unsupported surface geometry");
  o->write = in.opcode == "sust";
  o->clamp = in.has("clamp") ? 1 : in.has("zero") ? 2 : 0;
  const Type t = last_type(in);
  o->bytes = bits(t) / 8;
  o->wide = wide(t);
  LOp handle;
  std::vector<LOp> coords, extra;
  if (!texture_operands(l, in.operands[o->write ? 0 : 1], Type::s32, handle, coords)) return false;
  if (coords.size() < o->coords + (o->layered ? 1 : 0)) return l.fail("too few surface coordinates");
  coords.resize(o->coords + (o->layered ? 1 : 0));
  const Operand& v = in.operands[o->write ? 1 : 0];
  const auto add = [&](const Operand& e) {
    LOp r = o->write ? l.src_any(e, t) : l.dst_any(e, o->wide ? RegClass::r64 : RegClass::r32);
    r.def = !o->write;
    r.use = o->write;
    extra.push_back(r);
  };
  if (v.kind == Operand::Kind::vector)
    for (const auto& e : v.elements) add(e);
  else
    add(v);
  o->elements = static_cast<uint32_t>(extra.size());
  extra.insert(extra.end(), coords.begin(), coords.end());
  return finish(l, "texture.surface", handle, o, std::move(extra));
}

bool lower_txq(Lowering& l, const Instruction& in) {  // txq.width.b32 d, [t]; suq
  if (!need(l, in, 2) || in.modifiers.empty()) return false;
  auto o = std::make_shared<TextureOp>();
  o->query = in.modifiers[0];
  const Operand& a = in.operands[1];
  Operand h;
  h.kind = Operand::Kind::reg;
  h.symbol = a.elements.empty() ? a.symbol : a.elements[0].symbol;
  LInst* i = l.emit("texture.query", l.dst(in.operands[0], Type::b32), l.src(h, Type::b64));
  if (!i) return false;
  i->aux = o.get();
  l.linker.program.attachments.push_back(o);
  return true;
}

void register_texture(HandlerTable* t) {
  add_handler(t, "texture.sample", &sample, &sample);
  add_handler(t, "texture.surface", &surface, &surface);
  add_handler(t, "texture.query", &query, &query);
}

}  // namespace simgpu::exec
