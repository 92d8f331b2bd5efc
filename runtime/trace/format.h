// Layout of a .shnt file (docs/trace-format.md). Little endian, fixed size fields, no pointers. A file is one
// process:
//
//   4 KiB FileHeader | chunk 0 | chunk 1 | ...      chunk = 64-byte ChunkHeader + records, 256 KiB
//
// A record begins with RecordHeader and is a multiple of 16 bytes; readers skip types they do not know by
// `size`. Records up to ChunkHeader::committed are complete, whatever happened to the process afterwards.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shunt::trace {

inline constexpr char kMagic[8] = {'S', 'H', 'U', 'N', 'T', 'R', 'C', '1'};
inline constexpr uint32_t kVersion = 1, kEndianTag = 0x01020304;
inline constexpr uint32_t kHeaderBytes = 4096, kChunkBytes = 256 * 1024;
inline constexpr uint32_t kChunkMagic = 0x4B434853;  // "SHCK"

enum class RecordType : uint16_t {
  invalid = 0,
  string = 1,          // id: string id; flags: length; then the bytes
  module = 2,          // id: string id of the path; flags: length of the build id, whose bytes follow
  stack = 3,           // StackRecord, then its frames
  thread = 4,          // id: kernel thread id; name string id follows
  clock = 5,           // ClockRecord
  decision_begin = 6,  // DecisionRecord, closed by decision_end with the same id
  decision_end = 7,
  decision = 8,  // DecisionRecord of an instant
  call = 9,      // CallRecord
  graph_node = 10,
  counter = 11,  // CounterRecord
  setting = 12,  // id: string id of "name=value (origin)"
  stream =
      13,  // CounterRecord: id is the handle, value the string id of its name; flags: CUPTI's number of it
  cupti_kernel = 32,
  cupti_memcpy = 33,
  cupti_memset = 34,
  cupti_graph = 35,
  cupti_sync = 36,
  cupti_external = 37,
  cupti_api = 38,  // ApiRecord
  drop = 62,       // id: records lost before this point
  end = 63,        // orderly exit
};

struct RecordHeader {
  uint16_t type, size;
  uint32_t flags;
  uint64_t t_ns;  // clock::now_ns(): CLOCK_MONOTONIC, or simgpu's virtual time (FileHeader::flags)
  uint64_t id;
};
static_assert(sizeof(RecordHeader) == 24);
inline constexpr uint16_t kMinRecordBytes = 32;

struct DecisionRecord {
  RecordHeader header;
  uint8_t feature, action;    // Feature, Action
  uint16_t reason;            // Reason
  int16_t device;             // physical ordinal, -1 unknown
  uint8_t outcome, reserved;  // Outcome
  uint64_t stream, context, bytes;
  uint32_t stack, correlation;
};
static_assert(sizeof(DecisionRecord) == 64);

struct CallRecord {
  RecordHeader header;  // id: function, event, address: the call's main object
  uint16_t slot;        // runtime/link/generated/slots.h
  uint16_t op_class;
  int32_t result;          // CUresult; -1: recorded before the call
  uint64_t stream, value;  // value: bytes, threads, ordinal
};
static_assert(sizeof(CallRecord) == 48);

struct CounterRecord {
  RecordHeader header;  // id: string id of the counter's name
  uint64_t value;
};
static_assert(sizeof(CounterRecord) == 32);

struct ClockRecord {
  RecordHeader header;  // t_ns: engine time
  uint64_t monotonic_before, realtime, boottime, tsc, monotonic_after;
};
static_assert(sizeof(ClockRecord) == 64);

struct StackFrame {
  uint64_t module,
      offset;  // id of the MODULE record, 0: generated code (offset is the address); call, not return
};
struct StackRecord {
  RecordHeader header;  // id: stack id, as in DecisionRecord::stack; flags: number of frames, innermost first
  uint32_t python, reserved;  // string id of the innermost Python frames, one a line; 0 none
};
static_assert(sizeof(StackRecord) == 32);

inline constexpr uint32_t kFlagRing = 1, kFlagVirtualClock = 2;
enum class FileState : uint32_t { writing = 0, closed = 1, stopped_at_cap = 2, stopped_disk_full = 3 };

struct FileHeader {
  char magic[8];
  uint32_t version, endian, header_bytes, chunk_bytes;
  uint32_t flags, pid;
  uint64_t process_start;  // field 22 of /proc/PID/stat: pid + start identify the process
  int32_t rank;            // -1: not part of a launched job
  uint32_t sequence;       // SEQ of the file name
  uint64_t monotonic, realtime, boottime, tsc;
  uint32_t max_chunks, parent_pid;
  std::atomic<uint32_t> next_chunk;   // claimed so far (ring mode: ever)
  std::atomic<uint32_t> state;        // FileState
  std::atomic<uint64_t> dropped;      // records that found no room
  std::atomic<uint64_t> overwritten;  // ring mode: records recycled
  char host[64], run_id[64], executable[512];
};
static_assert(sizeof(FileHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

enum class ChunkKind : uint32_t {
  data = 0,
  meta = 1
};  // meta: strings, modules, settings; never recycled by ring mode
struct ChunkHeader {
  uint32_t magic, tid;
  std::atomic<uint32_t> committed;  // bytes of complete records after this header
  uint32_t kind;
  uint64_t sequence;  // claim order; orders recycled chunks
  uint64_t records;   // set when the writer leaves the chunk: what a ring loses by recycling it
  uint64_t reserved[4];
};
static_assert(sizeof(ChunkHeader) == 64);

}  // namespace shunt::trace
