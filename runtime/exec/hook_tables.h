// The described hooks of each hooks_*.cpp, and the generic ones for everything else that is not harmless or
// bears ordinals.
#pragma once
#include <vector>

#include "runtime/exec/hook.h"

namespace shunt::exec {

void append_memory_hooks(std::vector<HookEntry>&);
void append_copy_hooks(std::vector<HookEntry>&);
void append_launch_hooks(std::vector<HookEntry>&);
void append_stream_hooks(std::vector<HookEntry>&);
void append_context_hooks(std::vector<HookEntry>&);
void append_module_hooks(std::vector<HookEntry>&);

// One hook per driver slot; null for harmless slots without ordinals. Built once, leaked.
const std::vector<void*>& all_hooks();
bool bears_ordinals(uint32_t slot);

}  // namespace shunt::exec
