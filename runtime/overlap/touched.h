// What one call of the program touches: copies and memsets by the bytes they name, kernels by the analysis of
// their code with the launch's own shape and parameters. One instance per stream, under its gate.
#pragma once
#include <vector>

#include "runtime/base/reasons.h"
#include "runtime/overlap/code.h"
#include "runtime/overlap/footprint.h"

namespace shunt::overlap {

class Touched {
 public:
  // Fills `out`; when everything is touched the answer says why (a join reason), else Reason::none.
  Reason by(model::Op& op, Code& code, Footprint& out);
  const char* detail() const { return detail_; }

 private:
  Reason kernel(model::Op& op, Code& code, Footprint& out);
  Reason assume(const KernelCode& known, model::Op& op, CUcontext context, Footprint& out);
  // Why the launch's parameters are not at hand, or null.
  const char* take_parameters(const ptx::KernelAccess& access, const model::Op& op);
  Reason all(Footprint& out, Reason reason, const char* detail) {
    out.clear();
    out.everything = true;
    detail_ = detail;
    return reason;
  }
  std::vector<ptx::AccessRange> ranges_;
  std::vector<uint8_t> parameters_;
  const char* detail_ = "";
};

// Device memory that only the streams of its device see: what a collective may be moved with.
bool plain_device_memory(uint64_t begin, uint64_t bytes, int device);

}  // namespace shunt::overlap
