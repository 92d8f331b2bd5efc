#include "tools/shunt/verb.h"

namespace shunt::tool {

std::vector<Verb>& verbs() {
  static std::vector<Verb> all;
  return all;
}

}  // namespace shunt::tool
