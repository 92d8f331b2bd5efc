// Modules, libraries and the functions in them. The image pointer goes to op.object of a load; aux 1 marks
// CUlibrary and CUkernel.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::OpKind;

namespace {
template <class T>
uint64_t u(T* handle) {
  return reinterpret_cast<uint64_t>(handle);
}
inline void loads(model::Op& op, const void* image, bool library) {
  op.kind = OpKind::module_load, op.object = u(image), op.aux = library;
}
inline void gets(model::Op& op, uint64_t from, const char* name, bool kernel) {
  op.kind = OpKind::function_get, op.object = from, op.name = name, op.aux = kernel;
}
}  // namespace

SHUNT_BEFORE(cuModuleLoad, CUmodule*& out, const char*& file) { loads(op, nullptr, false); }
SHUNT_AFTER(cuModuleLoad, CUmodule*& out, const char*& file) { op.out = u(*out); }
SHUNT_BEFORE(cuModuleLoadData, CUmodule*& out, const void*& image) { loads(op, image, false); }
SHUNT_AFTER(cuModuleLoadData, CUmodule*& out, const void*& image) { op.out = u(*out); }
SHUNT_SAME(cuModuleLoadFatBinary, cuModuleLoadData)
SHUNT_BEFORE(cuModuleLoadDataEx, CUmodule*& out, const void*& image, unsigned int& n, CUjit_option*& o,
             void**& v) {
  loads(op, image, false);
}
SHUNT_AFTER(cuModuleLoadDataEx, CUmodule*& out, const void*& image, unsigned int& n, CUjit_option*& o,
            void**& v) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuModuleUnload, CUmodule& m) { op.kind = OpKind::module_unload, op.object = u(m); }

SHUNT_BEFORE(cuLibraryLoadData, CUlibrary*& out, const void*& code, CUjit_option*& jo, void**& jv,
             unsigned int& jn, CUlibraryOption*& lo, void**& lv, unsigned int& ln) {
  loads(op, code, true);
}
SHUNT_AFTER(cuLibraryLoadData, CUlibrary*& out, const void*& code, CUjit_option*& jo, void**& jv,
            unsigned int& jn, CUlibraryOption*& lo, void**& lv, unsigned int& ln) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuLibraryLoadFromFile, CUlibrary*& out, const char*& file, CUjit_option*& jo, void**& jv,
             unsigned int& jn, CUlibraryOption*& lo, void**& lv, unsigned int& ln) {
  loads(op, nullptr, true);
}
SHUNT_AFTER(cuLibraryLoadFromFile, CUlibrary*& out, const char*& file, CUjit_option*& jo, void**& jv,
            unsigned int& jn, CUlibraryOption*& lo, void**& lv, unsigned int& ln) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuLibraryUnload, CUlibrary& l) { op.kind = OpKind::module_unload, op.object = u(l); }

SHUNT_BEFORE(cuModuleGetFunction, CUfunction*& out, CUmodule& m, const char*& name) {
  gets(op, u(m), name, false);
}
SHUNT_AFTER(cuModuleGetFunction, CUfunction*& out, CUmodule& m, const char*& name) { op.out = u(*out); }
SHUNT_BEFORE(cuLibraryGetKernel, CUkernel*& out, CUlibrary& l, const char*& name) {
  gets(op, u(l), name, true);
}
SHUNT_AFTER(cuLibraryGetKernel, CUkernel*& out, CUlibrary& l, const char*& name) { op.out = u(*out); }

void append_module_hooks(std::vector<HookEntry>& t) {
  for (const HookEntry& e :
       {SHUNT_HOOK(cuModuleLoad), SHUNT_HOOK(cuModuleLoadData), SHUNT_HOOK(cuModuleLoadFatBinary),
        SHUNT_HOOK(cuModuleLoadDataEx), SHUNT_HOOK(cuModuleUnload), SHUNT_HOOK(cuLibraryLoadData),
        SHUNT_HOOK(cuLibraryLoadFromFile), SHUNT_HOOK(cuLibraryUnload), SHUNT_HOOK(cuModuleGetFunction),
        SHUNT_HOOK(cuLibraryGetKernel)})
    t.push_back(e);
}

}  // namespace shunt::exec
