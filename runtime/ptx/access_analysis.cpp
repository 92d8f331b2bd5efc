#include "runtime/ptx/access_analysis.h"

#include <algorithm>
#include <new>
#include <unordered_map>

#include "runtime/ptx/access/facts.h"
#include "runtime/ptx/access/induction.h"
#include "runtime/ptx/access/program.h"
#include "runtime/ptx/access/transfer.h"

namespace shunt::ptx {
namespace {

using access::Alternative;
using access::Bound;
using access::kFirstNode;
using access::kLoaded;
using access::Node;
using access::Polynomial;
using access::Symbol;
using access::Term;
using access::ValueGraph;
using Candidate = KernelAccessProgram::Candidate;
using Group = KernelAccessProgram::Group;

constexpr uint32_t kMaxParameterBytes = 1u << 20;
constexpr size_t kMaxGroups = 4096, kMaxAlternatives = 8;

// Everything that the groups' addresses, bounds and conditions rest on, with the bounds that branches give
// the values which enter loops and joins. Moved into the program under new numbers: a launch pays for what it
// needs only.
class Collector {
 public:
  Collector(ValueGraph& graph, access::Facts& facts, KernelAccessProgram& program)
      : graph_(graph), facts_(facts), program_(program) {}

  void run() {
    for (Group& group : program_.groups) visit(group.low);
    while (!nodes_.empty() || !checks_.empty()) {
      if (!nodes_.empty()) {
        const uint32_t index = nodes_.back();
        nodes_.pop_back();
        take_node(index);
      } else {
        const uint32_t index = checks_.back();
        checks_.pop_back();
        access::Check check = graph_.checks()[index];  // a copy: others may be added meanwhile
        visit(check.value);
        visit(check.also);
        visit(check.uppers);
        visit(check.lowers);
        program_.checks[check_number_[index]] = std::move(check);
      }
    }
    for (Group& group : program_.groups) renumber(group.low);
    for (Node& node : program_.nodes) {
      for (Alternative& arg : node.args) renumber(arg);
    }
    for (access::Check& check : program_.checks) {
      renumber(check.value);
      renumber(check.also);
      renumber(check.uppers);
      renumber(check.lowers);
    }
  }

 private:
  void take_node(uint32_t index) {
    Node& node = graph_.node(kFirstNode + index);
    if (const ValueGraph::PhiPlace* place = graph_.phi_place(index)) {
      for (size_t p = 0; p < place->predecessors.size(); ++p) {
        access::RefinedChecks refined;
        access::apply_facts(graph_, facts_.at_edge(place->predecessors[p], place->block), node.args[p],
                            refined);
      }
    }
    const bool evaluated = node.kind != Node::Kind::opaque && node.kind != Node::Kind::local_load &&
                           node.kind != Node::Kind::variable;
    if (!evaluated) node.args.clear();
    for (const Alternative& arg : node.args) visit(arg);
    program_.nodes[node_number_[index]] = std::move(node);
  }
  void visit(const Polynomial& poly) {
    for (const Term& term : poly.terms) {
      for (uint32_t i = 0; i < term.degree; ++i) {
        if (term.symbols[i] < kFirstNode) continue;
        const uint32_t index = term.symbols[i] - kFirstNode;
        if (!node_number_.emplace(index, static_cast<uint32_t>(program_.nodes.size())).second) continue;
        program_.nodes.emplace_back();
        nodes_.push_back(index);
      }
    }
  }
  void visit(const std::vector<uint32_t>& checks) {
    for (uint32_t index : checks) {
      if (!check_number_.emplace(index, static_cast<uint32_t>(program_.checks.size())).second) continue;
      program_.checks.emplace_back();
      checks_.push_back(index);
    }
  }
  void visit(const std::vector<Bound>& bounds) {
    for (const Bound& bound : bounds) {
      visit(bound.value);
      visit(bound.checks);
    }
  }
  void visit(const Alternative& alternative) {
    visit(alternative.poly);
    visit(alternative.checks);
    visit(alternative.uppers);
    visit(alternative.lowers);
  }
  void renumber(Polynomial& poly) {
    for (Term& term : poly.terms) {
      for (uint32_t i = 0; i < term.degree; ++i) {
        if (term.symbols[i] >= kFirstNode)
          term.symbols[i] = kFirstNode + node_number_[term.symbols[i] - kFirstNode];
      }
    }
  }
  void renumber(std::vector<uint32_t>& checks) {
    for (uint32_t& index : checks) index = check_number_[index];
  }
  void renumber(std::vector<Bound>& bounds) {
    for (Bound& bound : bounds) {
      renumber(bound.value);
      renumber(bound.checks);
    }
  }
  void renumber(Alternative& alternative) {
    renumber(alternative.poly);
    renumber(alternative.checks);
    renumber(alternative.uppers);
    renumber(alternative.lowers);
  }

  ValueGraph& graph_;
  access::Facts& facts_;
  KernelAccessProgram& program_;
  std::unordered_map<uint32_t, uint32_t> node_number_, check_number_;
  std::vector<uint32_t> nodes_, checks_;
};

// Where an address may come from: parameters, variables, memory.
struct Origins {
  std::vector<Candidate> candidates;
  std::vector<uint32_t> variables;
  bool loaded = false;
};

class Analysis {
 public:
  Analysis(const Module& module, const Function& kernel, KernelAccess& out)
      : kernel_(kernel), out_(out), graph_(module, kernel, flow_), facts_(graph_, flow_) {}
  bool run();

 private:
  bool lay_out();
  Origins origins_of(const Polynomial& poly);
  void visit(const Polynomial& poly, Origins& origins, std::vector<uint32_t>& stack);
  bool classify(const access::RawAccess& raw);
  void record_variable(uint32_t variable, AccessMode mode);
  void expand(const Alternative& from, int depth, std::vector<Alternative>& out);
  void add_groups(const access::RawAccess& raw, const Origins& origins);
  void merge(Group group);
  void summarise();
  bool refuse(uint32_t instruction, const std::string& what);

  const Function& kernel_;
  KernelAccess& out_;
  access::ControlFlow flow_;
  ValueGraph graph_;
  access::Facts facts_;
  std::shared_ptr<KernelAccessProgram> program_ = std::make_shared<KernelAccessProgram>();
  std::unordered_map<uint32_t, access::RefinedChecks> refined_;  // per block
  std::vector<uint32_t> seen_;
  uint32_t epoch_ = 0;
};

bool Analysis::refuse(uint32_t instruction, const std::string& what) {
  out_.reason = "line " + std::to_string(kernel_.body[instruction].line) + ": " + what;
  return false;
}

bool Analysis::lay_out() {
  uint32_t at = 0;
  for (const Variable& param : kernel_.params) {
    const uint32_t natural = std::max<uint32_t>(1, type_bits(param.type) / 8 * param.vector);
    const uint32_t align = param.align != 0 ? param.align : natural;
    const uint32_t size = static_cast<uint32_t>(std::min<uint64_t>(param.size_bytes(), 1u << 20));
    at = (at + align - 1) & ~(align - 1);
    out_.layout.push_back({at, size});
    program_->offsets.push_back(at);
    at += size;
    if (at > kMaxParameterBytes) {
      out_.reason = "more than 1 MiB of parameters";
      return false;
    }
  }
  out_.parameter_bytes = at;
  out_.parameters.resize(kernel_.params.size());
  return true;
}

void Analysis::visit(const Polynomial& poly, Origins& origins, std::vector<uint32_t>& stack) {
  for (const Term& term : poly.terms) {
    for (uint32_t i = 0; i < term.degree; ++i) {
      const Symbol symbol = term.symbols[i];
      if (symbol == kLoaded) origins.loaded = true;
      if (symbol < kFirstNode || seen_[symbol - kFirstNode] == epoch_) continue;
      seen_[symbol - kFirstNode] = epoch_;
      stack.push_back(symbol - kFirstNode);
    }
  }
}

Origins Analysis::origins_of(const Polynomial& poly) {
  Origins origins;
  std::vector<uint32_t> stack;
  seen_.resize(graph_.nodes().size(), 0);
  ++epoch_;
  visit(poly, origins, stack);
  while (!stack.empty()) {
    const Node& node = graph_.nodes()[stack.back()];
    stack.pop_back();
    if (node.kind == Node::Kind::parameter) {
      if (node.bytes == 8) origins.candidates.push_back({node.index, node.offset});
      if (node.bytes == 0) {  // any word
        for (uint32_t offset = 0; offset + 8 <= out_.layout[node.index].size; offset += 8)
          origins.candidates.push_back({node.index, offset});
      }
    } else if (node.kind == Node::Kind::variable) {
      origins.variables.push_back(node.index);
    }
    for (const Alternative& arg : node.args) visit(arg.poly, origins, stack);
  }
  return origins;
}

void Analysis::record_variable(uint32_t variable, AccessMode mode) {
  const std::string name(graph_.variables()[variable].name);
  for (VariableAccess& known : out_.variables) {
    if (known.name == name) {
      known.mode = known.mode | mode;
      return;
    }
  }
  out_.variables.push_back({name, mode});
}

// An address that is one of several pointers becomes several accesses.
void Analysis::expand(const Alternative& from, int depth, std::vector<Alternative>& out) {
  if (depth < 3 && out.size() < kMaxAlternatives) {
    for (const Term& term : from.poly.terms) {
      if (term.degree != 1 || term.factor != 1 || term.symbols[0] < kFirstNode) continue;
      const Node& node = graph_.node(term.symbols[0]);
      if (node.kind != Node::Kind::choice && node.kind != Node::Kind::phi) continue;
      if (node.args.empty() || node.args.size() > 4) continue;
      const Polynomial self = Polynomial::of_symbol(term.symbols[0]);
      bool cyclic = false, pointer = false;
      for (const Alternative& arg : node.args) {
        for (const Term& inner : arg.poly.terms) {
          for (uint32_t s = 0; s < inner.degree; ++s) cyclic = cyclic || inner.symbols[s] == term.symbols[0];
          pointer = pointer || (inner.degree == 1 && inner.factor == 1 && inner.symbols[0] >= kFirstNode &&
                                graph_.node(inner.symbols[0]).kind == Node::Kind::parameter);
        }
      }
      if (cyclic || !pointer) continue;
      std::vector<Alternative> each;
      bool ok = true;
      for (const Alternative& arg : node.args) {
        Alternative one;
        one.poly = from.poly;
        one.checks = from.checks;
        ok = ok && one.poly.add(self, -1) && one.poly.add(arg.poly, 1);
        access::merge_checks(one.checks, arg.checks);
        each.push_back(std::move(one));
      }
      if (!ok) continue;
      for (const Alternative& one : each) expand(one, depth + 1, out);
      return;
    }
  }
  out.push_back(from);
}

// Groups with the same products differ by constants only: unrolled loops, fields, rows.
void Analysis::merge(Group group) {
  for (Group& known : program_->groups) {
    if (known.mode != group.mode || (known.extent == 0) != (group.extent == 0) ||
        !(known.candidates == group.candidates) || known.low.checks != group.low.checks ||
        known.low.poly.terms.size() != group.low.poly.terms.size())
      continue;
    Polynomial difference = group.low.poly;
    if (!difference.add(known.low.poly, -1) || !difference.is_constant()) continue;
    if (known.extent == 0) return;
    const int64_t shift = difference.constant;  // of the new one against the known one
    if (shift > 1 << 28 || shift < -(1 << 28)) continue;
    // Bounds are kept when both have them, moved to the common lowest address. A bound of an access moves
    // with it.
    auto keep = [&](std::vector<Bound>& mine, const std::vector<Bound>& theirs) {
      std::vector<Bound> kept;
      for (Bound& bound : mine) {
        for (const Bound& other : theirs) {
          Polynomial d = other.value;
          if (bound.checks == other.checks && d.add(bound.value, -1) && d.is_constant() &&
              d.constant == shift) {
            kept.push_back(bound);
            break;
          }
        }
      }
      mine = std::move(kept);
    };
    keep(known.low.uppers, group.low.uppers);
    keep(known.low.lowers, group.low.lowers);
    const int64_t end = std::max(known.extent, shift + group.extent);
    if (shift < 0) {
      bool ok = known.low.poly.add(Polynomial::of(shift), 1);
      for (Bound& bound : known.low.uppers) ok = ok && bound.value.add(Polynomial::of(shift), 1);
      for (Bound& bound : known.low.lowers) ok = ok && bound.value.add(Polynomial::of(shift), 1);
      known.extent = ok ? end - shift : 0;
      if (!ok) known.low = Alternative();
    } else {
      known.extent = end;
    }
    return;
  }
  program_->groups.push_back(std::move(group));
}

void Analysis::add_groups(const access::RawAccess& raw, const Origins& origins) {
  const std::vector<access::Fact> facts = facts_.at_instruction(raw.instruction);
  // Accesses of one block share what its branches imply, unless they have a guard of their own.
  access::RefinedChecks own;
  const bool guarded = !kernel_.body[raw.instruction].guard.empty();
  access::RefinedChecks& refined = guarded ? own : refined_[graph_.block_of(raw.instruction)];
  std::vector<Alternative> alternatives;
  expand({raw.address.poly, raw.address.checks, {}, {}}, 0, alternatives);
  for (Alternative& alternative : alternatives) {
    Group group;
    group.mode = raw.mode;
    group.candidates =
        alternatives.size() == 1 ? origins.candidates : origins_of(alternative.poly).candidates;
    // The parameter that the address adds up from first: reports name it.
    std::sort(group.candidates.begin(), group.candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.parameter != b.parameter ? a.parameter < b.parameter : a.offset < b.offset;
    });
    for (const Term& term : alternative.poly.terms) {
      if (term.degree != 1 || term.factor != 1 || term.symbols[0] < kFirstNode) continue;
      const Node& node = graph_.node(term.symbols[0]);
      if (node.kind != Node::Kind::parameter || node.bytes != 8) continue;
      auto it =
          std::find(group.candidates.begin(), group.candidates.end(), Candidate{node.index, node.offset});
      if (it != group.candidates.end()) std::rotate(group.candidates.begin(), it, it + 1);
    }
    group.extent = raw.bytes;
    group.low = std::move(alternative);
    access::apply_facts(graph_, facts, group.low, refined);
    merge(std::move(group));
  }
}

bool Analysis::classify(const access::RawAccess& raw) {
  const Origins origins = origins_of(raw.address.poly);
  bool shared_or_local = false, global = false;
  for (uint32_t variable : origins.variables) {
    const Space space = graph_.variables()[variable].space;
    if (space == Space::shared || space == Space::local) shared_or_local = true;
    if (space == Space::global || space == Space::constant) global = true;
    if (space == Space::param && raw.mode != AccessMode::read)
      return refuse(raw.instruction, "store to a parameter");
  }
  if (raw.space == Space::constant) {  // whatever the index is, it is constant memory
    for (uint32_t variable : origins.variables) record_variable(variable, raw.mode);
    if (origins.variables.empty())
      return refuse(raw.instruction, "constant memory through an unknown address");
    return true;
  }
  if (origins.loaded) return refuse(raw.instruction, "address depends on a value read from memory");
  for (uint32_t variable : origins.variables) {
    const Space space = graph_.variables()[variable].space;
    if (space == Space::global || space == Space::constant) record_variable(variable, raw.mode);
  }
  if (origins.candidates.empty()) {
    if (global || (raw.space == Space::none && !origins.variables.empty())) return true;
    return refuse(raw.instruction, "address does not come from a parameter");
  }
  (void)shared_or_local;
  if (program_->groups.size() >= kMaxGroups) return refuse(raw.instruction, "too many different accesses");
  add_groups(raw, origins);
  return true;
}

// The table per parameter. Whether bounds exist is tried out with small numbers in place of the parameters.
void Analysis::summarise() {
  Collector(graph_, facts_, *program_).run();
  std::vector<uint8_t> sample(out_.parameter_bytes + 8, 0);
  for (uint32_t i = 0; i < kernel_.params.size(); ++i) {
    const auto& place = out_.layout[i];
    for (uint32_t at = 0; at + 4 <= place.size; at += place.size % 8 == 0 ? 8 : 4)
      sample[place.offset + at + 1] = 16;  // 4096
  }
  const LaunchShape shape{{4, 4, 4}, {8, 4, 2}};
  access::Evaluator evaluator(*program_, shape, sample.data());
  for (const Group& group : program_->groups) {
    const access::Interval low = group.extent > 0 ? evaluator.evaluate(group.low) : access::Interval::all();
    const bool affine = low.empty || (low.bounded() && low.high - low.low < (static_cast<__int128>(1) << 40));
    for (const Candidate& candidate : group.candidates) {
      ParameterAccess& parameter = out_.parameters[candidate.parameter];
      parameter.mode = parameter.mode | group.mode;
      parameter.affine = parameter.affine && affine;
      if (std::find(parameter.pointers.begin(), parameter.pointers.end(), candidate.offset) ==
          parameter.pointers.end())
        parameter.pointers.push_back(candidate.offset);
    }
  }
}

bool Analysis::run() {
  if (!lay_out()) return false;
  if (!flow_.build(kernel_)) {
    out_.reason = "control flow is not understood";
    return false;
  }
  if (!graph_.build(out_.reason)) return false;
  access::Inductions(graph_, flow_).run();
  for (const access::RawAccess& raw : graph_.accesses()) {
    if (!classify(raw)) return false;
  }
  summarise();
  out_.program = program_;
  return true;
}

}  // namespace

std::string_view access_mode_name(AccessMode mode) {
  switch (mode) {
    case AccessMode::unused:
      return "unused";
    case AccessMode::read:
      return "read";
    case AccessMode::written:
      return "written";
    case AccessMode::read_written:
      return "read-written";
  }
  return "";
}

KernelAccess analyse_access(const Module& module, const Function& kernel) {
  KernelAccess result;
  result.name = kernel.name;
  try {
    Analysis analysis(module, kernel, result);
    if (analysis.run()) return result;
  } catch (const std::bad_alloc&) {
    result.reason = "out of memory";
  }
  result.unknown = true;
  result.program.reset();
  result.variables.clear();
  result.parameters.assign(kernel.params.size(), {AccessMode::read_written, false, {}});
  return result;
}

std::vector<KernelAccess> analyse_accesses(const Module& module) {
  std::vector<KernelAccess> result;
  for (const Function& function : module.functions) {
    if (function.is_entry && !function.is_declaration) result.push_back(analyse_access(module, function));
  }
  return result;
}

std::string format_accesses(const KernelAccess& access, const Function& kernel) {
  std::string out = access.name + "\n";
  if (access.unknown) return out + "  unknown: " + access.reason + "\n";
  for (size_t i = 0; i < access.parameters.size(); ++i) {
    const ParameterAccess& p = access.parameters[i];
    out += "  " + kernel.params[i].name + ": " + std::string(access_mode_name(p.mode));
    if (p.mode != AccessMode::unused) out += p.affine ? ", bounded by the launch" : ", whole allocation";
    if (p.pointers.size() > 1 || (p.pointers.size() == 1 && p.pointers[0] != 0)) {
      out += ", pointers at";
      for (uint32_t offset : p.pointers) out += " +" + std::to_string(offset);
    }
    out += '\n';
  }
  for (const VariableAccess& v : access.variables)
    out += "  variable " + v.name + ": " + std::string(access_mode_name(v.mode)) + "\n";
  return out;
}

}  // namespace shunt::ptx
