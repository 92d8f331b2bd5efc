#include "runtime/ptx/access/polynomial.h"

#include <algorithm>

namespace shunt::ptx::access {
namespace {

constexpr size_t kMaxTerms = 24;

bool before(const Term& a, const Term& b) {
  return a.degree != b.degree ? a.degree < b.degree : a.symbols < b.symbols;
}

}  // namespace

Polynomial Polynomial::of(int64_t constant) {
  Polynomial p;
  p.constant = constant;
  return p;
}

Polynomial Polynomial::of_symbol(Symbol symbol) {
  Polynomial p;
  Term term;
  term.factor = 1;
  term.degree = 1;
  term.symbols[0] = symbol;
  p.terms.push_back(term);
  return p;
}

bool Polynomial::is_loaded() const {
  for (const Term& term : terms) {
    for (uint32_t i = 0; i < term.degree; ++i) {
      if (term.symbols[i] == kLoaded) return true;
    }
  }
  return false;
}

bool Polynomial::operator==(const Polynomial& other) const {
  return constant == other.constant && terms.size() == other.terms.size() &&
         std::equal(terms.begin(), terms.end(), other.terms.begin(),
                    [](const Term& a, const Term& b) { return a.factor == b.factor && a.same_product(b); });
}

const Term* Polynomial::find(const Term& product) const {
  auto it = std::lower_bound(terms.begin(), terms.end(), product, before);
  return it != terms.end() && it->same_product(product) ? &*it : nullptr;
}

bool Polynomial::add(const Polynomial& other, int64_t scale) {
  int64_t scaled;
  if (__builtin_mul_overflow(other.constant, scale, &scaled) ||
      __builtin_add_overflow(constant, scaled, &constant))
    return false;
  if (other.terms.empty() || scale == 0) return true;
  std::vector<Term> merged;
  merged.reserve(terms.size() + other.terms.size());
  size_t i = 0, j = 0;
  while (i < terms.size() || j < other.terms.size()) {
    if (j == other.terms.size() || (i < terms.size() && before(terms[i], other.terms[j]))) {
      merged.push_back(terms[i++]);
      continue;
    }
    Term term = other.terms[j++];
    if (__builtin_mul_overflow(term.factor, scale, &term.factor)) return false;
    if (i < terms.size() && terms[i].same_product(term)) {
      if (__builtin_add_overflow(term.factor, terms[i].factor, &term.factor)) return false;
      ++i;
    }
    if (term.factor != 0) merged.push_back(term);
  }
  if (merged.size() > kMaxTerms) return false;
  terms = std::move(merged);
  return true;
}

bool Polynomial::multiply(const Polynomial& a, const Polynomial& b, Polynomial& out) {
  Polynomial result;
  if (!result.add(a, b.constant)) return false;  // a * b.constant; the rest is a * b's terms
  for (const Term& t : b.terms) {
    Polynomial part;
    Term shifted = t;
    if (__builtin_mul_overflow(t.factor, a.constant, &shifted.factor)) return false;
    if (shifted.factor != 0) part.terms.push_back(shifted);
    if (!result.add(part, 1)) return false;
    for (const Term& s : a.terms) {
      Term product;
      product.degree = s.degree + t.degree;
      if (product.degree > product.symbols.size() ||
          __builtin_mul_overflow(s.factor, t.factor, &product.factor))
        return false;
      std::copy_n(s.symbols.begin(), s.degree, product.symbols.begin());
      std::copy_n(t.symbols.begin(), t.degree, product.symbols.begin() + s.degree);
      for (uint32_t i = 1; i < product.degree; ++i) {  // at most four
        for (uint32_t j = i; j > 0 && product.symbols[j] < product.symbols[j - 1]; --j)
          std::swap(product.symbols[j], product.symbols[j - 1]);
      }
      part.terms.assign(1, product);
      if (!result.add(part, 1)) return false;
    }
  }
  out = std::move(result);
  return true;
}

}  // namespace shunt::ptx::access
