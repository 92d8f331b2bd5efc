#include "runtime/ptx/scopes.h"

namespace shunt::ptx {

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

bool Scopes::declare(std::string_view name, bool is_reg, bool range, uint32_t count) {
  Scope& scope = scopes_.back();
  if (range) return scope.ranges.emplace(name, count).second;
  return scope.names.emplace(name, Name{is_reg}).second;
}

bool Scopes::declare_label(std::string_view name) { return scopes_.back().labels.emplace(name, 0).second; }
bool Scopes::has_label(std::string_view name) const { return scopes_.back().labels.count(name) != 0; }

std::string Scopes::unique(std::string_view name, uint32_t scope, bool range) {
  std::string result(name);
  if (scope == 0) return result;
  result += '@';
  result += std::to_string(scope);
  if (range) result += '@';
  return result;
}

// "%r12" is in `%r<13>`; "%x10" may be index 0 of `%x1<5>` or index 10 of `%x<11>`. No leading zeros.
bool Scopes::in_range(const Scope& scope, std::string_view name, size_t& prefix) {
  if (scope.ranges.empty()) return false;
  uint64_t index = 0, place = 1;
  for (size_t at = name.size(); at-- > 1;) {
    const char c = name[at];
    if (c < '0' || c > '9' || name.size() - at > 8) return false;
    index += place * static_cast<uint64_t>(c - '0');
    place *= 10;
    if (c == '0' && at + 1 != name.size()) continue;
    auto it = scope.ranges.find(name.substr(0, at));
    if (it != scope.ranges.end() && index < it->second) {
      prefix = at;
      return true;
    }
  }
  return false;
}

Scopes::Found Scopes::lookup(std::string_view name, std::string& out) const {
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
      return it->second.is_reg ? Found::reg : Found::variable;
    }
  }
  return Found::nothing;
}

}  // namespace shunt::ptx
