// SQLite with nsys's table and column names where the meaning is the same, so that queries written for nsys
// exports run: times in nanoseconds since the first record, globalTid = pid << 24 | tid, strings in
// StringIds. Decisions have a table of their own; NVTX_EVENTS is a view of it (domain shunt, uint64Value =
// decision id).
#include <sqlite3.h>

#include <unordered_map>

#include "tools/shunt/trace/exports.h"

namespace shunt::tool {

namespace {

constexpr const char* kSchema = R"sql(
PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA page_size=16384; PRAGMA cache_size=-32768;
CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT(name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames(nameId INTEGER, priority INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, graphNodeId INTEGER, shuntDecision INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER, shuntDecision INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER, shuntDecision INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, shuntDecision INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);
CREATE TABLE SHUNT_DECISIONS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, decisionId INTEGER NOT NULL, textId INTEGER NOT NULL, outcomeId INTEGER NOT NULL, reasonId INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamHandle INTEGER, bytes INTEGER, correlationId INTEGER);
CREATE TABLE SHUNT_COUNTERS(start INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL, value INTEGER NOT NULL);
CREATE VIEW NVTX_EVENTS AS SELECT start, end, CASE WHEN end IS NULL THEN 34 ELSE 59 END AS eventType, NULL AS rangeId, NULL AS category, NULL AS color, NULL AS text, globalTid, NULL AS endGlobalTid, textId, 1 AS domainId, decisionId AS uint64Value, NULL AS int64Value, NULL AS jsonText FROM SHUNT_DECISIONS;
BEGIN;
)sql";

class Sqlite {
 public:
  ~Sqlite() {
    for (auto* s : {call_, kernel_, copy_, set_, graph_, sync_, decision_, counter_, string_})
      sqlite3_finalize(s);
    sqlite3_close(db_);
  }

  bool open(const std::string& path) {
    std::remove(path.c_str());
    return sqlite3_open(path.c_str(), &db_) == SQLITE_OK && run(kSchema) &&
           prepare(call_, "CUPTI_ACTIVITY_KIND_RUNTIME", 8) &&
           prepare(kernel_, "CUPTI_ACTIVITY_KIND_KERNEL", 21) &&
           prepare(copy_, "CUPTI_ACTIVITY_KIND_MEMCPY", 13) &&
           prepare(set_, "CUPTI_ACTIVITY_KIND_MEMSET", 12) &&
           prepare(graph_, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", 10) &&
           prepare(sync_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", 9) &&
           prepare(decision_, "SHUNT_DECISIONS", 12) && prepare(counter_, "SHUNT_COUNTERS", 4) &&
           prepare(string_, "StringIds", 2);
  }
  bool run(const char* sql) { return check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  std::string error() const { return sqlite3_errmsg(db_); }
  bool ok() const { return ok_; }

  // Binds and inserts; -1 in a place of nulls is written as NULL where the caller says so with kNull.
  static constexpr int64_t kNull = INT64_MIN;
  template <size_t N>
  void row(sqlite3_stmt* s, const int64_t (&values)[N]) {
    for (size_t i = 0; i < N; ++i) {
      const int column = static_cast<int>(i) + 1;
      if (values[i] == kNull)
        sqlite3_bind_null(s, column);
      else
        sqlite3_bind_int64(s, column, values[i]);
    }
    step(s);
  }
  int64_t text_id(std::string_view text) {
    scratch_.assign(text);
    const auto [at, fresh] = strings_.emplace(scratch_, static_cast<int64_t>(strings_.size()) + 1);
    if (fresh) {
      sqlite3_bind_int64(string_, 1, at->second);
      sqlite3_bind_text(string_, 2, at->first.data(), static_cast<int>(at->first.size()), SQLITE_TRANSIENT);
      step(string_);
    }
    return at->second;
  }
  sqlite3_stmt *call_ = nullptr, *kernel_ = nullptr, *copy_ = nullptr, *set_ = nullptr, *graph_ = nullptr,
               *sync_ = nullptr, *decision_ = nullptr, *counter_ = nullptr, *string_ = nullptr;
  sqlite3* db_ = nullptr;

 private:
  bool check(int code) { return ok_ = ok_ && (code == SQLITE_OK || code == SQLITE_DONE); }
  void step(sqlite3_stmt* s) {
    check(sqlite3_step(s));
    sqlite3_reset(s);
  }
  bool prepare(sqlite3_stmt*& s, const char* table, int columns) {
    std::string sql = std::string("INSERT INTO ") + table + " VALUES(?";
    for (int i = 1; i < columns; ++i) sql += ",?";
    return check(sqlite3_prepare_v3(db_, (sql + ")").c_str(), -1, SQLITE_PREPARE_PERSISTENT, &s, nullptr));
  }
  bool ok_ = true;
  std::string scratch_;
  std::unordered_map<std::string, int64_t> strings_;
};

class Rows {
 public:
  Rows(const TraceRun& run, Sqlite& db) : run_(run), db_(db) {}

  void head() {
    char sql[512];
    const auto& first = *run_.processes.front();
    const uint64_t epoch = first.clocks.empty()
                               ? 0
                               : first.clocks.front().realtime - first.clocks.front().engine + run_.first_ns;
    std::snprintf(sql, sizeof sql,
                  "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(%llu, NULL, NULL); INSERT INTO "
                  "META_DATA_EXPORT VALUES('EXPORT_PRODUCT','shunt'),('EXPORT_SCHEMA_VERSION','shunt-1')",
                  static_cast<unsigned long long>(epoch));
    db_.run(sql);
    sqlite3_stmt *process = nullptr, *thread = nullptr;
    sqlite3_prepare_v2(db_.db_, "INSERT INTO PROCESSES VALUES(?,?,?)", -1, &process, nullptr);
    sqlite3_prepare_v2(db_.db_, "INSERT INTO ThreadNames VALUES(?,0,?)", -1, &thread, nullptr);
    for (const auto& p : run_.processes) {
      sqlite3_bind_int64(process, 1, global_pid(*p));
      sqlite3_bind_int64(process, 2, p->pid());
      sqlite3_bind_text(process, 3, p->reader.header().executable, -1, SQLITE_TRANSIENT);
      sqlite3_step(process);
      sqlite3_reset(process);
      for (const auto& [tid, name] : p->thread_names) {
        sqlite3_bind_int64(thread, 1, db_.text_id(name));
        sqlite3_bind_int64(thread, 2, global_pid(*p) | (tid & 0xFFFFFF));
        sqlite3_step(thread);
        sqlite3_reset(thread);
      }
    }
    sqlite3_finalize(process);
    sqlite3_finalize(thread);
  }

  void operator()(const RecordContext& c, const trace::RecordHeader& r) {
    const int64_t pid = global_pid(c.process), tid = pid | (c.tid & 0xFFFFFF);
    if (const auto* d = as_decision(r))
      decision(r, *d, tid);
    else if (const auto* call = as_call(r)) {
      db_.row(db_.call_, {since(r.t_ns), since(r.t_ns), 1, tid, Sqlite::kNull, slot_text(call->slot),
                          call->result, Sqlite::kNull});
    } else if (const auto* counter = as_counter(r)) {
      db_.row(db_.counter_, {since(r.t_ns), tid, db_.text_id(c.process.reader.string(r.id)),
                             static_cast<int64_t>(counter->value)});
    } else if (const auto* api = as_api(r)) {
      const uint64_t start = c.process.engine_from_realtime(api->start);
      if (start == 0 || api->end < api->start) return;
      db_.row(db_.call_, {since(start), since(start + (api->end - api->start)), 1,
                          pid | (api->thread & 0xFFFFFF), api->correlation,
                          db_.text_id(c.process.reader.string(api->name)), api->result, Sqlite::kNull});
    } else if (const auto* g = as_gpu(r))
      gpu(c, r, *g, pid);
  }

 private:
  static int64_t global_pid(const TraceProcess& p) {
    return static_cast<int64_t>((uint64_t{1} << 48) | (uint64_t{p.pid()} << 24));
  }
  int64_t since(uint64_t t) const { return static_cast<int64_t>(t) - static_cast<int64_t>(run_.first_ns); }
  int64_t slot_text(uint16_t slot) {
    if (slots_.size() <= slot) slots_.resize(slot + 1u, 0);
    if (!slots_[slot]) slots_[slot] = db_.text_id(slot_name(slot));
    return slots_[slot];
  }
  int64_t cached(std::unordered_map<uint32_t, int64_t>& table, uint32_t key,
                 std::string_view (*name)(uint32_t)) {
    auto [at, fresh] = table.emplace(key, 0);
    if (fresh) at->second = db_.text_id(name(key));
    return at->second;
  }

  void decision(const trace::RecordHeader& r, const trace::DecisionRecord& d, int64_t tid) {
    const auto type = static_cast<trace::RecordType>(r.type);
    if (type == trace::RecordType::decision_begin) {
      open_[r.id] = r.t_ns;
      return;
    }
    int64_t start = since(r.t_ns), end = Sqlite::kNull;
    if (type == trace::RecordType::decision_end) {
      end = start;
      if (auto at = open_.find(r.id); at != open_.end()) start = since(at->second), open_.erase(at);
    }
    const uint32_t key = uint32_t{d.feature} << 8 | d.action;
    auto [at, fresh] = texts_.emplace(key, 0);
    if (fresh)
      at->second = db_.text_id(std::string(trace::feature_name(static_cast<trace::Feature>(d.feature))) +
                               ": " + std::string(trace::action_name(static_cast<trace::Action>(d.action))));
    const int64_t outcome = cached(
        outcomes_, d.outcome, [](uint32_t o) { return trace::outcome_name(static_cast<trace::Outcome>(o)); });
    const int64_t reason =
        cached(reasons_, d.reason, [](uint32_t x) { return reason_name(static_cast<Reason>(x)); });
    db_.row(db_.decision_, {start, end, tid, static_cast<int64_t>(r.id), at->second, outcome, reason,
                            d.device < 0 ? Sqlite::kNull : d.device, static_cast<int64_t>(d.context),
                            static_cast<int64_t>(d.stream), static_cast<int64_t>(d.bytes), d.correlation});
  }

  void gpu(const RecordContext& c, const trace::RecordHeader& r, const trace::GpuRecord& g, int64_t pid) {
    const uint64_t at = c.process.engine_from_realtime(g.start);
    if (at == 0 || g.end < g.start) return;
    const int64_t start = since(at), end = start + static_cast<int64_t>(g.end - g.start),
                  decision = r.id ? static_cast<int64_t>(r.id) : Sqlite::kNull,
                  node = g.graph_node ? static_cast<int64_t>(g.graph_node) : Sqlite::kNull;
    switch (static_cast<trace::RecordType>(r.type)) {
      case trace::RecordType::cupti_kernel: {
        const int64_t name = db_.text_id(gpu_name(c.process, g));
        db_.row(
            db_.kernel_,
            {start,      end,        g.device,   g.context,       g.stream,         g.correlation, pid,
             name,       name,       name,       g.registers,     g.grid[0],        g.grid[1],     g.grid[2],
             g.block[0], g.block[1], g.block[2], g.static_shared, g.dynamic_shared, node,          decision});
        break;
      }
      case trace::RecordType::cupti_memcpy:
        db_.row(db_.copy_,
                {start, end, g.device, g.context, g.stream, g.correlation, pid, static_cast<int64_t>(g.bytes),
                 g.copy_kind, g.src_kind, g.dst_kind, node, decision});
        break;
      case trace::RecordType::cupti_memset:
        db_.row(db_.set_, {start, end, g.device, g.context, g.stream, g.correlation, pid, 0,
                           static_cast<int64_t>(g.bytes), node, g.dst_kind, decision});
        break;
      case trace::RecordType::cupti_graph:
        db_.row(db_.graph_, {start, end, g.device, g.graph_id, g.graph_id, g.context, g.stream, g.correlation,
                             pid, decision});
        break;
      default:
        db_.row(db_.sync_,
                {start, end, g.device, g.context, g.stream, g.correlation, pid, g.copy_kind, Sqlite::kNull});
    }
  }

  const TraceRun& run_;
  Sqlite& db_;
  std::vector<int64_t> slots_;
  std::unordered_map<uint32_t, int64_t> texts_, outcomes_, reasons_;
  std::unordered_map<uint64_t, uint64_t> open_;
};

}  // namespace

bool export_sqlite(const TraceRun& run, const std::string& path, const Progress& progress,
                   std::string& error) {
  Sqlite db;
  if (!db.open(path)) return error = "cannot write '" + path + "': " + db.error(), false;
  Rows rows(run, db);
  rows.head();
  visit_records(run, rows, progress);
  if (!db.ok() || !db.run("COMMIT")) return error = "cannot write '" + path + "': " + db.error(), false;
  return true;
}

}  // namespace shunt::tool
