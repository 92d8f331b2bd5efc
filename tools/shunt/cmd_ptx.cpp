// `shunt ptx`: what the overlap engine can prove about the kernels of a PTX file, a fat binary or a program,
// and why a kernel is a barrier when it is one.
#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "runtime/binary/fatbin.h"
#include "runtime/ptx/access_analysis.h"
#include "runtime/ptx/print.h"
#include "tools/shunt/console.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {
namespace {

constexpr const char* kUsage =
    "Usage: shunt ptx [--sm N] [--kernel TEXT] [--json | --print] FILE\n\n"
    "FILE is PTX, a fat binary, or a program, library or object file with device code. For each kernel: "
    "whether memory reached\n"
    "through each parameter is read or written, and whether a launch bounds it (then it conflicts only with "
    "what it really\n"
    "overlaps) or only the whole allocation is known. A kernel that is unknown orders everything around it; "
    "its reason is shown.\n"
    "  --sm N         only PTX made for compute capability N (90, 100, 120)\n"
    "  --kernel TEXT  only kernels with TEXT in their (demangled) name\n"
    "  --print        the PTX as the parser understood it\n";

struct Options {
  uint32_t sm = 0;
  bool json = false, print = false;
  std::string kernel, file;
};

struct Image {
  std::string origin, text;
};

struct Totals {
  size_t images = 0, kernels = 0, proven = 0, bounded = 0, unknown = 0;
};

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  free(text);
  return result;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 32) {
      char buffer[8];
      snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// All PTX of the file. False with `error`.
bool read_images(const Options& options, std::vector<Image>& images, std::string& error) {
  std::ifstream file(options.file, std::ios::binary);
  if (!file) {
    error = "cannot open '" + options.file + "'; give a PTX file, a fat binary or a program";
    return false;
  }
  char magic[4] = {};
  file.read(magic, 4);
  std::vector<binary::Entry> entries;
  std::vector<std::string> backing;
  if (std::string(magic, 4) ==
      "\x7f"
      "ELF") {
    if (!binary::read_elf_file(options.file, entries, backing, error)) return false;
  } else {
    std::stringstream content;
    file.clear();
    file.seekg(0);
    content << file.rdbuf();
    backing.push_back(content.str());
    const std::string& text = backing.back();
    switch (binary::classify(text.c_str())) {
      case binary::ImageKind::container:
        if (text.size() < 16 || !binary::read_container(reinterpret_cast<const uint8_t*>(text.data()),
                                                        text.size(), entries, error))
          return false;
        break;
      case binary::ImageKind::ptx_text:
        images.push_back({options.file, text});
        return true;
      default:
        error = "'" + options.file + "' is neither PTX nor a fat binary nor an ELF file";
        return false;
    }
  }
  for (const binary::Entry& entry : entries) {
    if (entry.kind != binary::Entry::Kind::ptx || (options.sm != 0 && entry.sm != options.sm)) continue;
    Image image;
    image.origin = options.file + ", sm_" + std::to_string(entry.sm) +
                   (entry.arch_specific     ? "a"
                    : entry.family_specific ? "f"
                                            : "");
    if (!entry.name.empty()) image.origin += ", " + entry.name;
    if (!binary::extract(entry, image.text, error)) return false;
    images.push_back(std::move(image));
  }
  if (images.empty()) {
    error = "'" + options.file + "' holds no PTX" +
            (options.sm ? " for sm_" + std::to_string(options.sm) : std::string()) +
            "; machine code alone cannot be analysed";
    return false;
  }
  return true;
}

void add_rows(const ptx::KernelAccess& access, const ptx::Function& kernel,
              std::vector<std::vector<std::string>>& rows) {
  std::string name = demangled(access.name);
  if (access.unknown) {
    rows.push_back({name, "", "unknown", access.reason});
    return;
  }
  if (kernel.params.empty()) rows.push_back({name, "", "none", ""});
  for (size_t i = 0; i < access.parameters.size(); ++i) {
    const ptx::ParameterAccess& p = access.parameters[i];
    std::string extent;
    if (p.mode != ptx::AccessMode::unused) extent = p.affine ? "bounded by the launch" : "whole allocation";
    if (p.pointers.size() > 1) extent += ", " + std::to_string(p.pointers.size()) + " pointers";
    rows.push_back({name, std::to_string(i), std::string(ptx::access_mode_name(p.mode)), extent});
    name.clear();
  }
  for (const ptx::VariableAccess& v : access.variables)
    rows.push_back({"", v.name, std::string(ptx::access_mode_name(v.mode)), "module variable: a barrier"});
}

std::string json_of(const ptx::KernelAccess& access) {
  std::string out =
      "{\"name\": " + quoted(access.name) + ", \"proven\": " + (access.proven() ? "true" : "false");
  if (access.unknown) return out + ", \"reason\": " + quoted(access.reason) + "}";
  out += ", \"parameters\": [";
  for (size_t i = 0; i < access.parameters.size(); ++i) {
    const ptx::ParameterAccess& p = access.parameters[i];
    out += std::string(i ? ", " : "") + "{\"access\": \"" + std::string(ptx::access_mode_name(p.mode)) +
           "\", \"bounded\": " + (p.affine ? "true" : "false") + ", \"pointers\": [";
    for (size_t k = 0; k < p.pointers.size(); ++k) out += (k ? ", " : "") + std::to_string(p.pointers[k]);
    out += "]}";
  }
  out += "], \"variables\": [";
  for (size_t i = 0; i < access.variables.size(); ++i) {
    out += std::string(i ? ", " : "") + "{\"name\": " + quoted(access.variables[i].name) +
           ", \"access\": \"" + std::string(ptx::access_mode_name(access.variables[i].mode)) + "\"}";
  }
  return out + "]}";
}

void count(const ptx::KernelAccess& access, Totals& totals) {
  ++totals.kernels;
  totals.unknown += access.unknown;
  totals.proven += access.proven();
  bool bounded = access.proven();
  for (const ptx::ParameterAccess& p : access.parameters)
    bounded = bounded && (p.mode == ptx::AccessMode::unused || p.affine);
  totals.bounded += bounded;
}

bool parse_arguments(const std::vector<std::string>& arguments, Options& options, bool& help,
                     std::string& error) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h")
      help = true;
    else if (argument == "--json")
      options.json = true;
    else if (argument == "--print")
      options.print = true;
    else if ((argument == "--sm" || argument == "--kernel") && i + 1 < arguments.size()) {
      const std::string& value = arguments[++i];
      if (argument == "--kernel") {
        options.kernel = value;
        continue;
      }
      options.sm = static_cast<uint32_t>(strtoul(value.c_str(), nullptr, 10));
      if (options.sm == 0) error = "--sm takes a compute capability such as 90 or 100, not '" + value + "'";
    } else if (argument.compare(0, 1, "-") == 0)
      error = "unknown or incomplete flag '" + argument + "'; see shunt ptx --help";
    else if (options.file.empty())
      options.file = argument;
    else
      error = "one file at a time; '" + argument + "' is a second one";
  }
  if (!help && error.empty() && options.file.empty())
    error = "give a PTX file, a fat binary or a program; see shunt ptx --help";
  if (options.json && options.print) error = "--json and --print exclude each other";
  return error.empty();
}

int ptx_verb(const std::vector<std::string>& arguments) {
  Options options;
  bool help = false;
  std::string error;
  if (!parse_arguments(arguments, options, help, error)) return fail(kFailed, error);
  if (help) return printf("%s", kUsage) > 0 ? 0 : kFailed;
  std::vector<Image> images;
  if (!read_images(options, images, error)) return fail(kFailed, error);

  Totals totals;
  bool first = true, all_parsed = true;
  if (options.json) printf("{\"schema\": 1, \"images\": [");
  for (const Image& image : images) {
    ptx::Diagnostic diagnostic;
    const auto module = ptx::parse(image.text, diagnostic);
    ++totals.images;
    if (!module) {
      all_parsed = false;
      fail(kFailed, image.origin + ":" + std::to_string(diagnostic.line) + ":" +
                        std::to_string(diagnostic.column) + ": " + diagnostic.message);
      continue;
    }
    if (options.print) {
      printf("// %s\n%s", image.origin.c_str(), ptx::print(*module).c_str());
      continue;
    }
    std::vector<std::vector<std::string>> rows{{"kernel", "parameter", "access", "extent"}};
    std::string kernels;
    for (const ptx::Function& function : module->functions) {
      if (!function.is_entry || function.is_declaration) continue;
      if (demangled(function.name).find(options.kernel) == std::string::npos) continue;
      const ptx::KernelAccess access = ptx::analyse_access(*module, function);
      count(access, totals);
      add_rows(access, function, rows);
      if (options.json) kernels += (kernels.empty() ? "" : ",\n    ") + json_of(access);
    }
    if (options.json)
      printf("%s\n  {\"image\": %s, \"target\": %s, \"kernels\": [\n    %s]}", first ? "" : ",",
             quoted(image.origin).c_str(), quoted(module->target).c_str(), kernels.c_str());
    else if (rows.size() > 1)
      printf("%s%s (%s)\n%s", first ? "" : "\n", image.origin.c_str(), module->target.c_str(),
             table(rows).c_str());
    first = false;
  }
  if (options.json)
    printf("\n]}\n");
  else if (!options.print && (totals.kernels != 0 || all_parsed))
    printf("\n%zu kernels: %zu proven, %zu of them bounded by the launch; %zu unknown\n", totals.kernels,
           totals.proven, totals.bounded, totals.unknown);
  return all_parsed ? 0 : kFailed;
}

SHUNT_VERB("ptx", 75, "what kernels read and write, as far as it can be proven", ptx_verb)

}  // namespace
}  // namespace shunt::tool
