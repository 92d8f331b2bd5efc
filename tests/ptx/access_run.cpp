#include "tests/ptx/access_run.h"

#include <sys/mman.h>

#include <algorithm>

namespace ptx_test {

using namespace shunt::ptx;
namespace exec = simgpu::exec;

Arena::~Arena() {
  for (auto& [base, block] : blocks_) munmap(block.host, block.bytes);
}
uint64_t Arena::allocate(uint64_t bytes) {
  void* host =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const uint64_t base = next_;
  blocks_[base] = {base, bytes, static_cast<uint8_t*>(host)};
  next_ += (bytes + (1u << 20)) & ~uint64_t{4095};
  return base;
}
uint8_t* Arena::host(uint64_t address) {
  const Block& block = (--blocks_.upper_bound(address))->second;
  return block.host + (address - block.base);
}
bool Arena::find(uint64_t address, exec::Region& out) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return false;
  const Block& block = (--it)->second;
  if (address >= block.base + block.bytes) return false;
  out = exec::Region{};
  out.base = block.base;
  out.end = block.base + block.bytes;
  out.host = block.host;
  return true;
}

namespace {
uint64_t covered(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  uint64_t sum = 0, end = 0;
  for (const auto& [a, b] : ranges) {
    if (b > std::max(a, end)) sum += b - std::max(a, end);
    end = std::max(end, b);
  }
  return sum;
}
}  // namespace

Comparison run_and_compare(const Module& module, const KernelAccess& access, const Arena& arena,
                           const LaunchShape& shape, const std::vector<uint8_t>& parameters) {
  Comparison result;
  std::unique_ptr<exec::Program> program = exec::Program::build({&module}, result.error);
  if (!program) return result;
  std::vector<uint64_t> globals(program->globals().size(), 0);
  exec::Launch launch;
  launch.program = program.get();
  launch.kernel = program->find_kernel(access.name);
  launch.global_addresses = globals.data();
  launch.grid = {shape.grid[0], shape.grid[1], shape.grid[2]};
  launch.block = {shape.block[0], shape.block[1], shape.block[2]};
  launch.params = parameters.data();
  launch.memory = &arena;
  launch.limits.max_resident_blocks = 64;
  launch.record_accesses = true;
  std::unique_ptr<exec::Execution> execution = exec::Execution::create(launch, result.error);
  if (!execution) return result;
  exec::Execution::State state = exec::Execution::State::running;
  for (int turn = 0; turn < 1000 && state == exec::Execution::State::running; ++turn)
    state = execution->advance(1 << 20);
  if (state != exec::Execution::State::done) {
    result.error =
        state == exec::Execution::State::faulted ? "fault: " + execution->fault().text : "did not end";
    return result;
  }
  result.ran = true;
  std::vector<AccessRange> predicted;
  if (!access.evaluate(shape, parameters.data(), predicted)) {
    result.error = "unknown";
    return result;
  }
  result.bounded = true;
  std::vector<std::pair<uint64_t, uint64_t>> predicted_ranges, touched_ranges;
  for (AccessRange& r : predicted) {
    if (r.whole) {
      exec::Region region;
      if (!arena.find(r.begin, region)) continue;  // a number that is no pointer
      r.begin = region.base;
      r.end = region.end;
      result.bounded = false;
    }
    predicted_ranges.push_back({r.begin, r.end});
  }
  std::sort(predicted.begin(), predicted.end(),
            [](const AccessRange& a, const AccessRange& b) { return a.begin < b.begin; });
  for (const exec::Access& a : execution->accesses()) {
    touched_ranges.push_back({a.base, a.end});
    const AccessMode needed = a.kind == exec::Access::read    ? AccessMode::read
                              : a.kind == exec::Access::write ? AccessMode::written
                                                              : AccessMode::read_written;
    // Each byte must lie in predictions whose modes together cover what was done.
    for (AccessMode part : {AccessMode::read, AccessMode::written}) {
      if ((needed | part) != needed) continue;
      uint64_t at = a.base;
      for (const AccessRange& r : predicted) {
        if ((r.mode | part) == r.mode && r.begin <= at && r.end > at) at = r.end;
      }
      if (at < a.end && result.error.empty())
        result.error = "touched " + std::to_string(at) + " (+" + std::to_string(a.end - at) + ", " +
                       std::string(access_mode_name(part)) + ") outside of the prediction";
    }
  }
  result.touched = covered(touched_ranges);
  result.predicted = covered(predicted_ranges);
  return result;
}

}  // namespace ptx_test
