// The hooks of NCCL's entry points (and of their `pnccl` twins), put in when the engine is created. NCCL need
// not be loaded yet.
#pragma once

namespace shunt::overlap {

class OverlapLink;
void install_nccl_hooks(OverlapLink& link);

}  // namespace shunt::overlap
