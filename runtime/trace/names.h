// What shunt's own streams and threads are called: in the trace, for the system and for NVTX. Not for hot
// paths: a string is stored. Any thread.
#pragma once
#include <string_view>

namespace shunt::trace {

// A CUstream of shunt's own, whose context (CUcontext) is current. With device times the record also says
// which number CUPTI has for it.
void name_stream(void* context, void* stream, std::string_view name);
// The calling thread.
void name_this_thread(std::string_view name);

}  // namespace shunt::trace
