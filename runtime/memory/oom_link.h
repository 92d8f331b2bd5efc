// The memory link: an allocation that fails walks the ladder R0-R6 of research/memory-placement.md
// section 2.2 before the program hears of it; a failed ladder leaves nothing behind and returns the driver's
// own code. Successful calls cost one branch. Link rules: runtime/exec/README.md.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "runtime/config/config.h"
#include "runtime/exec/link.h"
#include "runtime/ledger/ledger.h"
#include "runtime/memory/client_profile.h"
#include "runtime/memory/episodes.h"
#include "runtime/memory/spill.h"

namespace shunt::memory {

enum class Mode : uint8_t { shadow, retry, automatic, spill };

class OomLink final : public exec::Link {
 public:
  struct Settings {
    Mode mode = Mode::retry;
    SpillLimits limits;
    std::string client = "auto";
    bool use_ledger = false;  // only under `shunt run`: a bare preload leaves no file behind
  };
  explicit OomLink(Settings settings) : settings_(std::move(settings)) {}
  bool sees_launches() const override { return false; }
  const char* name() const override { return "oom"; }
  CUresult on_op(model::Op& op) override;
  void disable() override { off_.store(true); }
  void fork_child() override;

 private:
  struct Episode;
  CUresult ladder(model::Op& op, CUresult original);
  bool trim(const Episode& e);
  bool wait_for_neighbours(const Episode& e);
  CUresult free_spilled(const SpilledBlock& block);
  CUresult answer(model::Op& op);  // questions about spilled memory
  ledger::Ledger* ledger();
  int ledger_device(int device);

  void note(const model::Op& op, CUresult result);

  const Settings settings_;
  SpillTable spilled_;
  Episodes episodes_;
  std::atomic<const ClientProfile*> client_{nullptr};
  std::atomic<bool> off_{false}, async_frees_seen_{false};
  std::atomic<ledger::Ledger*> ledger_{nullptr};
  std::atomic<bool> ledger_tried_{false};
  static constexpr int kDevices = 64;
  std::atomic<int> ledger_devices_[kDevices] = {};  // number in the ledger + 1; 0: not asked yet
};

// For engines.cpp. `mode`: shadow, retry, auto, spill.
exec::Link* create_oom(const std::string& mode, const config::Config& config);

}  // namespace shunt::memory
