// Processes of one simulated box for the tests between processes: each is the test program again, started
// with
// `--role=NAME`, one end of a socket pair as descriptor 3. Lines of text and descriptors go over the socket.
// Owner: the test that started it; a process that still lives when its object goes is killed.
#pragma once
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/driver/driver_test.h"
#include "tools/simgpu/box/box.h"

namespace driver_test {

// A block of bytes and perhaps a descriptor. False: the other end has gone.
inline bool send_block(int socket, const void* data, size_t size, int fd = -1) {
  iovec part = {const_cast<void*>(data), size};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == ssize_t(size);
}
inline bool receive_block(int socket, void* data, size_t size, int* fd = nullptr) {
  iovec part = {data, size};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != ssize_t(size)) return false;
  const cmsghdr* c = CMSG_FIRSTHDR(&message);
  if (fd) *fd = -1;
  if (fd && c && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
  return true;
}
template <class T>
bool send(int socket, const T& value, int fd = -1) {
  return send_block(socket, &value, sizeof value, fd);
}
template <class T>
T receive(int socket, int* fd = nullptr) {
  T value = {};
  if (!receive_block(socket, &value, sizeof value, fd)) _exit(9);  // nobody to talk to any more
  return value;
}

class Process {
 public:
  Process(const std::string& box, const std::string& role, const std::string& argument = "") {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    socket = ends[0];
    const std::string program = testing::internal::GetArgvs()[0];
    const std::string option = "--role=" + role;
    pid = fork();
    if (pid == 0) {
      setenv("SIMGPU_BOX", box.c_str(), 1);
      dup2(ends[1], 3);  // loses close-on-exec
      execl(program.c_str(), program.c_str(), option.c_str(), argument.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
  }
  ~Process() {
    close(socket);
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void kill_now() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }
  int exit_code() {
    int status = 0;
    waitpid(pid, &status, 0);
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int socket = -1;
  pid_t pid = -1;
};

// The named box of a test.
class SharedBox {
 public:
  explicit SharedBox(const char* devices = "b200:2@mem=1GiB", const std::string& links = "nvlink5") {
    simgpu::BoxSpec spec;
    std::string error;
    EXPECT_TRUE(simgpu::parse_box_spec(devices, links, spec, error)) << error;
    EXPECT_TRUE(simgpu::Box::create_named(spec, name, error)) << error;
    view = simgpu::Box::open_named(name, error);
    EXPECT_TRUE(view) << error;
  }
  ~SharedBox() {
    delete view;
    simgpu::Box::unlink_named(name);
  }
  uint64_t free_bytes(int device = 0) const {
    view->processes(device);  // looks for dead processes at once; free_bytes() alone does so now and then
    return view->free_bytes(device);
  }
  std::string name;
  simgpu::Box* view = nullptr;
};

// In a role: a failed call ends the process with its code.
inline void must(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "role, line %d: %s\n", line, name_of(result));
  _exit(100);
}
#define MUST(call) driver_test::must((call), __LINE__)

inline CUfunction role_kernel(const char* name) {
  static const std::string ptx = read_file(KERNELS ".ptx");
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  MUST(cuModuleLoadData(&module, ptx.c_str()));
  MUST(cuModuleGetFunction(&f, module, name));
  return f;
}
inline int read_int(CUdeviceptr p) {
  int value = -1;
  MUST(cuMemcpyDtoH(&value, p, 4));
  return value;
}

}  // namespace driver_test
