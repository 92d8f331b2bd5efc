// Perfetto protobuf: one packet sequence, names interned, a track per process, thread and device stream.
// Times are engine time on the MONOTONIC clock (id 3), tied to the other clocks by the recorded snapshots.
// Field numbers: docs/trace-format.md.
#include <map>
#include <unordered_map>
#include <vector>

#include "tools/shunt/trace/exports.h"
#include "tools/shunt/trace/proto_writer.h"
#include "tools/shunt/trace/text_sink.h"

namespace shunt::tool {

namespace {

// TracePacket, TrackEvent and their parts.
enum : uint32_t {
  kPacket = 1,
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequence = 10,
  kTrackEvent = 11,
  kInterned = 12,
  kSequenceFlags = 13,
  kDefaults = 59,
  kDefaultsClock = 58,
  kTrackDescriptor = 60,
  kEventAnnotation = 4,
  kEventType = 9,
  kEventNameIid = 10,
  kEventTrack = 11,
  kEventFlow = 47,
  kEventTerminatingFlow = 48,
  kEventCounter = 30,
  kEventCategory = 22,
};
enum : uint32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounterType = 4 };
constexpr uint64_t kMonotonic = 3, kRealtime = 1, kBoottime = 6;

class Perfetto {
 public:
  Perfetto(const TraceRun& run, TextSink& out) : run_(run), out_(out) {}

  void header() {
    ProtoWriter packet, defaults;
    packet.varint(kSequence, 1);
    packet.varint(kSequenceFlags, 1);  // incremental state starts here
    defaults.varint(kDefaultsClock, kMonotonic);
    packet.message(kDefaults, defaults);
    emit(packet);
    for (const auto& p : run_.processes) {
      for (const auto& c : p->clocks) clock_snapshot(c);
    }
    for (uint32_t i = 0; i < run_.processes.size(); ++i) {
      const auto& h = run_.processes[i]->reader.header();
      ProtoWriter descriptor, process;
      descriptor.varint(1, process_uuid(i));
      process.varint(1, h.pid);
      process.text(6, std::string(h.executable));
      descriptor.message(3, process);
      track(descriptor);
      for (const auto& [tid, name] : run_.processes[i]->thread_names) thread_track(i, h.pid, tid, name);
    }
  }

  void operator()(const RecordContext& c, const trace::RecordHeader& r) {
    if (const auto* d = as_decision(r))
      decision(c, r, *d);
    else if (const auto* call = as_call(r))
      this->call(c, r, *call);
    else if (const auto* counter = as_counter(r))
      this->counter(c, r, *counter);
    else if (const auto* g = as_gpu(r))
      gpu(c, r, *g);
  }

 private:
  static uint64_t process_uuid(uint32_t index) { return 0x1000'0000ull + index; }
  static uint64_t thread_uuid(uint32_t index, uint32_t tid) { return (uint64_t{index + 1} << 40) | tid; }

  void emit(const ProtoWriter& packet) {
    head_.clear();
    head_.varint_raw(kPacket << 3 | 2);
    head_.varint_raw(packet.bytes().size());
    out_.put(head_.bytes()).put(packet.bytes());
  }

  void track(const ProtoWriter& descriptor) {
    ProtoWriter packet;
    packet.varint(kSequence, 1);
    packet.message(kTrackDescriptor, descriptor);
    emit(packet);
  }

  void clock_snapshot(const TraceProcess::Clock& c) {
    ProtoWriter packet, snapshot;
    const uint64_t pairs[][2] = {{kMonotonic, c.engine}, {kRealtime, c.realtime}, {kBoottime, c.boottime}};
    for (const auto& [id, value] : pairs) {
      ProtoWriter clock;
      clock.varint(1, id);
      clock.varint(2, value);
      snapshot.message(1, clock);
    }
    snapshot.varint(2, kMonotonic);
    packet.varint(kSequence, 1);
    packet.message(kClockSnapshot, snapshot);
    emit(packet);
  }

  void thread_track(uint32_t index, uint32_t pid, uint32_t tid, std::string_view name) {
    if (!tracks_.emplace(thread_uuid(index, tid), 0).second) return;
    ProtoWriter descriptor, thread;
    descriptor.varint(1, thread_uuid(index, tid));
    descriptor.varint(5, process_uuid(index));
    thread.varint(1, pid);
    thread.varint(2, tid);
    if (!name.empty()) thread.text(5, name);
    descriptor.message(4, thread);
    track(descriptor);
  }

  uint64_t thread_of(const RecordContext& c) {
    const uint64_t uuid = thread_uuid(c.process_index, c.tid);
    if (!tracks_.count(uuid)) thread_track(c.process_index, c.process.pid(), c.tid, {});
    return uuid;
  }

  // Interned text of one kind; a first use is announced in the packet being built.
  uint64_t intern(std::unordered_map<std::string, uint64_t>& table, uint32_t field, std::string_view text,
                  ProtoWriter& interned) {
    scratch_.assign(text);
    const auto [at, fresh] = table.emplace(scratch_, table.size() + 1);
    if (fresh) {
      ProtoWriter entry;
      entry.varint(1, at->second);
      entry.text(2, text);
      interned.message(field, entry);
    }
    return at->second;
  }

  void annotate(ProtoWriter& event, ProtoWriter& interned, std::string_view name, uint64_t value) {
    annotation_.clear();
    annotation_.varint(1, intern(annotation_names_, 3, name, interned));
    annotation_.varint(3, value);
    event.message(kEventAnnotation, annotation_);
  }
  void annotate(ProtoWriter& event, ProtoWriter& interned, std::string_view name, std::string_view value) {
    annotation_.clear();
    annotation_.varint(1, intern(annotation_names_, 3, name, interned));
    annotation_.varint(17, intern(annotation_values_, 29, value, interned));
    event.message(kEventAnnotation, annotation_);
  }

  void finish(uint64_t t_ns, ProtoWriter& event, ProtoWriter& interned) {
    packet_.clear();
    packet_.varint(kTimestamp, t_ns);
    packet_.varint(kSequence, 1);
    packet_.varint(kSequenceFlags, 2);  // needs incremental state
    if (!interned.bytes().empty()) packet_.message(kInterned, interned);
    packet_.message(kTrackEvent, event);
    emit(packet_);
  }

  void begin_event(uint32_t type, uint64_t track_uuid) {
    event_.clear();
    interned_.clear();
    event_.varint(kEventType, type);
    event_.varint(kEventTrack, track_uuid);
  }

  void decision(const RecordContext& c, const trace::RecordHeader& r, const trace::DecisionRecord& d) {
    const auto kind = static_cast<trace::RecordType>(r.type);
    const uint64_t on = thread_of(c);
    begin_event(kind == trace::RecordType::decision         ? kInstant
                : kind == trace::RecordType::decision_begin ? kBegin
                                                            : kEnd,
                on);
    if (kind != trace::RecordType::decision_end) {
      const uint32_t key = uint32_t{d.feature} << 8 | d.action;
      auto& name = decision_names_[key];
      if (name.empty())
        name = std::string(trace::feature_name(static_cast<trace::Feature>(d.feature))) + ": " +
               std::string(trace::action_name(static_cast<trace::Action>(d.action)));
      event_.varint(kEventNameIid, intern(event_names_, 2, name, interned_));
      annotate(event_, interned_, "decision", r.id);
      annotate(event_, interned_, "outcome", trace::outcome_name(static_cast<trace::Outcome>(d.outcome)));
      annotate(event_, interned_, "reason", reason_name(static_cast<Reason>(d.reason)));
      if (d.bytes) annotate(event_, interned_, "bytes", d.bytes);
      if (d.stream) annotate(event_, interned_, "stream", d.stream);
      if (d.device >= 0) annotate(event_, interned_, "device", static_cast<uint64_t>(d.device));
      if (d.correlation) event_.fixed64(kEventFlow, d.correlation);
    }
    finish(r.t_ns, event_, interned_);
  }

  void call(const RecordContext& c, const trace::RecordHeader& r, const trace::CallRecord& call) {
    begin_event(kInstant, thread_of(c));
    event_.varint(kEventNameIid, intern(event_names_, 2, slot_name(call.slot), interned_));
    annotate(event_, interned_, "result", static_cast<uint64_t>(static_cast<int64_t>(call.result)));
    if (call.stream) annotate(event_, interned_, "stream", call.stream);
    finish(r.t_ns, event_, interned_);
  }

  void counter(const RecordContext& c, const trace::RecordHeader& r, const trace::CounterRecord& counter) {
    const uint64_t uuid = 0x4000'0000'0000'0000ull | uint64_t{c.process_index} << 32 | (r.id & 0xFFFF'FFFF);
    if (tracks_.emplace(uuid, 0).second) {
      ProtoWriter descriptor, empty;
      descriptor.varint(1, uuid);
      descriptor.text(2, c.process.reader.string(r.id));
      descriptor.varint(5, process_uuid(c.process_index));
      descriptor.message(8, empty);
      track(descriptor);
    }
    begin_event(kCounterType, uuid);
    event_.varint(kEventCounter, counter.value);
    finish(r.t_ns, event_, interned_);
  }

  // A stream's slices must nest. A record that starts before the last one on its lane ended goes to an
  // overflow lane.
  uint64_t lane(const TraceProcess& process, const trace::GpuRecord& g, uint64_t start, uint64_t end) {
    const uint64_t key = uint64_t{g.device} << 32 | g.stream;
    auto& lanes = lanes_[key];
    size_t i = 0;
    while (i < lanes.size() && lanes[i] > start) ++i;
    if (i == lanes.size()) lanes.push_back(0);
    lanes[i] = end;
    const uint64_t parent = 0x2000'0000'0000'0000ull | g.device, uuid = 0x3000'0000'0000'0000ull |
                                                                        uint64_t{g.device} << 40 |
                                                                        uint64_t{i & 0xFF} << 32 | g.stream;
    if (tracks_.emplace(parent, 0).second) {
      ProtoWriter descriptor;
      descriptor.varint(1, parent);
      descriptor.text(2, "GPU " + std::to_string(g.device));
      track(descriptor);
    }
    if (tracks_.emplace(uuid, 0).second) {
      ProtoWriter descriptor;
      descriptor.varint(1, uuid);
      descriptor.text(2, stream_name(process, g.stream) + (i ? " (overlap " + std::to_string(i) + ")" : ""));
      descriptor.varint(5, parent);
      track(descriptor);
    }
    return uuid;
  }

  void gpu(const RecordContext& c, const trace::RecordHeader& r, const trace::GpuRecord& g) {
    const uint64_t start = c.process.engine_from_realtime(g.start);
    if (start == 0 || g.end < g.start) return;
    const uint64_t end = start + (g.end - g.start), uuid = lane(c.process, g, start, end);
    begin_event(kBegin, uuid);
    event_.varint(kEventNameIid, intern(event_names_, 2, gpu_name(c.process, g), interned_));
    annotate(event_, interned_, "correlation", g.correlation);
    if (r.id) annotate(event_, interned_, "decision", r.id);
    if (g.bytes) annotate(event_, interned_, "bytes", g.bytes);
    if (g.graph_id) annotate(event_, interned_, "graph", g.graph_id);
    if (g.correlation) event_.fixed64(kEventTerminatingFlow, g.correlation);
    finish(start, event_, interned_);
    begin_event(kEnd, uuid);
    finish(end, event_, interned_);
  }

  const TraceRun& run_;
  TextSink& out_;
  ProtoWriter head_, packet_, event_, interned_, annotation_;
  std::string scratch_;
  std::unordered_map<uint64_t, char> tracks_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> lanes_;
  std::unordered_map<uint32_t, std::string> decision_names_;
  std::unordered_map<std::string, uint64_t> event_names_, annotation_names_, annotation_values_;
};

}  // namespace

bool export_perfetto(const TraceRun& run, const std::string& path, const Progress& progress,
                     std::string& error) {
  TextSink out(path);
  Perfetto perfetto(run, out);
  perfetto.header();
  visit_records(run, perfetto, progress);
  return out.close(error);
}

}  // namespace shunt::tool
