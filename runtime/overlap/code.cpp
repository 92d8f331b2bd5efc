#include "runtime/overlap/code.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/binary/fatbin.h"
#include "runtime/exec/driver.h"
#include "runtime/model/model.h"

namespace shunt::overlap {

// The text stays as long as the module's analysis: the IR refers to it.
struct ParsedImage {
  std::string text;
  std::unique_ptr<ptx::Module> module;
  SpinRwLock lock;  // of `kernels`; analysing is done outside
  std::unordered_map<std::string, const ptx::KernelAccess*> kernels;
  const char* refused = nullptr;
};

namespace {

constexpr size_t kMostCopied = 64u << 20;  // PTX kept of all images together
constexpr size_t kMostText = 64u << 20;

uint64_t content_hash(const std::string& text) {
  uint64_t h = 1469598103934665603ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return mix64(h ^ text.size());
}

bool is_set(const char* name) {
  const char* value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

KernelCode* unknown(const char* reason, uint32_t cc) {
  auto* code = new KernelCode();
  code->reason = reason;
  code->compute_capability = cc;
  return code;
}

const KernelCode& nothing_known() {
  static const auto* code = unknown("no memory for the analysis", 0);
  return *code;
}

}  // namespace

Code::Code(bool assume)
    : assume_(assume), no_jit_(is_set("CUDA_DISABLE_PTX_JIT")), always_jit_(is_set("CUDA_FORCE_PTX_JIT")) {}

void Code::loaded(uint64_t module, const void* image) {
  auto info = std::make_shared<LoadedImage>();
  std::string error;
  std::vector<binary::Entry> entries;
  const auto kind = image ? binary::classify(image) : binary::ImageKind::unknown;
  if (kind == binary::ImageKind::wrapper) {
    binary::Wrapper wrapper;
    if (!binary::read_wrapper(image, wrapper, error))
      info->refused = "the fat binary cannot be read";
    else if (wrapper.linked || wrapper.members.size() != 1)
      info->refused = "linked from several objects when it was loaded";
    else
      entries = wrapper.members[0];
  } else if (kind == binary::ImageKind::container) {
    // A container says its own size; nothing else bounds it here.
    if (!binary::read_container(static_cast<const uint8_t*>(image), SIZE_MAX / 2, entries, error))
      info->refused = "the fat binary cannot be read";
  } else if (kind == binary::ImageKind::ptx_text) {
    const char* text = static_cast<const char*>(image);
    const size_t size = strnlen(text, kMostText);
    if (copied_bytes_.fetch_add(size) + size > kMostCopied) {
      copied_bytes_.fetch_sub(size);
      info->refused = "more PTX was loaded than is kept";
    } else {
      LoadedImage::Part part;
      part.payload.assign(text, text + size);
      part.size = size;
      info->parts.push_back(std::move(part));
    }
  } else {
    info->refused = image ? "machine code" : "loaded from a file by the driver";
  }
  for (const binary::Entry& entry : entries) {
    LoadedImage::Part part;
    part.sm = entry.sm;
    part.arch_specific = entry.arch_specific;
    part.family_specific = entry.family_specific;
    part.machine_code = entry.kind == binary::Entry::Kind::elf;
    if (!part.machine_code && entry.kind != binary::Entry::Kind::ptx) {
      info->refused = "code in a form that is neither PTX nor machine code";
      break;
    }
    if (!part.machine_code) {
      if (copied_bytes_.fetch_add(entry.payload_size) + entry.payload_size > kMostCopied) {
        copied_bytes_.fetch_sub(entry.payload_size);
        info->refused = "more PTX was loaded than is kept";
        break;
      }
      part.payload.assign(entry.payload, entry.payload + entry.payload_size);
      part.packing = static_cast<uint8_t>(entry.packing);
      part.size = entry.uncompressed_size;
    }
    info->parts.push_back(std::move(part));
  }
  WriteGuard guard(lock_);
  images_.put(module, std::move(info));
}

void Code::unloaded(uint64_t module) {
  WriteGuard guard(lock_);
  std::shared_ptr<const LoadedImage> gone;
  if (images_.erase(module, &gone))
    for (const LoadedImage::Part& part : gone->parts) copied_bytes_.fetch_sub(part.payload.size());
}

uint32_t Code::capability_of(CUcontext context) {
  const int device = model::Model::get().device_of(context);
  if (device < 0 || device >= kDevices) return 0;
  if (const uint32_t known = capabilities_[device].load(std::memory_order_relaxed)) return known;
  const exec::Driver& driver = exec::Driver::get();
  int major = 0, minor = 0;
  if (!driver.device_get_attribute ||
      driver.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
          CUDA_SUCCESS ||
      driver.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
          CUDA_SUCCESS)
    return 0;
  capabilities_[device].store(static_cast<uint32_t>(10 * major + minor), std::memory_order_relaxed);
  return static_cast<uint32_t>(10 * major + minor);
}

std::shared_ptr<ParsedImage> Code::parsed(const LoadedImage& image, uint32_t cc, const char*& reason,
                                          bool& beside) {
  std::vector<binary::Entry> entries;
  const bool plain_text = image.parts.size() == 1 && image.parts[0].sm == 0 && !image.parts[0].machine_code;
  int chosen = plain_text ? 0 : -1;
  if (!plain_text) {
    for (const LoadedImage::Part& part : image.parts) {
      binary::Entry entry;
      entry.kind = part.machine_code ? binary::Entry::Kind::elf : binary::Entry::Kind::ptx;
      entry.sm = part.sm;
      entry.arch_specific = part.arch_specific;
      entry.family_specific = part.family_specific;
      entries.push_back(entry);
    }
    const binary::Choice choice = binary::choose(entries, cc);
    if (choice.elf >= 0 && !always_jit_) {
      reason = "the device runs machine code, not the PTX beside it";
      if (!assume_ || choice.ptx < 0) return nullptr;
      beside = true;
    }
    chosen = choice.ptx;
  }
  if (no_jit_ && !beside) {
    reason = "CUDA_DISABLE_PTX_JIT is set";
    return nullptr;
  }
  if (chosen < 0) {
    reason = "no PTX for the device";
    return nullptr;
  }
  const LoadedImage::Part& part = image.parts[static_cast<size_t>(chosen)];
  std::string text, error;
  if (plain_text) {
    text.assign(part.payload.begin(), part.payload.end());
  } else {
    binary::Entry entry;
    entry.kind = binary::Entry::Kind::ptx;
    entry.payload = part.payload.data();
    entry.payload_size = part.payload.size();
    entry.uncompressed_size = part.size;
    entry.packing = static_cast<binary::Entry::Packing>(part.packing);
    if (part.size > kMostText || !binary::extract(entry, text, error)) {
      reason = "the PTX cannot be unpacked";
      return nullptr;
    }
  }
  const uint64_t key = content_hash(text);
  {
    SharedGuard guard(lock_);
    const auto there = by_content_.find(key);
    if (there != by_content_.end() && there->second->text == text) return there->second;
  }
  auto result = std::make_shared<ParsedImage>();
  result->text = std::move(text);
  ptx::Diagnostic diagnostic;
  result->module = ptx::parse(result->text, diagnostic);
  if (!result->module) result->refused = "PTX that is not understood";
  WriteGuard guard(lock_);
  return by_content_.emplace(key, std::move(result)).first->second;
}

KernelCode* Code::find_out(const model::FunctionInfo& function, uint32_t cc) {
  std::shared_ptr<const LoadedImage> image;
  if (function.module) {
    SharedGuard guard(lock_);
    if (const auto* there = images_.find(function.module)) image = *there;
  }
  if (!image) return unknown("where its code comes from was not seen", cc);
  if (image->refused) return unknown(image->refused, cc);
  if (cc == 0) return unknown("the device's compute capability is not known", cc);
  const char* reason = nullptr;
  bool beside = false;
  const std::shared_ptr<ParsedImage> source = parsed(*image, cc, reason, beside);
  if (!source) return unknown(reason, cc);
  if (source->refused) return unknown(source->refused, cc);
  // A name that was cut short could be another kernel's.
  if (strlen(function.name) + 1 >= sizeof function.name) return unknown("its name is too long", cc);
  const std::string name = function.name;
  auto* code = new KernelCode();
  code->compute_capability = cc;
  {
    SharedGuard guard(source->lock);
    const auto there = source->kernels.find(name);
    if (there != source->kernels.end()) code->access = there->second;
  }
  if (!code->access) {
    for (const ptx::Function& candidate : source->module->functions) {
      if (!candidate.is_entry || candidate.is_declaration || candidate.name != name) continue;
      auto* access = new ptx::KernelAccess(ptx::analyse_access(*source->module, candidate));
      WriteGuard guard(source->lock);
      code->access = source->kernels.emplace(name, access).first->second;
      break;
    }
  }
  if (beside) {
    code->beside = code->access;
    code->access = nullptr;
    code->reason = reason;
  } else if (!code->access) {
    code->reason = "not in the PTX";
  } else if (code->access->unknown) {
    code->reason = code->access->reason.c_str();
    code->access = nullptr;
  }
  return code;
}

const KernelCode* Code::kernel(model::FunctionInfo& function, CUcontext context) {
  const auto* known = static_cast<const KernelCode*>(function.access.load(std::memory_order_acquire));
  // A CUfunction belongs to one context. A CUkernel serves every device; what was found out holds for one
  // compute capability.
  if (__builtin_expect(known != nullptr && !function.kernel, 1)) return known;
  const uint32_t cc = capability_of(context);
  for (const KernelCode* k = known; k; k = k->other)
    if (k->compute_capability == cc) return k;
  try {
    KernelCode* found = find_out(function, cc);
    found->other = known;
    // Another thread may have been first: then this one's is dropped from the list, and stays good.
    function.access.store(found, std::memory_order_release);
    return found;
  } catch (const std::bad_alloc&) {
    return &nothing_known();
  }
}

}  // namespace shunt::overlap
