// Records what a program submits as a task graph (`shunt run --record-dag FILE`): kernels, copies, memsets
// and graph launches with their device time, the order streams, events and host waits put them in, and the
// allocations they name. A link of the call path while recording is on; then no engine holds calls back. The
// file is text, one task a line, whole up to its last line break whenever the process dies: format below.
// Leaked; any thread; one lock, never held across a driver call.
//
//   shunt-ops 1
//   program ID CODE CLOCK START PATH
//   device ORDINAL MODEL UUID
//   op ID STREAM DEVICE KIND NAME BLOCKS THREADS BYTES MEMORY SECONDS DEPENDENCIES
//   peak ORDINAL BYTES
//   end OPS DROPPED
//
// ID: placement::program_id; CODE: of the executable's file; CLOCK: real or simulated; START: nanoseconds
// since 1970. KIND kernel | copy | memset | graph | host. BLOCKS, THREADS: of a kernel's launch. BYTES: a
// copy's. MEMORY: total size of the allocations the task names. SECONDS: device time, -1 where it could not
// be measured. DEPENDENCIES: "-" or ID:BYTES,... with the size of the allocations both tasks name.
#pragma once
#include <string>

#include "runtime/exec/link.h"

namespace shunt::placement {

// Null when `path` is empty. `program`: its id as `shunt run` says it, else it is made from the process. The
// file is made at the first task: PATH, or PATH.PID when another process of the run has made it.
exec::Link* create_recorder(const std::string& path, const std::string& program);

}  // namespace shunt::placement
