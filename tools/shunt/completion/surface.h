// The command line as data: verbs, their subcommands and options, taken from the options table and from the
// verbs' own help, so that completions and the manual never say what the command does not. One thread.
#pragma once
#include <string>
#include <vector>

namespace shunt::tool {

struct OptionEntry {
  std::string name;                  // "--oom", "-o"
  bool takes_value = false;          //
  std::vector<std::string> choices;  // of the value, when they are few
  std::string summary;               // first sentence of its description, may be empty
};

struct VerbEntry {
  std::string name;     // "run", "trace summary"
  std::string summary;  // one line
  std::string help;     // what `shunt NAME --help` prints
  std::vector<OptionEntry> options;
  bool program_follows = false;  // the first positional is a program with its own arguments
};

// In the order of `shunt --help`; a subcommand follows its verb.
std::vector<VerbEntry> command_surface();

std::vector<std::string> help_topics();    // of `shunt help`
std::vector<std::string> model_choices();  // for --sim and hints

// Each writer returns the whole file.
std::string bash_completion(const std::vector<VerbEntry>& surface);
std::string zsh_completion(const std::vector<VerbEntry>& surface);
std::string fish_completion(const std::vector<VerbEntry>& surface);
std::string manual_page(const std::vector<VerbEntry>& surface, const std::string& date);

}  // namespace shunt::tool
