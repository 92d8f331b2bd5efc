// Integer polynomials over values that a launch fixes or bounds: thread and block indices, parameters, and
// nodes of the value graph. Small by construction; operations that would grow too large fail and the caller
// gives up exactness.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace shunt::ptx::access {

using Symbol = uint32_t;
enum : Symbol {
  kTidX,
  kTidY,
  kTidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kLoaded,     // a value read from memory, or anything else that the analysis does not follow
  kFirstNode,  // node i of the graph is symbol kFirstNode + i
};

struct Term {
  int64_t factor = 0;
  uint32_t degree = 0;
  std::array<Symbol, 4> symbols{};  // sorted; [degree..] are 0
  bool same_product(const Term& other) const { return degree == other.degree && symbols == other.symbols; }
};

struct Polynomial {
  int64_t constant = 0;
  std::vector<Term> terms;  // sorted by symbols, no zero factors

  static Polynomial of(int64_t constant);
  static Polynomial of_symbol(Symbol symbol);
  bool is_constant() const { return terms.empty(); }
  bool is_loaded() const;
  bool operator==(const Polynomial& other) const;
  const Term* find(const Term& product) const;

  // this += scale * other. False on overflow or too many terms (then the value is unspecified).
  bool add(const Polynomial& other, int64_t scale);
  static bool multiply(const Polynomial& a, const Polynomial& b, Polynomial& out);
};

}  // namespace shunt::ptx::access
