#include "runtime/ptx/scopes.h"

namespace shunt::ptx {
namespace {

// "%r12" may be index 2 of `%r1<5>` or index 12 of `%r<13>`. No leading zeros. Stops when `use` returns
// false.
template <typename Use>
void for_each_split(std::string_view name, Use use) {
  uint32_t index = 0, place = 1;
  for (size_t at = name.size(); at-- > 1;) {
    const char c = name[at];
    if (c < '0' || c > '9' || name.size() - at > 8) return;
    index += place * static_cast<uint32_t>(c - '0');
    place *= 10;
    if (c == '0' && at + 1 != name.size()) continue;
    if (!use(name.substr(0, at), index)) return;
  }
}

}  // namespace

void Scopes::reset() {
  scopes_.clear();
  next_id_ = 0;
  open();
}

void Scopes::open() {
  scopes_.emplace_back();
  scopes_.back().id = next_id_++;
}

void Scopes::close() { scopes_.pop_back(); }

bool Scopes::declare(std::string_view name, bool is_reg, bool range, uint32_t count, uint32_t element_bytes) {
  Scope& scope = scopes_.back();
  if (range) {
    auto single = scope.lowest.find(name);
    if (single != scope.lowest.end() && single->second < count) return false;
    return scope.ranges.emplace(name, count).second;
  }
  size_t prefix = 0;
  if (in_range(scope, name, prefix) || scope.labels.count(name) != 0) return false;
  if (!scope.names.emplace(name, Name{is_reg, element_bytes}).second) return false;
  for_each_split(name, [&](std::string_view head, uint32_t index) {
    auto [it, fresh] = scope.lowest.emplace(head, index);
    if (!fresh && index < it->second) it->second = index;
    return true;
  });
  return true;
}

bool Scopes::declare_label(std::string_view name) {
  Scope& scope = scopes_.back();
  return scope.names.count(name) == 0 && scope.labels.emplace(name, 0).second;
}
bool Scopes::has_label(std::string_view name) const { return scopes_.back().labels.count(name) != 0; }

std::string Scopes::unique(std::string_view name, uint32_t scope, bool range) {
  std::string result(name);
  if (scope == 0) return result;
  result += '@';
  result += std::to_string(scope);
  if (range) result += '@';
  return result;
}

bool Scopes::in_range(const Scope& scope, std::string_view name, size_t& prefix) {
  if (scope.ranges.empty()) return false;
  bool found = false;
  for_each_split(name, [&](std::string_view head, uint32_t index) {
    auto it = scope.ranges.find(head);
    found = it != scope.ranges.end() && index < it->second;
    if (found) prefix = head.size();
    return !found;
  });
  return found;
}

Scopes::Found Scopes::lookup(std::string_view name, std::string& out, uint32_t* element_bytes) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    const Scope& scope = scopes_[i];
    size_t prefix = 0;
    if (in_range(scope, name, prefix)) {
      if (scope.id == 0) {
        out.assign(name);
      } else {
        out = unique(name.substr(0, prefix), scope.id, true);
        out.append(name.substr(prefix));
      }
      return Found::reg;
    }
    auto it = scope.names.find(name);
    if (it != scope.names.end()) {
      out = unique(name, scope.id, false);
      if (element_bytes != nullptr) *element_bytes = it->second.element_bytes;
      return it->second.is_reg ? Found::reg : Found::variable;
    }
  }
  return Found::nothing;
}

}  // namespace shunt::ptx
