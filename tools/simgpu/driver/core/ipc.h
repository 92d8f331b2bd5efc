// Memory and events that other processes open by a 64-byte handle. A handle names the exporting process and
// its descriptors (/proc/<pid>/fd/<n>), so it means nothing once that process has gone; what has been opened
// before stays. Events live in a page of shared memory: a generation for each record and the latest one done.
// Engine mutex held unless said otherwise. Nothing happens at exit.
#pragma once
#include <memory>

#include "tools/simgpu/driver/core/context.h"

namespace simgpu::driver {

CUresult ipc_export_memory(CUdeviceptr address, CUipcMemHandle& out);
// The memory was freed: its handles open nothing any more.
void ipc_forget(const Allocation& allocation);
CUresult ipc_open_memory(Context& context, const CUipcMemHandle& handle, CUdeviceptr& out);
CUresult ipc_close_memory(Lock& lock, Context& context, CUdeviceptr address);

CUresult ipc_export_event(Event& event, CUipcEventHandle& out);
CUresult ipc_open_event(Context& context, const CUipcEventHandle& handle, CUevent& out);
// Record and wait of an event with `ipc` set, outside capture.
CUresult ipc_record_event(Lock& lock, const std::shared_ptr<Stream>& stream, Event& event, OpRef* op);
CUresult ipc_wait_event(Lock& lock, const std::shared_ptr<Stream>& stream, const Event& event);

}  // namespace simgpu::driver
