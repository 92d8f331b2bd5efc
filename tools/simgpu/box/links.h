// Fills the links of a box specification. See links.cpp for the file form.
#pragma once
#include <string>
#include <string_view>

#include "tools/simgpu/box/box.h"

namespace simgpu {

// spec.devices must be complete. `links` empty: nvlink5. On error false and one line.
bool build_links(std::string_view links, BoxSpec& spec, std::string& error);
// A file's text (the name only appears in errors). Used by build_links and by tests.
bool build_links_from_toml(std::string_view text, std::string_view file, BoxSpec& spec, std::string& error);

}  // namespace simgpu
