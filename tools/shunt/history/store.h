// The history of earlier runs: SQLite in $XDG_STATE_HOME/shunt, one file for real devices and one for
// simulated ones, whose times must never meet. Filled from recordings (`shunt run --record-dag`,
// --history=on). Several commands may use it at once. A damaged file is moved aside and a new one begun;
// nothing else is lost by that than times. One thread per Store.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/placement/history.h"
#include "tools/shunt/plan/recorded_run.h"

struct sqlite3;

namespace shunt::tool {

class Store {
 public:
  // `note` is filled when a damaged file was moved aside. Null and one line on failure.
  static std::unique_ptr<Store> open(bool simulated, std::string& note, std::string& error);
  static std::string folder();  // "" when neither XDG_STATE_HOME nor HOME is set
  static std::string pending_folder();
  static std::string path(bool simulated);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  enum class Added : uint8_t { yes, already, nothing, failed };  // nothing: no program or no times in it
  Added add(const RecordedRun& run, const std::string& text, std::string& error);
  // Recordings that --history=on left behind; those of running programs stay. The number taken in.
  static int take_pending(std::string& error);

  struct KernelRow {
    placement::KernelRecord record;
    std::string name;
  };
  struct ProgramRow {
    placement::ProgramRecord record;
    std::string path;
  };
  bool read(std::vector<KernelRow>& kernels, std::vector<ProgramRow>& programs, std::string& error);
  bool load(placement::History& history, std::string& error);
  bool forget(std::string& error);

 private:
  explicit Store(sqlite3* db) : db_(db) {}
  bool run(const char* sql, std::string& error);
  sqlite3* db_;
};

}  // namespace shunt::tool
