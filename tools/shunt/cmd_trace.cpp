// shunt trace VERB RUN: what a recorded run says (docs/trace-format.md). Each verb reads the .shunt folder
// once.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/shunt/console.h"
#include "tools/shunt/trace/call_site_table.h"
#include "tools/shunt/trace/correlate.h"
#include "tools/shunt/trace/exports.h"
#include "tools/shunt/trace/report.h"
#include "tools/shunt/trace/summary.h"
#include "tools/shunt/verb.h"

namespace shunt::tool {

namespace {

constexpr int kBadTrace = 2, kDiffers = 1, kDamaged = 1;

struct Options {
  std::string run, other, output, format = "perfetto", nsys, kineto;
  bool json = false, csv = false, force = false;
  size_t sites = 0;
  double threshold = 0.1;
};

Progress progress_on_terminal() {
  if (!is_terminal(STDERR_FILENO)) return {};
  return [](uint64_t done, uint64_t all) {
    if (all < 1'000'000) return;
    std::fprintf(stderr, "\r[shunt] %llu of %llu records (%llu %%)%s", static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(all), static_cast<unsigned long long>(100 * done / all),
                 done == all ? "\n" : "");
  };
}

// Never over an existing file without --force: somebody else's work may be in it.
bool may_write(const Options& o, const std::string& path) {
  struct stat st {};
  if (o.force || path == "-" || stat(path.c_str(), &st) != 0) return true;
  fail(kBadTrace, "'" + path + "' exists: choose another -o or add --force");
  return false;
}

int summary_verb(const Options& o, const TraceRun& run) {
  const RunSummary s = summarise(run, progress_on_terminal());
  const std::string text = o.json  ? summary_json(run, s)
                           : o.csv ? summary_csv(s)
                                   : tool::summary_text(run, s);
  std::fputs(text.c_str(), stdout);
  if (o.sites) std::fputs(sites_text(run, o.sites, progress_on_terminal()).c_str(), stdout);
  return 0;
}

int export_verb(const Options& o, const TraceRun& run) {
  struct Form {
    const char *name, *suffix;
    bool (*write)(const TraceRun&, const std::string&, const Progress&, std::string&);
  };
  static constexpr Form kForms[] = {{"perfetto", ".pftrace", export_perfetto},
                                    {"chrome", ".json", export_chrome},
                                    {"sqlite", ".sqlite", export_sqlite},
                                    {"csv", ".csv", export_csv}};
  for (const Form& form : kForms) {
    if (o.format != form.name) continue;
    std::string stem = o.run;
    while (stem.size() > 1 && stem.back() == '/') stem.pop_back();
    if (stem.ends_with(".shunt")) stem.resize(stem.size() - 6);
    const std::string path = o.output.empty() ? stem + form.suffix : o.output;
    if (path == "-" && o.format == "sqlite")
      return fail(kBadTrace, "a SQLite database cannot go to standard output: give -o FILE");
    if (!may_write(o, path)) return kBadTrace;
    std::string error;
    if (!form.write(run, path, progress_on_terminal(), error)) return fail(kBadTrace, error);
    if (path != "-") say("wrote " + path);
    return 0;
  }
  return fail(kBadTrace, "unknown format '" + o.format + "': perfetto, chrome, sqlite or csv");
}

int correlate_verb(const Options& o, const TraceRun& run) {
  Correlation c;
  std::string error;
  if (!o.nsys.empty() && !o.kineto.empty())
    return fail(kBadTrace, "correlate takes one of --nsys FILE.sqlite and --kineto FILE.json, or neither");
  if (o.nsys.empty() && o.kineto.empty())
    correlate_self(run, c);
  else if (!(o.nsys.empty() ? correlate_kineto(run, o.kineto, c, error)
                            : correlate_nsys(run, o.nsys, c, error)))
    return fail(kBadTrace, error);
  std::fputs((o.json ? correlation_json(c) : correlation_text(c)).c_str(), stdout);
  return 0;
}

int diff_verb(const Options& o, const TraceRun& run) {
  TraceRun second;
  std::string error;
  if (!open_run(o.other, second, error)) return fail(kBadTrace, error);
  const RunDifference d = diff_runs(summarise(run), summarise(second), o.threshold);
  std::fputs(d.text.c_str(), stdout);
  return d.changed ? kDiffers : 0;
}

int report_verb(const Options& o, const TraceRun& run) {
  const std::string path = o.output.empty() ? "shunt-report.html" : o.output;
  if (!may_write(o, path)) return kBadTrace;
  std::string error;
  if (!write_report(run, path, progress_on_terminal(), error)) return fail(kBadTrace, error);
  say("wrote " + path);
  return 0;
}

int check_verb(const Options&, const TraceRun& run) {
  std::string text;
  const bool whole = check_run(run, text);
  std::fputs(text.c_str(), stdout);
  return whole ? 0 : kDamaged;
}

int trace_verb(const std::vector<std::string>& arguments) {
  Options o;
  CLI::App app{"Reads what `shunt run -o NAME` recorded."};
  app.name("shunt trace");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  shunt trace summary run.shunt\n"
      "  shunt trace export run.shunt --format perfetto -o run.pftrace\n"
      "  shunt trace correlate run.shunt --nsys report.sqlite\n"
      "  shunt trace report run.shunt -o report.html");
  int (*chosen)(const Options&, const TraceRun&) = nullptr;
  auto verb = [&](const char* name, const char* text, int (*run)(const Options&, const TraceRun&)) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->add_option("RUN", o.run, "the .shunt folder, or one .shnt file")->required();
    sub->callback([&chosen, run] { chosen = run; });
    return sub;
  };
  CLI::App* summary = verb("summary", "decisions by feature, reasons, losses", summary_verb);
  summary->add_flag("--json", o.json);
  CLI::Option* csv = summary->add_flag("--csv", o.csv);
  summary->add_option("--sites", o.sites, "also the N busiest places of the program, by reason")
      ->excludes(summary->get_option("--json"))
      ->excludes(csv);
  CLI::App* exported = verb("export", "write a file other tools read", export_verb);
  exported->add_option("--format", o.format, "perfetto|chrome|sqlite|csv")->capture_default_str();
  exported->add_option("-o,--output", o.output, "file to write ('-': standard output)");
  exported->add_flag("--force,-f", o.force, "overwrite");
  CLI::App* correlate =
      verb("correlate", "join decisions with device work, by ids: the trace's own or another profiler's",
           correlate_verb);
  correlate->add_option("--nsys", o.nsys, "SQLite export of nsys");
  correlate->add_option("--kineto", o.kineto, "trace of torch.profiler");
  correlate->add_flag("--json", o.json);
  CLI::App* diff =
      verb("diff", "counts that differ between two runs; status 1 beyond the threshold", diff_verb);
  diff->add_option("OTHER", o.other, "the second run")->required();
  diff->add_option("--threshold", o.threshold, "relative change that counts")->capture_default_str();
  verb("check", "what is whole, what was salvaged, what is lost", check_verb);
  CLI::App* report = verb("report", "one offline HTML file", report_verb);
  report->add_option("-o,--output", o.output, "file to write");
  report->add_flag("--force,-f", o.force, "overwrite");
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& e) {
    return fail(kBadTrace, std::string("trace: ") + e.what() + " (see shunt trace --help)");
  }
  TraceRun run;
  std::string error;
  if (!open_run(o.run, run, error)) return fail(kBadTrace, error);
  if (chosen != check_verb) {
    for (const std::string& line : run.unreadable) warn(line);
  }
  return chosen(o, run);
}

}  // namespace

SHUNT_VERB("trace", 30, "summarise, export, correlate, compare, check and report recorded runs", trace_verb)

}  // namespace shunt::tool
