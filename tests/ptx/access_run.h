// Runs a kernel in simgpu's executor and compares what it touched with what the analysis predicted.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/ptx/access_analysis.h"
#include "tools/simgpu/exec/exec.h"

namespace ptx_test {

// Allocations with device addresses, far apart; pages exist when touched.
class Arena : public simgpu::exec::AddressSpace {
 public:
  ~Arena() override;
  uint64_t allocate(uint64_t bytes);
  uint8_t* host(uint64_t address);
  bool find(uint64_t address, simgpu::exec::Region& out) const override;

 private:
  struct Block {
    uint64_t base, bytes;
    uint8_t* host;
  };
  std::map<uint64_t, Block> blocks_;
  uint64_t next_ = 0x7f0000000000;
};

struct Comparison {
  bool ran = false;
  std::string error;                    // of the run, or the first access outside of the prediction
  uint64_t touched = 0, predicted = 0;  // bytes, ranges merged
  bool bounded = false;                 // no whole allocation was predicted
};
Comparison run_and_compare(const shunt::ptx::Module& module, const shunt::ptx::KernelAccess& access,
                           const Arena& arena, const shunt::ptx::LaunchShape& shape,
                           const std::vector<uint8_t>& parameters);

}  // namespace ptx_test
