// The names of PTX special registers.
#pragma once
#include <string_view>

namespace shunt::ptx {

// `name` without the component: "%tid", "%laneid", "%envreg7".
bool is_special_register(std::string_view name);
// "%tid" and its kin: four components, "%tid.x".
bool special_register_has_components(std::string_view name);

}  // namespace shunt::ptx
