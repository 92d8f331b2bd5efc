// Small text helpers of the completion writers.
#pragma once
#include <string>
#include <vector>

#include "tools/shunt/completion/surface.h"

namespace shunt::tool {

inline std::string joined(const std::vector<std::string>& words, const std::string& by) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : by) + w;
  return out;
}

inline std::vector<std::string> subcommands_of(const std::vector<VerbEntry>& surface,
                                               const std::string& verb) {
  std::vector<std::string> out;
  for (const VerbEntry& v : surface)
    if (v.name.starts_with(verb + " ")) out.push_back(v.name.substr(verb.size() + 1));
  return out;
}

// Inside single quotes of a POSIX shell or zsh; with fish's own rule `\'` when `fish`.
inline std::string quoted(const std::string& text, bool fish = false) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'')
      out += fish ? "\\'" : "'\\''";
    else if (fish && c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace shunt::tool
