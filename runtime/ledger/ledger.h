// The memory ledger of one box: what every process of the user has, has been promised and waits for, per
// device. It advises (the driver decides) and coordinates: reserve, make the real call with nothing locked,
// commit or cancel. A process killed at any point costs the others nothing but a sweep. Without a ledger the
// program runs all the same.
//
// One Ledger per process image; any thread. used/freed/spilled notes are one atomic addition to the process's
// own slot. After fork the child's object is inert until it opens its own. Nothing to do at exit.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace shunt::ledger {

using Uuid = std::array<uint8_t, 16>;

struct Options {
  // Keeps boxes apart: empty for the real one, the name of the simulated box for simgpu.
  std::string scope;
  // How long the lock for new devices and for the slots of the dead may be waited for. Nothing else is
  // locked.
  uint32_t lock_timeout_ms = 1000;
};

struct Request {
  int device;  // as device() numbers them
  uint64_t bytes;
  uint64_t free_now;  // what the driver or NVML says is free; ~0: do not check
};

enum class Grant : uint8_t {
  granted,
  would_not_fit,  // free_now less what others were promised is too little; nothing is reserved
  unavailable,    // no slot in the ledger (a fork's child), or no such device: go on without
};

// A promise for one or several devices. Plain data; void after commit or cancel.
struct Reservation {
  struct Part {
    int device;
    uint64_t bytes;
  };
  std::vector<Part> parts;
};

struct DeviceView {
  Uuid uuid{};
  uint64_t used = 0, reserved = 0, spilled = 0, wanted = 0;
  uint64_t freed = 0;      // by all processes, ended ones included: it only grows while they live
  uint32_t processes = 0;  // that use or were promised memory of it
};

struct ProcessView {
  uint32_t pid = 0;
  bool same_namespace = true;  // else the pid means nothing here
  bool alive = true;
  bool self = false;
  std::string name;
  uint64_t heartbeat_ns = 0;  // CLOCK_BOOTTIME of its last reserve, commit or cancel
  struct Use {
    int device;
    uint64_t used, reserved, spilled, wanted;
  };
  std::vector<Use> devices;  // those it has to do with
};

class Ledger {
 public:
  // Maps the user's ledger, makes it if there is none, and takes a slot. Null and one line on failure.
  static std::unique_ptr<Ledger> open(const Options& options, std::string& error);
  // The same without a slot: for looking (`shunt ledger`). Null when there is none yet.
  static std::unique_ptr<Ledger> inspect(const Options& options, std::string& error);
  // Removes the file; processes that have it mapped keep coordinating among themselves until they end.
  static bool remove(const Options& options, std::string& error);
  static std::string file_name(const Options& options);
  // Scopes of this user's ledgers since boot: "" for the real box, names of simulated ones.
  static std::vector<std::string> scopes();
  ~Ledger();  // gives the slot back
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // The device's number in this ledger, the same in all processes; -1: the table is full or locked.
  int device(const Uuid& uuid);
  int device_count() const;

  // Hot path. Unknown devices (-1) are ignored. Subtraction stops at zero.
  void add_used(int device, uint64_t bytes);
  void sub_used(int device, uint64_t bytes);  // also wakes those who wait for memory
  void add_spilled(int device, uint64_t bytes);
  void sub_spilled(int device, uint64_t bytes);

  // All parts or none. Never waits and never promises twice; of several processes that ask for the last bytes
  // at one moment it may refuse all.
  Grant reserve(std::span<const Request> requests, Reservation& out);
  // `used`: what the call really took, part by part (empty: what was promised).
  void commit(Reservation& reservation, std::span<const uint64_t> used = {});
  void cancel(Reservation& reservation);

  // Pressure: what other processes wait for. pressure_word() changes when that may have changed: one load.
  void want(int device, uint64_t bytes);  // 0: no longer
  uint64_t wanted_by_others(int device) const;
  uint32_t pressure_word(int device) const;
  // Bytes others have given back since the ledger was made. Grows; memory of ended processes included.
  uint64_t freed_by_others(int device) const;
  // Sleeps until freed_by_others exceeds `seen` or the time is up. true: it does. Looks for ended processes
  // meanwhile.
  bool wait_freed(int device, uint64_t seen, uint32_t timeout_ms);

  // Sums over the slots: of each slot one moment (a commit is whole), over all of them not one moment.
  DeviceView view(int device) const;
  std::vector<ProcessView> processes() const;
  // Gives back the slots of processes that have ended; their number.
  int sweep();

  // In a fork's child: the parent's slot stays the parent's. Called by an atfork handler; harmless to call
  // again.
  void fork_child();
  bool registered() const;

 private:
  struct State;
  explicit Ledger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shunt::ledger
