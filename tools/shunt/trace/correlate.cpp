#include "tools/shunt/trace/correlate.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace shunt::tool {

namespace {

struct Wanted {
  std::string feature;
  uint32_t pid;
};
// Decision ids are unique in a process only.
using Key = std::pair<uint32_t, uint64_t>;

std::map<Key, Wanted> applied_decisions(const TraceRun& run) {
  std::map<Key, Wanted> wanted;
  visit_records(run, [&](const RecordContext& c, const trace::RecordHeader& r) {
    const auto* d = as_decision(r);
    if (!d || static_cast<trace::RecordType>(r.type) == trace::RecordType::decision_begin) return;
    if (d->outcome == static_cast<uint8_t>(trace::Outcome::applied))
      wanted[{c.process.pid(), r.id}] = {
          std::string(trace::feature_name(static_cast<trace::Feature>(d->feature))), c.process.pid()};
  });
  return wanted;
}

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

void nvtx_tier(const Db& db, std::map<Key, Wanted>& wanted, Correlation& out) {
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
    if (!columns.count("correlationId") || !columns.count("globalPid")) {
      missing += std::string(missing.empty() ? "" : ", ") + table;
      continue;
    }
    db.query(std::string("SELECT start, end, globalPid, correlationId FROM ") + table, [&](sqlite3_stmt* s) {
      work[{pid_of(sqlite3_column_int64(s, 2)), static_cast<uint64_t>(sqlite3_column_int64(s, 3))}] +=
          sqlite3_column_int64(s, 1) - sqlite3_column_int64(s, 0);
    });
  }
  if (!missing.empty()) out.note = "not in the export: " + missing;
  std::map<Key, std::string> causes;
  const bool ok =
      db.query("SELECT start, end, globalTid, uint64Value FROM NVTX_EVENTS WHERE uint64Value IS NOT NULL",
               [&](sqlite3_stmt* s) {
                 const int64_t start = sqlite3_column_int64(s, 0), tid = sqlite3_column_int64(s, 2);
                 const Key key{pid_of(tid), static_cast<uint64_t>(sqlite3_column_int64(s, 3))};
                 const auto want = wanted.find(key);
                 if (want == wanted.end()) return;
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
  if (!ok)
    out.note += std::string(out.note.empty() ? "" : "; ") + "no NVTX_EVENTS: run nsys with -t nvtx,cuda";
  for (const auto& [key, cause] : causes) {
    if (wanted.erase(key)) ++out.unmatched[cause];
  }
}

void external_tier(const Db& db, std::map<Key, Wanted>& wanted, Correlation& out) {
  // shunt's own exports carry the decision beside the kernel.
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}) {
    if (!db.columns(table).count("shuntDecision")) continue;
    std::map<Key, int64_t> ns;
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

// Device records of the trace itself (CUPTI external ids): the strongest tier, needs no other file.
void own_records(const TraceRun& run, std::map<Key, Wanted>& wanted, Correlation& out) {
  std::map<Key, uint64_t> ns;
  visit_records(run, [&](const RecordContext& c, const trace::RecordHeader& r) {
    const auto* g = as_gpu(r);
    if (g && r.id && g->end >= g->start) ns[{c.process.pid(), r.id}] += g->end - g->start;
  });
  for (const auto& [key, time] : ns) {
    const auto want = wanted.find(key);
    if (want == wanted.end()) continue;
    ++out.matched["external-id"];
    out.gpu_ns[want->second.feature] += time;
    wanted.erase(want);
  }
}

}  // namespace

bool correlate_nsys(const TraceRun& run, const std::string& path, Correlation& out, std::string& error) {
  Db db;
  if (sqlite3_open_v2(path.c_str(), &db.handle, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK)
    return error = "cannot open '" + path + "': " + sqlite3_errmsg(db.handle), false;
  if (!db.query("SELECT name FROM sqlite_master LIMIT 1", [](sqlite3_stmt*) {}))
    return error = "'" + path + "' is no SQLite database: make one with `nsys export --type sqlite`", false;
  const auto runtime = db.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
  auto wanted = applied_decisions(run);
  out.decisions = wanted.size();
  own_records(run, wanted, out);
  external_tier(db, wanted, out);
  if (runtime.empty())
    out.note = "no CUPTI_ACTIVITY_KIND_RUNTIME: the export holds no CUDA calls";
  else
    nvtx_tier(db, wanted, out);
  if (!wanted.empty()) out.unmatched["no range or id of this decision in the file"] += wanted.size();
  return true;
}

bool correlate_kineto(const TraceRun& run, const std::string& path, Correlation& out, std::string& error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error = "cannot read '" + path + "'", false;
  const auto root = nlohmann::json::parse(file, nullptr, false);
  if (root.is_discarded()) return error = "'" + path + "' is not valid JSON: cut off?", false;
  auto wanted = applied_decisions(run);
  out.decisions = wanted.size();
  own_records(run, wanted, out);
  std::unordered_map<uint64_t, double> by_correlation, by_external;
  for (const auto& e : root.is_array() ? root : root.value("traceEvents", nlohmann::json::array())) {
    if (!e.is_object() || !e.contains("dur") || !e.contains("args") || !e["args"].is_object()) continue;
    const std::string category = e.value("cat", "");
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    const auto& args = e["args"];
    if (auto c = args.find("correlation"); c != args.end() && c->is_number_unsigned())
      by_correlation[c->get<uint64_t>()] += e["dur"].get<double>();
    if (auto x = args.find("External id"); x != args.end() && x->is_number_unsigned())
      by_external[x->get<uint64_t>()] += e["dur"].get<double>();
  }
  std::unordered_map<uint64_t, std::pair<uint32_t, uint64_t>> correlation_of;
  visit_records(run, [&](const RecordContext& c, const trace::RecordHeader& r) {
    const auto* d = as_decision(r);
    if (d && d->correlation) correlation_of[d->correlation] = {c.process.pid(), r.id};
  });
  for (const auto& [correlation, key] : correlation_of) {
    const auto work = by_correlation.find(correlation);
    const auto want = wanted.find(key);
    if (work == by_correlation.end() || want == wanted.end()) continue;
    ++out.matched["correlation-id"];
    out.gpu_ns[want->second.feature] += static_cast<uint64_t>(work->second * 1000);
    wanted.erase(want);
  }
  for (auto at = wanted.begin(); at != wanted.end();) {
    const auto work = by_external.find(at->first.second);
    if (work == by_external.end()) {
      ++out.unmatched["no id of this decision in the file"];
      ++at;
      continue;
    }
    ++out.matched["external-id"];
    out.gpu_ns[at->second.feature] += static_cast<uint64_t>(work->second * 1000);
    at = wanted.erase(at);
  }
  return true;
}

std::string correlation_text(const Correlation& c) {
  uint64_t matched = 0;
  for (const auto& [tier, n] : c.matched) matched += n;
  std::string out = fmt::format(
      "{} applied decisions, {} matched ({:.1f} %)\n", c.decisions, matched,
      c.decisions ? 100.0 * static_cast<double>(matched) / static_cast<double>(c.decisions) : 0.0);
  for (const auto& [tier, n] : c.matched) out += fmt::format("  matched by {}: {}\n", tier, n);
  for (const auto& [cause, n] : c.unmatched) out += fmt::format("  unmatched: {}: {}\n", cause, n);
  for (const auto& [feature, ns] : c.gpu_ns)
    out += fmt::format("  device time {}: {:.3f} ms\n", feature, static_cast<double>(ns) * 1e-6);
  if (!c.note.empty()) out += "  " + c.note + "\n";
  return out;
}

std::string correlation_json(const Correlation& c) {
  return nlohmann::json{{"schema", 1},          {"decisions", c.decisions},
                        {"matched", c.matched}, {"unmatched", c.unmatched},
                        {"gpu_ns", c.gpu_ns},   {"note", c.note}}
             .dump(1) +
         "\n";
}

}  // namespace shunt::tool
