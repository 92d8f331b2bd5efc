// Topics of `shunt help TOPIC`. One thread.
#pragma once
#include <span>

namespace shunt::tool {

struct Topic {
  const char* name;
  void (*print)();
  const char* summary;
};
std::span<const Topic> topics();

}  // namespace shunt::tool
