// runtime/link/old_types.h has the layout of the types cuda.h hides: compared by size and offset in two
// translation units.
#include <cuda.h>
#include <stddef.h>

#include "runtime/link/old_types.h"

extern "C" const size_t shunt_old_layout[];
const size_t shunt_old_layout[] = {
#include "tests/abi/old_layout.inc"
};
