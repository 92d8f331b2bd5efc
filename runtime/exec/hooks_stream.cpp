// Streams, events, captures, and the calls that wait for or ask about them.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::OpKind;

namespace {
template <class T>
uint64_t u(T* handle) {
  return reinterpret_cast<uint64_t>(handle);
}
}  // namespace

// Creation flags in op.aux, the priority in op.bytes.
SHUNT_BEFORE(cuStreamCreate, CUstream*& out, unsigned int& flags) {
  op.kind = OpKind::stream_create, op.aux = flags;
}
SHUNT_AFTER(cuStreamCreate, CUstream*& out, unsigned int& flags) { op.out = u(*out); }
SHUNT_BEFORE(cuStreamCreateWithPriority, CUstream*& out, unsigned int& flags, int& priority) {
  op.kind = OpKind::stream_create, op.aux = flags,
  op.bytes = static_cast<uint64_t>(static_cast<int64_t>(priority));
}
SHUNT_AFTER(cuStreamCreateWithPriority, CUstream*& out, unsigned int& flags, int& priority) {
  op.out = u(*out);
}
SHUNT_BEFORE(cuStreamDestroy_v2, CUstream& s) { op.kind = OpKind::stream_destroy, op.object = u(s); }
SHUNT_SAME(cuStreamDestroy, cuStreamDestroy_v2)
SHUNT_BEFORE(cuStreamSynchronize, CUstream& s) { op.kind = OpKind::sync_stream; }
SHUNT_SAME(cuStreamSynchronize_ptsz, cuStreamSynchronize)
SHUNT_BEFORE(cuStreamQuery, CUstream& s) { op.kind = OpKind::query_stream; }
SHUNT_SAME(cuStreamQuery_ptsz, cuStreamQuery)
SHUNT_BEFORE(cuStreamWaitEvent, CUstream& s, CUevent& e, unsigned int& flags) {
  op.kind = OpKind::event_wait, op.object = u(e), op.aux = flags;
}
SHUNT_SAME(cuStreamWaitEvent_ptsz, cuStreamWaitEvent)

SHUNT_BEFORE(cuEventCreate, CUevent*& out, unsigned int& flags) {
  op.kind = OpKind::event_create, op.aux = flags;
}
SHUNT_AFTER(cuEventCreate, CUevent*& out, unsigned int& flags) { op.out = u(*out); }
SHUNT_BEFORE(cuEventDestroy_v2, CUevent& e) { op.kind = OpKind::event_destroy, op.object = u(e); }
SHUNT_SAME(cuEventDestroy, cuEventDestroy_v2)
SHUNT_BEFORE(cuEventRecord, CUevent& e, CUstream& s) { op.kind = OpKind::event_record, op.object = u(e); }
SHUNT_SAME(cuEventRecord_ptsz, cuEventRecord)
SHUNT_BEFORE(cuEventRecordWithFlags, CUevent& e, CUstream& s, unsigned int& flags) {
  op.kind = OpKind::event_record, op.object = u(e), op.aux = flags;
}
SHUNT_SAME(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags)
SHUNT_BEFORE(cuEventSynchronize, CUevent& e) { op.kind = OpKind::sync_event, op.object = u(e); }
SHUNT_BEFORE(cuEventQuery, CUevent& e) { op.kind = OpKind::query_event, op.object = u(e); }

// Begin marks the stream after success only; end is described whatever the driver answers (an invalidated
// capture also ends).
SHUNT_BEFORE(cuStreamBeginCapture_v2, CUstream& s, CUstreamCaptureMode& mode) {
  op.kind = OpKind::capture_begin, op.aux = mode;
}
SHUNT_SAME(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2)
SHUNT_BEFORE(cuStreamBeginCapture, CUstream& s) { op.kind = OpKind::capture_begin; }
SHUNT_SAME(cuStreamBeginCapture_ptsz, cuStreamBeginCapture)
SHUNT_BEFORE(cuStreamBeginCaptureToGraph, CUstream& s, CUgraph& g, const CUgraphNode*& d,
             const CUgraphEdgeData*& e, size_t& n, CUstreamCaptureMode& mode) {
  op.kind = OpKind::capture_begin, op.aux = mode;
}
SHUNT_SAME(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph)
SHUNT_BEFORE(cuStreamEndCapture, CUstream& s, CUgraph*& g) { op.kind = OpKind::capture_end; }
SHUNT_SAME(cuStreamEndCapture_ptsz, cuStreamEndCapture)

SHUNT_BEFORE(cuStreamIsCapturing, CUstream& s, CUstreamCaptureStatus*& status) {
  op.kind = OpKind::capture_query;
}
SHUNT_SAME(cuStreamIsCapturing_ptsz, cuStreamIsCapturing)

// The stream that is changed, also where a second one is named.
SHUNT_BEFORE(cuStreamSetAttribute, CUstream& s, CUstreamAttrID& attribute, const CUstreamAttrValue*& value) {
  op.kind = OpKind::stream_attribute;
}
SHUNT_SAME(cuStreamSetAttribute_ptsz, cuStreamSetAttribute)
SHUNT_BEFORE(cuStreamCopyAttributes, CUstream& to, CUstream& from) {
  op.kind = OpKind::stream_attribute, op.stream = to;
}
SHUNT_SAME(cuStreamCopyAttributes_ptsz, cuStreamCopyAttributes)

void append_stream_hooks(std::vector<HookEntry>& t) {
  for (const HookEntry& e : {SHUNT_HOOK(cuStreamCreate),
                             SHUNT_HOOK(cuStreamCreateWithPriority),
                             SHUNT_HOOK(cuStreamDestroy_v2),
                             SHUNT_HOOK(cuStreamDestroy),
                             SHUNT_HOOK(cuStreamSynchronize),
                             SHUNT_HOOK(cuStreamSynchronize_ptsz),
                             SHUNT_HOOK(cuStreamQuery),
                             SHUNT_HOOK(cuStreamQuery_ptsz),
                             SHUNT_HOOK(cuStreamWaitEvent),
                             SHUNT_HOOK(cuStreamWaitEvent_ptsz),
                             SHUNT_HOOK(cuEventCreate),
                             SHUNT_HOOK(cuEventDestroy_v2),
                             SHUNT_HOOK(cuEventDestroy),
                             SHUNT_HOOK(cuEventRecord),
                             SHUNT_HOOK(cuEventRecord_ptsz),
                             SHUNT_HOOK(cuEventRecordWithFlags),
                             SHUNT_HOOK(cuEventRecordWithFlags_ptsz),
                             SHUNT_HOOK(cuEventSynchronize),
                             SHUNT_HOOK(cuEventQuery),
                             SHUNT_HOOK(cuStreamBeginCapture_v2),
                             SHUNT_HOOK(cuStreamBeginCapture_v2_ptsz),
                             SHUNT_HOOK(cuStreamBeginCapture),
                             SHUNT_HOOK(cuStreamBeginCapture_ptsz),
                             SHUNT_HOOK(cuStreamBeginCaptureToGraph),
                             SHUNT_HOOK(cuStreamBeginCaptureToGraph_ptsz),
                             SHUNT_HOOK(cuStreamIsCapturing),
                             SHUNT_HOOK(cuStreamIsCapturing_ptsz),
                             SHUNT_HOOK(cuStreamSetAttribute),
                             SHUNT_HOOK(cuStreamSetAttribute_ptsz),
                             SHUNT_HOOK(cuStreamCopyAttributes),
                             SHUNT_HOOK(cuStreamCopyAttributes_ptsz),
                             SHUNT_HOOK(cuStreamEndCapture),
                             SHUNT_HOOK(cuStreamEndCapture_ptsz)})
    t.push_back(e);
}

}  // namespace shunt::exec
