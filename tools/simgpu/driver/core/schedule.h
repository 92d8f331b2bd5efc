// Order of API entries among host threads. Off unless SIMGPU_SEED or SIMGPU_SCHEDULE is set. On: one thread
// is inside the API at a time, and who enters next is decided only once every thread of the program either
// waits to enter or sleeps in its own code: the earliest virtual clock first, or with a seed any of them.
// SIMGPU_SCHEDULE=file replays the order the file holds, or records it when the file is empty or absent. Own
// lock; any thread.
#pragma once

namespace simgpu::driver {
bool schedule_active();
void schedule_enter();  // outermost API entry, before anything else
void schedule_leave();
// Inside a wait that only another host thread can end: the others go on, then this thread takes a turn again.
void schedule_step_aside();
void schedule_own_thread();  // called by our helper threads: never waited for
}  // namespace simgpu::driver
