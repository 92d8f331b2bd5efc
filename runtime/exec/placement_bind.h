// In-process form of placement P1, for a bare preload (and for children of launchers that do not use `shunt
// run`): one map of ordinals, decided at the first device-specific call after cuInit.
#pragma once

namespace shunt::exec {

// Called at initialisation: arms the decision if this process has one to make. True when the ordinal hooks
// are needed.
bool arm_placement();
// The chain needs every hook anyway: do not remove them when the map turns out to be the identity.
void keep_ordinal_hooks();

}  // namespace shunt::exec
