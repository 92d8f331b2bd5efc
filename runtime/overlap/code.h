// What kernels may touch, found out from the code that runs. Images are noted when the program loads them
// (their PTX is copied, still compressed, since the program may free it); a module is parsed and a kernel
// analysed at its first launch that matters. Results are kept by content: a module loaded twice is analysed
// once.
//
// Code counts as analysed only when the driver must have translated the very PTX that was read: an image with
// machine code for the device runs that instead, and PTX then proves nothing.
//
// Infos are leaked. Any thread; no lock is held across a driver call.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/flat_map.h"
#include "runtime/base/spin.h"
#include "runtime/model/op.h"
#include "runtime/ptx/access_analysis.h"

namespace shunt::overlap {

// One kernel on one device. `access` null: nothing is known, `reason` says why.
struct KernelCode {
  const ptx::KernelAccess* access = nullptr;
  const char* reason = "";
  // SHUNT_OVERLAP=assume: the analysis of the PTX beside the machine code that runs. It proves nothing; it is
  // what the assumption by arguments has to agree with, at every launch.
  const ptx::KernelAccess* beside = nullptr;
  mutable std::atomic<uint32_t> agreed{0};
  mutable std::atomic<bool> banned{false};
  uint32_t compute_capability = 0;
  const KernelCode* other = nullptr;  // of the same kernel on other devices
};

struct ParsedImage;

struct LoadedImage {
  struct Part {
    uint32_t sm = 0;
    bool arch_specific = false, family_specific = false;
    bool machine_code = false;
    std::vector<uint8_t> payload;  // of PTX
    uint8_t packing = 0;
    size_t size = 0;
  };
  const char* refused = nullptr;  // why nothing in it can be analysed
  std::vector<Part> parts;
};

class Code {
 public:
  explicit Code(bool assume = false);
  // An image the driver accepted, by the handle it got. The pointer is valid during the call.
  void loaded(uint64_t module, const void* image);
  void unloaded(uint64_t module);
  // Never null. `device_context`: where the launch goes.
  const KernelCode* kernel(model::FunctionInfo& function, CUcontext device_context);
  void reset_after_fork() { lock_.reset_after_fork(); }

 private:
  KernelCode* find_out(const model::FunctionInfo& function, uint32_t compute_capability);
  uint32_t capability_of(CUcontext context);
  std::shared_ptr<ParsedImage> parsed(const LoadedImage& image, uint32_t cc, const char*& reason,
                                      bool& beside);

  SpinRwLock lock_;
  FlatMap<std::shared_ptr<const LoadedImage>> images_;
  std::unordered_map<uint64_t, std::shared_ptr<ParsedImage>> by_content_;
  std::atomic<size_t> copied_bytes_{0};
  static constexpr int kDevices = 64;
  std::atomic<uint32_t> capabilities_[kDevices] = {};
  const bool assume_;
  bool no_jit_ = false, always_jit_ = false;
};

}  // namespace shunt::overlap
