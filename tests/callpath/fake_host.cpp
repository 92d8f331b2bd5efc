#include "tests/callpath/fake_host.h"

#include <string.h>

namespace shunt::exec {

std::map<uint32_t, void*> g_hooks;

FakeDriver& FakeDriver::get() {
  static FakeDriver driver;
  return driver;
}

namespace {

FakeDriver& d() { return FakeDriver::get(); }
std::string n(uint64_t v) { return std::to_string(v); }
CUresult note(const std::string& text) {
  d().calls.push_back(text);
  return d().result;
}
template <class T>
CUresult make(T* out, const std::string& text) {
  const CUresult r = note(text);
  if (r == CUDA_SUCCESS) *out = (T)(d().next_handle += 0x1000);
  return r;
}

CUresult mem_alloc(CUdeviceptr* out, size_t bytes) { return make(out, "cuMemAlloc_v2(" + n(bytes) + ")"); }
CUresult mem_free(CUdeviceptr p) { return note("cuMemFree_v2(" + n(p) + ")"); }
CUresult stream_create(CUstream* out, unsigned int) { return make(out, "cuStreamCreate"); }
CUresult stream_destroy(CUstream) { return note("cuStreamDestroy_v2"); }
CUresult launch(CUfunction f, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned,
                unsigned shared, CUstream s, void**, void**) {
  return note("cuLaunchKernel(" + n(reinterpret_cast<uint64_t>(f)) + "," + n(gx) + "," + n(bx) + "," +
              n(shared) + "," + n(reinterpret_cast<uint64_t>(s)) + ")");
}
CUresult launch_ex(const CUlaunchConfig* c, CUfunction f, void**, void**) {
  return note("cuLaunchKernelEx(" + n(reinterpret_cast<uint64_t>(f)) + "," +
              n(reinterpret_cast<uint64_t>(c->hStream)) + ")");
}
CUresult copy_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream) {
  return note("cuMemcpyAsync(" + n(dst) + "," + n(src) + "," + n(bytes) + ")");
}
CUresult surf_create(CUsurfObject* out, const CUDA_RESOURCE_DESC*) { return make(out, "cuSurfObjectCreate"); }
CUresult get_current(CUcontext* out) { return *out = d().current, CUDA_SUCCESS; }
CUresult ctx_get_device(CUdevice* out) { return *out = d().ordinal_answer, note("cuCtxGetDevice"); }
CUresult device_count(int* out) { return *out = d().device_count, d().result; }
CUresult device_get(CUdevice* out, int ordinal) {
  note("cuDeviceGet(" + std::to_string(ordinal) + ")");
  if (ordinal < 0 || ordinal >= d().device_count) return CUDA_ERROR_INVALID_DEVICE;
  return *out = ordinal, CUDA_SUCCESS;
}
CUresult device_name(char* out, int length, CUdevice dev) {
  note("cuDeviceGetName(" + std::to_string(dev) + ")");
  if (dev < 0 || dev >= d().device_count) return CUDA_ERROR_INVALID_DEVICE;
  strncpy(out, ("device " + std::to_string(dev)).c_str(), static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult can_access(int* out, CUdevice a, CUdevice b) {
  d().ordinals_seen = {a, b};
  return *out = 1, d().result;
}
CUresult by_pci(CUdevice* out, const char*) { return *out = d().ordinal_answer, d().result; }
CUresult retain(CUcontext* out, CUdevice dev) {
  d().ordinals_seen = {dev};
  return make(out, "cuDevicePrimaryCtxRetain(" + std::to_string(dev) + ")");
}
CUresult mem_create(CUmemGenericAllocationHandle* out, size_t, const CUmemAllocationProp* prop,
                    unsigned long long) {
  d().ordinals_seen = {prop ? prop->location.id : -100};
  return make(out, "cuMemCreate");
}
CUresult mem_props(CUmemAllocationProp* prop, CUmemGenericAllocationHandle) {
  prop->location.type = d().location_type;
  prop->location.id = d().ordinal_answer;
  return d().result;
}
CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc* desc, size_t count) {
  d().ordinals_seen.clear();
  for (size_t i = 0; i < count; i++) d().ordinals_seen.push_back(desc[i].location.id);
  return d().result;
}
CUresult advise(CUdeviceptr, size_t, CUmem_advise, CUmemLocation l) {
  return d().ordinals_seen = {l.id}, d().result;
}
CUresult advise_v1(CUdeviceptr, size_t, CUmem_advise, CUdevice dev) {
  return d().ordinals_seen = {dev}, d().result;
}
CUresult pointer_attribute(void* out, CUpointer_attribute, CUdeviceptr) {
  return *static_cast<int*>(out) = d().ordinal_answer, d().result;
}
CUresult range_attribute(void* out, size_t size, CUmem_range_attribute a, CUdeviceptr, size_t) {
  if (a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE)
    return *static_cast<CUmemLocationType*>(out) = d().location_type, d().result;
  for (size_t i = 0; i < size / sizeof(int); i++) static_cast<int*>(out)[i] = d().ordinal_answer;
  return d().result;
}
CUresult add_alloc_node(CUgraphNode* out, CUgraph, const CUgraphNode*, size_t,
                        CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  d().ordinals_seen = {p->poolProps.location.id};
  for (size_t i = 0; i < p->accessDescCount; i++) d().ordinals_seen.push_back(p->accessDescs[i].location.id);
  p->dptr = 0xABC000;
  return make(out, "cuGraphAddMemAllocNode");
}
CUresult get_uuid(CUuuid* out, CUdevice dev) {
  memset(out, dev, sizeof *out);
  return CUDA_SUCCESS;
}

void* find(uint32_t slot) {
  switch (slot) {
#define SHUNT_FAKE(symbol, function) \
  case SHUNT_SLOT_##symbol:          \
    return reinterpret_cast<void*>(static_cast<Fn<SHUNT_SLOT_##symbol>>(function));
    SHUNT_FAKE(cuMemAlloc_v2, mem_alloc)
    SHUNT_FAKE(cuMemFree_v2, mem_free)
    SHUNT_FAKE(cuStreamCreate, stream_create)
    SHUNT_FAKE(cuStreamDestroy_v2, stream_destroy)
    SHUNT_FAKE(cuLaunchKernel, launch)
    SHUNT_FAKE(cuLaunchKernelEx, launch_ex)
    SHUNT_FAKE(cuLaunchKernel_ptsz, launch)
    SHUNT_FAKE(cuMemcpyAsync, copy_async)
    SHUNT_FAKE(cuSurfObjectCreate, surf_create)
    SHUNT_FAKE(cuCtxGetCurrent, get_current)
    SHUNT_FAKE(cuCtxGetDevice, ctx_get_device)
    SHUNT_FAKE(cuDeviceGetCount, device_count)
    SHUNT_FAKE(cuDeviceGet, device_get)
    SHUNT_FAKE(cuDeviceGetName, device_name)
    SHUNT_FAKE(cuDeviceCanAccessPeer, can_access)
    SHUNT_FAKE(cuDeviceGetByPCIBusId, by_pci)
    SHUNT_FAKE(cuDevicePrimaryCtxRetain, retain)
    SHUNT_FAKE(cuMemCreate, mem_create)
    SHUNT_FAKE(cuMemGetAllocationPropertiesFromHandle, mem_props)
    SHUNT_FAKE(cuMemSetAccess, set_access)
    SHUNT_FAKE(cuMemAdvise_v2, advise)
    SHUNT_FAKE(cuMemAdvise, advise_v1)
    SHUNT_FAKE(cuPointerGetAttribute, pointer_attribute)
    SHUNT_FAKE(cuMemRangeGetAttribute, range_attribute)
    SHUNT_FAKE(cuGraphAddMemAllocNode, add_alloc_node)
    SHUNT_FAKE(cuDeviceGetUuid_v2, get_uuid)
#undef SHUNT_FAKE
    default:
      return nullptr;
  }
}

void set_hook(uint32_t slot, void* function) { g_hooks[slot] = function; }
void* find_loaded(const char*, const char*) { return nullptr; }
void set_drain_unknown(int) {}

}  // namespace

const ShuntHost* fake_host() {
  static const ShuntHost host = {sizeof(ShuntHost), SHUNT_LINK_VERSION, SHUNT_SLOT_COUNT, "libshunt.so", find,
                                 set_hook,          find_loaded,        set_drain_unknown};
  return &host;
}

}  // namespace shunt::exec
