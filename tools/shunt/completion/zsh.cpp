// `shunt completion zsh`.
#include "tools/shunt/completion/script.h"
#include "tools/shunt/completion/surface.h"

namespace shunt::tool {
namespace {

// An entry of _describe: name:summary, a colon of the name escaped.
std::string described(const std::string& name, const std::string& summary) {
  return "      " + quoted(summary.empty() ? name : name + ":" + summary) + "\n";
}

}  // namespace

std::string zsh_completion(const std::vector<VerbEntry>& surface) {
  std::string verb_list, below, options, values, programs;
  for (const VerbEntry& v : surface) {
    if (v.name.find(' ') == std::string::npos) verb_list += described(v.name, v.summary);
    options += "    (" + quoted(v.name) + ") found=(\n";
    for (const OptionEntry& o : v.options) {
      options += described(o.name, o.summary);
      if (o.takes_value)
        values += "    (" + quoted(v.name + " " + o.name) + ") values=(" + joined(o.choices, " ") +
                  "); return 0 ;;\n";
    }
    options += "      ) ;;\n";
    if (v.program_follows) programs += (programs.empty() ? "" : "|") + v.name;
    std::string subs;
    for (const VerbEntry& s : surface)
      if (s.name.starts_with(v.name + " ")) subs += described(s.name.substr(v.name.size() + 1), s.summary);
    if (!subs.empty()) below += "    (" + quoted(v.name) + ") found=(\n" + subs + "      ) ;;\n";
  }
  below += "    (help) found=(" + joined(help_topics(), " ") + ") ;;\n";
  return R"(#compdef shunt
# zsh completion for shunt, written by `shunt completion zsh`.

# Whether option $2 of verb $1 takes a value, and in `values` the words it can be.
__shunt_value() {
  values=()
  case "$1 $2" in
)" + values +
         R"(  esac
  return 1
}

__shunt_below() {
  found=()
  case "$1" in
)" + below +
         R"(  esac
}

__shunt_options() {
  found=()
  case "$1" in
)" + options +
         R"(  esac
}

_shunt() {
  local -a found values
  local verb= pending= word i program=0
  for ((i = 2; i < CURRENT; i++)); do
    word=${words[i]}
    if [[ -n $pending ]]; then pending=; continue; fi
    if [[ -z $verb ]]; then verb=$word; continue; fi
    case $word in
      (--) program=$((i + 1)); break ;;
      (-*=*) ;;
      (-*) if __shunt_value "$verb" "$word"; then pending=$word; fi ;;
      (*)
        case $verb in ()" +
         programs + R"() program=$i; break ;; esac
        if [[ $verb != *' '* ]]; then
          __shunt_below "$verb"
          if (( ${found[(I)$word(|:*)]} )); then verb="$verb $word"; fi
        fi ;;
    esac
  done
  if (( program > 0 )); then
    shift $((program - 1)) words
    (( CURRENT -= program - 1 ))
    _normal
    return
  fi
  if [[ -z $verb ]]; then
    found=(
)" + verb_list +
         R"(    )
    _describe -t commands command found
    return
  fi
  if [[ $PREFIX == -*=* ]]; then
    pending=${PREFIX%%=*}
    __shunt_value "$verb" "$pending" || return
    compset -P '*='
  elif [[ -n $pending ]]; then
    __shunt_value "$verb" "$pending"
  fi
  if [[ -n $pending ]]; then
    if (( $#values )); then compadd -- $values; else _files; fi
    return
  fi
  if [[ $PREFIX == -* ]]; then
    __shunt_options "$verb"
    _describe -o -t options option found
    return
  fi
  __shunt_below "$verb"
  if (( $#found )); then _describe -t subcommands subcommand found; return; fi
  case $verb in
    ()" + programs +
         R"() _command_names ;;
    (*) _files ;;
  esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _shunt "$@"; else compdef _shunt shunt; fi
)";
}

}  // namespace shunt::tool
