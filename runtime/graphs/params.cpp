#include "runtime/graphs/params.h"

#include "runtime/base/loaded_object.h"
#include "runtime/exec/driver.h"
#include "runtime/trace/call_site.h"

namespace shunt::graphs {
namespace {

const ParamLayout& unknown() {
  static const auto* none = new ParamLayout();
  return *none;
}

// By where the call comes from, not by the kernel: libraries of these names launch for several devices at
// once.
constexpr std::string_view kCommunicationLibraries[] = {"libnccl", "libnvshmem", "libmscclpp"};

bool launched_by_communication() {
  LoadedObject object;
  if (!trace::caller() || !find_loaded_object(trace::caller(), object)) return false;
  for (const std::string_view library : kCommunicationLibraries)
    if (object.file().starts_with(library)) return true;
  return false;
}

ParamLayout* ask(const model::FunctionInfo& info, CUfunction handle) {
  const exec::Driver& driver = exec::Driver::get();
  auto* layout = new ParamLayout();
  if (launched_by_communication()) return layout;
  // The driver lists them by number and answers CUDA_ERROR_INVALID_VALUE past the last one.
  for (size_t i = 0; i < 4096; ++i) {
    size_t offset = 0, size = 0;
    const CUresult r =
        info.kernel ? driver.kernel_get_param_info(reinterpret_cast<CUkernel>(handle), i, &offset, &size)
                    : driver.func_get_param_info(handle, i, &offset, &size);
    if (r == CUDA_ERROR_INVALID_VALUE) {
      layout->known = true;
      break;
    }
    if (r != CUDA_SUCCESS) break;
    layout->params.push_back({layout->bytes, static_cast<uint32_t>(size)});
    layout->bytes += static_cast<uint32_t>((size + 15) & ~size_t{15});
  }
  return layout;
}

}  // namespace

const ParamLayout& param_layout(model::FunctionInfo& info, CUfunction handle) {
  if (void* known = info.param_layout.load(std::memory_order_acquire))
    return *static_cast<const ParamLayout*>(known);
  const exec::Driver& driver = exec::Driver::get();
  if (!(info.kernel ? driver.kernel_get_param_info != nullptr : driver.func_get_param_info != nullptr))
    return unknown();
  ParamLayout* fresh = ask(info, handle);
  void* expected = nullptr;
  if (info.param_layout.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *static_cast<const ParamLayout*>(expected);
}

}  // namespace shunt::graphs
