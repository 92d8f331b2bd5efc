// Names inside one function while it is parsed: nested scopes, register ranges, labels. Turns a name as
// written into the name unique in the function. Keys are views into the PTX text. One thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shunt::ptx {

class Scopes {
 public:
  enum class Found : uint8_t { nothing, reg, variable };

  void reset();  // a new function: only its outermost scope is open
  void open();
  void close();
  size_t depth() const { return scopes_.size(); }
  uint32_t current() const { return scopes_.back().id; }

  // False when the scope already has that name. range: `name<count>`. element_bytes: of arrays, for
  // `name[index]`.
  bool declare(std::string_view name, bool is_reg, bool range, uint32_t count, uint32_t element_bytes = 0);
  bool declare_label(std::string_view name);
  bool has_label(std::string_view name) const;  // in the innermost scope only

  // Names as the tree stores them: unchanged in the outermost scope, else name@scope (ranges: name@scope@).
  std::string unique(std::string_view name, bool range = false) const {
    return unique(name, current(), range);
  }
  // Innermost declaration of a name as used in an operand; `out` is its unique name.
  Found lookup(std::string_view name, std::string& out, uint32_t* element_bytes = nullptr) const;

 private:
  struct Name {
    bool is_reg;
    uint32_t element_bytes;
  };
  struct Scope {
    uint32_t id = 0;
    std::unordered_map<std::string_view, Name> names;
    std::unordered_map<std::string_view, uint32_t> ranges;  // prefix -> count
    std::unordered_map<std::string_view, uint32_t>
        lowest;  // "y" -> 5 when a single `y5` exists: no range y<6> then
    std::unordered_map<std::string_view, char> labels;
  };
  static std::string unique(std::string_view name, uint32_t scope, bool range);
  static bool in_range(const Scope& scope, std::string_view name, size_t& prefix);

  std::vector<Scope> scopes_;
  uint32_t next_id_ = 0;
};

}  // namespace shunt::ptx
