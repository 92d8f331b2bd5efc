// Who asks for memory, and what that client does itself when the driver says no. A caching allocator's first
// failure is a request to flush its own cache: stepping in there would replace a cheap flush by slow memory
// (research/memory-placement.md section 2.1). Chosen once from the libraries that are loaded; --oom-client
// overrides. Immutable; any thread.
#pragma once
#include <cstdint>
#include <string_view>

namespace shunt::memory {

struct ClientProfile {
  std::string_view name;
  uint32_t
      self_healing_failures;  // failures of one kind and size that are returned before the ladder steps in
  uint32_t self_healing_in_capture;  // the same while the thread captures
  uint64_t window_ms;                // failures further apart than this belong to different episodes
};

const ClientProfile& profile_by_name(std::string_view name);  // "unknown" for a name it does not know
// Looks at the libraries of this process (dl_iterate_phdr) and the allocator's own variables. Slow: off the
// hot path. `chosen`: the option's value, "auto" to look.
const ClientProfile& detect_client(std::string_view chosen);
bool nccl_is_loaded();

}  // namespace shunt::memory
