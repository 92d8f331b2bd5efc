// What earlier runs of a program used: its largest working set and its kernels, with the cost model their
// times make. The store is SQLite and belongs to the shunt command (tools/shunt/history); the runtime reads a
// snapshot, a small checked file that a damaged or foreign copy of is simply not used. Read-only once filled;
// any thread.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/placement/cost_model.h"

namespace shunt::placement {

struct KernelUse {
  KernelShape shape;
  double count = 0;  // launches a run, on average
};

struct ProgramRecord {
  uint64_t program = 0;  // program_id()
  uint64_t runs = 0, peak_bytes = 0;
  std::vector<KernelUse> kernels;
};

// A program is its file and its arguments: other arguments may need other memory.
uint64_t program_id(const std::string& real_path, const std::vector<std::string>& arguments);
uint64_t this_program_id();  // of the calling process

class History {
 public:
  CostModel costs;
  void add(ProgramRecord record);
  const ProgramRecord* find(uint64_t program) const;
  const std::map<uint64_t, ProgramRecord>& programs() const { return programs_; }
  // Device time of one run: the sum over its kernels. Source: the weakest among them; none when a kernel is
  // unknown everywhere or the program has none.
  Estimate predict(const ProgramRecord& program, const profiles::Profile& device) const;

 private:
  std::map<uint64_t, ProgramRecord> programs_;
};

// Snapshot: header (magic, version, sizes, checksum), kernel records, programs, uses; little endian.
bool write_snapshot(const std::string& path, const std::vector<KernelRecord>& kernels,
                    const std::vector<ProgramRecord>& programs, std::string& error);
bool read_snapshot(const std::string& path, History& out, std::string& error);

}  // namespace shunt::placement
