#include "runtime/ledger/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace shunt::ledger {
namespace {

// Byte 0 guards the making of the file, byte 1 + n belongs to slot n. The file is far longer than that.
constexpr off_t kCreation = 0;

// OFD locks: unlike classic record locks they do not vanish when another part of the program closes the same
// file.
int byte_lock(int fd, int command, short type, off_t at) {
  struct flock request {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = at;
  request.l_len = 1;
  int rc;
  do {
    rc = fcntl(fd, command, &request);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return -1;
  return command == F_OFD_GETLK ? request.l_type != F_UNLCK : 0;
}

// Bounded: a maker that was stopped half-way must not stop the others.
bool lock_creation(int fd) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (byte_lock(fd, F_OFD_SETLK, F_WRLCK, kCreation) == 0) return true;
    usleep(1000);
  }
  return false;
}

bool fail(std::string& error, const std::string& name, const std::string& what) {
  error = "ledger " + name + " " + what;
  return false;
}

bool check_owner(int fd, const std::string& name, std::string& error) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return fail(error, name, std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
    return fail(error, name, "belongs to somebody else or is open to others: remove it from /dev/shm");
  return true;
}

// With the creation lock held. A maker that was killed leaves a file that is not ready: it is made again.
bool make(int fd, const std::string& name, std::string& error) {
  struct stat info {};
  fstat(fd, &info);
  auto size = static_cast<size_t>(info.st_size);
  if (size == sizeof(File)) return true;  // made meanwhile; map_file looks at what is in it
  if (size != 0) return fail(error, name, "is damaged: shunt ledger --repair makes a new one");
  // Allocated now: on a full /dev/shm a later first touch would be a SIGBUS in the program.
  if (int rc = posix_fallocate(fd, 0, sizeof(File)); rc != 0) {
    if (ftruncate(fd, 0) != 0) rc = errno;
    return fail(error, name, std::string("cannot be made: ") + std::strerror(rc) + "; is /dev/shm full?");
  }
  return true;
}

}  // namespace

File* map_file(const std::string& name, bool create, int& fd, std::string& error) {
  fd = shm_open(name.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
  if (fd < 0) {
    fail(error, name,
         errno == ENOENT ? "does not exist: no program uses it yet"
                         : std::string("cannot be opened: ") + std::strerror(errno));
    return nullptr;
  }
  auto give_up = [&]() -> File* {
    close(fd);
    fd = -1;
    return nullptr;
  };
  if (!check_owner(fd, name, error)) return give_up();
  struct stat info {};
  fstat(fd, &info);
  bool locked = false;
  if (create && static_cast<size_t>(info.st_size) != sizeof(File)) {
    locked = lock_creation(fd);
    if (!locked) fail(error, name, "is being made by a process that does not go on");
    if (!locked || !make(fd, name, error)) return give_up();
  } else if (static_cast<size_t>(info.st_size) != sizeof(File)) {
    fail(error, name, "is damaged: shunt ledger --repair makes a new one");
    return give_up();
  }
  void* memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    fail(error, name, std::string("cannot be mapped: ") + std::strerror(errno));
    return give_up();
  }
  auto* file = static_cast<File*>(memory);
  if (create && file->ready.load(std::memory_order_acquire) == 0) {
    // Being made, or its maker was killed: whoever gets the lock and still finds it unready makes it.
    if (!locked) locked = lock_creation(fd);
    if (locked && file->ready.load(std::memory_order_acquire) == 0 &&
        (file->magic == 0 || file->magic == kMagic)) {
      std::memset(memory, 0, sizeof(File));
      step();
      initialise(file);
    }
  }
  if (locked) byte_lock(fd, F_OFD_SETLK, F_UNLCK, kCreation);
  std::string why;
  if (matches(file, sizeof(File), why)) return file;
  fail(error, name, why);
  munmap(memory, sizeof(File));
  return give_up();
}

bool hold_slot(int fd, int slot) {
  return byte_lock(fd, F_OFD_SETLK, F_WRLCK, 1 + slot) == 0 || (errno != EAGAIN && errno != EACCES);
}
void drop_slot(int fd, int slot) { byte_lock(fd, F_OFD_SETLK, F_UNLCK, 1 + slot); }
bool slot_held(int fd, int slot) { return byte_lock(fd, F_OFD_GETLK, F_WRLCK, 1 + slot) == 1; }

}  // namespace shunt::ledger
