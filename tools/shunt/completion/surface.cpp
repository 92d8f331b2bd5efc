#include "tools/shunt/completion/surface.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <regex>

#include "runtime/config/options.h"
#include "runtime/profiles/profile.h"
#include "tools/shunt/topics.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

// A verb prints its help to stdout; here it is read instead.
std::string help_of(const Verb& verb, std::vector<std::string> arguments) {
  const int file = memfd_create("shunt-help", MFD_CLOEXEC);
  fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  if (file < 0 || saved < 0) return "";
  dup2(file, STDOUT_FILENO);
  arguments.emplace_back("--help");
  verb.run(arguments);
  fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  close(saved);
  std::string text(static_cast<size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  const ssize_t n = pread(file, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  close(file);
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); i++)
    if (i == text.size() || text[i] == at) {
      if (i > from) out.push_back(text.substr(from, i - from));
      from = i + 1;
    }
  return out;
}

std::string first_sentence(std::string text) {
  const size_t end = text.find(". ");
  if (end != std::string::npos) text.resize(end);
  if (!text.empty() && text.back() == '.') text.pop_back();
  std::erase(text, '`');
  std::erase(text, '*');
  return text;
}

std::vector<OptionEntry> run_options() {
  std::vector<OptionEntry> out;
  for (const config::OptionInfo& o : config::options()) {
    if (o.scope == config::Scope::internal) continue;
    OptionEntry entry{"--" + std::string(o.name),
                      o.type != config::OptionType::boolean,
                      {},
                      first_sentence(std::string(o.doc))};
    if (o.type == config::OptionType::choice) entry.choices = split(std::string(o.choices), '|');
    if (o.name == "sim") entry.choices = model_choices();
    if (o.name == "sim-links") entry.choices = {"nvlink5", "nvlink6", "pcie5", "pcie6", "none"};
    out.push_back(std::move(entry));
  }
  out.push_back({"--config", true, {}, "Settings file"});
  out.push_back({"-o", true, {}, "Directory to write the trace to"});
  out.push_back({"-q", false, {}, "No start line"});
  out.push_back({"-f", false, {}, "Overwrite an existing trace directory"});
  return out;
}

// Words behind "--" belong to the program of an example; what `shunt OTHER` shows belongs to that verb.
std::string own_text(const std::string& help, const std::string& verb) {
  std::string out;
  for (std::string line : split(help, '\n')) {
    const size_t other = line.find("shunt ");
    if (other != std::string::npos && line.compare(other + 6, verb.size(), verb) != 0) line.resize(other);
    const size_t program = line.find(" -- ");
    if (program != std::string::npos) line.resize(program);
    out += line + "\n";
  }
  return out;
}

// The list of options that CLI11 prints: "  -o,--output TEXT=default   description".
void add_listed(const std::string& text, OptionEntry& entry) {
  const std::regex line("\\n +(?:-\\w,)?" + entry.name + "( [A-Z]+[^ \\n]*)*  +(\\S[^\\n]*)");
  std::smatch m;
  if (!std::regex_search(text, m, line)) return;
  entry.summary = first_sentence(m[2]);
  static const std::regex alternatives(R"([a-z][a-z0-9]*(\|[A-Za-z0-9.]+)+)");
  if (m[1].matched && entry.choices.empty() && std::regex_match(entry.summary, alternatives))
    for (const std::string& c : split(entry.summary, '|'))
      if (c.find('.') == std::string::npos) entry.choices.push_back(c);
}

std::vector<OptionEntry> options_in(const std::string& text) {
  static const std::regex option(
      R"((^|[\s\[(,|])(--[a-z][a-z0-9-]*)([ =](\{?[A-Za-z0-9._:]+(\|[A-Za-z0-9._]+)+|[A-Z]+\b))?)");
  std::vector<OptionEntry> out;
  for (std::sregex_iterator it(text.begin(), text.end(), option), end; it != end; ++it) {
    OptionEntry entry{(*it)[2], (*it)[4].matched, {}, ""};
    if ((*it)[5].matched)
      for (const std::string& c : split((*it)[4], '|'))
        if (c.find_first_of("{.:") == std::string::npos && std::islower(static_cast<unsigned char>(c[0])))
          entry.choices.push_back(c);
    if (entry.name == "--sim" && entry.takes_value) entry.choices = model_choices();
    add_listed(text, entry);
    auto known =
        std::find_if(out.begin(), out.end(), [&](const OptionEntry& e) { return e.name == entry.name; });
    if (known == out.end())
      out.push_back(std::move(entry));
    else if (entry.takes_value && !known->takes_value)
      *known = std::move(entry);
  }
  return out;
}

std::vector<std::string> subcommands_in(const std::string& help, const std::string& verb) {
  std::vector<std::string> out;
  auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  static const std::regex listed(R"(^  ([a-z][a-z-]+)  .*)");
  const std::regex used("^(Usage:|      ) shunt " + verb + R"( \[?([a-z][a-z-]+)\]?($|[ \[].*))");
  bool in_list = false;
  std::smatch m;
  for (const std::string& line : split(help, '\n')) {
    if (line.ends_with("ubcommands:"))
      in_list = true;
    else if (!line.starts_with("  "))
      in_list = false;
    if (in_list && std::regex_match(line, m, listed)) add(m[1]);
    if (std::regex_match(line, m, used) && m[2] != "options") add(m[2]);
  }
  return out;
}

}  // namespace

std::vector<std::string> model_choices() {
  std::vector<std::string> out;
  for (const profiles::Profile& p : profiles::all()) out.emplace_back(p.key);
  return out;
}

std::vector<std::string> help_topics() {
  std::vector<std::string> out;
  for (const Topic& t : topics()) out.emplace_back(t.name);
  return out;
}

std::vector<VerbEntry> command_surface() {
  std::vector<Verb> all = verbs();
  std::sort(all.begin(), all.end(), [](const Verb& a, const Verb& b) { return a.order < b.order; });
  std::vector<VerbEntry> out;
  for (const Verb& v : all) {
    const std::string name = v.name;
    VerbEntry entry{name, v.summary, help_of(v, {}), {}, false};
    const bool takes_all = name == "run" || entry.help.find("[options of shunt run]") != std::string::npos;
    const std::string text = own_text(entry.help, name);
    if (takes_all) entry.options = run_options();
    for (OptionEntry& o : options_in(text))
      if (std::none_of(entry.options.begin(), entry.options.end(),
                       [&](const OptionEntry& e) { return e.name == o.name; }))
        entry.options.push_back(std::move(o));
    if (name == "run")
      std::erase_if(entry.options, [](const OptionEntry& o) { return o.name == "--output"; });
    if (std::none_of(entry.options.begin(), entry.options.end(),
                     [](const OptionEntry& e) { return e.name == "--help"; }))
      entry.options.push_back({"--help", false, {}, "What the command does"});
    entry.program_follows = name == "run" || entry.help.find("[-- PROGRAM]") != std::string::npos;
    const std::vector<std::string> below = subcommands_in(entry.help, name);
    const bool own_help = entry.help.find("ubcommands:\n") != std::string::npos;
    out.push_back(entry);
    for (const std::string& sub : below) {
      VerbEntry child = entry;
      child.name = name + " " + sub;
      // A verb that parses by subcommand explains each; the others say all on one page.
      if (own_help) {
        child.help = help_of(v, {sub});
        child.options = options_in(own_text(child.help, name));
      }
      child.summary.clear();
      for (const std::string& line : split(entry.help, '\n')) {
        std::smatch m;
        if (std::regex_match(line, m, std::regex(" *" + sub + "  +(\\S.*)"))) child.summary = m[1];
      }
      out.push_back(std::move(child));
    }
  }
  return out;
}

}  // namespace shunt::tool
