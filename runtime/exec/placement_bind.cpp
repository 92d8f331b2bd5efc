#include "runtime/exec/placement_bind.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/config/hints.h"
#include "runtime/exec/driver.h"
#include "runtime/exec/hook_tables.h"
#include "runtime/exec/ordinals.h"
#include "runtime/exec/settings.h"
#include "runtime/placement/decide.h"
#include "runtime/placement/history.h"
#include "runtime/placement/inventory.h"
#include "runtime/trace/paths.h"
#include "runtime/trace/writer.h"

namespace shunt::exec {

std::atomic<const placement::OrdinalMap*> detail::ordinal_map{nullptr};
std::atomic<bool> detail::ordinals_unbound{false};

namespace {

using placement::DeviceFacts;

std::atomic<bool> g_deciding{false};
bool g_observing_elsewhere = false;

std::string uuid_text(const CUuuid& uuid) {
  char out[48];
  const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
  snprintf(out, sizeof out, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
           b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return out;
}

// The devices as the driver numbers them in this process: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER have
// been applied. False when it cannot answer yet (cuInit has not been called).
bool driver_devices(std::vector<DeviceFacts>& facts) {
  const Driver& driver = Driver::get();
  int count = 0;
  if (!driver.device_get_count || driver.device_get_count(&count) != CUDA_SUCCESS) return false;
  for (int i = 0; i < count; i++) {
    DeviceFacts d;
    CUdevice device = -1;
    CUuuid uuid{};
    char name[256] = "", pci[32] = "";
    size_t total = 0;
    int major = 0, minor = 0;
    if (driver.device_get(&device, i) != CUDA_SUCCESS) return false;
    if (device != i) {
      SHUNT_LOG_WARN(placement, "device %d has handle %d: ordinals cannot be mapped, placement is off", i,
                     device);
      facts.clear();
      return true;
    }
    d.ordinal = i;
    if (driver.device_get_uuid && driver.device_get_uuid(&uuid, device) == CUDA_SUCCESS)
      d.uuid = uuid_text(uuid);
    if (driver.device_get_name && driver.device_get_name(name, sizeof name, device) == CUDA_SUCCESS)
      d.name = name;
    if (driver.device_get_pci_bus_id && driver.device_get_pci_bus_id(pci, sizeof pci, device) == CUDA_SUCCESS)
      d.pci_bus_id = pci;
    if (driver.device_total_mem && driver.device_total_mem(&total, device) == CUDA_SUCCESS)
      d.total_bytes = total;
    if (driver.device_get_attribute) {
      driver.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
      driver.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    d.compute_capability = static_cast<uint32_t>(major * 10 + minor);
    facts.push_back(std::move(d));
  }
  return true;
}

void report(const placement::Plan& plan, const std::vector<DeviceFacts>& facts, bool applied) {
  const int device = plan.device >= 0 ? facts[static_cast<size_t>(plan.device)].ordinal : -1;
  const uint64_t id =
      trace::decide({.feature = trace::Feature::placement,
                     .action = plan.changed ? trace::Action::map_ordinals : trace::Action::keep_device,
                     .reason = plan.reason,
                     .outcome = plan.changed ? (applied ? trace::Outcome::applied : trace::Outcome::shadow)
                                             : trace::Outcome::declined,
                     .device = static_cast<int16_t>(device),
                     .bytes = plan.need_bytes});
  if (plan.changed && applied) {
    const DeviceFacts& d = facts[static_cast<size_t>(plan.device)];
    log::say("device 0 is %s (GPU %d, %s): %s [%s, decision %llu]%s", d.label().c_str(), d.ordinal,
             d.uuid.c_str(), plan.why.c_str(), std::string(reason_name(plan.reason)).c_str(),
             static_cast<unsigned long long>(id), plan.other_model ? "; device model differs" : "");
  } else {
    SHUNT_LOG_INFO(placement, "device %d kept: %s [%s, decision %llu]", device, plan.why.c_str(),
                   std::string(reason_name(plan.reason)).c_str(), static_cast<unsigned long long>(id));
  }
}

// Nothing to translate: device calls go straight to the driver again.
void remove_ordinal_hooks() {
  if (g_observing_elsewhere) return;
  for (uint32_t slot = 0; slot < SHUNT_SLOT_FIRST_NCCL; slot++)
    if (bears_ordinals(slot)) uninstall(slot);
}

// What earlier runs of this program needed, from the snapshot a bare preload was given.
void use_history(const config::Config& config, placement::Request& request) {
  placement::History history;
  std::string error;
  if (!placement::read_snapshot(config.text(config::OptionId::history_snapshot), history, error)) {
    SHUNT_LOG_WARN(placement, "%s", error.c_str());
    return;
  }
  if (const placement::ProgramRecord* program = history.find(placement::this_program_id()))
    request.history_need_bytes = program->peak_bytes;
}

// True once decided.
bool decide_once() {
  std::vector<DeviceFacts> facts;
  if (!driver_devices(facts)) return false;
  const config::Config& config = settings();
  placement::Request request;
  request.mode = placement::parse_mode(config.text(config::OptionId::placement));
  std::vector<config::Problem> problems;  // reported at start
  request.hints = config::parse_hints(config.list(config::OptionId::hint), problems);
  placement::RuleSet rules;
  std::string bad_rules;
  if (config.given(config::OptionId::rule_set)) {
    if (placement::parse_compact(config.text(config::OptionId::rule_set), rules, bad_rules))
      request.rules = &rules;
    else
      SHUNT_LOG_WARN(placement, "SHUNT_RULE_SET: %s; the rules shipped are used", bad_rules.c_str());
  }
  request.local_ranks = trace::local_ranks();
  // One device, or no freedom: not worth NVML's start-up time.
  if (facts.size() > 1 && request.local_ranks <= 1) {
    const OwnWork own;
    placement::add_monitor_facts(facts);
  }
  // Code in the executable itself limits the choice across models; code in libraries is not known here.
  std::vector<binary::Entry> code;
  std::vector<std::string> backing;
  std::string ignored;
  const bool one_model =
      std::all_of(facts.begin(), facts.end(), [&](const auto& d) { return d.same_model(facts[0]); });
  if (!one_model && binary::read_elf_file("/proc/self/exe", code, backing, ignored)) request.program = &code;
  request.ptx_only = clock::is_virtual();  // simgpu
  if (config.given(config::OptionId::history_snapshot)) use_history(config, request);
  const placement::Plan plan = placement::decide(request, facts);
  const bool apply = plan.changed && request.mode != placement::Mode::shadow;
  if (apply) {
    auto* map = new placement::OrdinalMap();
    if (map->assign(plan.order)) detail::ordinal_map.store(map, std::memory_order_release);
  }
  report(plan, facts, apply);
  if (!apply) remove_ordinal_hooks();
  return true;
}

}  // namespace

void detail::bind_ordinals_slow() {
  // One thread decides; others that arrive meanwhile wait, because an ordinal answered before the map would
  // be a lie after it.
  while (g_deciding.exchange(true, std::memory_order_acquire)) {
    if (!ordinals_unbound.load(std::memory_order_acquire)) return;
    sched_yield();
  }
  if (ordinals_unbound.load(std::memory_order_acquire) && decide_once())
    ordinals_unbound.store(false, std::memory_order_release);
  g_deciding.store(false, std::memory_order_release);
}

bool arm_placement() {
  const config::Config& config = settings();
  if (config.is(config::OptionId::placement, "off") || config.given(config::OptionId::placed)) return false;
  detail::ordinals_unbound.store(true, std::memory_order_release);
  return true;
}

void keep_ordinal_hooks() { g_observing_elsewhere = true; }

}  // namespace shunt::exec
