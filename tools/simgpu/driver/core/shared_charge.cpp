#include "tools/simgpu/driver/core/shared_charge.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <vector>

#include "tools/simgpu/driver/core/device.h"
#include "tools/simgpu/driver/core/shared_memory.h"

namespace simgpu::driver {
namespace {
// Bytes of the control page that carry locks, by their offset in it.
constexpr int kHolders = 0, kPayerChange = 1;

struct Orphan {  // let go by this process, still held elsewhere, still paid by this process
  int fd;
  uint64_t control_offset;
  uint64_t bytes;
  int box_index;
};
struct State {
  std::set<SharedCharge*> joined;
  std::vector<Orphan> orphans;
};
State& state() {
  static State* instance = new State;
  return *instance;
}

bool lock_byte(int fd, uint64_t control_offset, int byte, short type, int command) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t(control_offset) + byte;
  lock.l_len = 1;
  return fcntl(fd, command, &lock) == 0;
}
bool held_by_others(int fd, uint64_t control_offset) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t(control_offset) + kHolders;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
// A description of its own, so that its lock is its own.
int reopen(int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_RDWR | O_CLOEXEC);
}
}  // namespace

std::shared_ptr<SharedCharge> SharedCharge::make(int fd, uint64_t control_offset, const ControlPage& page) {
  std::shared_ptr<SharedCharge> charge(new SharedCharge);
  charge->fd_ = reopen(fd);
  charge->control_offset_ = control_offset;
  charge->page_ = page;
  charge->page_.payer_pid = uint32_t(getpid());
  charge->page_.payer_start = process_start_time(charge->page_.payer_pid);
  if (charge->fd_ < 0 ||
      pwrite(charge->fd_, &charge->page_, sizeof page, off_t(control_offset)) != ssize_t(sizeof page) ||
      !lock_byte(charge->fd_, control_offset, kHolders, F_RDLCK, F_OFD_SETLK))
    return nullptr;
  charge->pays_ = page.box_index >= 0;
  return charge;
}

std::shared_ptr<SharedCharge> SharedCharge::join(int fd, uint64_t control_offset, uint64_t magic) {
  std::shared_ptr<SharedCharge> charge(new SharedCharge);
  charge->control_offset_ = control_offset;
  ControlPage& page = charge->page_;
  if (pread(fd, &page, sizeof page, off_t(control_offset)) != ssize_t(sizeof page) || page.magic != magic)
    return nullptr;
  charge->fd_ = reopen(fd);
  if (charge->fd_ < 0 || !lock_byte(charge->fd_, control_offset, kHolders, F_RDLCK, F_OFD_SETLK))
    return nullptr;
  state().joined.insert(charge.get());
  charge->settle();
  return charge;
}

SharedCharge::~SharedCharge() {
  state().joined.erase(this);
  if (fd_ < 0) return;
  if (pays_ && held_by_others(fd_, control_offset_)) {
    // The description stays open for the question; its own lock must not answer it to others.
    lock_byte(fd_, control_offset_, kHolders, F_UNLCK, F_OFD_SETLK);
    state().orphans.push_back({fd_, control_offset_, page_.bytes, page_.box_index});
    return;
  }
  if (pays_) platform()->box->release(page_.box_index, page_.bytes);
  close(fd_);
}

int SharedCharge::open_for_others() const {
  const int fd = reopen(fd_);
  if (fd >= 0 && !lock_byte(fd, control_offset_, kHolders, F_RDLCK, F_OFD_SETLK)) {
    close(fd);
    return -1;
  }
  return fd;
}

void SharedCharge::settle() {
  if (pays_ || page_.box_index < 0 || process_start_time(page_.payer_pid) == page_.payer_start) return;
  // One holder at a time; a process killed here gives the lock back with its descriptor.
  if (!lock_byte(fd_, control_offset_, kPayerChange, F_WRLCK, F_OFD_SETLKW)) return;
  ControlPage now;
  if (pread(fd_, &now, sizeof now, off_t(control_offset_)) == ssize_t(sizeof now)) {
    page_ = now;
    const bool unpaid = process_start_time(now.payer_pid) != now.payer_start;
    if (unpaid) platform()->box->processes(now.box_index);  // sweeps what the dead payer had
    if (unpaid && platform()->box->reserve(now.box_index, now.bytes)) {
      page_.payer_pid = uint32_t(getpid());
      page_.payer_start = process_start_time(page_.payer_pid);
      if (pwrite(fd_, &page_, sizeof page_, off_t(control_offset_)) == ssize_t(sizeof page_)) pays_ = true;
    }
  }
  lock_byte(fd_, control_offset_, kPayerChange, F_UNLCK, F_OFD_SETLK);
}

void settle_charges() {
  std::erase_if(state().orphans, [](const Orphan& orphan) {
    if (held_by_others(orphan.fd, orphan.control_offset)) return false;
    platform()->box->release(orphan.box_index, orphan.bytes);
    close(orphan.fd);
    return true;
  });
  for (SharedCharge* charge : state().joined) charge->settle();
}

bool reserve_box_memory(int box_index, uint64_t bytes) {
  if (box_index < 0) return true;
  if (platform()->box->reserve(box_index, bytes)) return true;
  settle_charges();
  return platform()->box->reserve(box_index, bytes);
}
void release_box_memory(int box_index, uint64_t bytes) {
  if (box_index >= 0) platform()->box->release(box_index, bytes);
}
}  // namespace simgpu::driver
