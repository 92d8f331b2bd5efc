#include "tools/simgpu/driver/core/graph_spec.h"

#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/core/call.h"
#include "tools/simgpu/driver/core/copy.h"
#include "tools/simgpu/driver/core/graph_memory.h"
#include "tools/simgpu/driver/core/launch.h"

namespace simgpu::driver {
namespace {
// What graph kernel nodes may carry; the others belong to launches in streams.
bool node_attribute(int id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return true;
    default:
      return false;
  }
}

std::vector<CUlaunchAttribute> attributes_of(const KernelLaunch& launch) {
  std::vector<CUlaunchAttribute> list;
  for (const auto& [id, value] : launch.attributes) {
    if (!node_attribute(id)) continue;
    CUlaunchAttribute attribute = {};
    attribute.id = CUlaunchAttributeID(id);
    attribute.value = value;
    list.push_back(attribute);
  }
  return list;
}

std::shared_ptr<NodeSpec> new_spec(CUgraphNodeType type, const std::shared_ptr<Context>& context) {
  auto spec = std::make_shared<NodeSpec>();
  spec->type = type;
  spec->context = context;
  spec->has_context = context != nullptr;
  return spec;
}

CUresult build_kernel(Context& context, CUfunction function, const LaunchRequest& request, void** params,
                      void** extra, KernelPart part, SpecRef& out) {
  KernelLaunch launch;
  SIMGPU_TRY(prepare_launch(context, function, request, params, extra, launch));
  SIMGPU_REQUIRE(!(extra && launch.cooperative), CUDA_ERROR_INVALID_VALUE);
  part.packed = extra != nullptr;
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_KERNEL, shared(&context));
  spec->body = std::make_shared<KernelBody>(std::move(launch));
  spec->part = std::move(part);
  out = std::move(spec);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult node_context(CUcontext handle, std::shared_ptr<Context>& out) {
  if (!handle) {
    Context* current = nullptr;
    SIMGPU_TRY(require_context(current));
    out = shared(current);
    return CUDA_SUCCESS;
  }
  Context* context = lookup<Context>(handle);
  SIMGPU_REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
  SIMGPU_REQUIRE(!context->destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  out = shared(context);
  return out->sticky.load();
}

CUresult kernel_spec(const CUDA_KERNEL_NODE_PARAMS_v2& p, const NodeSpec* before, SpecRef& out) {
  SIMGPU_REQUIRE(p.func || p.kern, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Context> context;
  const CUfunction function = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  if (Function* f = lookup<Function>(function)) {
    auto module = f->module.lock();
    SIMGPU_REQUIRE(module, CUDA_ERROR_INVALID_HANDLE);
    context = module->context.lock();
    SIMGPU_REQUIRE(context && !context->destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    SIMGPU_TRY(context->sticky.load());
  } else {
    SIMGPU_REQUIRE(lookup<Kernel>(function), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_TRY(node_context(p.func ? nullptr : p.ctx, context));
  }
  LaunchRequest request;
  request.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  request.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  request.dynamic_shared = p.sharedMemBytes;
  std::vector<CUlaunchAttribute> kept;
  if (before && before->launch()) kept = attributes_of(*before->launch());
  request.attributes = kept.data();
  request.attribute_count = unsigned(kept.size());
  return build_kernel(*context, function, request, p.kernelParams, p.extra,
                      KernelPart{p.func, p.kern, p.ctx, false, {}, 0}, out);
}

CUresult memcpy_spec(const CUDA_MEMCPY3D& p, CUcontext handle, SpecRef& out) {
  std::shared_ptr<Context> context;
  SIMGPU_TRY(node_context(handle, context));
  CopyShape shape;
  Side src, dst;
  SIMGPU_TRY(shape_of(p, shape, src, dst));
  SIMGPU_REQUIRE(shape.bytes(), CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<CopyBody> body;
  SIMGPU_TRY(make_copy(shape, src, dst, *context, body));
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEMCPY, context);
  spec->body = std::move(body);
  spec->part = p;
  out = std::move(spec);
  return CUDA_SUCCESS;
}

CUresult memset_spec(const CUDA_MEMSET_NODE_PARAMS& p, CUcontext handle, SpecRef& out) {
  std::shared_ptr<Context> context;
  SIMGPU_TRY(node_context(handle, context));
  const unsigned size = p.elementSize;
  SIMGPU_REQUIRE(size == 1 || size == 2 || size == 4, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.dst && p.dst % size == 0 && p.width && p.height, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.width <= UINT64_MAX / size, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.height == 1 || (p.pitch % size == 0 && p.pitch >= p.width * size),
                 CUDA_ERROR_INVALID_VALUE);
  const uint64_t pitch = p.height == 1 ? p.width * size : p.pitch;
  Location where;
  SIMGPU_TRY(locate(p.dst, (p.height - 1) * pitch + p.width * size, where));
  SIMGPU_REQUIRE(where.allocation, CUDA_ERROR_INVALID_VALUE);
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEMSET, context);
  spec->body =
      std::make_shared<MemsetBody>(CopyPlace{p.dst, pitch, 0}, where, p.value, size, p.width, p.height);
  spec->part = p;
  out = std::move(spec);
  return CUDA_SUCCESS;
}

CUresult host_spec(const CUDA_HOST_NODE_PARAMS& p, SpecRef& out) {
  SIMGPU_REQUIRE(p.fn, CUDA_ERROR_INVALID_VALUE);
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_HOST, nullptr);
  spec->body = std::make_shared<HostFunctionBody>(p.fn, p.userData);
  spec->part = p;
  out = std::move(spec);
  return CUDA_SUCCESS;
}

namespace {
CUresult memory_step(const CUstreamBatchMemOpParams& p, std::shared_ptr<OpBody>& out) {
  const bool wait =
      p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  const bool wide =
      p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  switch (p.operation) {
    case CU_STREAM_MEM_OP_BARRIER:
      out = std::make_shared<MarkerBody>(OpKind::empty, "memory barrier");
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t address = wait ? p.waitValue.address : p.writeValue.address;
  const uint64_t value = wait ? (wide ? p.waitValue.value64 : p.waitValue.value)
                              : (wide ? p.writeValue.value64 : p.writeValue.value);
  const unsigned flags = wait ? p.waitValue.flags : p.writeValue.flags;
  SIMGPU_REQUIRE(address && address % (wide ? 8 : 4) == 0, CUDA_ERROR_INVALID_VALUE);
  if (wait) {
    SIMGPU_REQUIRE(!(flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)), CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(!(flags & CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
  } else {
    SIMGPU_REQUIRE(!(flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_INVALID_VALUE);
  }
  Location where;
  SIMGPU_TRY(locate(address, wide ? 8 : 4, where));
  SIMGPU_REQUIRE(where.allocation, CUDA_ERROR_INVALID_VALUE);
  if (wait)
    out = std::make_shared<MemoryWaitBody>(address, value, wide, flags);
  else
    out = std::make_shared<MemoryWriteBody>(address, value, wide);
  return CUDA_SUCCESS;
}
}  // namespace

OpBody::Step BatchBody::execute(Op& op, uint64_t budget) {
  if (!op.scratch) op.scratch = std::make_shared<size_t>(0);
  size_t& at = *static_cast<size_t*>(op.scratch.get());
  for (; at < steps.size(); ++at) {
    const Step step = steps[at]->execute(op, budget);
    if (step != Step::done) return step;
    if (op.error != CUDA_SUCCESS) break;
  }
  return Step::done;
}
Cost BatchBody::cost(const Op& op) const {
  Cost total;
  for (const auto& step : steps) total.duration_ns += step->cost(op).duration_ns;
  return total;
}
bool BatchBody::waits_outside() const {
  return std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step->waits_outside(); });
}

CUresult batch_spec(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p, SpecRef& out) {
  std::shared_ptr<Context> context;
  SIMGPU_TRY(node_context(p.ctx, context));
  SIMGPU_REQUIRE(p.count && p.count <= 256 && p.paramArray && p.flags == 0, CUDA_ERROR_INVALID_VALUE);
  std::vector<std::shared_ptr<OpBody>> steps(p.count);
  for (unsigned i = 0; i < p.count; ++i) SIMGPU_TRY(memory_step(p.paramArray[i], steps[i]));
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, context);
  spec->body = std::make_shared<BatchBody>(std::move(steps));
  spec->part = BatchPart{p.ctx, p.flags, {p.paramArray, p.paramArray + p.count}};
  out = std::move(spec);
  return CUDA_SUCCESS;
}

CUresult event_spec(CUgraphNodeType type, CUevent handle, SpecRef& out) {
  Event* event = lookup<Event>(handle);
  SIMGPU_REQUIRE(event, CUDA_ERROR_INVALID_VALUE);
  auto spec = new_spec(type, event->context.lock());
  spec->part = EventPart{shared(event)};
  out = std::move(spec);
  return CUDA_SUCCESS;
}

SpecRef empty_spec() {
  static const SpecRef* spec = new SpecRef(new_spec(CU_GRAPH_NODE_TYPE_EMPTY, nullptr));
  return *spec;
}

SpecRef child_spec(std::shared_ptr<Graph> graph, CUgraphChildGraphNodeOwnership ownership) {
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_GRAPH, nullptr);
  spec->part = ChildPart{std::move(graph), ownership};
  return spec;
}

CUresult alloc_spec(Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS& p, SpecRef& out) {
  p.dptr = 0;
  SIMGPU_REQUIRE(p.bytesize, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.accessDescs || !p.accessDescCount, CUDA_ERROR_INVALID_VALUE);
  const CUmemLocationType place = p.poolProps.location.type;
  SIMGPU_REQUIRE(place == CU_MEM_LOCATION_TYPE_DEVICE,
                 place == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
  Device* device = device_at(p.poolProps.location.id);
  SIMGPU_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.accessDescCount <= platform()->devices.size(), CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(p.bytesize <= device->memory_bytes(), CUDA_ERROR_OUT_OF_MEMORY);
  std::vector<uint8_t> rights(platform()->devices.size(), 0);
  rights[size_t(device->ordinal)] = 3;
  for (size_t i = 0; i < p.accessDescCount; ++i) {
    const CUmemAccessDesc& access = p.accessDescs[i];
    SIMGPU_REQUIRE(access.location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_at(access.location.id),
                   CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_VALUE);
    SIMGPU_REQUIRE(
        access.location.id == device->ordinal || device_at(access.location.id)->can_access_peer(*device),
        CUDA_ERROR_INVALID_VALUE);
    rights[size_t(access.location.id)] = 3;
  }
  GraphAllocationRef memory = make_graph_allocation(device->ordinal, p.bytesize, std::move(rights));
  SIMGPU_REQUIRE(memory, CUDA_ERROR_OUT_OF_MEMORY);
  memory->owner = graph.id;
  p.dptr = memory->address;
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEM_ALLOC, nullptr);
  AllocPart part{p, {p.accessDescs, p.accessDescs + p.accessDescCount}, memory};
  part.params.accessDescs = nullptr;
  spec->body = std::make_shared<ActionBody>(
      OpKind::alloc, "graph allocation", [memory](Op&) { show(*memory); }, 100);
  spec->part = std::move(part);
  out = std::move(spec);
  return CUDA_SUCCESS;
}

CUresult free_spec(Graph& graph, CUdeviceptr address, SpecRef& out) {
  GraphAllocationRef memory = graph_allocation_at(address);
  SIMGPU_REQUIRE(memory, CUDA_ERROR_INVALID_VALUE);
  // Freed twice in this graph, or once here and once in its owner.
  SIMGPU_REQUIRE(memory->freed_by != graph.id, CUDA_ERROR_INVALID_VALUE);
  SIMGPU_REQUIRE(!memory->freed_by || (graph.id != memory->owner && memory->freed_by != memory->owner),
                 CUDA_ERROR_INVALID_VALUE);
  memory->freed_by = graph.id;
  auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEM_FREE, nullptr);
  spec->body = std::make_shared<ActionBody>(
      OpKind::free, "graph free", [memory](Op&) { hide(*memory); }, 100);
  spec->part = FreePart{address, memory};
  out = std::move(spec);
  return CUDA_SUCCESS;
}

CUresult generic_spec(const CUgraphNodeParams& p, const NodeSpec* before, SpecRef& out) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 k;
      static_assert(sizeof k == sizeof p.kernel);
      memcpy(&k, &p.kernel, sizeof k);
      return kernel_spec(k, before, out);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      SIMGPU_REQUIRE(p.memcpy.flags == 0 && p.memcpy.reserved == 0, CUDA_ERROR_INVALID_VALUE);
      return memcpy_spec(p.memcpy.copyParams, p.memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& m = p.memset;
      return memset_spec({m.dst, m.pitch, m.value, m.elementSize, m.width, m.height}, m.ctx, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_spec({p.host.fn, p.host.userData}, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      out = empty_spec();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_spec(p.type, p.eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_spec(p.type, p.eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return batch_spec({p.memOp.ctx, p.memOp.count, p.memOp.paramArray, p.memOp.flags}, out);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      log_once(LogLevel::warn, "external semaphore nodes",
               "graphs: external semaphore nodes are not supported");
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      log_once(LogLevel::warn, "conditional nodes", "graphs: conditional nodes are not supported");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// --- capture ---
namespace {
CUDA_MEMCPY3D params_of_copy(const CopyBody& body) {
  CUDA_MEMCPY3D p = {};
  auto side = [](const CopyPlace& place, const Location& where, CUmemorytype& type, const void*& host,
                 CUdeviceptr& device, size_t& pitch, size_t& height, const CopyShape& shape) {
    if (where.where == Where::device) {
      type = CU_MEMORYTYPE_DEVICE;
      device = place.address;
    } else if (where.where == Where::managed) {
      type = CU_MEMORYTYPE_UNIFIED;
      device = place.address;
    } else {
      type = CU_MEMORYTYPE_HOST;
      host = reinterpret_cast<const void*>(place.address);
    }
    pitch = place.pitch ? place.pitch : shape.width;
    height = place.slice && place.pitch ? place.slice / place.pitch : shape.height;
  };
  const CopyShape& s = body.shape;
  const void* dst_host = nullptr;
  side(s.src, body.src, p.srcMemoryType, p.srcHost, p.srcDevice, p.srcPitch, p.srcHeight, s);
  side(s.dst, body.dst, p.dstMemoryType, dst_host, p.dstDevice, p.dstPitch, p.dstHeight, s);
  p.dstHost = const_cast<void*>(dst_host);
  p.WidthInBytes = s.width;
  p.Height = s.height;
  p.Depth = s.depth;
  return p;
}
}  // namespace

CUresult captured_spec(const Stream& stream, std::shared_ptr<const OpBody> body, SpecRef& out) {
  auto context = stream.context.lock();
  SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  switch (body->kind) {
    case OpKind::kernel: {
      const KernelLaunch& launch = static_cast<const KernelBody&>(*body).launch;
      auto spec = new_spec(CU_GRAPH_NODE_TYPE_KERNEL, context);
      KernelPart part;
      part.function = handle_of<CUfunction>(*function_handle(launch.instance, launch.kernel));
      if (!launch.has_priority && stream.priority != 0) {
        KernelLaunch copy = launch;  // nodes take the priority of the stream they were captured in
        copy.priority = stream.priority;
        copy.has_priority = true;
        CUlaunchAttributeValue value = {};
        value.priority = stream.priority;
        copy.attributes.emplace_back(int(CU_LAUNCH_ATTRIBUTE_PRIORITY), value);
        spec->body = std::make_shared<KernelBody>(std::move(copy));
      } else {
        spec->body = std::move(body);
      }
      spec->part = std::move(part);
      out = std::move(spec);
      return CUDA_SUCCESS;
    }
    case OpKind::custom: {  // a sibling library's kernel: queries cannot name a function
      auto spec = new_spec(CU_GRAPH_NODE_TYPE_KERNEL, context);
      spec->body = std::move(body);
      spec->part = KernelPart{};
      out = std::move(spec);
      return CUDA_SUCCESS;
    }
    case OpKind::memcpy: {
      auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEMCPY, context);
      spec->part = params_of_copy(static_cast<const CopyBody&>(*body));
      spec->body = std::move(body);
      out = std::move(spec);
      return CUDA_SUCCESS;
    }
    case OpKind::memset: {
      const auto& m = static_cast<const MemsetBody&>(*body);
      auto spec = new_spec(CU_GRAPH_NODE_TYPE_MEMSET, context);
      spec->part = CUDA_MEMSET_NODE_PARAMS{m.dst.address,   m.height > 1 ? m.dst.pitch : 0,
                                           m.value,         m.element_bytes,
                                           size_t(m.width), size_t(m.height)};
      spec->body = std::move(body);
      out = std::move(spec);
      return CUDA_SUCCESS;
    }
    case OpKind::host_function: {
      const auto& h = static_cast<const HostFunctionBody&>(*body);
      SIMGPU_REQUIRE(h.function, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      return host_spec({h.function, h.user}, out);
    }
    case OpKind::memory_wait:
    case OpKind::memory_write: {
      BatchPart part;
      part.context = handle_of<CUcontext>(*context);
      CUstreamBatchMemOpParams p = {};
      if (body->kind == OpKind::memory_wait) {
        const auto& wait = static_cast<const MemoryWaitBody&>(*body);
        p.waitValue.operation = wait.wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
        p.waitValue.address = wait.address;
        p.waitValue.value64 = wait.value;
        p.waitValue.flags = wait.flags;
      } else {
        const auto& write = static_cast<const MemoryWriteBody&>(*body);
        p.writeValue.operation =
            write.wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
        p.writeValue.address = write.address;
        p.writeValue.value64 = write.value;
      }
      part.ops.push_back(p);
      CUDA_BATCH_MEM_OP_NODE_PARAMS params = {part.context, 1, part.ops.data(), 0};
      return batch_spec(params, out);
    }
    default:  // managed memory's attach and prefetch, pool calls that did not come as nodes
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
}

// --- queries ---
void kernel_params_of(const NodeSpec& spec, CUDA_KERNEL_NODE_PARAMS_v2& out) {
  const KernelLaunch& launch = *spec.launch();
  const KernelPart& part = spec.as<KernelPart>();
  const exec::KernelInfo& info = launch.instance->image->program->kernels()[size_t(launch.kernel)];
  out = {};
  out.func = part.function;
  out.kern = part.kernel;
  out.ctx = part.context;
  out.gridDimX = launch.grid.x, out.gridDimY = launch.grid.y, out.gridDimZ = launch.grid.z;
  out.blockDimX = launch.block.x, out.blockDimY = launch.block.y, out.blockDimZ = launch.block.z;
  out.sharedMemBytes = launch.dynamic_shared;
  auto* bytes = const_cast<uint8_t*>(launch.params.data());
  if (part.pointers.empty()) {
    if (part.packed) {
      part.packed_size = launch.params.size();
      part.pointers = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &part.packed_size,
                       CU_LAUNCH_PARAM_END};
    } else {
      for (const auto& parameter : info.params) part.pointers.push_back(bytes + parameter.offset);
    }
  }
  if (part.packed)
    out.extra = part.pointers.data();
  else if (!part.pointers.empty())
    out.kernelParams = part.pointers.data();
}

CUresult attribute_of(const NodeSpec& spec, int attribute, CUlaunchAttributeValue& out) {
  const KernelLaunch* launch = spec.launch();
  SIMGPU_REQUIRE(launch && node_attribute(attribute), CUDA_ERROR_INVALID_VALUE);
  out = {};
  for (const auto& [id, value] : launch->attributes) {
    if (id == attribute) out = value;
  }
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      out = {};
      out.cooperative = launch->cooperative;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      out = {};
      out.clusterDim.x = launch->cluster.x;
      out.clusterDim.y = launch->cluster.y;
      out.clusterDim.z = launch->cluster.z;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: {
      const bool given = std::any_of(launch->attributes.begin(), launch->attributes.end(),
                                     [&](const auto& a) { return a.first == attribute; });
      if (!given) out.memSyncDomainMap.remote = 1;
      break;
    }
    default:
      break;
  }
  return CUDA_SUCCESS;
}

CUresult with_attribute(const NodeSpec& spec, int attribute, const CUlaunchAttributeValue& value,
                        SpecRef& out) {
  const KernelLaunch* launch = spec.launch();
  SIMGPU_REQUIRE(launch && node_attribute(attribute), CUDA_ERROR_INVALID_VALUE);
  auto context = spec.context.lock();
  SIMGPU_REQUIRE(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  std::vector<CUlaunchAttribute> list = attributes_of(*launch);
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const CUlaunchAttribute& a) { return int(a.id) == attribute; }),
             list.end());
  CUlaunchAttribute changed = {};
  changed.id = CUlaunchAttributeID(attribute);
  changed.value = value;
  list.push_back(changed);
  LaunchRequest request;
  request.grid = launch->grid;
  request.block = launch->block;
  request.dynamic_shared = launch->dynamic_shared;
  // Cooperative given as a flag of the captured call rather than as an attribute.
  request.cooperative = attribute != CU_LAUNCH_ATTRIBUTE_COOPERATIVE && launch->cooperative;
  request.attributes = list.data();
  request.attribute_count = unsigned(list.size());
  KernelPart part = spec.as<KernelPart>();
  part.pointers.clear();
  const bool packed = part.packed;
  const CUfunction function = part.function ? part.function : reinterpret_cast<CUfunction>(part.kernel);
  CUDA_KERNEL_NODE_PARAMS_v2 params;
  kernel_params_of(spec, params);
  SIMGPU_REQUIRE(!(packed && attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value.cooperative),
                 CUDA_ERROR_INVALID_VALUE);
  return build_kernel(*context, function, request, params.kernelParams, params.extra, std::move(part), out);
}

// --- updates ---
namespace {
bool array(CUmemorytype type) { return type == CU_MEMORYTYPE_ARRAY; }
bool same_home(const Location& a, const Location& b) {
  const auto host = [](const Location& l) { return l.where == Where::pageable || l.where == Where::pinned; };
  if (host(a) != host(b)) return false;
  if (host(a)) return a.where == b.where;
  return a.where == b.where && a.device == b.device;
}
}  // namespace

CUgraphExecUpdateResult check_change(const NodeSpec& now, const NodeSpec& next, bool node_priority,
                                     bool whole) {
  if (now.type != next.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  switch (now.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      if (now.context.lock() != next.context.lock())
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
      const KernelLaunch *a = now.launch(), *b = next.launch();
      if (!a != !b) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
      if (!a) return CU_GRAPH_EXEC_UPDATE_SUCCESS;
      if (a->cooperative != b->cooperative) return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
      if (whole && node_priority && a->priority != b->priority)
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      if (now.context.lock() != next.context.lock()) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
      const auto &a = static_cast<const CopyBody&>(*now.body), &b = static_cast<const CopyBody&>(*next.body);
      const auto &pa = now.as<CUDA_MEMCPY3D>(), &pb = next.as<CUDA_MEMCPY3D>();
      const bool flat = a.shape.height * a.shape.depth == 1 && b.shape.height * b.shape.depth == 1;
      const bool fits = same_home(a.src, b.src) && same_home(a.dst, b.dst) &&
                        array(pa.srcMemoryType) == array(pb.srcMemoryType) &&
                        array(pa.dstMemoryType) == array(pb.dstMemoryType) &&
                        (flat || (whole && a.shape.width == b.shape.width &&
                                  a.shape.height == b.shape.height && a.shape.depth == b.shape.depth));
      return fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      if (now.context.lock() != next.context.lock()) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
      const auto &a = static_cast<const MemsetBody&>(*now.body),
                 &b = static_cast<const MemsetBody&>(*next.body);
      const bool fits = same_home(a.where, b.where) && a.height == b.height &&
                        (a.height == 1 || (a.width == b.width && a.element_bytes == b.element_bytes &&
                                           a.dst.pitch == b.dst.pitch));
      return fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const BatchPart &a = now.as<BatchPart>(), &b = next.as<BatchPart>();
      if (a.ops.size() != b.ops.size() || now.context.lock() != next.context.lock())
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
      for (size_t i = 0; i < a.ops.size(); ++i) {
        if (a.ops[i].operation != b.ops[i].operation) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
      }
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return now.as<AllocPart>().memory == next.as<AllocPart>().memory
                 ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                 : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return now.as<FreePart>().memory == next.as<FreePart>().memory
                 ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                 : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
}
}  // namespace simgpu::driver
