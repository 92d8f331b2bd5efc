// One kernel in flight: its blocks, who runs them, what came out. advance() may use pool threads; everything
// else belongs to the caller.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tools/simgpu/exec/spare_parts.h"
#include "tools/simgpu/exec/worker.h"

namespace simgpu::exec {

// Blocks put aside, oldest first. (std::deque allocates even when it stays empty, as it does for most
// launches.)
class Suspended {
 public:
  bool empty() const { return head_ == list_.size(); }
  size_t size() const { return list_.size() - head_; }
  void push_back(std::unique_ptr<Cluster> c) { list_.push_back(std::move(c)); }
  std::unique_ptr<Cluster> pop_front() {
    auto c = std::move(list_[head_++]);
    if (empty()) {
      clear();
    } else if (head_ > 64 && head_ * 2 > list_.size()) {
      list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return c;
  }
  void clear() {
    list_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::unique_ptr<Cluster>> list_;
  size_t head_ = 0;
};

struct ExecutionImpl final : Execution {
  explicit ExecutionImpl(const Launch& l);
  ~ExecutionImpl() override;
  State advance(uint64_t max_warp_instructions) override;
  bool stuck() const override { return stuck_; }
  const Stats& stats() const override { return total_; }
  const FaultInfo& fault() const override { return fault_; }
  const std::vector<Access>& accesses() const override { return accesses_; }

  void work(Worker&, bool caller);
  std::unique_ptr<Cluster> take();  // a block (cluster) to run, or null
  std::unique_ptr<Cluster> make_cluster();
  void place_cluster(Cluster&, uint64_t linear);  // give it its coordinates, reset its state
  enum class Slice { done, again /* used its slice */, waiting /* spins: others first */, stuck, fault };
  Slice run_cluster(Worker&, Cluster&);
  void start_worker(Worker&);
  uint64_t block_order(uint64_t k) const;
  void finish();

  Launch launch;
  const ProgramImpl& program;
  const KernelInfo& info;
  const KernelCode& code;
  uint8_t* params = few_params;  // 32 bytes of slack behind, so that vector reads stay inside
  alignas(16) uint8_t few_params[256 + 32];
  PartsKey parts_key;
  uint8_t* launch_rows = nullptr;
  uint8_t* workspace = nullptr;  // cooperative grid barrier
  uint64_t workspace_address = 0;
  uint32_t warps_per_block = 0, threads_per_block = 0, cluster_size = 1;
  uint32_t shared_bytes = 0;
  uint64_t local_stride = 0;
  uint64_t cluster_count = 0;

  std::mutex mutex;  // guards what follows
  std::condition_variable idle;
  uint64_t next_cluster = 0, finished_clusters = 0;
  uint64_t resident = 0, resident_limit = 1;
  Suspended suspended;
  std::vector<std::unique_ptr<Cluster>> spare;
  uint32_t helpers = 0;
  uint32_t stuck_in_a_row = 0;
  uint64_t rotation = 0;  // turns given to blocks put aside since the last fresh one
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> free_workers;
  FaultInfo fault_;

  std::atomic<bool> stop{false};
  std::atomic<int64_t> remaining{0};  // of this advance()
  std::atomic<uint64_t> cost{0};      // since the start: the device's clock
  std::atomic<uint64_t> spinning_since{0};
  std::mutex print_mutex;

  State state_ = State::running;
  bool stuck_ = false;
  Stats total_;
  std::vector<Access> accesses_;
};

}  // namespace simgpu::exec
