#include "tools/shunt/plan/recorded_run.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace shunt::tool {
namespace {

constexpr std::string_view kMagic = "shunt-ops 1\n";
constexpr size_t kMaxOps = 1'000'000;

class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}
  std::string_view next() {
    const size_t end = rest_.find(' ');
    const std::string_view field = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view{} : rest_.substr(end + 1);
    return field;
  }
  template <typename T>
  bool number(T& out) {
    return parse(next(), out);
  }
  template <typename T>
  static bool parse(std::string_view text, T& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size() && !text.empty();
  }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

bool read_dependencies(std::string_view text, RecordedOp& op) {
  if (text == "-") return true;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const size_t colon = item.find(':');
    std::pair<uint64_t, uint64_t> d;
    if (colon == std::string_view::npos || !Fields::parse(item.substr(0, colon), d.first) ||
        !Fields::parse(item.substr(colon + 1), d.second) || d.first == 0 || d.first >= op.id)
      return false;
    op.dependencies.push_back(d);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return !op.dependencies.empty();
}

bool read_op(Fields& f, RecordedOp& op) {
  if (!f.number(op.id) || !f.number(op.stream) || !f.number(op.device)) return false;
  op.kind = f.next();
  op.name = f.next();
  if (op.kind != "kernel" && op.kind != "copy" && op.kind != "memset" && op.kind != "graph" &&
      op.kind != "host")
    return false;
  if (!f.number(op.blocks) || !f.number(op.threads) || !f.number(op.bytes) || !f.number(op.memory) ||
      !f.number(op.seconds) || !std::isfinite(op.seconds))
    return false;
  return read_dependencies(f.next(), op) && f.done();
}

}  // namespace

bool is_recorded_run(const std::string& text) { return text.starts_with("shunt-ops "); }

bool parse_recorded_run(const std::string& text, RecordedRun& run, std::string& error) {
  run = {};
  if (!text.starts_with(kMagic)) {
    error = "this recording has another format than 'shunt-ops 1': record it again with this shunt";
    return false;
  }
  std::string_view rest = std::string_view(text).substr(kMagic.size());
  for (size_t number = 2; !rest.empty(); number++) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    Fields f(line);
    const std::string_view what = f.next();
    bool ok = false;
    if (what == "op") {
      RecordedOp& op = run.ops.emplace_back();
      ok = read_op(f, op) && op.id == run.ops.size() && run.ops.size() <= kMaxOps;
    } else if (what == "device") {
      int ordinal = -1;
      ok = f.number(ordinal) && ordinal >= 0;
      if (ok) run.devices[ordinal] = f.next();
    } else if (what == "program") {
      const std::string_view clock = f.number(run.program) && f.number(run.code) ? f.next() : "";
      uint64_t start_ns = 0;  // makes two recordings of a deterministic program differ
      ok = (clock == "simulated" || clock == "real") && f.number(start_ns);
      run.simulated = clock == "simulated";
      run.path = f.rest();
    } else if (what == "peak") {
      int ordinal = -1;
      uint64_t bytes = 0;
      ok = f.number(ordinal) && f.number(bytes) && f.done();
      if (ok) run.peaks[ordinal] = bytes;
    } else if (what == "end") {
      uint64_t ops = 0;
      ok = f.number(ops) && f.number(run.dropped) && f.done() && ops == run.ops.size();
      run.complete = ok;
    }
    if (!ok) {
      error = "line " + std::to_string(number) + " ('" + std::string(line.substr(0, 60)) +
              "') is damaged: record it again";
      return false;
    }
  }
  if (run.ops.empty()) error = "the recording has no tasks: the program used no device";
  return !run.ops.empty();
}

void plan_of(const RecordedRun& run, PlanInput& input) {
  input.kind = PlanInput::Kind::recorded;
  // A kernel without a time of its own takes the mean of its measured launches.
  std::map<std::string, std::pair<double, uint64_t>> known;
  for (const RecordedOp& op : run.ops)
    if (op.seconds >= 0) known[op.kind + op.name].first += op.seconds, known[op.kind + op.name].second++;
  for (const RecordedOp& op : run.ops) {
    PlanTask task;
    const auto device = run.devices.find(op.device);
    task.name = std::to_string(op.id) + ":" + (op.kind == "kernel" ? op.name : op.kind);
    task.memory_bytes = static_cast<double>(op.memory);
    task.kind = op.kind;
    task.blocks = op.blocks;
    task.block_threads = op.threads;
    task.measured_on = device == run.devices.end() ? "?" : device->second;
    const auto at = known.find(op.kind + op.name);
    task.reference_seconds = op.seconds >= 0     ? op.seconds
                             : at != known.end() ? at->second.first / static_cast<double>(at->second.second)
                                                 : 0;
    task.measured = op.seconds >= 0;
    input.tasks.push_back(std::move(task));
    for (const auto& [from, bytes] : op.dependencies)
      input.edges.push_back({static_cast<plan::TaskId>(from - 1), static_cast<plan::TaskId>(op.id - 1),
                             static_cast<double>(bytes)});
  }
}

}  // namespace shunt::tool
