// How placement compares devices, and groups of devices for programs that use several. Parts of decide.h;
// pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/placement/decide.h"

namespace shunt::placement {

// The devices a program will use, its ordinal 0 first.
struct Gang {
  std::vector<int> members;
  std::string text;        // ", with GPU 1, 2 by NVLink": for the start line; empty for one device
  std::string prediction;  // ", predicted 1.20x faster": where times decided
};

struct Chooser {
  const Request& request;
  const std::vector<DeviceFacts>& facts;
  const RuleSet& rules;
  uint64_t need_bytes;
  const Rule* rule = nullptr;  // the one that holds

  std::string margin_text() const;  // " + 8 %"
  bool memory_fits(const DeviceFacts& d) const;
  static bool is_model(const DeviceFacts& d, const std::string& key);  // true for an empty key

  // The first rule that holds and whose wish some feasible device meets; `ruled` becomes its candidates.
  const Rule* first_rule(const std::vector<int>& visible, const std::vector<int>& feasible,
                         const DeviceFacts& usual, std::vector<int>& ruled) const;
  // True when a is clearly the better place than b; equal devices keep the program's own order.
  bool better(const DeviceFacts& a, const DeviceFacts& b, bool across_models) const;
  // The best device of the candidates (not empty), or the best group when devices= asks for several: of one
  // model and best linked where that can be had.
  Gang best(const std::vector<int>& candidates, bool across_models) const;
  // The gang, then what also fits (better linked to the first one first), then the rest: nothing that was
  // visible disappears.
  std::vector<int> order(const std::vector<int>& visible, const std::vector<Considered>& considered,
                         const Gang& gang) const;

 private:
  const DeviceFacts& fact(int i) const { return facts[static_cast<size_t>(i)]; }
  // The candidate with the shortest predicted time, -1 where times say nothing; `text` for the start line.
  int by_prediction(const std::vector<int>& candidates, std::string& text) const;
  Gang group_of(int lead, const std::vector<int>& candidates, bool across_models, size_t size) const;
};

// From a to b, by their places in the list of facts.
Reach reach(const std::vector<DeviceFacts>& facts, int a, int b);

}  // namespace shunt::placement
