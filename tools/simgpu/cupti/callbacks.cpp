#include "tools/simgpu/cupti/callbacks.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "tools/simgpu/cupti/activity.h"
#include "tools/simgpu/cupti/buffers.h"
#include "tools/simgpu/cupti/clock.h"
#include "tools/simgpu/cupti/cupti_api.h"
#include "tools/simgpu/cupti/driver.h"
#include "tools/simgpu/cupti/lifetime.h"
#include "tools/simgpu/cupti/names.h"
#include "tools/simgpu/cupti/settings.h"

// Leaked, so that a call on its way while another thread unsubscribes still finds its memory.
struct CUpti_Subscriber_st {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "CUPTI";
  std::atomic<bool> driver[simgpu::cupti::kDriverCbids] = {};
  std::atomic<bool> runtime[simgpu::cupti::kRuntimeCbids] = {};
  std::atomic<bool> resource[CUPTI_CBID_RESOURCE_SIZE] = {};
  std::atomic<bool> synchronize[CUPTI_CBID_SYNCHRONIZE_SIZE] = {};
  std::atomic<bool> state[CUPTI_CBID_STATE_SIZE] = {};
};

namespace simgpu::cupti {
namespace {

std::atomic<CUpti_Subscriber_st*> g_subscriber{nullptr};
thread_local uint64_t t_correlation_data = 0;
thread_local uint64_t t_runtime_correlation_data = 0;
thread_local uint64_t t_wait_handle = 0;
thread_local uint32_t t_runtime_cbid = 0;

struct Contexts {
  std::mutex mutex;
  std::unordered_set<uint32_t> known;
};
Contexts& contexts() {
  static Contexts* const instance = new Contexts;
  return *instance;
}

struct Switches {
  std::atomic<bool>* list = nullptr;
  uint32_t count = 0;
  bool (*offered)(uint32_t) = nullptr;
};
bool any_name(uint32_t id) { return driver_name(id) != nullptr; }
bool any_runtime_name(uint32_t id) { return runtime_name(id) != nullptr; }
bool any_id(uint32_t id) { return id != 0; }
// What the simulator tells of: the rest of the resource domain has no source yet.
bool offered_resource(uint32_t id) {
  return id == CUPTI_CBID_RESOURCE_CU_INIT_FINISHED || id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
}
Switches switches(CUpti_Subscriber_st& s, CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return {s.driver, kDriverCbids, any_name};
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return {s.runtime, kRuntimeCbids, any_runtime_name};
    case CUPTI_CB_DOMAIN_RESOURCE:
      return {s.resource, CUPTI_CBID_RESOURCE_SIZE, offered_resource};
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return {s.synchronize, CUPTI_CBID_SYNCHRONIZE_SIZE, any_id};
    case CUPTI_CB_DOMAIN_STATE:
      return {s.state, CUPTI_CBID_STATE_SIZE, any_id};
    default:
      return {};
  }
}
bool is_domain(CUpti_CallbackDomain domain) {
  return domain > CUPTI_CB_DOMAIN_INVALID && domain < CUPTI_CB_DOMAIN_SIZE;
}

template <class Data>
void tell(CUpti_Subscriber_st& s, CUpti_CallbackDomain domain, uint32_t id, const Data& data) {
  Quiet quiet;  // the client's own calls in here have no callbacks
  s.callback(s.user, domain, id, &data);
}

// The return value's type differs by domain, its size doesn't: both enumerations are ints.
static_assert(sizeof(CUresult) == sizeof(int));
void tell_api(CUpti_Subscriber_st& s, CUpti_CallbackDomain domain, uint32_t cbid, bool exit, int result,
              uint64_t correlation) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  const auto& list = runtime ? s.runtime : s.driver;
  if (cbid == 0 || !list[cbid].load(std::memory_order_relaxed)) return;
  uint64_t& correlation_data = runtime ? t_runtime_correlation_data : t_correlation_data;
  const CurrentContext now = current_context();
  int value = result;
  CUpti_CallbackData data{};
  data.callbackSite = exit ? CUPTI_API_EXIT : CUPTI_API_ENTER;
  data.functionName = runtime ? runtime_name(cbid) : driver_name(cbid);
  data.functionReturnValue = exit ? &value : nullptr;
  data.context = now.handle;
  data.contextUid = now.id;
  data.correlationData = &correlation_data;
  data.correlationId = static_cast<uint32_t>(correlation);
  if (!exit) correlation_data = 0;
  tell(s, domain, cbid, data);
}

// Contexts are noticed when they are first current at the end of a call.
void meet_context(CUpti_Subscriber_st* s) {
  const bool told = s && s->resource[CUPTI_CBID_RESOURCE_CONTEXT_CREATED];
  const CurrentContext now = current_context();
  if (!now.id) return;
  {
    std::lock_guard lock(contexts().mutex);
    if (!contexts().known.insert(now.id).second) return;
  }
  report_context(now);
  if (told) {
    CUpti_ResourceData data{};
    data.context = now.handle;
    tell(*s, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, data);
  }
}

void after_call(CUpti_Subscriber_st* s, std::string_view function, int result) {
  if (result != CUDA_SUCCESS) return;
  if (function == "cuInit") {
    report_devices(false);
    if (s && s->resource[CUPTI_CBID_RESOURCE_CU_INIT_FINISHED])
      tell(*s, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, CUpti_ResourceData{});
    return;
  }
  meet_context(s);
  if (!s) return;
  const bool stream = function == "cuStreamSynchronize";
  if (!stream && function.substr(0, 16) != "cuCtxSynchronize") return;
  const uint32_t id =
      stream ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
  if (!s->synchronize[id]) return;
  CUpti_SynchronizeData data{};
  data.context = current_context().handle;
  if (stream) data.stream = reinterpret_cast<CUstream>(t_wait_handle);
  tell(*s, CUPTI_CB_DOMAIN_SYNCHRONIZE, id, data);
}

CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                      const CUpti_SubscriberParams* params) {
  if (!subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  auto* fresh = new CUpti_Subscriber_st;
  fresh->callback = callback ? callback : [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  fresh->user = user;
  if (params && params->subscriberName)
    snprintf(fresh->name, sizeof fresh->name, "CUPTI for %.*s", CUPTI_SUBSCRIBER_NAME_MAX_LEN,
             params->subscriberName);
  CUpti_Subscriber_st* holder = nullptr;
  const std::string& tool = settings().holder;
  if (tool.empty() && g_subscriber.compare_exchange_strong(holder, fresh)) {
    *subscriber = fresh;
    return CUPTI_SUCCESS;
  }
  if (params && params->oldSubscriberName && params->oldSubscriberSize)
    snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s",
             tool.empty() ? holder->name : tool.c_str());
  delete fresh;
  return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

CUptiResult subscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                         CUpti_SubscriberParams* params) {
  if (params && params->structSize < CUpti_SubscriberParams_STRUCT_SIZE) return CUPTI_ERROR_INVALID_PARAMETER;
  return subscribe(subscriber, callback, user, params);
}

}  // namespace

void note_wait(uint64_t handle) { t_wait_handle = handle; }
void reset_subscriber() {
  g_subscriber = nullptr;
  std::lock_guard lock(contexts().mutex);
  contexts().known.clear();
}

void on_api(void*, const char* function, int exit, int result, uint64_t correlation) {
  if (is_dead()) return;
  sample_clock(driver().host_ns());
  CUpti_Subscriber_st* s = g_subscriber.load(std::memory_order_acquire);
  if (!exit) {
    note_function(correlation, function);
    if (s) tell_api(*s, CUPTI_CB_DOMAIN_DRIVER_API, driver_cbid(function), false, result, correlation);
    return;
  }
  if (s) tell_api(*s, CUPTI_CB_DOMAIN_DRIVER_API, driver_cbid(function), true, result, correlation);
  after_call(g_subscriber.load(), function, result);
  drain(false);
}

uint32_t current_runtime_cbid() { return t_runtime_cbid; }

void on_runtime(void*, const char* function, int exit, int result, uint64_t correlation) {
  if (is_dead()) return;
  sample_clock(driver().host_ns());
  const uint32_t cbid = runtime_cbid(function);
  t_runtime_cbid = exit ? 0 : cbid;
  if (CUpti_Subscriber_st* s = g_subscriber.load(std::memory_order_acquire))
    tell_api(*s, CUPTI_CB_DOMAIN_RUNTIME_API, cbid, exit != 0, result, correlation);
  if (exit) drain(false);
}

}  // namespace simgpu::cupti

using namespace simgpu::cupti;

CUPTI_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                        void* userdata) {
  return subscribe(subscriber, callback, userdata, nullptr);
}

// With SIMGPU_CUPTI_V2=0 the symbol is as absent as in an older library: dlsym() answers NULL, because an
// indirect function's resolver says where it is.
extern "C" {
static CUptiResult subscribe_v2_here(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                     void* userdata, CUpti_SubscriberParams* params) {
  return subscribe_v2(subscriber, callback, userdata, params);
}
static decltype(&subscribe_v2_here) resolve_subscribe_v2() {
  const char* setting = getenv("SIMGPU_CUPTI_V2");
  return setting && strcmp(setting, "0") == 0 ? nullptr : subscribe_v2_here;
}
__attribute__((visibility("default"), ifunc("resolve_subscribe_v2"))) CUptiResult cuptiSubscribe_v2(
    CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata,
    CUpti_SubscriberParams* params);
}

CUPTI_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  CUpti_Subscriber_st* expected = subscriber;
  if (!subscriber || !g_subscriber.compare_exchange_strong(expected, nullptr))
    return CUPTI_ERROR_INVALID_PARAMETER;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                               CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!enable || !subscriber || subscriber != g_subscriber.load() || !is_domain(domain))
    return CUPTI_ERROR_INVALID_PARAMETER;
  const Switches list = switches(*subscriber, domain);
  if (list.list && (cbid == 0 || cbid >= list.count)) return CUPTI_ERROR_INVALID_PARAMETER;
  *enable = list.list && list.list[cbid];
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                             CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!subscriber || subscriber != g_subscriber.load() || !is_domain(domain))
    return CUPTI_ERROR_INVALID_PARAMETER;
  const Switches list = switches(*subscriber, domain);
  if (list.list && (cbid == 0 || cbid >= list.count)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!list.list || !list.offered(cbid)) return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
  list.list[cbid] = enable != 0;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                           CUpti_CallbackDomain domain) {
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  if (!subscriber || subscriber != g_subscriber.load() || !is_domain(domain))
    return CUPTI_ERROR_INVALID_PARAMETER;
  const Switches list = switches(*subscriber, domain);
  if (!list.list) return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
  for (uint32_t id = 1; id < list.count; ++id)
    if (list.offered(id)) list.list[id] = enable != 0;
  return CUPTI_SUCCESS;
}

// Those domains that exist here: cuptiSupportedDomains() names them.
CUPTI_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  CUpti_DomainTable table = nullptr;
  size_t count = 0;
  if (const CUptiResult result = cuptiSupportedDomains(&count, &table); result != CUPTI_SUCCESS)
    return result;
  for (size_t i = 0; i < count; ++i)
    if (const CUptiResult result = cuptiEnableDomain(enable, subscriber, table[i]); result != CUPTI_SUCCESS)
      return result;
  return CUPTI_SUCCESS;
}

CUPTI_EXPORT CUptiResult cuptiSupportedDomains(size_t* domainCount, CUpti_DomainTable* domainTable) {
  if (!domainCount || !domainTable) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  static CUpti_CallbackDomain table[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                         CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                         CUPTI_CB_DOMAIN_STATE};
  *domainCount = sizeof table / sizeof *table;
  *domainTable = table;
  return CUPTI_SUCCESS;
}
