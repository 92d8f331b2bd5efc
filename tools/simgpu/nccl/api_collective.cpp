// Collectives, sends and receives, groups, custom operators.
#include <string.h>

#include "tools/simgpu/nccl/api.h"
#include "tools/simgpu/nccl/cost.h"
#include "tools/simgpu/nccl/group.h"
#include "tools/simgpu/nccl/registration.h"

namespace simgpu::nccl {

namespace {

struct Call {
  Function function;
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  int op, root;
  ncclComm* comm;
  cudaStream_t stream;
};

bool reduces(Function f) {
  return f == Function::all_reduce || f == Function::reduce || f == Function::reduce_scatter;
}
bool rooted(Function f) {
  return f == Function::broadcast || f == Function::reduce || f == Function::gather || f == Function::scatter;
}

ncclResult_t check_ready(ncclComm* comm) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (comm->finalized.load() || comm->revoked)
    return fail(comm, ncclInvalidUsage, "the communicator was finalised or revoked");
  return check_settled(comm);
}

ncclResult_t check_arguments(const Call& c) {
  if (const ncclResult_t r = check_ready(c.comm); r != ncclSuccess) return r;
  if (type_bytes(c.type) == 0)
    return fail(c.comm, ncclInvalidArgument,
                std::string(function_name(c.function)) + " : invalid type " + std::to_string(c.type));
  if (rooted(c.function) && (c.root < 0 || c.root >= c.comm->ranks))
    return fail(c.comm, ncclInvalidArgument,
                std::string(function_name(c.function)) + " : invalid root " + std::to_string(c.root) +
                    " (root should be in the 0.." + std::to_string(c.comm->ranks - 1) + " range)");
  if (!reduces(c.function)) return ncclSuccess;
  if (c.op < 0 || (c.op >= ncclNumOps && static_cast<size_t>(c.op - ncclNumOps) >= c.comm->custom_ops.size()))
    return fail(
        c.comm, ncclInvalidArgument,
        std::string(function_name(c.function)) + " : invalid reduction operation " + std::to_string(c.op));
  if (c.op >= ncclNumOps) {
    const auto& custom = c.comm->custom_ops[static_cast<size_t>(c.op - ncclNumOps)];
    if (!custom.live) return fail(c.comm, ncclInvalidArgument, "the reduction operation was destroyed");
    if (custom.type != c.type)
      return fail(c.comm, ncclInvalidArgument, "the reduction operation was created for another data type");
  }
  if (c.type == ncclFloat8e4m3 || c.type == ncclFloat8e5m2) {
    for (int r = 0; r < c.comm->ranks; ++r) {
      if (c.comm->clique->memory().slot[r].cc < 90)
        return fail(c.comm, ncclInvalidArgument, "fp8 reductions need compute capability 9.0 on every rank");
    }
  }
  return ncclSuccess;
}

ncclResult_t try_collective(const Call& c) {
  if (const ncclResult_t r = check_arguments(c); r != ncclSuccess) return r;
  if (c.count == 0) return ncclSuccess;
  const uint64_t bytes = c.count * type_bytes(c.type), ranks = static_cast<uint64_t>(c.comm->ranks);
  auto* o = new Operation;
  o->comm = c.comm;
  o->function = c.function;
  o->count = c.count;
  o->type = c.type;
  o->op = reduces(c.function) ? c.op : ncclSum;
  o->root = rooted(c.function) ? c.root : 0;
  const bool root = c.root == c.comm->rank;
  switch (c.function) {
    case Function::all_gather:
      o->in_bytes = bytes, o->out_bytes = bytes * ranks;
      break;
    case Function::reduce_scatter:
      o->in_bytes = bytes * ranks, o->out_bytes = bytes;
      break;
    case Function::all_to_all:
      o->in_bytes = o->out_bytes = bytes * ranks;
      break;
    case Function::broadcast:
      o->in_bytes = root ? bytes : 0, o->out_bytes = bytes;
      break;
    case Function::reduce:
      o->in_bytes = bytes, o->out_bytes = root ? bytes : 0;
      break;
    case Function::gather:
      o->in_bytes = bytes, o->out_bytes = root ? bytes * ranks : 0;
      break;
    case Function::scatter:
      o->in_bytes = root ? bytes * ranks : 0, o->out_bytes = bytes;
      break;
    default:
      o->in_bytes = o->out_bytes = bytes;
  }
  o->in = reinterpret_cast<uint64_t>(c.in);
  o->out = reinterpret_cast<uint64_t>(c.out);
  o->standing = standing(*c.comm, *o);
  return enqueue(o, reinterpret_cast<CUstream>(c.stream));
}

ncclResult_t collective(const Call& c) { return refuse(try_collective(c)); }

ncclResult_t try_transfer(Function function, const void* buffer, size_t count, ncclDataType_t type, int peer,
                          ncclComm* comm, cudaStream_t stream) {
  if (const ncclResult_t r = check_ready(comm); r != ncclSuccess) return r;
  if (type_bytes(type) == 0)
    return fail(comm, ncclInvalidArgument,
                std::string(function_name(function)) + " : invalid type " + std::to_string(type));
  if (peer < 0 || peer >= comm->ranks)
    return fail(comm, ncclInvalidArgument,
                std::string(function_name(function)) + " : invalid root " + std::to_string(peer) +
                    " (root should be in the 0.." + std::to_string(comm->ranks - 1) + " range)");
  if (peer == comm->rank && !in_group())
    return fail(comm, ncclInvalidUsage, "a rank sends to itself only inside a group");
  auto* o = new Operation;
  o->comm = comm;
  o->function = function;
  Transfer t;
  t.function = function;
  t.peer = peer;
  t.address = reinterpret_cast<uint64_t>(buffer);
  t.bytes = count * type_bytes(type);
  t.signature = {static_cast<uint32_t>(function), static_cast<uint32_t>(type), 0, 0, count};
  o->transfers.push_back(t);
  return enqueue(o, reinterpret_cast<CUstream>(stream));
}
ncclResult_t transfer(Function function, const void* buffer, size_t count, ncclDataType_t type, int peer,
                      ncclComm* comm, cudaStream_t stream) {
  return refuse(try_transfer(function, buffer, count, type, peer, comm, stream));
}

}  // namespace
}  // namespace simgpu::nccl

using namespace simgpu::nccl;

NCCL_FUNCTION(ncclAllReduce,
              (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, op, comm, stream)) {
  return collective({Function::all_reduce, in, out, count, type, op, 0, comm, stream});
}
NCCL_FUNCTION(ncclReduce,
              (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
               ncclComm_t comm, cudaStream_t stream),
              (in, out, count, type, op, root, comm, stream)) {
  return collective({Function::reduce, in, out, count, type, op, root, comm, stream});
}
NCCL_FUNCTION(ncclReduceScatter,
              (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, op, comm, stream)) {
  return collective({Function::reduce_scatter, in, out, count, type, op, 0, comm, stream});
}
NCCL_FUNCTION(ncclBroadcast,
              (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, root, comm, stream)) {
  return collective({Function::broadcast, in, out, count, type, 0, root, comm, stream});
}
NCCL_FUNCTION(ncclBcast,
              (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream),
              (buffer, count, type, root, comm, stream)) {
  return collective({Function::broadcast, buffer, buffer, count, type, 0, root, comm, stream});
}
NCCL_FUNCTION(ncclAllGather,
              (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, comm, stream)) {
  return collective({Function::all_gather, in, out, count, type, 0, 0, comm, stream});
}
NCCL_FUNCTION(ncclAlltoAll,
              (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, comm, stream)) {
  return collective({Function::all_to_all, in, out, count, type, 0, 0, comm, stream});
}
NCCL_FUNCTION(ncclGather,
              (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, root, comm, stream)) {
  return collective({Function::gather, in, out, count, type, 0, root, comm, stream});
}
NCCL_FUNCTION(ncclScatter,
              (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream),
              (in, out, count, type, root, comm, stream)) {
  return collective({Function::scatter, in, out, count, type, 0, root, comm, stream});
}
NCCL_FUNCTION(ncclSend,
              (const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
               cudaStream_t stream),
              (buffer, count, type, peer, comm, stream)) {
  return transfer(Function::send, buffer, count, type, peer, comm, stream);
}
NCCL_FUNCTION(ncclRecv,
              (void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
               cudaStream_t stream),
              (buffer, count, type, peer, comm, stream)) {
  return transfer(Function::recv, buffer, count, type, peer, comm, stream);
}

NCCL_FUNCTION(ncclGroupStart, (), ()) { return group_start(); }
NCCL_FUNCTION(ncclGroupEnd, (), ()) { return group_end(); }
NCCL_FUNCTION(ncclGroupSimulateEnd, (ncclSimInfo_t * info), (info)) {
  if (!info || info->magic != 0x74685283) {
    refuse(ncclInvalidArgument);
    uint64_t unused = 0;
    group_simulate_end(unused);
    return fail(nullptr, ncclInvalidArgument, "simInfo was not initialised with NCCL_SIM_INFO_INITIALIZER");
  }
  uint64_t duration = 0;
  const ncclResult_t r = group_simulate_end(duration);
  if (r == ncclSuccess && !in_group()) info->estimatedTime = static_cast<float>(duration) * 1e-3f;
  return r;
}

NCCL_FUNCTION(ncclRedOpCreatePreMulSum,
              (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
               ncclComm_t comm),
              (op, scalar, type, residence, comm)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  if (!op || !scalar || type_bytes(type) == 0)
    return fail(comm, ncclInvalidArgument,
                "ncclRedOpCreatePreMulSum needs an operator, a scalar and a valid type");
  ncclComm::CustomOp custom;
  custom.live = true;
  custom.type = type;
  custom.device_scalar = residence == ncclScalarDevice;
  custom.address = reinterpret_cast<uint64_t>(scalar);
  if (!custom.device_scalar) memcpy(custom.scalar, scalar, type_bytes(type));
  comm->custom_ops.push_back(custom);
  *op = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(comm->custom_ops.size()) - 1);
  return ncclSuccess;
}
NCCL_FUNCTION(ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm)) {
  if (const ncclResult_t r = check(comm); r != ncclSuccess) return r;
  const int index = static_cast<int>(op) - ncclNumOps;
  if (index < 0 || static_cast<size_t>(index) >= comm->custom_ops.size() ||
      !comm->custom_ops[static_cast<size_t>(index)].live)
    return fail(comm, ncclInvalidArgument, "ncclRedOpDestroy : operator unknown to this communicator");
  comm->custom_ops[static_cast<size_t>(index)].live = false;
  return ncclSuccess;
}
