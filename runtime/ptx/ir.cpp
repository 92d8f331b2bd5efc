#include "runtime/ptx/ir.h"

#include <array>
#include <limits>

namespace shunt::ptx {
namespace {

struct TypeInfo {
  std::string_view name;
  uint32_t bits;
};
// In the order of the enumeration.
constexpr TypeInfo kTypes[] = {
    {"", 0},        {"pred", 1},    {"b8", 8},      {"b16", 16},    {"b32", 32},       {"b64", 64},
    {"b128", 128},  {"u8", 8},      {"u16", 16},    {"u32", 32},    {"u64", 64},       {"s8", 8},
    {"s16", 16},    {"s32", 32},    {"s64", 64},    {"f16", 16},    {"f16x2", 32},     {"bf16", 16},
    {"bf16x2", 32}, {"tf32", 32},   {"f32", 32},    {"f64", 64},    {"e4m3", 8},       {"e5m2", 8},
    {"e4m3x2", 16}, {"e5m2x2", 16}, {"e2m3x2", 16}, {"e3m2x2", 16}, {"e2m1x2", 8},     {"ue8m0x2", 16},
    {"u16x2", 32},  {"s16x2", 32},  {"u8x4", 32},   {"s8x4", 32},   {"b4x16", 64},     {"f32x2", 64},
    {"s4", 4},      {"u4", 4},      {"b1", 1},      {"texref", 0},  {"samplerref", 0}, {"surfref", 0},
    {"e3m2", 6},    {"e2m3", 6},    {"e2m1", 4},    {"ue8m0", 8},   {"ue4m3", 8},
};
static_assert(std::size(kTypes) == static_cast<size_t>(Type::ue4m3) + 1);

}  // namespace

uint32_t type_bits(Type type) { return kTypes[static_cast<size_t>(type)].bits; }
std::string_view type_name(Type type) { return kTypes[static_cast<size_t>(type)].name; }

Type type_from_name(std::string_view name) {
  if (name.size() < 2 || name.size() > 10) return Type::none;
  // The common ones first letter decide: most modifiers are not types and must be rejected fast.
  switch (name[0]) {
    case 'b':
    case 'u':
    case 's':
    case 'f':
    case 'e':
    case 'p':
    case 't':
      break;
    default:
      return Type::none;
  }
  for (size_t i = 1; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return Type::none;
}

bool Instruction::has(std::string_view modifier) const {
  for (const std::string& m : modifiers) {
    if (m == modifier) return true;
  }
  return false;
}

uint64_t Variable::size_bytes() const {
  uint64_t size = (static_cast<uint64_t>(type_bits(type)) + 7) / 8 * vector;
  if (type == Type::texref || type == Type::samplerref || type == Type::surfref)
    size = 8;  // an opaque handle
  for (uint64_t dim : dims) {
    if (dim != 0 && size > std::numeric_limits<uint64_t>::max() / dim)
      return std::numeric_limits<uint64_t>::max();
    size *= dim;
  }
  return size;
}

}  // namespace shunt::ptx
