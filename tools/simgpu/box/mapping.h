// Where a box's memory comes from: a named shared-memory object, or an anonymous one that all simgpu
// libraries of a process find by its name in /proc/self/maps. Any thread.
#pragma once
#include <cstddef>
#include <string>

#include "tools/simgpu/box/box.h"

namespace simgpu {

Segment* map_named(const std::string& name, size_t& bytes, std::string& error);
Segment* map_new_private(const BoxSpec& spec, std::string& error);
// The process's own private box, made on first use by whichever library asks first.
Segment* map_process_private(std::string& error, BoxSpec (*make_spec)(std::string& error, bool& ok));
bool create_named_segment(const BoxSpec& spec, std::string& name, std::string& error);
void unlink_named_segment(const std::string& name);

}  // namespace simgpu
