#include "runtime/placement/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/exec/chain.h"
#include "runtime/exec/driver.h"
#include "runtime/model/model.h"
#include "runtime/placement/history.h"
#include "runtime/placement/op_graph.h"
#include "runtime/profiles/profile.h"

namespace shunt::placement {
namespace {

using exec::Driver;
using model::Op;
using model::OpKind;

constexpr uint64_t kMaxOps = 200'000;
constexpr size_t kMaxTimed = 2048;  // pairs of events in flight
constexpr int kDevices = 64;

const char* kind_of(const Op& op) {
  switch (op.kind) {
    case OpKind::kernel:
    case OpKind::kernel_ex:
    case OpKind::kernel_cooperative:
      return "kernel";
    case OpKind::graph_launch:
      return "graph";
    case OpKind::host_function:
      return "host";
    case OpKind::memset:
      return "memset";
    case OpKind::copy_linear:
    case OpKind::copy_2d:
    case OpKind::copy_3d:
    case OpKind::copy_peer:
    case OpKind::copy_array:
    case OpKind::copy_batch:
    case OpKind::prefetch:
      return "copy";
    default:
      return nullptr;
  }
}

bool is_kernel(const Op& op) {
  return op.kind == OpKind::kernel || op.kind == OpKind::kernel_ex || op.kind == OpKind::kernel_cooperative;
}

// Appends whole lines to a file that is made at the first one.
class OpsFile {
 public:
  explicit OpsFile(std::string path) : path_(std::move(path)) {}

  void append(const std::string& text) {
    if (text.empty()) return;
    std::lock_guard lock(mutex_);
    if (fd_ == kGivenUp) return;
    if (fd_ == kNotOpen) {
      constexpr int kFlags = O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC;
      fd_ = open(path_.c_str(), kFlags, 0644);
      if (fd_ < 0) fd_ = open((path_ + "." + std::to_string(getpid())).c_str(), kFlags, 0644);
      if (fd_ < 0) return give_up("nothing is recorded");
      write_all("shunt-ops 1\n");
    }
    write_all(text);
  }

 private:
  static constexpr int kNotOpen = -1, kGivenUp = -2;
  void give_up(const char* then) {
    SHUNT_LOG_WARN(placement, "--record-dag %s: %s; %s", path_.c_str(), strerror(errno), then);
    if (fd_ >= 0) close(fd_);
    fd_ = kGivenUp;
  }
  void write_all(const std::string& text) {
    for (size_t at = 0; at < text.size() && fd_ >= 0;) {
      const ssize_t n = write(fd_, text.data() + at, text.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return give_up("recording stops");
      at += static_cast<size_t>(n);
    }
  }
  const std::string path_;
  std::mutex mutex_;
  int fd_ = kNotOpen;
};

class Recorder final : public exec::Link {
 public:
  Recorder(const std::string& path, const std::string& program) : file_(path), program_(program) {}
  const char* name() const override { return "recorder"; }

  CUresult on_op(Op& op) override {
    const char* kind = kind_of(op);
    if (off_.load(std::memory_order_relaxed) || op.from_engine) return next->on_op(op);
    if (!kind) return order_only(op);
    if (model::Model::get().capturing(op.stream_info)) return next->on_op(op);
    Entry entry;
    describe(op, kind, entry);
    start_timing(op, entry);
    const CUresult result = next->on_op(op);
    if (result != CUDA_SUCCESS) {
      give_back(entry);
      return result;
    }
    stop_timing(op, entry);
    const bool host_waits = !op.asynchronous && op.op_class == model::OpClass::copy;
    add(op, std::move(entry), host_waits);
    if (host_waits) collect();
    return result;
  }

  void drain(const exec::Scope& scope, Reason) override {
    if (scope.kind == exec::Scope::Kind::all) finish();
  }
  void disable() override { off_.store(true); }
  void fork_child() override { off_.store(true); }  // the file is the parent's

 private:
  struct Entry {
    std::string head, tail;  // of the line, around the seconds
    std::string kind, kernel;
    uint64_t bytes = 0;
    uint32_t blocks = 0, threads = 0;
    int device = -1;
    Touched touched;
    CUcontext context = nullptr;
    CUevent begin = nullptr, end = nullptr;
    bool timed = false;
  };

  // Calls without a stream argument work in the context's default stream.
  static const model::StreamInfo* info_of(const Op& op) {
    if (op.stream_info) return op.stream_info;
    model::Model& model = model::Model::get();
    return model.stream(nullptr, op.per_thread, op.context ? op.context : model.current_context());
  }

  static OpGraph::Stream stream_of(const Op& op) {
    OpGraph::Stream s;
    const model::StreamInfo* info = info_of(op);
    if (!info) return s;
    s.id = info->id;
    s.context = reinterpret_cast<uint64_t>(info->context);
    s.legacy = info->role == model::StreamRole::legacy_default;
    s.blocking = !info->non_blocking;
    return s;
  }

  // Calls that are no tasks: they order tasks, or change what memory is in use.
  CUresult order_only(Op& op) {
    const OpGraph::Stream stream = stream_of(op);
    const CUcontext context = op.context ? op.context : model::Model::get().current_context();
    if (op.kind == OpKind::context_destroy || op.kind == OpKind::primary_reset ||
        op.kind == OpKind::primary_release) {
      collect();
      forget_events(op.context);
    }
    const CUresult result = next->on_op(op);
    if (result != CUDA_SUCCESS) return result;
    bool waited = false;
    {
      std::lock_guard lock(mutex_);
      switch (op.kind) {
        case OpKind::event_record:
          graph_.record_event(op.object, stream);
          break;
        case OpKind::event_wait:
          graph_.wait_event(op.object, stream);
          break;
        case OpKind::sync_stream:
        case OpKind::query_stream:
          graph_.host_waited_stream(stream), waited = true;
          break;
        case OpKind::sync_event:
        case OpKind::query_event:
          graph_.host_waited_event(op.object), waited = true;
          break;
        case OpKind::sync_context:
          graph_.host_waited_context(reinterpret_cast<uint64_t>(context)), waited = true;
          break;
        case OpKind::stream_destroy:
          graph_.forget_stream(stream.id);
          break;
        case OpKind::event_destroy:
          graph_.forget_event(op.object);
          break;
        default:
          break;
      }
    }
    if (op.op_class == model::OpClass::alloc) allocated_.store(true, std::memory_order_relaxed);
    if (waited) collect();
    return result;
  }

  void describe(const Op& op, const char* kind, Entry& e) {
    e.kind = kind;
    e.bytes = op.bytes;
    if (const model::StreamInfo* info = info_of(op)) e.context = info->context;
    e.device = model::Model::get().device_of(e.context);
    if (is_kernel(op)) {
      e.kernel = op.function_info && op.function_info->name[0] ? op.function_info->name : "?";
      e.blocks = op.launch.grid[0] * op.launch.grid[1] * op.launch.grid[2];
      e.threads = op.launch.block[0] * op.launch.block[1] * op.launch.block[2];
      parameters(op, e.touched);
    }
    for (int i = 0; i < op.range_count; i++) touch(op.ranges[i].base, e.touched);
    auto& list = e.touched.allocations;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    // The largest working set: what a later run of the program needs. Freed memory is still counted at the
    // first task after the next allocation, so a peak between two tasks is missed only if no task saw it.
    if (allocated_.exchange(false, std::memory_order_relaxed)) note_peak(e.device);
  }

  void note_peak(int device) {
    if (device < 0 || device >= kDevices) return;
    const uint64_t now = model::Model::get().allocations().bytes_on(device);
    std::lock_guard lock(mutex_);
    peak_[device] = std::max(peak_[device], now);
  }

  static void touch(uint64_t address, Touched& to) {
    const auto a = model::Model::get().allocations().find(address);
    if (a && a->device >= 0) to.allocations.emplace_back(a->id, a->bytes);
  }

  // Pointers among the parameters: every aligned word of them that lies in an allocation.
  void parameters(const Op& op, Touched& to) {
    if (!op.function_info || !op.launch.params) return;
    std::vector<size_t> sizes;
    bool known = false;
    {
      std::lock_guard lock(mutex_);
      if (const auto at = sizes_.find(op.function_info->id); at != sizes_.end())
        sizes = at->second, known = true;
    }
    if (!known) {
      const Driver& d = Driver::get();
      size_t offset = 0, size = 0;
      for (size_t i = 0; i < 1024; i++) {
        CUresult r = CUDA_ERROR_NOT_SUPPORTED;
        if (op.function_info->kernel && d.kernel_get_param_info)
          r = d.kernel_get_param_info(reinterpret_cast<CUkernel>(op.object), i, &offset, &size);
        else if (!op.function_info->kernel && d.func_get_param_info)
          r = d.func_get_param_info(reinterpret_cast<CUfunction>(op.object), i, &offset, &size);
        if (r != CUDA_SUCCESS) break;
        sizes.push_back(size);
      }
      std::lock_guard lock(mutex_);
      sizes_[op.function_info->id] = sizes;
    }
    for (size_t i = 0; i < sizes.size(); i++) {
      const auto* bytes = static_cast<const char*>(op.launch.params[i]);
      for (size_t at = 0; bytes && at + 8 <= sizes[i]; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        touch(word, to);
      }
    }
  }

  static CUstream timing_stream(const Op& op) {
    return op.per_thread && !op.stream ? CU_STREAM_PER_THREAD : op.stream;
  }

  void start_timing(const Op& op, Entry& e) {
    const Driver& d = Driver::get();
    model::Model& model = model::Model::get();
    if (!d.event_create || !d.event_record || !d.event_query || !d.event_elapsed_time || !e.context ||
        op.kind == OpKind::host_function || model.any_capture() || model.current_context() != e.context)
      return;
    {
      std::lock_guard lock(mutex_);
      auto& pool = pool_[e.context];
      if (pool.size() >= 2) {
        e.begin = pool.back(), pool.pop_back();
        e.end = pool.back(), pool.pop_back();
      } else if (in_flight_ >= kMaxTimed) {
        return;
      }
      in_flight_++;
    }
    if (!e.begin && (d.event_create(&e.begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                     d.event_create(&e.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
      e.begin = e.end = nullptr;
      std::lock_guard lock(mutex_);
      in_flight_--;
      return;
    }
    e.timed = d.event_record(e.begin, timing_stream(op)) == CUDA_SUCCESS;
  }

  void stop_timing(const Op& op, Entry& e) {
    if (e.timed) e.timed = Driver::get().event_record(e.end, timing_stream(op)) == CUDA_SUCCESS;
    if (!e.timed) give_back(e);
  }

  void give_back(Entry& e) {
    std::lock_guard lock(mutex_);
    give_back_locked(e);
  }
  void give_back_locked(Entry& e) {
    if (!e.begin) return;
    auto& pool = pool_[e.context];
    pool.push_back(e.begin), pool.push_back(e.end);
    e.begin = e.end = nullptr;
    in_flight_--;
  }

  void forget_events(CUcontext context) {
    std::lock_guard lock(mutex_);
    pool_.erase(context);
    for (Entry& e : pending_)
      if (e.context == context && e.begin) e.begin = e.end = nullptr, e.timed = false, in_flight_--;
  }

  void add(const Op& op, Entry&& e, bool host_waits) {
    const OpGraph::Stream stream = stream_of(op);
    std::lock_guard lock(mutex_);
    if (ops_ >= kMaxOps) {
      dropped_++;
      return give_back_locked(e);
    }
    ops_++;
    std::vector<Dependency> dependencies;
    const uint64_t id = graph_.add(stream, e.touched, dependencies);
    if (host_waits) graph_.host_waited_stream(stream);
    std::string deps;
    for (const Dependency& d : dependencies)
      deps += (deps.empty() ? "" : ",") + std::to_string(d.task) + ":" + std::to_string(d.shared_bytes);
    std::string shown = e.kernel.empty() ? "-" : e.kernel;
    for (char& c : shown)
      if (static_cast<unsigned char>(c) <= ' ') c = '_';
    const std::string numbers[] = {std::to_string(e.blocks), std::to_string(e.threads),
                                   std::to_string(e.bytes), std::to_string(e.touched.bytes())};
    e.head = "op " + std::to_string(id) + " " + std::to_string(stream.id) + " " + std::to_string(e.device) +
             " " + e.kind + " " + shown + " ";
    for (const std::string& n : numbers) e.head += n + " ";
    e.tail = " " + (deps.empty() ? "-" : deps) + "\n";
    if (e.device >= 0) devices_.insert(e.device);
    pending_.push_back(std::move(e));
  }

  // Takes the times that are there; lines leave in order. Called where the program has just waited anyway.
  void collect(bool last = false) {
    const Driver& d = Driver::get();
    std::unique_lock lock(mutex_);
    if (collecting_) return;
    collecting_ = true;
    std::string text;
    while (!pending_.empty()) {
      Entry e = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      float ms = -1;
      bool ready = true;
      if (e.timed) {
        const CUresult r = d.event_query(e.end);
        ready = r != CUDA_ERROR_NOT_READY;
        if (r != CUDA_SUCCESS || d.event_elapsed_time(&ms, e.begin, e.end) != CUDA_SUCCESS) ms = -1;
      }
      lock.lock();
      if (!ready && !last) {
        pending_.push_front(std::move(e));
        break;
      }
      char seconds[32];
      snprintf(seconds, sizeof seconds, ms < 0 ? "-1" : "%.9g", static_cast<double>(ms) * 1e-3);
      text += e.head + seconds + e.tail;
      give_back_locked(e);
    }
    std::set<int> fresh;
    for (const int device : devices_)
      if (described_.insert(device).second) fresh.insert(device);
    lock.unlock();
    std::string heads;
    if (!introduced_.exchange(true)) heads = program_line();
    for (const int device : fresh) heads += device_line(device);
    file_.append(heads + text);
    lock.lock();
    collecting_ = false;
  }

  void finish() {
    collect(true);
    std::string text;
    {
      std::lock_guard lock(mutex_);
      if (ops_ == 0 || finished_) return;
      finished_ = true;
      for (int i = 0; i < kDevices; i++)
        if (peak_[i]) text += "peak " + std::to_string(i) + " " + std::to_string(peak_[i]) + "\n";
      text += "end " + std::to_string(ops_) + " " + std::to_string(dropped_) + "\n";
    }
    file_.append(text);
  }

  std::string program_line() const {
    char path[4096] = "";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[std::max<ssize_t>(n, 0)] = 0;
    // Another build of the program is another program to the cost model.
    struct stat st {};
    uint64_t code = 0;
    if (stat(path, &st) == 0)
      code = kernel_id(
          path, static_cast<uint64_t>(st.st_size) * 1'000'003 + static_cast<uint64_t>(st.st_mtim.tv_sec));
    uint64_t id = strtoull(program_.c_str(), nullptr, 10);
    if (id == 0) id = this_program_id();
    for (char* c = path; *c; c++)
      if (*c == '\n') *c = '?';
    return "program " + std::to_string(id) + " " + std::to_string(code) +
           (clock::is_virtual() ? " simulated " : " real ") + std::to_string(clock::realtime_ns()) + " " +
           path + "\n";
  }

  static std::string device_line(int device) {
    const Driver& d = Driver::get();
    char name[256] = "", uuid[48] = "?";
    int major = 0, minor = 0;
    CUuuid id{};
    if (d.device_get_name) d.device_get_name(name, sizeof name, device);
    if (d.device_get_attribute) {
      d.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
      d.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    if (d.device_get_uuid && d.device_get_uuid(&id, device) == CUDA_SUCCESS) {
      char* to = uuid + snprintf(uuid, sizeof uuid, "GPU-");
      for (int i = 0; i < 16; i++)
        to += snprintf(to, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       static_cast<unsigned char>(id.bytes[i]));
    }
    const profiles::Profile* p =
        profiles::identify(0, 0, static_cast<uint32_t>(major), static_cast<uint32_t>(minor), name);
    return "device " + std::to_string(device) + " " + (p ? std::string(p->key) : "?") + " " + uuid + "\n";
  }

  OpsFile file_;
  const std::string program_;
  std::atomic<bool> introduced_{false};
  std::atomic<bool> off_{false}, allocated_{false};
  std::mutex mutex_;
  OpGraph graph_;
  std::deque<Entry> pending_;
  std::map<CUcontext, std::vector<CUevent>> pool_;
  std::map<uint64_t, std::vector<size_t>> sizes_;  // of a function's parameters, by function id
  std::set<int> devices_, described_;
  uint64_t peak_[kDevices] = {};
  uint64_t ops_ = 0, dropped_ = 0;
  size_t in_flight_ = 0;
  bool collecting_ = false, finished_ = false;
};

}  // namespace

exec::Link* create_recorder(const std::string& path, const std::string& program) {
  return path.empty() ? nullptr : new Recorder(path, program);
}

}  // namespace shunt::placement
