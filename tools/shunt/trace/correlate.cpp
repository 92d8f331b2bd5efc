#include "tools/shunt/trace/correlate.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tools/shunt/trace/correlate_own.h"

namespace shunt::tool {

namespace {

struct Db {
  sqlite3* handle = nullptr;
  ~Db() { sqlite3_close(handle); }
  std::set<std::string> columns(const std::string& table) const {
    std::set<std::string> names;
    query("SELECT name FROM pragma_table_info('" + table + "')",
          [&](sqlite3_stmt* s) { names.insert(reinterpret_cast<const char*>(sqlite3_column_text(s, 0))); });
    return names;
  }
  template <class Row>
  bool query(const std::string& sql, Row row) const {
    sqlite3_stmt* s = nullptr;
    if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &s, nullptr) != SQLITE_OK) return false;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) row(s);
    sqlite3_finalize(s);
    return code == SQLITE_DONE;
  }
};

uint32_t pid_of(int64_t global) { return static_cast<uint32_t>(global >> 24 & 0xFFFFFF); }

// correlationId is unique in a process: the pair is the join key.
struct ApiRow {
  int64_t start, end, tid;
  uint64_t correlation;
};

// Which domain of each process is shunt's: another domain's payload may be the same number. Empty: the file
// names no domains.
std::set<std::pair<uint32_t, int64_t>> shunt_domains(const Db& db, bool& named) {
  std::set<std::pair<uint32_t, int64_t>> domains;
  const auto columns = db.columns("NVTX_EVENTS");
  if (!columns.count("eventType") || !columns.count("domainId")) return domains;
  std::string create = "75";
  db.query("SELECT id FROM ENUM_NSYS_EVENT_TYPE WHERE name = 'NvtxDomainCreate'",
           [&](sqlite3_stmt* s) { create = std::to_string(sqlite3_column_int64(s, 0)); });
  std::string name = columns.count("text") ? "text" : "NULL";
  if (columns.count("textId") && !db.columns("StringIds").empty())
    name = "COALESCE(" + name + ", (SELECT value FROM StringIds WHERE id = textId))";
  db.query("SELECT globalTid, domainId, " + name + " FROM NVTX_EVENTS WHERE eventType = " + create,
           [&](sqlite3_stmt* s) {
             named = true;
             const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, 2));
             if (text && std::string_view(text) == "shunt")
               domains.insert({pid_of(sqlite3_column_int64(s, 0)), sqlite3_column_int64(s, 1)});
           });
  return domains;
}

void add_note(Correlation& out, const std::string& text) {
  out.note += (out.note.empty() ? "" : "; ") + text;
}

// The columns a query needs, or what to say about those that are not there.
bool has_columns(const Db& db, const char* table, std::initializer_list<const char*> needed, Correlation& out,
                 const char* advice) {
  const auto columns = db.columns(table);
  if (columns.empty()) return add_note(out, std::string("no ") + table + ": " + advice), false;
  std::string missing;
  for (const char* column : needed)
    if (!columns.count(column)) missing += std::string(missing.empty() ? "" : ", ") + column;
  if (!missing.empty()) add_note(out, std::string(table) + " lacks " + missing);
  return missing.empty();
}

void nvtx_tier(const Db& db, WantedDecisions& wanted, Correlation& out) {
  constexpr const char* kAdvice = "run nsys with -t nvtx,cuda";
  if (!has_columns(db, "CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId"}, out,
                   "the export holds no CUDA calls") ||
      !has_columns(db, "NVTX_EVENTS", {"start", "end", "globalTid", "uint64Value"}, out, kAdvice))
    return;
  bool named = false;
  const auto domains = shunt_domains(db, named);
  if (named && domains.empty()) return add_note(out, "the file has no NVTX domain `shunt`");
  const bool by_domain = !domains.empty();
  // Ranges of domain shunt carry the decision id; a range owns the API rows of its thread that start inside
  // it.
  std::unordered_map<int64_t, std::vector<ApiRow>> api;
  db.query(
      "SELECT start, end, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IS "
      "NOT NULL ORDER BY start",
      [&](sqlite3_stmt* s) {
        api[sqlite3_column_int64(s, 2)].push_back({sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                                   sqlite3_column_int64(s, 2),
                                                   static_cast<uint64_t>(sqlite3_column_int64(s, 3))});
      });
  std::map<std::pair<uint32_t, uint64_t>, int64_t> work;  // (pid, correlation) -> device ns
  std::string missing;
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}) {
    const auto columns = db.columns(table);
    if (!columns.count("correlationId") || !columns.count("globalPid") || !columns.count("start") ||
        !columns.count("end")) {
      missing += std::string(missing.empty() ? "" : ", ") + table;
      continue;
    }
    db.query(std::string("SELECT start, end, globalPid, correlationId FROM ") + table, [&](sqlite3_stmt* s) {
      work[{pid_of(sqlite3_column_int64(s, 2)), static_cast<uint64_t>(sqlite3_column_int64(s, 3))}] +=
          sqlite3_column_int64(s, 1) - sqlite3_column_int64(s, 0);
    });
  }
  if (!missing.empty()) add_note(out, "not in the export: " + missing);
  std::map<DecisionKey, std::string> causes;
  const bool ok =
      db.query(std::string("SELECT start, end, globalTid, uint64Value, ") + (by_domain ? "domainId" : "0") +
                   " FROM NVTX_EVENTS WHERE uint64Value IS NOT NULL",
               [&](sqlite3_stmt* s) {
                 const int64_t start = sqlite3_column_int64(s, 0), tid = sqlite3_column_int64(s, 2);
                 const DecisionKey key{pid_of(tid), static_cast<uint64_t>(sqlite3_column_int64(s, 3))};
                 const auto want = wanted.find(key);
                 if (want == wanted.end()) return;
                 if (by_domain && !domains.count({key.first, sqlite3_column_int64(s, 4)})) return;
                 if (sqlite3_column_type(s, 1) == SQLITE_NULL) {
                   causes[key] = "instant decision (no range around a launch)";
                   return;
                 }
                 const int64_t end = sqlite3_column_int64(s, 1);
                 const auto rows = api.find(tid);
                 if (rows == api.end()) {
                   causes[key] = "no API rows for the thread (nsys skips some calls by default)";
                   return;
                 }
                 auto at = std::lower_bound(rows->second.begin(), rows->second.end(), start,
                                            [](const ApiRow& r, int64_t t) { return r.start < t; });
                 int64_t ns = 0;
                 bool launched = false, api_row = false;
                 for (; at != rows->second.end() && at->start <= end; ++at) {
                   api_row = true;
                   const auto w = work.find({key.first, at->correlation});
                   if (w != work.end()) launched = true, ns += w->second;
                 }
                 if (!launched) {
                   causes[key] = api_row ? "API rows in the range started no recorded device work"
                                         : "no API row in the range (nsys skips some calls by default)";
                   return;
                 }
                 ++out.matched["nvtx-range"];
                 out.gpu_ns[want->second.feature] += static_cast<uint64_t>(ns);
                 causes.erase(key);
                 wanted.erase(want);
               });
  if (!ok) add_note(out, "NVTX_EVENTS could not be read");
  for (const auto& [key, cause] : causes) {
    if (wanted.erase(key)) ++out.unmatched[cause];
  }
}

void external_tier(const Db& db, WantedDecisions& wanted, Correlation& out) {
  // shunt's own exports carry the decision beside the kernel.
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}) {
    if (!db.columns(table).count("shuntDecision")) continue;
    std::map<DecisionKey, int64_t> ns;
    db.query(std::string("SELECT end - start, globalPid, shuntDecision FROM ") + table +
                 " WHERE shuntDecision IS NOT NULL",
             [&](sqlite3_stmt* s) {
               ns[{pid_of(sqlite3_column_int64(s, 1)), static_cast<uint64_t>(sqlite3_column_int64(s, 2))}] +=
                   sqlite3_column_int64(s, 0);
             });
    for (const auto& [key, time] : ns) {
      const auto want = wanted.find(key);
      if (want == wanted.end()) continue;
      ++out.matched["external-id"];
      out.gpu_ns[want->second.feature] += static_cast<uint64_t>(time);
      wanted.erase(want);
    }
  }
}

}  // namespace

bool correlate_nsys(const TraceRun& run, const std::string& path, Correlation& out, std::string& error) {
  Db db;
  if (sqlite3_open_v2(path.c_str(), &db.handle, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK)
    return error = "cannot open '" + path + "': " + sqlite3_errmsg(db.handle), false;
  if (!db.query("SELECT name FROM sqlite_master LIMIT 1", [](sqlite3_stmt*) {}))
    return error = "'" + path + "' is no SQLite database: make one with `nsys export --type sqlite`", false;
  OwnRecords own(run);
  out.decisions = own.wanted.size();
  own.match(out);
  external_tier(db, own.wanted, out);
  nvtx_tier(db, own.wanted, out);
  own.name_causes("no range or id of this decision in the file", out);
  return true;
}

void correlate_self(const TraceRun& run, Correlation& out) {
  OwnRecords own(run);
  out.decisions = own.wanted.size();
  own.match(out);
  own.name_causes("", out);
}

bool correlate_kineto(const TraceRun& run, const std::string& path, Correlation& out, std::string& error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error = "cannot read '" + path + "'", false;
  const auto root = nlohmann::json::parse(file, nullptr, false);
  if (root.is_discarded()) return error = "'" + path + "' is not valid JSON: cut off?", false;
  OwnRecords own(run);
  WantedDecisions& wanted = own.wanted;
  out.decisions = wanted.size();
  own.match(out);
  // Both numbers are unique in a process only. Kineto's files hold one process, which their host rows name;
  // shunt's own say it on each device row.
  struct Work {
    std::map<uint64_t, double> by_correlation, by_external;
  };
  std::map<uint32_t, Work> work;
  std::set<uint32_t> pids;
  const auto number = [](const nlohmann::json& args, const char* name) -> uint64_t {
    const auto at = args.find(name);
    return at != args.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
  };
  for (const auto& e : root.is_array() ? root : root.value("traceEvents", nlohmann::json::array())) {
    if (!e.is_object() || !e.contains("cat") || !e["cat"].is_string()) continue;
    const std::string category = e["cat"];
    if (category == "cuda_runtime" || category == "cuda_driver" || category == "cpu_op")
      pids.insert(static_cast<uint32_t>(number(e, "pid")));
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    if (!e.contains("dur") || !e["dur"].is_number() || !e.contains("args") || !e["args"].is_object())
      continue;
    const auto& args = e["args"];
    Work& w = work[static_cast<uint32_t>(number(args, "process"))];
    const double dur = e["dur"].get<double>();
    if (const uint64_t c = number(args, "correlation")) w.by_correlation[c] += dur;
    if (const uint64_t x = number(args, "External id")) w.by_external[x] += dur;
  }
  uint32_t only = 0;
  if (pids.size() == 1) only = *pids.begin();
  if (pids.empty() && run.processes.size() == 1) only = run.processes.front()->pid();
  if (const auto unnamed = work.find(0); unnamed != work.end()) {
    if (only == 0)
      add_note(out, "the file's device rows do not say which process they belong to");
    else
      work[only] = unnamed->second;
  }
  std::map<DecisionKey, uint64_t> correlation_of;
  visit_records(run, [&](const RecordContext& c, const trace::RecordHeader& r) {
    const auto* d = as_decision(r);
    if (d && d->correlation) correlation_of[{c.process.pid(), r.id}] = d->correlation;
  });
  for (auto at = wanted.begin(); at != wanted.end();) {
    const auto& [key, want] = *at;
    const auto mine = key.first ? work.find(key.first) : work.end();
    const auto correlation = correlation_of.find(key);
    const double* micros = nullptr;
    const char* tier = "correlation-id";
    if (mine != work.end()) {
      const auto find = [&](const std::map<uint64_t, double>& in, uint64_t id) {
        const auto found = in.find(id);
        return found == in.end() ? nullptr : &found->second;
      };
      if (correlation != correlation_of.end())
        micros = find(mine->second.by_correlation, correlation->second);
      if (!micros) micros = find(mine->second.by_external, key.second), tier = "external-id";
    }
    if (!micros) {
      ++at;
      continue;
    }
    ++out.matched[tier];
    out.gpu_ns[want.feature] += static_cast<uint64_t>(*micros * 1000);
    at = wanted.erase(at);
  }
  own.name_causes("no id of this decision in the file", out);
  return true;
}

std::string correlation_text(const Correlation& c) {
  uint64_t matched = 0;
  for (const auto& [tier, n] : c.matched) matched += n;
  const uint64_t with_work = c.decisions - c.without_work;
  std::string out = fmt::format(
      "{} applied decisions, {} with device work, {} matched ({:.1f} %)\n", c.decisions, with_work, matched,
      with_work ? 100.0 * static_cast<double>(matched) / static_cast<double>(with_work) : 0.0);
  for (const auto& [tier, n] : c.matched) out += fmt::format("  matched by {}: {}\n", tier, n);
  for (const auto& [cause, n] : c.unmatched) out += fmt::format("  unmatched: {}: {}\n", cause, n);
  for (const auto& [feature, ns] : c.gpu_ns)
    out += fmt::format("  device time {}: {:.3f} ms\n", feature, static_cast<double>(ns) * 1e-6);
  if (!c.note.empty()) out += "  " + c.note + "\n";
  return out;
}

std::string correlation_json(const Correlation& c) {
  return nlohmann::json{{"schema", 1},          {"decisions", c.decisions}, {"without_work", c.without_work},
                        {"matched", c.matched}, {"unmatched", c.unmatched}, {"gpu_ns", c.gpu_ns},
                        {"note", c.note}}
             .dump(1) +
         "\n";
}

}  // namespace shunt::tool
