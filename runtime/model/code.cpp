// Modules, libraries, functions and kernels.
#include <cstring>

#include "runtime/model/model.h"

namespace shunt::model {
namespace {
void copy_name(FunctionInfo& f, const char* name) {
  if (!name) return;
  strncpy(f.name, name, sizeof f.name - 1);
  f.name[sizeof f.name - 1] = 0;
}
}  // namespace

FunctionInfo* Model::function(CUfunction handle) {
  if (!handle) return nullptr;
  // Nothing is asked of the driver here: a CUkernel must not reach cuFuncGetName. A function that came by a
  // way we do not hook (enumeration) has no name and no module.
  return functions_.find_or_insert(reinterpret_cast<uint64_t>(handle), &this_thread().functions,
                                   [](FunctionInfo&) {});
}

ModuleInfo* Model::module(uint64_t handle) { return modules_.find(handle, nullptr); }

void Model::after_code(Op& op, Undo& undo) {
  const bool ok = op.result == CUDA_SUCCESS;
  switch (op.kind) {
    case OpKind::module_load:
      if (ok)
        modules_.insert(op.out, [&](ModuleInfo& m) {
          m.library = op.aux == 1;
          m.context = m.library ? nullptr : current_context();
          m.image = reinterpret_cast<const void*>(op.object);
        });
      return;
    case OpKind::module_unload:
      if (!ok) return modules_.restore(op.object, static_cast<ModuleInfo*>(undo.object));
      modules_.discard(static_cast<ModuleInfo*>(undo.object));
      functions_.forget_if([&](uint64_t, const FunctionInfo& f) { return f.module == op.object; });
      return;
    case OpKind::function_get:
      if (ok)
        functions_.insert(op.out, [&](FunctionInfo& f) {
          f.module = op.object;
          f.kernel = op.aux == 1;
          const ModuleInfo* m = module(op.object);
          f.context = m ? m->context : nullptr;
          copy_name(f, op.name);
        });
      return;
    default:
      return;
  }
}

}  // namespace shunt::model
