#include "tools/shunt/history/store.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <tuple>

namespace shunt::tool {
namespace {

using placement::KernelShape;
using placement::Samples;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS kernels(kernel INTEGER, bucket INTEGER, device TEXT, name TEXT, blocks "
    "INTEGER, "
    "threads INTEGER, count INTEGER, mean REAL, m2 REAL, PRIMARY KEY(kernel, bucket, device));"
    "CREATE TABLE IF NOT EXISTS programs(program INTEGER PRIMARY KEY, path TEXT, runs INTEGER, peak INTEGER);"
    "CREATE TABLE IF NOT EXISTS uses(program INTEGER, kernel INTEGER, bucket INTEGER, blocks INTEGER, "
    "threads INTEGER, total REAL, PRIMARY KEY(program, kernel, bucket));"
    "CREATE TABLE IF NOT EXISTS recordings(id INTEGER PRIMARY KEY);"
    "PRAGMA user_version = 1;";

int64_t as_signed(uint64_t v) { return static_cast<int64_t>(v); }

// A statement with its values bound in order; finalised with the object.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    if (sqlite3_prepare_v2(db, sql, -1, &s_, nullptr) != SQLITE_OK) s_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(s_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  template <typename... T>
  Statement& bind(const T&... values) {
    int i = 0;
    (put(++i, values), ...);
    return *this;
  }
  bool row() { return s_ && sqlite3_step(s_) == SQLITE_ROW; }
  bool done() {
    const bool ok = s_ && sqlite3_step(s_) == SQLITE_DONE;
    if (s_) sqlite3_reset(s_);
    return ok;
  }
  int64_t integer(int column) { return sqlite3_column_int64(s_, column); }
  double real(int column) { return sqlite3_column_double(s_, column); }
  std::string text(int column) {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s_, column));
    return t ? t : "";
  }

 private:
  void put(int i, int64_t v) { sqlite3_bind_int64(s_, i, v); }
  void put(int i, double v) { sqlite3_bind_double(s_, i, v); }
  void put(int i, const std::string& v) { sqlite3_bind_text(s_, i, v.c_str(), -1, SQLITE_TRANSIENT); }
  sqlite3_stmt* s_ = nullptr;
};

bool make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

sqlite3* open_file(const std::string& path, bool& damaged) {
  sqlite3* db = nullptr;
  damaged = false;
  int r = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (r == SQLITE_OK) {
    sqlite3_busy_timeout(db, 5000);
    r = sqlite3_exec(db, kSchema, nullptr, nullptr, nullptr);
    if (r == SQLITE_OK) {
      Statement check(db, "PRAGMA quick_check(1)");
      damaged = !check.row() || check.text(0) != "ok";
    }
  }
  damaged |= r == SQLITE_CORRUPT || r == SQLITE_NOTADB || r == SQLITE_ERROR;
  if (r == SQLITE_OK && !damaged) return db;
  sqlite3_close(db);
  return nullptr;
}

bool process_alive(int pid) { return kill(pid, 0) == 0 || errno == EPERM; }

}  // namespace

std::string Store::folder() {
  const char* state = getenv("XDG_STATE_HOME");
  const char* home = getenv("HOME");
  if (state && *state) return std::string(state) + "/shunt";
  return home && *home ? std::string(home) + "/.local/state/shunt" : "";
}

std::string Store::pending_folder() { return folder().empty() ? "" : folder() + "/pending"; }
std::string Store::path(bool simulated) { return folder() + (simulated ? "/history-sim.db" : "/history.db"); }

std::unique_ptr<Store> Store::open(bool simulated, std::string& note, std::string& error) {
  if (folder().empty() || !make_folders(folder())) {
    error =
        "history folder '" + folder() + "' cannot be made: set XDG_STATE_HOME to a place that can be written";
    return nullptr;
  }
  const std::string file = path(simulated);
  bool damaged = false;
  sqlite3* db = open_file(file, damaged);
  if (!db && damaged) {
    const std::string aside = file + ".damaged";
    if (rename(file.c_str(), aside.c_str()) == 0) {
      note = "history '" + file + "' is damaged: moved to " + aside + ", a new one is begun";
      db = open_file(file, damaged);
    }
  }
  if (!db) {
    error = "history '" + file + "' cannot be opened: is it writable and not locked?";
    return nullptr;
  }
  return std::unique_ptr<Store>(new Store(db));
}

Store::~Store() { sqlite3_close(db_); }

bool Store::run(const char* sql, std::string& error) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return true;
  error = std::string("history: ") + sqlite3_errmsg(db_);
  return false;
}

Store::Added Store::add(const RecordedRun& run, const std::string& text, std::string& error) {
  if (run.program == 0) return Added::nothing;
  uint64_t id = 0xcbf29ce484222325u;
  for (const char c : text) id = (id ^ static_cast<unsigned char>(c)) * 0x100000001b3u;

  struct Group {
    std::string name;
    KernelShape shape;
    Samples samples;
    uint64_t launches = 0;
  };
  std::map<std::tuple<uint64_t, uint8_t, std::string>, Group> times;  // kernel, bucket, device
  std::map<std::pair<uint64_t, uint8_t>, Group> uses;
  for (const RecordedOp& op : run.ops) {
    if (op.kind != "kernel") continue;
    const KernelShape shape{placement::kernel_id(op.name, run.code), op.blocks, op.threads};
    Group& use = uses[{shape.kernel, shape.bucket()}];
    use.shape = shape;
    use.launches++;
    const auto device = run.devices.find(op.device);
    if (op.seconds <= 0 || device == run.devices.end() || !profiles::find(device->second)) continue;
    Group& g = times[{shape.kernel, shape.bucket(), device->second}];
    g.name = op.name;
    g.shape = shape;
    g.samples.add(op.seconds);
  }
  uint64_t peak = 0;
  for (const auto& [device, bytes] : run.peaks) peak = std::max(peak, bytes);
  if (uses.empty() && peak == 0) return Added::nothing;

  if (!this->run("BEGIN IMMEDIATE", error)) return Added::failed;
  Statement seen(db_, "INSERT INTO recordings VALUES(?)");
  if (!seen.bind(as_signed(id)).done()) {
    this->run("ROLLBACK", error);
    error.clear();
    return Added::already;
  }
  bool ok = true;
  Statement get(db_, "SELECT count, mean, m2 FROM kernels WHERE kernel=? AND bucket=? AND device=?");
  Statement put(db_, "INSERT OR REPLACE INTO kernels VALUES(?,?,?,?,?,?,?,?,?)");
  for (const auto& [key, g] : times) {
    const auto& [kernel, bucket, device] = key;
    Statement old(db_, "SELECT count, mean, m2 FROM kernels WHERE kernel=? AND bucket=? AND device=?");
    Samples all = g.samples;
    if (old.bind(as_signed(kernel), int64_t{bucket}, device).row())
      all.merge({static_cast<uint64_t>(old.integer(0)), old.real(1), old.real(2)});
    ok &= put.bind(as_signed(kernel), int64_t{bucket}, device, g.name, int64_t{g.shape.blocks},
                   int64_t{g.shape.block_threads}, as_signed(all.count), all.mean, all.m2)
              .done();
  }
  Statement program(db_,
                    "INSERT INTO programs VALUES(?,?,1,?) ON CONFLICT(program) DO UPDATE SET runs=runs+1, "
                    "peak=max(peak, excluded.peak)");
  ok &= program.bind(as_signed(run.program), run.path, as_signed(peak)).done();
  Statement use(db_,
                "INSERT INTO uses VALUES(?,?,?,?,?,?) ON CONFLICT(program, kernel, bucket) DO UPDATE SET "
                "total=total+excluded.total");
  for (const auto& [key, g] : uses)
    ok &= use.bind(as_signed(run.program), as_signed(key.first), int64_t{key.second}, int64_t{g.shape.blocks},
                   int64_t{g.shape.block_threads}, static_cast<double>(g.launches))
              .done();
  if (!ok) error = std::string("history: ") + sqlite3_errmsg(db_);
  std::string ignored;
  if (!ok || !this->run("COMMIT", error)) {
    this->run("ROLLBACK", ignored);
    return Added::failed;
  }
  return Added::yes;
}

int Store::take_pending(std::string& error) {
  int taken = 0;
  DIR* folder = opendir(pending_folder().c_str());
  std::unique_ptr<Store> stores[2];
  while (dirent* entry = folder ? readdir(folder) : nullptr) {
    const std::string name = entry->d_name;  // PID-NUMBER.ops, or PID-NUMBER.ops.PID of a second process
    if (name.find(".ops") == std::string::npos) continue;
    const size_t last = name.rfind(".ops.");
    const int pid = atoi(last == std::string::npos ? name.c_str() : name.c_str() + last + 5);
    if (pid <= 0 || process_alive(pid)) continue;
    const std::string file = pending_folder() + "/" + name;
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    RecordedRun run;
    std::string why;
    if (parse_recorded_run(text.str(), run, why)) {
      std::unique_ptr<Store>& store = stores[run.simulated];
      std::string note;
      if (!store) store = open(run.simulated, note, error);
      if (!store) break;
      if (store->add(run, text.str(), error) == Added::failed) break;
      taken++;
    }
    unlink(file.c_str());
  }
  if (folder) closedir(folder);
  return taken;
}

bool Store::read(std::vector<KernelRow>& kernels, std::vector<ProgramRow>& programs, std::string& error) {
  Statement k(db_,
              "SELECT kernel, device, name, blocks, threads, count, mean, m2 FROM kernels ORDER BY name, "
              "device, bucket");
  while (k.row()) {
    KernelRow row;
    row.record.shape = {static_cast<uint64_t>(k.integer(0)), static_cast<uint32_t>(k.integer(3)),
                        static_cast<uint32_t>(k.integer(4))};
    row.record.device = profiles::find(k.text(1));
    row.record.samples = {static_cast<uint64_t>(k.integer(5)), k.real(6), k.real(7)};
    row.name = k.text(2);
    if (row.record.device) kernels.push_back(std::move(row));
  }
  Statement p(db_, "SELECT program, path, runs, peak FROM programs ORDER BY path");
  while (p.row()) {
    ProgramRow row;
    row.record.program = static_cast<uint64_t>(p.integer(0));
    row.path = p.text(1);
    row.record.runs = static_cast<uint64_t>(p.integer(2));
    row.record.peak_bytes = static_cast<uint64_t>(p.integer(3));
    Statement u(db_, "SELECT kernel, blocks, threads, total FROM uses WHERE program=?");
    u.bind(p.integer(0));
    while (u.row())
      row.record.kernels.push_back({{static_cast<uint64_t>(u.integer(0)), static_cast<uint32_t>(u.integer(1)),
                                     static_cast<uint32_t>(u.integer(2))},
                                    u.real(3) / static_cast<double>(std::max<uint64_t>(1, row.record.runs))});
    programs.push_back(std::move(row));
  }
  if (sqlite3_errcode(db_) == SQLITE_OK || sqlite3_errcode(db_) == SQLITE_DONE) return true;
  error = std::string("history: ") + sqlite3_errmsg(db_);
  return false;
}

bool Store::load(placement::History& history, std::string& error) {
  std::vector<KernelRow> kernels;
  std::vector<ProgramRow> programs;
  if (!read(kernels, programs, error)) return false;
  for (const KernelRow& k : kernels) history.costs.add(k.record);
  for (ProgramRow& p : programs) history.add(std::move(p.record));
  return true;
}

bool Store::forget(std::string& error) {
  return run(
      "BEGIN; DELETE FROM kernels; DELETE FROM programs; DELETE FROM uses; DELETE FROM recordings; COMMIT; "
      "VACUUM",
      error);
}

}  // namespace shunt::tool
