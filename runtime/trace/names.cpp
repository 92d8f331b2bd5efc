#include "runtime/trace/names.h"

#include <unistd.h>

#include "runtime/trace/gpu_trace.h"
#include "runtime/trace/writer.h"

namespace shunt::trace {

void name_stream(void* context, void* stream, std::string_view name) {
  nvtx::name_stream(stream, name);
  if (active())
    detail::name_record(RecordType::stream, gpu::stream_number(context, stream),
                        reinterpret_cast<uint64_t>(stream), name);
}

void name_this_thread(std::string_view name) {
  nvtx::name_this_thread(name);
  if (active()) detail::name_record(RecordType::thread, 0, static_cast<uint64_t>(gettid()), name);
}

}  // namespace shunt::trace
