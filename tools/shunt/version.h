// Version of this build. Constant.
#pragma once

namespace shunt::tool {
inline constexpr const char* kVersion = SHUNT_VERSION;
}
