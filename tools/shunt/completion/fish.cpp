// `shunt completion fish`.
#include <algorithm>

#include "tools/shunt/completion/script.h"
#include "tools/shunt/completion/surface.h"

namespace shunt::tool {
namespace {

std::string valued_options(const std::vector<VerbEntry>& surface) {
  std::vector<std::string> out;
  for (const VerbEntry& v : surface)
    if (v.program_follows)
      for (const OptionEntry& o : v.options)
        if (o.takes_value && std::find(out.begin(), out.end(), o.name) == out.end()) out.push_back(o.name);
  return joined(out, " ");
}

}  // namespace

std::string fish_completion(const std::vector<VerbEntry>& surface) {
  std::string out =
      "# fish completion for shunt, written by `shunt completion fish`.\n\n"
      "# The words so far are VERB [SUBCOMMAND], no program has begun.\n"
      "function __shunt_at\n"
      "    set -l words (commandline -opc)\n"
      "    contains -- -- $words; and return 1\n"
      "    test \"$words[2]\" = $argv[1]; or return 1\n"
      "    test (count $argv) -eq 1; or test \"$words[3]\" = $argv[2]\n"
      "end\n\n"
      "# What completes the program and its arguments: everything behind the options of VERB and their "
      "values.\n"
      "function __shunt_program\n"
      "    set -l valued " +
      valued_options(surface) +
      "\n"
      "    set -l words (commandline -opc)\n"
      "    set -l i 3\n"
      "    while test $i -le (count $words)\n"
      "        switch $words[$i]\n"
      "            case --\n"
      "                set i (math $i + 1)\n"
      "                break\n"
      "            case '-*=*'\n"
      "            case '-*'\n"
      "                contains -- $words[$i] $valued; and set i (math $i + 1)\n"
      "            case '*'\n"
      "                break\n"
      "        end\n"
      "        set i (math $i + 1)\n"
      "    end\n"
      "    test $i -le (math (count $words) + 1); or return\n"
      "    if test $i -gt (count $words); and not contains -- -- $words; and string match -q -- '-*' "
      "(commandline -ct)\n"
      "        return  # still an option of VERB\n"
      "    end\n"
      "    complete --do-complete=(string join ' ' -- (string escape -- $words[$i..-1]) (commandline -ct))\n"
      "end\n\n"
      "complete -c shunt -n __fish_use_subcommand -f\n"
      "complete -c shunt -n __fish_use_subcommand -s h -l help -d 'What shunt does'\n"
      "complete -c shunt -n __fish_use_subcommand -s V -l version -d 'Version'\n";
  for (const VerbEntry& v : surface) {
    const size_t space = v.name.find(' ');
    const std::string verb = v.name.substr(0, space);
    const std::vector<std::string> below = subcommands_of(surface, v.name);
    out += "\n";
    if (space == std::string::npos)
      out +=
          "complete -c shunt -n __fish_use_subcommand -a " + v.name + " -d " + quoted(v.summary, true) + "\n";
    else
      out += "complete -c shunt -f -n '__shunt_at " + verb + "; and not __fish_seen_subcommand_from " +
             joined(subcommands_of(surface, verb), " ") + "' -a " + v.name.substr(space + 1) + " -d " +
             quoted(v.summary, true) + "\n";
    // A subcommand with the options of its verb needs them once.
    bool repeated = false;
    for (const VerbEntry& other : surface)
      repeated |= space != std::string::npos && other.name == verb && other.help == v.help;
    if (repeated) continue;
    for (const OptionEntry& o : v.options) {
      const bool is_long = o.name.starts_with("--");
      out += "complete -c shunt -n '__shunt_at " + v.name + "' " + (is_long ? "-l " : "-s ") +
             o.name.substr(is_long ? 2 : 1);
      if (o.takes_value) out += o.choices.empty() ? " -r" : " -x -a " + quoted(joined(o.choices, " "), true);
      if (!o.summary.empty()) out += " -d " + quoted(o.summary, true);
      out += "\n";
    }
    if (v.program_follows)
      out += "complete -c shunt -n '__fish_seen_subcommand_from " + v.name + "' -x -a '(__shunt_program)'\n";
    if (v.name == "help")
      out +=
          "complete -c shunt -f -n '__shunt_at help' -a " + quoted(joined(help_topics(), " "), true) + "\n";
  }
  return out;
}

}  // namespace shunt::tool
