#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/shunt/doctor/finding.h"

namespace shunt::tool::doctor {
namespace {

const char* word(Severity s) {
  switch (s) {
    case Severity::fine:
      return "ok";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "";
}

// Words of `text` in lines of at most `width`, the later ones indented.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string one = text.substr(at, end - at);
    at = end + 1;
    if (column > indent && column + 1 + one.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ', column++;
    }
    out += one;
    column += one.size();
  }
  return out;
}

}  // namespace

// Worst first, in the order found.
std::string render_text(const Findings& findings, int columns) {
  size_t name = 0;
  for (const Finding& f : findings) name = std::max(name, f.check.size());
  const size_t indent = 9 + name + 2;
  const auto width = static_cast<size_t>(std::max(columns, 60));
  std::string out;
  for (const Severity s : {Severity::error, Severity::warning, Severity::note, Severity::fine}) {
    for (const Finding& f : findings) {
      if (f.severity != s) continue;
      std::string head = word(s);
      head.resize(9, ' ');
      head += f.check;
      head.resize(indent, ' ');
      out += head + wrapped(f.evidence, indent, width) + "\n";
      if (!f.fix.empty()) out += std::string(indent, ' ') + wrapped("-> " + f.fix, indent, width) + "\n";
    }
  }
  const auto count = [&](Severity s) {
    return std::count_if(findings.begin(), findings.end(), [s](const Finding& f) { return f.severity == s; });
  };
  out += std::to_string(count(Severity::error)) + " errors, " + std::to_string(count(Severity::warning)) +
         " warnings, " + std::to_string(count(Severity::note)) + " notes, " +
         std::to_string(count(Severity::fine)) + " fine\n";
  return out;
}

std::string render_json(const Findings& findings) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["findings"] = nlohmann::ordered_json::array();
  for (const Finding& f : findings)
    j["findings"].push_back(
        {{"severity", word(f.severity)}, {"check", f.check}, {"evidence", f.evidence}, {"fix", f.fix}});
  j["status"] = exit_status(findings);
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int exit_status(const Findings& findings) {
  int worst = 0;
  for (const Finding& f : findings)
    worst = std::max(worst, f.severity == Severity::error ? 2 : f.severity == Severity::warning ? 1 : 0);
  return worst;
}

}  // namespace shunt::tool::doctor
