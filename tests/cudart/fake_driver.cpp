// A driver for the runtime to talk to that only keeps a log: a libcuda.so.1 of some fifty functions, each of
// which can be told to fail. What the runtime looks up and calls, in which order, version and stream flavour,
// is then a fact to test.
//
// FAKE_DRIVER_VERSION      what cuDriverGetVersion answers (13000)
// FAKE_DRIVER_MISSING      comma-separated names that look-ups do not find
// FAKE_DRIVER_FAIL         name=code,...: the function returns that code each time
// FAKE_DRIVER_EAGER=1      cuModuleGetLoadingMode answers EAGER
// Exported besides cuGetProcAddress_v2: fake_log() and fake_fail(name, code).
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace {

struct State {
  std::mutex lock;
  std::string log;  // one line a look-up or call
  std::map<std::string, int> failures;
  std::map<CUdevice, bool> active;
  CUcontext reset_context = nullptr;
};
State& state() {
  static State* leaked = [] {
    auto* s = new State;
    if (const char* list = std::getenv("FAKE_DRIVER_FAIL")) {
      std::string text = list;
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
        s->failures[text.substr(at, equals - at)] = std::atoi(text.c_str() + equals + 1);
        at = end + 1;
      }
    }
    return s;
  }();
  return *leaked;
}

thread_local CUcontext current = nullptr;
constexpr int kDevices = 2;
char contexts[kDevices];
char kernels[64];
char library_object;
alignas(64) char device_memory[4096];
alignas(64) char managed_memory[256];

CUresult called(const char* name, int flavour, const std::string& detail = {}) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  s.log += std::string("call ") + name + (flavour == 1 ? "/per-thread" : "") +
           (detail.empty() ? "" : " " + detail) + "\n";
  const auto failure = s.failures.find(name);
  return failure == s.failures.end() ? CUDA_SUCCESS : static_cast<CUresult>(failure->second);
}

int ordinal_of(CUcontext context) { return static_cast<int>(reinterpret_cast<char*>(context) - contexts); }
CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(&contexts[device]); }

#define BEGIN(name) \
  if (const CUresult failed = called(#name, 0); failed != CUDA_SUCCESS) return failed
#define FLAVOURED(name) \
  if (const CUresult failed = called(#name, F); failed != CUDA_SUCCESS) return failed

CUresult init(unsigned) {
  BEGIN(cuInit);
  return CUDA_SUCCESS;
}
CUresult driver_version(int* version) {
  const char* text = std::getenv("FAKE_DRIVER_VERSION");
  *version = text != nullptr ? std::atoi(text) : 13000;
  return CUDA_SUCCESS;
}
CUresult device_count(int* count) {
  BEGIN(cuDeviceGetCount);
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = 0x7fffffff;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      break;
    default:
      *value = static_cast<int>(attribute);
  }
  return CUDA_SUCCESS;
}
CUresult device_name(char* name, int size, CUdevice device) {
  std::strncpy(name, device == 0 ? "fake 0" : "fake 1", size);
  return CUDA_SUCCESS;
}
CUresult total_memory(size_t* bytes, CUdevice device) {
  *bytes = size_t{1} << (30 + device);
  return CUDA_SUCCESS;
}
CUresult primary_retain(CUcontext* context, CUdevice device) {
  if (const CUresult failed = called("cuDevicePrimaryCtxRetain", 0, std::to_string(device))) return failed;
  state().active[device] = true;
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult primary_release(CUdevice device) {
  return called("cuDevicePrimaryCtxRelease", 0, std::to_string(device));
}
CUresult primary_reset(CUdevice device) {
  state().active[device] = false;
  return called("cuDevicePrimaryCtxReset", 0, std::to_string(device));
}
CUresult primary_set_flags(CUdevice device, unsigned flags) {
  return called("cuDevicePrimaryCtxSetFlags", 0, std::to_string(device) + " " + std::to_string(flags));
}
CUresult context_get(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult context_set(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult context_device(CUdevice* device) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = ordinal_of(current);
  return CUDA_SUCCESS;
}
CUresult context_synchronize(CUcontext) {
  BEGIN(cuCtxSynchronize);
  return CUDA_SUCCESS;
}
CUresult loading_mode(CUmoduleLoadingMode* mode) {
  *mode = std::getenv("FAKE_DRIVER_EAGER") != nullptr ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
CUresult library_load(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                      CUlibraryOption* options, void**, unsigned count) {
  const std::string detail = std::to_string(*static_cast<const unsigned*>(code)) + " options " +
                             (count == 1 ? std::to_string(options[0]) : "none");
  if (const CUresult failed = called("cuLibraryLoadData", 0, detail)) return failed;
  *library = reinterpret_cast<CUlibrary>(&library_object);
  return CUDA_SUCCESS;
}
CUresult library_unload(CUlibrary) {
  BEGIN(cuLibraryUnload);
  return CUDA_SUCCESS;
}
CUresult library_kernel(CUkernel* kernel, CUlibrary, const char* name) {
  if (const CUresult failed = called("cuLibraryGetKernel", 0, name)) return failed;
  if (std::strcmp(name, "absent") == 0) return CUDA_ERROR_NOT_FOUND;
  *kernel = reinterpret_cast<CUkernel>(&kernels[2 * (std::strlen(name) % 32)]);
  return CUDA_SUCCESS;
}
CUresult library_global(CUdeviceptr* pointer, size_t* bytes, CUlibrary, const char* name) {
  if (const CUresult failed = called("cuLibraryGetGlobal", 0, name)) return failed;
  if (std::strcmp(name, "absent") == 0) return CUDA_ERROR_NOT_FOUND;
  *pointer = reinterpret_cast<CUdeviceptr>(device_memory);
  *bytes = 64;
  return CUDA_SUCCESS;
}
CUresult library_managed(CUdeviceptr* pointer, size_t* bytes, CUlibrary, const char* name) {
  if (const CUresult failed = called("cuLibraryGetManaged", 0, name)) return failed;
  *pointer = reinterpret_cast<CUdeviceptr>(managed_memory);
  *bytes = 16;
  return CUDA_SUCCESS;
}
CUresult kernel_library(CUlibrary* library, CUkernel kernel) {
  const char* p = reinterpret_cast<char*>(kernel);
  if (p < kernels || p >= kernels + sizeof kernels) return CUDA_ERROR_INVALID_HANDLE;
  *library = reinterpret_cast<CUlibrary>(&library_object);
  return CUDA_SUCCESS;
}
CUresult kernel_attribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice device) {
  *value = 100 * device + attribute;
  return CUDA_SUCCESS;
}
CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel, CUdevice device) {
  return called("cuKernelSetAttribute", 0,
                std::to_string(attribute) + " " + std::to_string(value) + " " + std::to_string(device));
}
template <int F>
CUresult launch(CUfunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, CUstream, void**, void**) {
  FLAVOURED(cuLaunchKernel);
  const bool fits = gx && gy && gz && bx && by && bz && bx * by * bz <= 1024 && gy <= 65535 && gz <= 65535 &&
                    shared < 99999;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
template <int F>
CUresult stream_query(CUstream) {
  FLAVOURED(cuStreamQuery);
  return CUDA_SUCCESS;
}
CUresult event_query(CUevent) {
  BEGIN(cuEventQuery);
  return CUDA_SUCCESS;
}
CUresult allocate(CUdeviceptr* pointer, size_t) {
  BEGIN(cuMemAlloc);
  *pointer = reinterpret_cast<CUdeviceptr>(device_memory);
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr) {
  BEGIN(cuMemFree);
  return CUDA_SUCCESS;
}
#define COPY(function, name, destination, source)        \
  template <int F>                                       \
  CUresult function(destination, source, size_t count) { \
    return called(#name, F, std::to_string(count));      \
  }
COPY(copy, cuMemcpy, CUdeviceptr, CUdeviceptr)
COPY(copy_htod, cuMemcpyHtoD, CUdeviceptr, const void*)
COPY(copy_dtoh, cuMemcpyDtoH, void*, CUdeviceptr)
COPY(copy_dtod, cuMemcpyDtoD, CUdeviceptr, CUdeviceptr)
CUresult pointer_attributes(unsigned count, CUpointer_attribute* wanted, void** values, CUdeviceptr pointer) {
  const bool managed = pointer == reinterpret_cast<CUdeviceptr>(managed_memory);
  const bool device = managed || pointer == reinterpret_cast<CUdeviceptr>(device_memory);
  for (unsigned i = 0; i < count; ++i) {
    switch (wanted[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = device ? CU_MEMORYTYPE_DEVICE : 0;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(values[i]) = managed;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = device ? 1 : -2;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr*>(values[i]) = device ? pointer : 0;
        break;
      default:
        *static_cast<void**>(values[i]) = managed ? managed_memory : nullptr;
    }
  }
  return CUDA_SUCCESS;
}

// Arrays remember their description; copies and textures log what they were given, field by field.
struct FakeArray {
  CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;
};
template <typename... T>
std::string fields(const T&... values) {
  std::ostringstream out;
  const char* gap = "";
  ((out << gap << values, gap = " "), ...);
  return out.str();
}
CUresult array_create(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* d) {
  *array = reinterpret_cast<CUarray>(new FakeArray{*d});
  return called("cuArray3DCreate", 0,
                fields(d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags));
}
CUresult array_describe(CUDA_ARRAY3D_DESCRIPTOR_v2* d, CUarray array) {
  *d = reinterpret_cast<FakeArray*>(array)->descriptor;
  return CUDA_SUCCESS;
}
template <typename Copy>
std::string copy_fields(const Copy& c) {
  std::string text = fields("from", c.srcMemoryType, c.srcXInBytes, c.srcY, c.srcHost != nullptr,
                            c.srcDevice != 0, c.srcArray != nullptr, c.srcPitch);
  return text +
         fields(" to", c.dstMemoryType, c.dstXInBytes, c.dstY, c.dstHost != nullptr, c.dstDevice != 0,
                c.dstArray != nullptr, c.dstPitch) +
         fields(" size", c.WidthInBytes, c.Height);
}
template <int F>
CUresult copy_2d(const CUDA_MEMCPY2D_v2* c) {
  return called("cuMemcpy2DUnaligned", F, copy_fields(*c));
}
template <int F>
CUresult copy_3d(const CUDA_MEMCPY3D_v2* c) {
  return called("cuMemcpy3D", F,
                copy_fields(*c) + fields("", c->Depth, c->srcZ, c->srcHeight, c->dstZ, c->dstHeight));
}
CUDA_RESOURCE_DESC_v1 last_resource;
CUDA_TEXTURE_DESC_v1 last_texture;
CUresult texture_create(CUtexObject* object, const CUDA_RESOURCE_DESC_v1* r, const CUDA_TEXTURE_DESC_v1* t,
                        const CUDA_RESOURCE_VIEW_DESC_v1* view) {
  last_resource = *r;
  last_texture = *t;
  *object = 5;
  return called(
      "cuTexObjectCreate", 0,
      fields(r->resType, r->res.pitch2D.format, r->res.pitch2D.numChannels, "address", t->addressMode[0],
             t->addressMode[1], t->addressMode[2], "filter", t->filterMode, "flags", t->flags, "aniso",
             t->maxAnisotropy, "border", t->borderColor[2], "view", view != nullptr));
}
CUresult texture_resource(CUDA_RESOURCE_DESC_v1* r, CUtexObject) {
  *r = last_resource;
  return CUDA_SUCCESS;
}
CUresult texture_description(CUDA_TEXTURE_DESC_v1* t, CUtexObject) {
  *t = last_texture;
  return CUDA_SUCCESS;
}
CUDA_KERNEL_NODE_PARAMS_v2 last_kernel_node;
CUDA_MEMCPY3D_v2 last_copy_node;
char node_object;
CUresult add_kernel_node(CUgraphNode* node, CUgraph, const CUgraphNode*, size_t,
                         const CUDA_KERNEL_NODE_PARAMS_v2* p) {
  last_kernel_node = *p;
  *node = reinterpret_cast<CUgraphNode>(&node_object);
  return called("cuGraphAddKernelNode", 0, fields(p->gridDimX, p->blockDimZ, p->sharedMemBytes));
}
CUresult get_kernel_node(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2* p) {
  *p = last_kernel_node;
  return CUDA_SUCCESS;
}
CUresult add_copy_node(CUgraphNode* node, CUgraph, const CUgraphNode*, size_t, const CUDA_MEMCPY3D_v2* c,
                       CUcontext ctx) {
  last_copy_node = *c;
  *node = reinterpret_cast<CUgraphNode>(&node_object);
  return called("cuGraphAddMemcpyNode", 0, copy_fields(*c) + fields("", c->Depth, "context", ctx == current));
}
CUresult get_copy_node(CUgraphNode, CUDA_MEMCPY3D_v2* c) {
  *c = last_copy_node;
  return CUDA_SUCCESS;
}
CUresult add_node(CUgraphNode* node, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                  CUgraphNodeParams* p) {
  std::string detail = fields(p->type);
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      detail += fields("", p->kernel.gridDimY, p->kernel.kern != nullptr);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      detail += " " + copy_fields(p->memcpy.copyParams) + fields("", p->memcpy.copyCtx == current);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      detail += fields("", p->memset.width, p->memset.ctx == current);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      p->alloc.dptr = 0x7000;
      break;
    default:
      break;
  }
  *node = reinterpret_cast<CUgraphNode>(&node_object);
  return called("cuGraphAddNode", 0, detail);
}
template <int F>
CUresult launch_ex(const CUlaunchConfig* c, CUfunction, void**, void**) {
  return called(
      "cuLaunchKernelEx", F,
      fields(c->gridDimX, c->blockDimY, c->sharedMemBytes, c->numAttrs, c->numAttrs > 0 ? c->attrs[0].id : -1,
             c->numAttrs > 0 ? c->attrs[0].value.clusterDim.y : 0));
}
template <int F>
CUresult fill_2d(CUdeviceptr, size_t pitch, unsigned char value, size_t width, size_t height) {
  return called("cuMemsetD2D8", F, fields(pitch, int{value}, width, height));
}

struct Entry {
  const char* name;
  void* plain;
  void* per_thread;
};
#define SINGLE(name, function) \
  { #name, reinterpret_cast < void*>(&function), nullptr }
#define BOTH(name, function) \
  { #name, reinterpret_cast < void*>(&function <0>), reinterpret_cast < void*>(&function <1>) }

CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status);
const Entry kEntries[] = {
    SINGLE(cuGetProcAddress, get_proc_address),
    SINGLE(cuInit, init),
    SINGLE(cuDriverGetVersion, driver_version),
    SINGLE(cuDeviceGetCount, device_count),
    SINGLE(cuDeviceGet, device_get),
    SINGLE(cuDeviceGetAttribute, device_attribute),
    SINGLE(cuDeviceGetName, device_name),
    SINGLE(cuDeviceTotalMem, total_memory),
    SINGLE(cuDevicePrimaryCtxRetain, primary_retain),
    SINGLE(cuDevicePrimaryCtxRelease, primary_release),
    SINGLE(cuDevicePrimaryCtxReset, primary_reset),
    SINGLE(cuDevicePrimaryCtxSetFlags, primary_set_flags),
    SINGLE(cuCtxGetCurrent, context_get),
    SINGLE(cuCtxSetCurrent, context_set),
    SINGLE(cuCtxGetDevice, context_device),
    SINGLE(cuCtxSynchronize, context_synchronize),
    SINGLE(cuModuleGetLoadingMode, loading_mode),
    SINGLE(cuLibraryLoadData, library_load),
    SINGLE(cuLibraryUnload, library_unload),
    SINGLE(cuLibraryGetKernel, library_kernel),
    SINGLE(cuLibraryGetGlobal, library_global),
    SINGLE(cuLibraryGetManaged, library_managed),
    SINGLE(cuKernelGetLibrary, kernel_library),
    SINGLE(cuKernelGetAttribute, kernel_attribute),
    SINGLE(cuKernelSetAttribute, kernel_set_attribute),
    SINGLE(cuEventQuery, event_query),
    SINGLE(cuMemAlloc, allocate),
    SINGLE(cuMemFree, release),
    SINGLE(cuPointerGetAttributes, pointer_attributes),
    SINGLE(cuArray3DCreate, array_create),
    SINGLE(cuArray3DGetDescriptor, array_describe),
    SINGLE(cuTexObjectCreate, texture_create),
    SINGLE(cuTexObjectGetResourceDesc, texture_resource),
    SINGLE(cuTexObjectGetTextureDesc, texture_description),
    SINGLE(cuGraphAddKernelNode, add_kernel_node),
    SINGLE(cuGraphKernelNodeGetParams, get_kernel_node),
    SINGLE(cuGraphAddMemcpyNode, add_copy_node),
    SINGLE(cuGraphMemcpyNodeGetParams, get_copy_node),
    SINGLE(cuGraphAddNode, add_node),
    BOTH(cuMemcpy2DUnaligned, copy_2d),
    BOTH(cuMemcpy3D, copy_3d),
    BOTH(cuLaunchKernelEx, launch_ex),
    BOTH(cuMemsetD2D8, fill_2d),
    BOTH(cuLaunchKernel, launch),
    BOTH(cuStreamQuery, stream_query),
    BOTH(cuMemcpy, copy),
    BOTH(cuMemcpyHtoD, copy_htod),
    BOTH(cuMemcpyDtoH, copy_dtoh),
    BOTH(cuMemcpyDtoD, copy_dtod),
};

bool in_list(const char* list, const std::string& name) {
  return list != nullptr && ("," + std::string(list) + ",").find("," + name + ",") != std::string::npos;
}

CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  {
    State& s = state();
    const std::lock_guard guard(s.lock);
    s.log +=
        std::string("find ") + symbol + " " + std::to_string(version) + " " + std::to_string(flags) + "\n";
  }
  *function = nullptr;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (in_list(std::getenv("FAKE_DRIVER_MISSING"), symbol)) return CUDA_ERROR_NOT_FOUND;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, symbol) != 0) continue;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *function = per_thread && entry.per_thread != nullptr ? entry.per_thread : entry.plain;
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default")))

#undef cuGetProcAddress
FAKE_API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult* status) {
  return get_proc_address(symbol, function, version, flags, status);
}
FAKE_API const char* fake_log() { return state().log.c_str(); }
FAKE_API void fake_fail(const char* name, int code) {
  const std::lock_guard guard(state().lock);
  if (code == 0) {
    state().failures.erase(name);
  } else {
    state().failures[name] = code;
  }
}
