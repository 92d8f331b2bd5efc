// A stand-in for Nsight: NVTX loads it by NVTX_INJECTION64_PATH and it writes one line an event into
// NVTX_TOOL_LOG.
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>

namespace {

FILE* log_file() {
  static FILE* file = fopen(getenv("NVTX_TOOL_LOG"), "a");
  return file;
}
template <class... A>
void line(const char* format, A... a) {
  fprintf(log_file(), format, a...);
  fflush(log_file());
}

// Handles are copies of the texts: what an event carries can be printed without a table.
nvtxDomainHandle_t create(const char* name) {
  line("domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(strdup(name));
}
nvtxStringHandle_t string(nvtxDomainHandle_t domain, const char* text) {
  line("string %s|%s\n", reinterpret_cast<const char*>(domain), text);
  return reinterpret_cast<nvtxStringHandle_t>(strdup(text));
}
void category(nvtxDomainHandle_t domain, uint32_t id, const char* name) {
  line("category %s|%u|%s\n", reinterpret_cast<const char*>(domain), id, name);
}
void event(const char* what, nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) {
  const bool good =
      e->messageType == NVTX_MESSAGE_TYPE_REGISTERED && e->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  line("%s %s|%u|%llu|%s\n", what, reinterpret_cast<const char*>(domain), e->category,
       static_cast<unsigned long long>(e->payload.ullValue),
       good ? reinterpret_cast<const char*>(e->message.registered) : "not a registered string and a number");
}
void mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) { event("mark", domain, e); }
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) { return event("push", domain, e), 0; }
int pop(nvtxDomainHandle_t domain) { return line("pop %s\n", reinterpret_cast<const char*>(domain)), 0; }
void thread(uint32_t tid, const char* name) { line("thread %u|%s\n", tid, name); }
void stream(CUstream handle, const char* name) { line("stream %p|%s\n", static_cast<void*>(handle), name); }

template <class F>
void put(const NvtxExportTableCallbacks* callbacks, NvtxCallbackModule module, uint32_t id, F* function) {
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(module, &table, &size) || id >= size) abort();
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* c = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (!c) return 0;
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainCreateA, create);
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRegisterStringA, string);
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainNameCategoryA, category);
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainMarkEx, mark);
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePushEx, push);
  put(c, NVTX_CB_MODULE_CORE2, NVTX_CBID_CORE2_DomainRangePop, pop);
  put(c, NVTX_CB_MODULE_CORE, NVTX_CBID_CORE_NameOsThreadA, thread);
  put(c, NVTX_CB_MODULE_CUDA, NVTX_CBID_CUDA_NameCuStreamA, stream);
  return 1;
}
