// Where the pieces of this installation are: build/{bin,lib} or PREFIX/{bin,lib[/shunt]}. One thread.
#pragma once
#include <string>
#include <vector>

namespace shunt::tool {

struct Layout {
  std::string interposer;  // libshunt.so, empty when missing
  std::string runtime;     // libshunt_rt.so, empty when missing
  std::string simgpu;      // folder of simgpu's libraries, empty when missing
  std::string looked_in;   // for messages
};
Layout find_layout();

// simgpu's libraries that exist, by absolute path, in preload order.
std::vector<std::string> simgpu_libraries(const std::string& folder);

}  // namespace shunt::tool
