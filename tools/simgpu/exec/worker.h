// What one thread needs to run blocks of one execution.
#pragma once
#include <memory>
#include <vector>

#include "tools/simgpu/exec/access_log.h"
#include "tools/simgpu/exec/program.h"
#include "tools/simgpu/exec/warp.h"

namespace simgpu::exec {

struct Worker {
  Ctx ctx{};
  Stats stats;
  std::vector<RegionEntry> regions;  // [0] never matches
  std::vector<uint16_t> region_of;   // Inst::id -> regions
  std::vector<uint64_t> block_threads, block_warps;
  AccessLog accesses;
  ExecutionImpl* execution = nullptr;
};

uint64_t device_clock(Ctx*);
uint64_t global_timer(Ctx*);
bool is_constant_address(Ctx*, uint64_t address);
// Any generic address, for built-in functions. Null: nothing there.
uint8_t* host_pointer(Ctx*, uint64_t address, uint64_t bytes, uint32_t lane);
// With bounds, alignment and permission checks; raises the fault and returns null. For instructions without a
// resolver.
enum class Window : uint8_t { generic, global, shared };
uint8_t* checked_pointer(Ctx*, const Inst*, Window, uint64_t address, uint32_t bytes, uint32_t lane,
                         uint32_t access);
bool read_string(Ctx*, uint64_t address, uint32_t lane, std::string& out);
void print_text(Ctx*, const char* text, size_t bytes);
void thread_of(Ctx*, uint32_t lane, Dim3& block, Dim3& thread);

}  // namespace simgpu::exec
