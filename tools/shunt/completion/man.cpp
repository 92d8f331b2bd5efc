// The manual page, shunt(1), in man(7).
#include "runtime/config/options.h"
#include "tools/shunt/completion/surface.h"
#include "tools/shunt/version.h"

namespace shunt::tool {
namespace {

// Text as roff prints it unchanged: no escapes, no control line, no typographic dash.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_start = c == '\n';
  }
  return out;
}

// Markdown's `code` in bold.
std::string prose(const std::string& text) {
  std::string out;
  bool code = false;
  for (const char& c : roff(text)) {
    if (c == '`')
      out += (code = !code) ? "\\fB" : "\\fR";
    else
      out += c;
  }
  return out;
}

std::string option_entry(const config::OptionInfo& o) {
  std::string out = ".TP\n\\fB";
  if (o.name == "trace") out += "\\-o\\fR, \\fB";
  if (o.name == "quiet") out += "\\-q\\fR, \\fB";
  if (o.name == "force") out += "\\-f\\fR, \\fB";
  out += roff("--" + std::string(o.name)) + "\\fR";
  if (o.type == config::OptionType::choice)
    out += " " + roff(std::string(o.choices));
  else if (o.type == config::OptionType::bytes)
    out += " \\fISIZE\\fR";
  else if (o.type != config::OptionType::boolean)
    out += " \\fITEXT\\fR";
  out += "\n" + prose(std::string(o.doc));
  if (!o.default_value.empty() && o.type != config::OptionType::boolean)
    out += "\nDefault: \\fB" + roff(std::string(o.default_value)) + "\\fR.";
  return out + "\nVariable \\fB" + roff(std::string(o.env())) + "\\fR.\n";
}

}  // namespace

std::string manual_page(const std::vector<VerbEntry>& surface, const std::string& date) {
  std::string out = ".TH SHUNT 1 " + date + " \"shunt " + std::string(kVersion) + "\" \"User Commands\"\n";
  out +=
      ".SH NAME\n"
      "shunt \\- run unmodified CUDA and NCCL programs better on mixed GPUs, or on a simulated box\n"
      ".SH SYNOPSIS\n"
      ".B shunt\nVERB [\\fIoptions\\fR]\n.br\n"
      ".B shunt run\n[\\fIoptions\\fR] [\\fB\\-\\-\\fR] \\fIPROGRAM\\fR [\\fIarguments\\fR]\n"
      ".SH DESCRIPTION\n"
      ".B shunt\n"
      "sits between a CUDA program and the driver (LD_PRELOAD, no rebuild). It chooses the device that fits, "
      "submits repeated\n"
      "launches as CUDA graphs, moves collectives beside compute, and treats an out of memory error as the "
      "last resort.\n"
      "Results, error codes and the order of visible effects stay those of a run without it; where shunt is "
      "not sure, a call\n"
      "passes through. Every decision can be recorded and explained.\n"
      "On a machine without a GPU the same programs run on simgpu, a software CUDA platform\n"
      "(\\fB\\-\\-sim\\fR).\n"
      ".SH COMMANDS\n";
  for (const VerbEntry& v : surface) {
    if (v.name.find(' ') != std::string::npos) continue;
    out += ".SS shunt " + v.name + "\n" + prose(v.summary) + ".\n";
    if (v.name == "run") {
      out += "See OPTIONS.\n";
      continue;
    }
    out += ".PP\n.nf\n" + roff(v.help) + (v.help.ends_with('\n') ? "" : "\n") + ".fi\n";
  }
  out += ".SH OPTIONS\nOf \\fBshunt run\\fR. Each is also a variable and a key of \\fIshunt.toml\\fR.\n";
  for (const config::OptionInfo& o : config::options())
    if (o.scope != config::Scope::internal) out += option_entry(o);
  out +=
      ".TP\n\\fB\\-\\-config\\fR \\fIFILE\\fR\nSettings file (TOML), read after \\fI./shunt.toml\\fR and "
      "before the environment.\n"
      ".SH ENVIRONMENT\n"
      "Each option is also a variable, named with it above. A bare preload\n"
      "(\\fBLD_PRELOAD=libshunt.so\\fR) is configured by variables alone.\n"
      ".SH FILES\n"
      ".TP\n.I ./shunt.toml\nSettings of the folder a program is started in.\n"
      ".TP\n.I $XDG_CONFIG_HOME/shunt/shunt.toml\nSettings of the user.\n"
      ".TP\n.I $XDG_CONFIG_HOME/shunt/rules.toml\nPlacement rules of the user.\n"
      ".SH EXIT STATUS\n"
      "Of \\fBshunt run\\fR: the program's own; 125 if shunt failed, 126 if the program cannot be executed, "
      "127 if it was not\n"
      "found. Other verbs: 0, or what their help says; 125 for wrong use.\n"
      ".SH EXAMPLES\n.nf\n";
  for (const VerbEntry& v : surface)
    if (v.name == "run") {
      const size_t from = v.help.find("Examples:\n"), to = v.help.find("\n\nExit status");
      if (from != std::string::npos && to != std::string::npos && to > from)
        out += roff(v.help.substr(from + 10, to - from - 10)) + "\n";
    }
  out += ".fi\n.SH SEE ALSO\n.BR nvidia\\-smi (1),\n.BR ld.so (8)\n";
  return out;
}

}  // namespace shunt::tool
