#include "tools/simgpu/nccl/meetings.h"

#include <map>
#include <mutex>

#include "tools/simgpu/nccl/driver.h"

namespace simgpu::nccl {
namespace {
struct Table {
  std::mutex mutex;
  std::map<Place, simgpu_op*> ops;
};
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}
}  // namespace

void enter(const Place& place, simgpu_op* op) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.ops[place] = op;
}

void meet(simgpu_op* op, const Place& place) {
  simgpu_op* other = nullptr;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    const auto it = t.ops.find(place);
    if (it != t.ops.end()) other = it->second;
  }
  // Not under the mutex: forget() is called with the driver's lock held. The driver knows an ended one.
  if (other) driver().op_meet(op, other);
}

void forget(simgpu_op* op) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  std::erase_if(t.ops, [op](const auto& entry) { return entry.second == op; });
}

}  // namespace simgpu::nccl
