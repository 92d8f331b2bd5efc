// `shunt completion bash`.
#include "tools/shunt/completion/script.h"
#include "tools/shunt/completion/surface.h"

namespace shunt::tool {

std::string bash_completion(const std::vector<VerbEntry>& surface) {
  std::string verb_names, below, options, values, programs;
  for (const VerbEntry& v : surface) {
    const size_t space = v.name.find(' ');
    if (space == std::string::npos) verb_names += (verb_names.empty() ? "" : " ") + v.name;
    std::string names;
    for (const OptionEntry& o : v.options) {
      names += (names.empty() ? "" : " ") + o.name;
      if (o.takes_value)
        values +=
            "    '" + v.name + " " + o.name + "') values='" + joined(o.choices, " ") + "'; return 0 ;;\n";
    }
    options += "    '" + v.name + "') options='" + names + "' ;;\n";
    if (v.program_follows) programs += (programs.empty() ? "'" : " | '") + v.name + "'";
    if (const std::string subs = joined(subcommands_of(surface, v.name), " "); !subs.empty())
      below += "    '" + v.name + "') below='" + subs + "' ;;\n";
  }
  below += "    help) below='" + joined(help_topics(), " ") + " " + verb_names + "' ;;\n";
  return R"(# bash completion for shunt, written by `shunt completion bash`.

# Whether option $2 of verb $1 takes a value, and in `values` the words it can be.
__shunt_value() {
  values=
  case "$1 $2" in
)" + values +
         R"(  esac
  return 1
}

_shunt() {
  COMPREPLY=()
  # Words by blanks alone: bash would also split them at = and :
  local line=${COMP_LINE:0:COMP_POINT} words current verb options below values program=0 pending= i
  read -ra words <<<"$line"
  case "$line" in *[[:space:]]) words+=('') ;; esac
  current=${words[${#words[@]}-1]}
  verb=
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    local word=${words[i]}
    if [ -n "$pending" ]; then pending=; continue; fi
    if [ -z "$verb" ]; then verb=$word; continue; fi
    case "$word" in
      --) program=$((i + 1)); break ;;
      -*=*) ;;
      -*) if __shunt_value "$verb" "$word"; then pending=$word; fi ;;
      *)
        case "$verb" in )" +
         programs + R"() program=$i; break ;; esac
        case "$verb" in *' '*) ;; *) below=; __shunt_below "$verb"
          case " $below " in *" $word "*) verb="$verb $word" ;; esac ;; esac ;;
    esac
  done
  if ((program > 0)); then
    if declare -F _command_offset >/dev/null && [ "${#words[@]}" -eq "${#COMP_WORDS[@]}" ]; then
      _command_offset "$program"
    elif ((program == ${#words[@]} - 1)); then
      COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current"))
    else
      COMPREPLY=($(compgen -f -- "$current"))
    fi
    return
  fi
  if [ -z "$verb" ]; then
    COMPREPLY=($(compgen -W ')" +
         verb_names + R"( --help --version' -- "$current"))
    return
  fi
  local prefix=
  case "$current" in
    -*=*) pending=${current%%=*}; prefix=$pending=; __shunt_value "$verb" "$pending" || return ;;
    *) if [ -n "$pending" ]; then __shunt_value "$verb" "$pending"; fi ;;
  esac
  if [ -n "$pending" ]; then
    if [ -n "$values" ]; then
      COMPREPLY=($(compgen -W "$values" -- "${current#"$prefix"}"))
    else
      COMPREPLY=($(compgen -f -- "${current#"$prefix"}"))
    fi
    # Readline replaces only what follows its last word break.
    case "$COMP_WORDBREAKS" in *=*) ;; *) COMPREPLY=("${COMPREPLY[@]/#/$prefix}") ;; esac
    return
  fi
  options=
  case "$verb" in
)" + options +
         R"(  esac
  below=
  __shunt_below "$verb"
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      if [ -n "$below" ]; then COMPREPLY=($(compgen -W "$below" -- "$current")); fi
      case "$verb" in )" +
         programs + R"() COMPREPLY=($(compgen -c -- "$current")) ;; esac
      [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}

__shunt_below() {
  case "$1" in
)" + below +
         R"(  esac
}

complete -o filenames -F _shunt shunt
)";
}

}  // namespace shunt::tool
