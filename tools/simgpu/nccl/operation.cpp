// Carrying out an operation. Every rank's stream reaches its operation on its own; there it is posted in the
// clique. When all have posted, each rank reads what it needs of the others and works out its own result;
// when all have read, results are written. So no rank can go on before every other has its data, as with
// kernels that wait for each other on a GPU.
#include "tools/simgpu/nccl/operation.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "tools/simgpu/nccl/cost.h"
#include "tools/simgpu/nccl/meetings.h"

namespace simgpu::nccl {

namespace {

double wall_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A readable view of another rank's buffer: its own pointer in the same process, a mapping of its memfd
// otherwise.
class View {
 public:
  View(const BufferRef& ref, uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    if (ref.pid == static_cast<uint32_t>(getpid())) {
      data_ = static_cast<const uint8_t*>(driver().host_pointer(ref.address + offset, bytes));
      return;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", ref.pid, ref.fd);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const uint64_t at = ref.offset + offset, page = at & ~uint64_t{4095};
    mapped_ = at - page + bytes;
    void* memory = mmap(nullptr, mapped_, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(page));
    close(fd);
    if (memory == MAP_FAILED) return;
    base_ = memory;
    data_ = static_cast<const uint8_t*>(memory) + (at - page);
  }
  ~View() {
    if (base_) munmap(base_, mapped_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const uint8_t* data() const { return data_; }

 private:
  const uint8_t* data_ = nullptr;
  void* base_ = nullptr;
  size_t mapped_ = 0;
};

// Closes what was opened for one execution.
struct Files {
  std::vector<int> open;
  Files() = default;
  ~Files() {
    for (const int fd : open) close(fd);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
};

bool any_elsewhere(Clique& clique) {
  const auto me = static_cast<uint32_t>(getpid());
  for (int r = 0; r < clique.ranks(); ++r)
    if (clique.memory().slot[r].pid != me) return true;
  return false;
}

// Memory without a file of its own (pinned, managed, mapped, from a pool) goes to other processes as a copy.
bool stage(BufferRef& ref, Files& files) {
  const void* data = driver().host_pointer(ref.address, ref.bytes);
  const int fd = data ? memfd_create("simgpu-nccl", MFD_CLOEXEC) : -1;
  if (fd < 0) return false;
  files.open.push_back(fd);
  for (uint64_t done = 0; done < ref.bytes;) {
    const ssize_t n = write(fd, static_cast<const uint8_t*>(data) + done, ref.bytes - done);
    if (n <= 0) return false;
    done += static_cast<uint64_t>(n);
  }
  ref.fd = fd;
  ref.offset = 0;
  return true;
}

BufferRef make_ref(Clique& clique, Files& files, uint64_t address, uint64_t bytes, bool read_by_others) {
  BufferRef ref{address, bytes, -1, static_cast<uint32_t>(getpid()), 0};
  uint64_t whole = 0;
  if (!bytes || !read_by_others || !any_elsewhere(clique)) return ref;
  if (driver().export_memory(address, &ref.fd, &ref.offset, &whole) != CUDA_SUCCESS) {
    ref.fd = -1;
    stage(ref, files);
  }
  return ref;
}

struct State {  // of one execution
  int phase = 0;
  uint64_t sequence = 0, start_ns = 0;
  double since_s = 0;
  bool told = false, failed = false;
  std::vector<uint8_t> result;
  std::vector<std::vector<uint8_t>> received;  // point to point, parallel to transfers
  std::vector<uint64_t> sequences;
  std::vector<char> settled;
  Files files;
};

uint64_t next_transfer(ncclComm& comm, int peer, bool send) {
  std::lock_guard lock(comm.mutex);
  return (send ? comm.send_sequence : comm.recv_sequence)[static_cast<size_t>(peer)]++;
}

class Execution {
 public:
  Execution(Operation& o, simgpu_op* op, State& s)
      : o_(o), comm_(*o.comm), clique_(*o.comm->clique), op_(op), s_(s) {}

  simgpu_step step() {
    if (comm_.aborted.load()) return SIMGPU_STEP_DONE;
    if (s_.since_s == 0) s_.since_s = wall_s();
    const simgpu_step result = o_.transfers.empty() ? collective() : transfers();
    if (result == SIMGPU_STEP_WAITING) look_for_trouble();
    return s_.failed ? SIMGPU_STEP_DONE : result;
  }

 private:
  std::string describe(const Signature& g) const {
    std::string text = std::string(function_name(static_cast<Function>(g.function))) + "(count " +
                       std::to_string(g.count) + ", " + type_name(static_cast<ncclDataType_t>(g.type));
    if (static_cast<Function>(g.function) != Function::send &&
        static_cast<Function>(g.function) != Function::recv)
      text += ", op " + std::to_string(g.op) + ", root " + std::to_string(g.root);
    return text + (g.captured ? ") in a graph" : ")");
  }

  void give_up(ncclResult_t code, const std::string& text) {
    report(text);
    comm_.async_error.store(code);
    driver().op_fail(op_, CUDA_ERROR_LAUNCH_FAILED, text.c_str());
    s_.failed = true;
  }

  void look_for_trouble() {
    std::string dead;
    const double waited = wall_s() - s_.since_s;
    if (waited > 0.05 && !s_.told && clique_.any_dead(dead)) {
      s_.told = true;
      comm_.async_error.store(ncclRemoteError);
      report("rank " + std::to_string(comm_.rank) + " waits in " + what() + " for rank " + dead +
             ", whose process has ended");
    }
    if (waited > timeout_s())
      give_up(s_.told ? ncclRemoteError : ncclSystemError,
              "rank " + std::to_string(comm_.rank) + " gave up after " +
                  std::to_string(static_cast<int>(waited)) + " s in " + what() + ": " + missing());
  }
  std::string what() const {
    return o_.transfers.empty()
               ? std::string(function_name(o_.function)) + " number " + std::to_string(s_.sequence)
               : "a group of " + std::to_string(o_.transfers.size()) + " sends and receives";
  }
  std::string missing() {
    if (!o_.transfers.empty()) {
      std::string list;
      for (size_t i = 0; i < o_.transfers.size(); ++i) {
        if (!s_.settled[i]) list += (list.empty() ? "" : ", ") + std::to_string(o_.transfers[i].peer);
      }
      return "no matching call by rank " + list;
    }
    std::string list;
    Clique::Guard guard(clique_);
    for (int r = 0; r < comm_.ranks; ++r) {
      if (!find(r, s_.sequence)) list += (list.empty() ? "" : ", ") + std::to_string(r);
    }
    return list.empty() ? "not all ranks finished" : "rank " + list + " never came";
  }

  Post* find(int rank, uint64_t sequence) {
    for (Post& p : clique_.memory().posts) {
      if (p.state != Post::free && p.peer < 0 && p.rank == rank && p.sequence == sequence) return &p;
    }
    return nullptr;
  }

  Place place(int rank) const { return {clique_.name(), s_.sequence, rank}; }

  static std::string too_many() {
    return "more than " + std::to_string(kPosts) + " operations wait in one communicator";
  }

  // ---- collectives ----
  simgpu_step collective() {
    if (s_.phase == 0) {
      s_.sequence = o_.captured ? comm_.collective_sequence.fetch_add(1) : o_.sequence;
      Clique::Guard guard(clique_);
      Post* post = clique_.free_post();
      if (!post) {
        give_up(ncclSystemError, too_many());
        return SIMGPU_STEP_DONE;
      }
      fill(*post);
      post->state = Post::posted;
      enter(place(comm_.rank), op_);
      s_.phase = 1;
      driver().poke();
    }
    Post* all[kMaxRanks] = {};
    if (s_.phase == 1) {
      {
        Clique::Guard guard(clique_);
        for (int r = 0; r < comm_.ranks; ++r) {
          if (!(all[r] = find(r, s_.sequence))) return SIMGPU_STEP_WAITING;
          s_.start_ns = std::max(s_.start_ns, all[r]->start_ns);
        }
      }
      const Signature& mine = all[comm_.rank]->signature;
      for (int r = 0; r < comm_.ranks; ++r) {
        if (all[r]->signature == mine) continue;
        give_up(ncclInvalidUsage, "mismatch in operation " + std::to_string(s_.sequence) + ": rank " +
                                      std::to_string(comm_.rank) + " called " + describe(mine) + ", rank " +
                                      std::to_string(r) + " called " + describe(all[r]->signature));
        return SIMGPU_STEP_DONE;
      }
      if (const std::string differs = compare_standing(all); !differs.empty()) {
        give_up(ncclInvalidUsage, "mismatch in operation " + std::to_string(s_.sequence) + ", " +
                                      describe(mine) + ": " + differs);
        return SIMGPU_STEP_DONE;
      }
      if (!compute(all)) {
        give_up(ncclUnhandledCudaError, "rank " + std::to_string(comm_.rank) + ": a buffer of " +
                                            describe(mine) + " is no live device memory of the stated size");
        return SIMGPU_STEP_DONE;
      }
      // Before anybody can be done: what follows this rank follows them all.
      for (int r = 0; r < comm_.ranks; ++r) meet(op_, place(r));
      driver().op_access(op_, o_.in, o_.in_bytes, 0);
      driver().op_access(op_, o_.out, o_.out_bytes, 1);
      Clique::Guard guard(clique_);
      all[comm_.rank]->state = Post::read;
      s_.phase = 2;
      driver().poke();
    }
    Clique::Guard guard(clique_);
    int finished = 0;
    for (int r = 0; r < comm_.ranks; ++r) {
      all[r] = find(r, s_.sequence);
      if (!all[r] || all[r]->state == Post::posted) return SIMGPU_STEP_WAITING;
      finished += all[r]->state == Post::done;
    }
    if (!s_.result.empty()) {
      void* out = driver().host_pointer(o_.out, s_.result.size());
      if (out) memcpy(out, s_.result.data(), s_.result.size());
    }
    all[comm_.rank]->state = Post::done;
    if (finished + 1 == comm_.ranks) {
      for (int r = 0; r < comm_.ranks; ++r) all[r]->state = Post::free;
    }
    driver().poke();
    return SIMGPU_STEP_DONE;
  }

  void fill(Post& post) {
    post.rank = comm_.rank;
    post.peer = -1;
    post.sequence = s_.sequence;
    post.signature = {static_cast<uint32_t>(o_.function),
                      static_cast<uint32_t>(o_.type),
                      static_cast<uint32_t>(o_.op >= ncclNumOps ? ncclNumOps : o_.op),
                      o_.root,
                      o_.count,
                      o_.captured ? 1u : 0u};
    post.in = make_ref(clique_, s_.files, o_.in, o_.in_bytes, true);
    post.out = {};
    post.standing = o_.standing;
    post.start_ns = driver().op_start_ns(op_);
    post.has_scalar = 0;
    if (o_.op == ncclAvg && !is_integer(o_.type)) {
      post.has_scalar = 1;
      reciprocal(o_.type, comm_.ranks, post.scalar);
    } else if (o_.op >= ncclNumOps) {
      post.has_scalar = 1;
      const auto& custom = comm_.custom_ops[static_cast<size_t>(o_.op - ncclNumOps)];
      memcpy(post.scalar, custom.scalar, sizeof post.scalar);
      if (custom.device_scalar) {
        if (const void* at = driver().host_pointer(custom.address, type_bytes(o_.type)))
          memcpy(post.scalar, at, type_bytes(o_.type));
        driver().op_access(op_, custom.address, type_bytes(o_.type), 0);
      }
    }
  }

  // NCCL leaves undefined what happens when some ranks' buffers are registered and others' aren't, and reads
  // the wrong bytes when offsets into symmetric windows differ.
  std::string compare_standing(Post* const* all) const {
    const Standing& mine = all[comm_.rank]->standing;
    for (int r = 0; r < comm_.ranks; ++r) {
      const Standing& other = all[r]->standing;
      const std::string ranks = "rank " + std::to_string(comm_.rank) + " and rank " + std::to_string(r);
      const auto opposite = [](const Standing& a, const Standing& b) {
        return a.registered == Standing::all && b.registered == Standing::none;
      };
      if (opposite(mine, other) || opposite(other, mine))
        return ranks + ": the buffers of one are registered, those of the other are not";
      if (mine.symmetric != other.symmetric)
        return ranks + ": the buffers of one are in symmetric windows, those of the other are not";
      const bool both_read = all[comm_.rank]->in.bytes && all[r]->in.bytes;
      if (mine.symmetric && ((both_read && mine.in_offset != other.in_offset) ||
                             (o_.function != Function::reduce && o_.function != Function::gather &&
                              mine.out_offset != other.out_offset)))
        return ranks + ": different offsets in their symmetric windows";
    }
    return "";
  }

  // One rank's input elements [first, first + n), multiplied when its operator says so.
  bool load(const Post& post, uint64_t first, uint64_t n, std::vector<uint8_t>& data) {
    const size_t size = type_bytes(o_.type);
    const View view(post.in, first * size, n * size);
    if (n && !view.data()) return false;
    data.assign(view.data(), view.data() + n * size);
    if (post.has_scalar) multiply(o_.type, data.data(), post.scalar, n);
    return true;
  }

  // Reduces elements [first, first + n) over the ranks in the order start, start + 1, ... (a ring's order).
  bool reduce_ring(Post* const* all, int start, uint64_t first, uint64_t n, uint8_t* out) {
    std::vector<uint8_t> sum, next;
    if (!load(*all[start % comm_.ranks], first, n, sum)) return false;
    for (int k = 1; k < comm_.ranks; ++k) {
      if (!load(*all[(start + k) % comm_.ranks], first, n, next)) return false;
      reduce(o_.type, reduction(), sum.data(), next.data(), n);
    }
    finish_average(sum.data(), n);
    memcpy(out, sum.data(), sum.size());
    return true;
  }

  // The order of a binary tree: neighbours first.
  bool reduce_tree(Post* const* all, uint8_t* out) {
    std::vector<std::vector<uint8_t>> level(static_cast<size_t>(comm_.ranks));
    for (int r = 0; r < comm_.ranks; ++r) {
      if (!load(*all[r], 0, o_.count, level[static_cast<size_t>(r)])) return false;
    }
    while (level.size() > 1) {
      std::vector<std::vector<uint8_t>> above;
      for (size_t i = 0; i < level.size(); i += 2) {
        if (i + 1 < level.size())
          reduce(o_.type, reduction(), level[i].data(), level[i + 1].data(), o_.count);
        above.push_back(std::move(level[i]));
      }
      level = std::move(above);
    }
    finish_average(level[0].data(), o_.count);
    memcpy(out, level[0].data(), level[0].size());
    return true;
  }

  Reduction reduction() const {
    switch (o_.op) {
      case ncclProd:
        return Reduction::prod;
      case ncclMax:
        return Reduction::max;
      case ncclMin:
        return Reduction::min;
      default:
        return Reduction::sum;
    }
  }
  void finish_average(uint8_t* data, uint64_t n) {
    if (o_.op == ncclAvg && is_integer(o_.type)) divide(o_.type, data, comm_.ranks, n);
  }

  bool copy_in(const Post& post, uint64_t offset, uint64_t bytes, uint8_t* out) {
    const View view(post.in, offset, bytes);
    if (bytes && !view.data()) return false;
    if (bytes) memcpy(out, view.data(), bytes);
    return true;
  }

  bool compute(Post* const* all) {
    const size_t size = type_bytes(o_.type);
    const uint64_t n = o_.count, bytes = n * size, ranks = static_cast<uint64_t>(comm_.ranks),
                   me = static_cast<uint64_t>(comm_.rank);
    s_.result.resize(o_.out_bytes);
    uint8_t* out = s_.result.data();
    bool ok = o_.out_bytes == 0 || driver().host_pointer(o_.out, o_.out_bytes);
    switch (o_.function) {
      case Function::all_reduce:
        if (o_.choice_bytes() <= kTreeBytes) return ok && reduce_tree(all, out);
        for (uint64_t c = 0; c < ranks && ok; ++c) {
          const uint64_t first = n * c / ranks, last = n * (c + 1) / ranks;
          ok = reduce_ring(all, static_cast<int>(c) + 1, first, last - first, out + first * size);
        }
        return ok;
      case Function::reduce:
        return ok && (o_.root != comm_.rank || reduce_ring(all, o_.root + 1, 0, n, out));
      case Function::reduce_scatter:
        return ok && reduce_ring(all, comm_.rank + 1, n * me, n, out);
      case Function::broadcast:
        return ok && copy_in(*all[o_.root], 0, bytes, out);
      case Function::all_gather:
        for (uint64_t r = 0; r < ranks && ok; ++r) ok = copy_in(*all[r], 0, bytes, out + r * bytes);
        return ok;
      case Function::all_to_all:
        for (uint64_t r = 0; r < ranks && ok; ++r) ok = copy_in(*all[r], me * bytes, bytes, out + r * bytes);
        return ok;
      case Function::gather:
        for (uint64_t r = 0; r < ranks && ok && o_.root == comm_.rank; ++r)
          ok = copy_in(*all[r], 0, bytes, out + r * bytes);
        return ok;
      case Function::scatter:
        return ok && copy_in(*all[o_.root], me * bytes, bytes, out);
      default:
        return false;
    }
  }

  // ---- sends and receives ----
  simgpu_step transfers() {
    const size_t n = o_.transfers.size();
    if (s_.phase == 0) {
      s_.received.resize(n);
      s_.sequences.resize(n);
      s_.settled.assign(n, 0);
      s_.start_ns = driver().op_start_ns(op_);
      Clique::Guard guard(clique_);
      for (size_t i = 0; i < n; ++i) {
        const Transfer& t = o_.transfers[i];
        const bool send = t.function == Function::send;
        s_.sequences[i] = o_.captured ? next_transfer(comm_, t.peer, send) : t.sequence;
        Post* post = clique_.free_post();
        if (!post) {
          give_up(ncclSystemError, too_many());
          return SIMGPU_STEP_DONE;
        }
        post->rank = comm_.rank;
        post->peer = t.peer;
        post->is_send = send;
        post->sequence = s_.sequences[i];
        post->signature = t.signature;
        post->in = make_ref(clique_, s_.files, t.address, t.bytes, send);
        post->start_ns = s_.start_ns;
        post->has_scalar = 0;
        post->state = Post::posted;
        enter({clique_.name(), s_.sequences[i], comm_.rank, t.peer, send}, op_);
        driver().op_access(op_, t.address, t.bytes, send ? 0 : 1);
      }
      s_.phase = 1;
      driver().poke();
    }
    bool all = true, moved = false;
    for (size_t i = 0; i < n; ++i) {
      if (s_.settled[i]) continue;
      const Transfer& t = o_.transfers[i];
      const bool send = t.function == Function::send;
      Clique::Guard guard(clique_);
      Post* mine = find_transfer(comm_.rank, t.peer, send, s_.sequences[i]);
      Post* other = find_transfer(t.peer, comm_.rank, !send, s_.sequences[i]);
      if (send) {
        // The receiver has taken the data and frees both posts.
        if (!mine)
          s_.settled[i] = 1, moved = true;
        else if (other && !matches(*mine, *other))
          return SIMGPU_STEP_DONE;
        else
          all = false;
        continue;
      }
      if (!mine || !other) {
        all = false;
        continue;
      }
      if (!matches(*mine, *other)) return SIMGPU_STEP_DONE;
      s_.start_ns = std::max(s_.start_ns, other->start_ns);
      const View view(other->in, 0, t.bytes);
      void* out = t.bytes ? driver().host_pointer(t.address, t.bytes) : nullptr;
      if (t.bytes && (!view.data() || !out)) {
        give_up(ncclUnhandledCudaError, "rank " + std::to_string(comm_.rank) + ": a buffer of " +
                                            describe(t.signature) +
                                            " is no live device memory of the stated size");
        return SIMGPU_STEP_DONE;
      }
      if (t.bytes) memmove(out, view.data(), t.bytes);
      meet(op_, {clique_.name(), s_.sequences[i], t.peer, comm_.rank, true});
      mine->state = Post::free;
      other->state = Post::free;
      s_.settled[i] = 1;
      moved = true;
    }
    if (moved) driver().poke();
    return all ? SIMGPU_STEP_DONE : SIMGPU_STEP_WAITING;
  }

  Post* find_transfer(int rank, int peer, bool send, uint64_t sequence) {
    for (Post& p : clique_.memory().posts) {
      if (p.state != Post::free && p.peer == peer && p.rank == rank && (p.is_send != 0) == send &&
          p.sequence == sequence)
        return &p;
    }
    return nullptr;
  }
  bool matches(const Post& mine, const Post& other) {
    if (mine.signature.count == other.signature.count && mine.signature.type == other.signature.type)
      return true;
    give_up(ncclInvalidUsage, "mismatch between ranks " + std::to_string(comm_.rank) + " and " +
                                  std::to_string(other.rank) + ": " + describe(mine.signature) + " against " +
                                  describe(other.signature));
    return false;
  }

  Operation& o_;
  ncclComm& comm_;
  Clique& clique_;
  simgpu_op* op_;
  State& s_;
};

simgpu_step execute(void* user, simgpu_op* op, void** state) {
  if (!*state) {
    *state = new State;
    static_cast<Operation*>(user)->comm->pending.fetch_add(1);
  }
  return Execution(*static_cast<Operation*>(user), op, *static_cast<State*>(*state)).step();
}

uint64_t end_ns(void* user, simgpu_op*, void* state, uint64_t start_ns, simgpu_use* uses, int* use_count) {
  const auto& o = *static_cast<Operation*>(user);
  const auto* s = static_cast<State*>(state);
  const uint64_t duration = duration_ns(o);
  // A collective takes bandwidth from compute beside it: its bytes pass through memory at least twice.
  int used = 0;
  const int capacity = *use_count;
  for (simgpu_resource r : {SIMGPU_RES_DRAM, SIMGPU_RES_PEER_IN, SIMGPU_RES_PEER_OUT}) {
    if (used < capacity) uses[used++] = {o.comm->device, r, r == SIMGPU_RES_DRAM ? 0.15 : 1.0};
  }
  *use_count = used;
  return std::max(start_ns, s ? s->start_ns : start_ns) + duration;
}

void finished(void* user, simgpu_op* op, void* state) {
  forget(op);
  if (state) static_cast<Operation*>(user)->comm->pending.fetch_sub(1);
  delete static_cast<State*>(state);
}

void release(void* user) { delete static_cast<Operation*>(user); }

}  // namespace

const char* function_name(Function f) {
  static constexpr const char* kNames[] = {"AllReduce", "Broadcast", "Reduce",  "AllGather", "ReduceScatter",
                                           "AlltoAll",  "Gather",    "Scatter", "Send",      "Recv"};
  return static_cast<uint32_t>(f) < std::size(kNames) ? kNames[static_cast<uint32_t>(f)] : "?";
}

ncclResult_t submit(Operation* o, CUstream stream) {
  ncclComm* comm = o->comm;
  simgpu_work work{};
  work.size = sizeof work;
  const std::string name =
      std::string("nccl") + (o->transfers.empty() ? function_name(o->function) : "SendRecv");
  work.name = name.c_str();
  work.sm_fraction = sm_fraction(*comm);
  work.waits_outside = 1;
  work.execute = execute;
  work.end_ns = end_ns;
  work.finished = finished;
  work.release = release;
  work.user = o;
  CUcontext before = nullptr;
  driver().cuCtxGetCurrent(&before);
  if (before != comm->context) driver().cuCtxSetCurrent(comm->context);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  driver().cuStreamIsCapturing(stream, &capturing);
  o->captured = capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!o->captured) {
    if (o->transfers.empty()) o->sequence = comm->collective_sequence.fetch_add(1);
    for (Transfer& t : o->transfers) t.sequence = next_transfer(*comm, t.peer, t.function == Function::send);
  }
  const int status = driver().submit(stream, &work);
  if (before != comm->context) driver().cuCtxSetCurrent(before);
  if (status != CUDA_SUCCESS) {
    return fail(comm, ncclUnhandledCudaError,
                name + ": the stream refused the work (CUDA error " + std::to_string(status) + ")");
  }
  return ncclSuccess;
}

}  // namespace simgpu::nccl
