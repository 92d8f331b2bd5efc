// The NVTX domain `shunt`: what the engines do, beside the program's own ranges in Nsight. Registered strings
// (feature: action [reason]), one category a feature, the decision id as payload. NVTX loads the tool that
// NVTX_INJECTION64_PATH names; without one, or with --nvtx=off, a decision pays one load. Any thread; no lock
// is held while the tool runs. The state is leaked.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

#include "runtime/trace/decision.h"

namespace shunt::trace::nvtx {

namespace detail {
extern std::atomic<bool> wanted;
void mark(uint64_t id, const Decision& decision);
}  // namespace detail

// Switches the domain on when `enabled` and a tool is there to receive it. The tool is loaded at the first
// event, not here: it may call the driver.
void start(bool enabled);
inline bool active() { return detail::wanted.load(std::memory_order_relaxed); }
// The parent's lock may have been held by a thread that does not exist in the child.
void fork_child();

// A text for ranges, registered once; 0 when the domain is off. The text is copied.
uint64_t text(std::string_view text);

// A range on the calling thread, for work made on behalf of calls that are no longer made as such: the graphs
// engine names the original launches behind a replay.
class Range {
 public:
  Range(Feature feature, uint64_t text, uint64_t decision_id);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool pushed_;
};

// Names as the tools show them. `stream` is a CUstream of shunt's own; the name is copied.
void name_stream(void* stream, std::string_view name);
// The calling thread: for the system (pthread_setname_np, 15 characters) and for NVTX.
void name_this_thread(std::string_view name);

}  // namespace shunt::trace::nvtx
