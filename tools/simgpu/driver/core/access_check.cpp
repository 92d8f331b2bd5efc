#include "tools/simgpu/driver/core/access_check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/ptx/access_analysis.h"
#include "tools/simgpu/driver/core/module.h"

namespace simgpu::driver {
namespace {

using shunt::ptx::AccessMode;
using shunt::ptx::AccessRange;
using shunt::ptx::KernelAccess;

struct Checked {
  KernelAccess access;
  ImageRef image;  // the analysis was made of it
  bool told = false, outside = false;
};
struct Table {
  std::mutex mutex;
  std::map<std::pair<const Image*, int>, Checked> kernels;
};
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

const char* file_name() {
  static const char* const name = getenv("SIMGPU_ACCESS_CHECK");
  return name;
}

// One write a line: several processes may append.
void tell(const std::string& text) {
  const std::string line = text + "\n";
  const int file = open(file_name(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line.data(), line.size()) != ssize_t(line.size())) abort();
  close(file);
}

const shunt::ptx::Function* find(const Image& image, const std::string& name,
                                 const shunt::ptx::Module*& module) {
  for (const auto& m : image.modules)
    for (const shunt::ptx::Function& f : m->functions)
      if (f.is_entry && !f.is_declaration && f.name == name) return module = m.get(), &f;
  return nullptr;
}

bool has(AccessMode mode, AccessMode part) { return (mode | part) == mode; }

// What is touched at `base` but not predicted; empty when nothing is.
std::string outside(const KernelBody& kernel, const KernelAccess& access, std::vector<AccessRange>& predicted,
                    const std::vector<exec::Access>& observed) {
  const auto& globals = kernel.launch.instance->image->program->globals();
  for (const auto& v : access.variables)
    for (size_t i = 0; i < globals.size(); ++i)
      if (globals[i].name == v.name)
        predicted.push_back({kernel.launch.instance->global_addresses[i],
                             kernel.launch.instance->global_addresses[i] + globals[i].size, v.mode, false,
                             0});
  std::sort(predicted.begin(), predicted.end(),
            [](const AccessRange& a, const AccessRange& b) { return a.begin < b.begin; });
  for (const exec::Access& a : observed) {
    const AccessMode needed = a.kind == exec::Access::read    ? AccessMode::read
                              : a.kind == exec::Access::write ? AccessMode::written
                                                              : AccessMode::read_written;
    for (AccessMode part : {AccessMode::read, AccessMode::written}) {
      if (!has(needed, part)) continue;
      uint64_t at = a.base;
      for (const AccessRange& r : predicted)
        if (has(r.mode, part) && r.begin <= at && r.end > at) at = r.end;
      if (at < a.end)
        return std::string(shunt::ptx::access_mode_name(part)) + " " + std::to_string(a.end - at) +
               " bytes at " + std::to_string(at);
    }
  }
  return "";
}

}  // namespace

bool access_check_wanted() { return file_name() && *file_name(); }

void access_check(const Op& op, const KernelBody& kernel) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  const ImageRef& image = kernel.launch.instance->image;
  Checked& checked = t.kernels[{image.get(), kernel.launch.kernel}];
  if (!checked.image) {
    checked.image = image;
    const shunt::ptx::Module* module = nullptr;
    if (const auto* function = find(*image, kernel.name(), module)) {
      checked.access = shunt::ptx::analyse_access(*module, *function);
    } else {
      checked.access.unknown = true;
      checked.access.reason = "not in the modules";
    }
  }
  if (checked.outside) return;
  std::vector<AccessRange> predicted;
  shunt::ptx::LaunchShape shape;
  shape.grid[0] = kernel.launch.grid.x, shape.grid[1] = kernel.launch.grid.y,
  shape.grid[2] = kernel.launch.grid.z;
  shape.block[0] = kernel.launch.block.x, shape.block[1] = kernel.launch.block.y,
  shape.block[2] = kernel.launch.block.z;
  std::vector<uint8_t> parameters = kernel.launch.params;
  parameters.resize(std::max<size_t>(parameters.size(), checked.access.parameter_bytes + 8));
  const bool known = !checked.access.unknown && checked.access.evaluate(shape, parameters.data(), predicted);
  if (known) {
    for (AccessRange& r : predicted) {
      if (!r.whole) continue;
      const AllocationRef allocation = MemoryMap::get().find(r.begin);
      r.end = r.begin;  // a number that is no pointer
      if (allocation) r.begin = allocation->base, r.end = allocation->end();
    }
    const std::string what = outside(kernel, checked.access, predicted, op.execution->accesses());
    if (!what.empty()) {
      checked.outside = true;
      return tell("outside " + kernel.name() + ": " + what);
    }
  }
  if (checked.told) return;
  checked.told = true;
  tell(known ? "checked " + kernel.name() : "unknown " + kernel.name() + ": " + checked.access.reason);
}

}  // namespace simgpu::driver
