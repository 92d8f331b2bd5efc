// Who pays for device memory that several processes hold. The box counts bytes by process, but a piece of
// memory counts once: its maker pays; when the maker lets go while others still hold it, the maker goes on
// paying until the last has let go; when the maker dies, a holder takes the charge over. Who holds is told by
// shared OFD locks on the control page: the kernel drops them with the last descriptor, SIGKILL included, and
// a descriptor on its way through a socket counts as a holder. Engine mutex held. Nothing to do at exit.
#pragma once
#include <cstdint>
#include <memory>

namespace simgpu::driver {

struct ControlPage {  // in the file, after the data
  uint64_t magic = 0;
  uint64_t id = 0;  // unique in the box
  uint64_t bytes = 0;
  int32_t box_index = -1;  // -1: host memory, which nobody pays for
  uint32_t payer_pid = 0;
  uint64_t payer_start = 0;  // of the process: a recycled pid does not pay
  uint64_t kind = 0, details[4] = {};
};
constexpr uint64_t kControlBytes = 4096;

// This process's part in the memory behind `fd`: a lock on it, and perhaps the charge.
class SharedCharge {
 public:
  // The maker's side: writes the page at `control_offset`. The bytes are already reserved in the box.
  static std::shared_ptr<SharedCharge> make(int fd, uint64_t control_offset, const ControlPage& page);
  // A holder's side. `fd` is borrowed; null when the file is not such memory.
  static std::shared_ptr<SharedCharge> join(int fd, uint64_t control_offset, uint64_t magic);
  ~SharedCharge();
  SharedCharge(const SharedCharge&) = delete;
  SharedCharge& operator=(const SharedCharge&) = delete;
  const ControlPage& page() const { return page_; }
  // A descriptor for others that holds the memory for as long as it is open anywhere; -1 on failure.
  int open_for_others() const;
  int fd() const { return fd_; }
  void settle();  // takes over the charge of a maker that died

 private:
  SharedCharge() = default;
  int fd_ = -1;
  uint64_t control_offset_ = 0;
  ControlPage page_;
  bool pays_ = false;
};

// Charges of memory that others held when this process let go, and of makers that died: looked at again.
void settle_charges();
// Bytes of the box for this process, after settling when there seem to be too few. -1: nothing to reserve.
bool reserve_box_memory(int box_index, uint64_t bytes);
void release_box_memory(int box_index, uint64_t bytes);

}  // namespace simgpu::driver
