// Allocation, release and mapping. Created addresses go to op.out, sizes to op.bytes, freed addresses to
// op.object. The entry points of CUDA 2 with 32-bit addresses stay undescribed: every delaying link drains at
// them.
#include "runtime/exec/hook_tables.h"

namespace shunt::exec {
using model::OpKind;

SHUNT_BEFORE(cuMemAlloc_v2, CUdeviceptr*& out, size_t& bytes) {
  op.kind = OpKind::alloc_linear, op.bytes = bytes, op.deliver = out;
}
SHUNT_AFTER(cuMemAlloc_v2, CUdeviceptr*& out, size_t& bytes) { op.out = *out; }

SHUNT_BEFORE(cuMemAllocPitch_v2, CUdeviceptr*& out, size_t*& pitch, size_t& width, size_t& height,
             unsigned int& element) {
  // A stand-in row is padded to 512 bytes, the largest alignment the driver is known to use.
  op.kind = OpKind::alloc_pitch, op.deliver = out, op.deliver_pitch = pitch;
  op.pitch = (width + 511) / 512 * 512;
  if (op.pitch < width || __builtin_mul_overflow(op.pitch, height, &op.bytes))
    op.bytes = 0, op.deliver = nullptr;
}
SHUNT_AFTER(cuMemAllocPitch_v2, CUdeviceptr*& out, size_t*& pitch, size_t& width, size_t& height,
            unsigned int& element) {
  op.out = *out, op.bytes = *pitch * height;
}

SHUNT_BEFORE(cuMemAllocManaged, CUdeviceptr*& out, size_t& bytes, unsigned int& flags) {
  op.kind = OpKind::alloc_managed, op.bytes = bytes, op.aux = flags;
}
SHUNT_AFTER(cuMemAllocManaged, CUdeviceptr*& out, size_t& bytes, unsigned int& flags) { op.out = *out; }

SHUNT_BEFORE(cuMemAllocHost_v2, void**& out, size_t& bytes) {
  op.kind = OpKind::alloc_host, op.bytes = bytes;
}
SHUNT_AFTER(cuMemAllocHost_v2, void**& out, size_t& bytes) { op.out = reinterpret_cast<uint64_t>(*out); }
SHUNT_BEFORE(cuMemHostAlloc, void**& out, size_t& bytes, unsigned int& flags) {
  op.kind = OpKind::alloc_host, op.bytes = bytes, op.aux = flags;
}
SHUNT_AFTER(cuMemHostAlloc, void**& out, size_t& bytes, unsigned int& flags) {
  op.out = reinterpret_cast<uint64_t>(*out);
}
SHUNT_BEFORE(cuMemHostRegister_v2, void*& address, size_t& bytes, unsigned int& flags) {
  op.kind = OpKind::register_host, op.bytes = bytes, op.aux = flags;
}
SHUNT_AFTER(cuMemHostRegister_v2, void*& address, size_t& bytes, unsigned int& flags) {
  op.out = reinterpret_cast<uint64_t>(address);
}
SHUNT_SAME(cuMemHostRegister, cuMemHostRegister_v2)

SHUNT_BEFORE(cuMemAllocAsync, CUdeviceptr*& out, size_t& bytes, CUstream& stream) {
  op.kind = OpKind::alloc_async, op.bytes = bytes;
}
SHUNT_AFTER(cuMemAllocAsync, CUdeviceptr*& out, size_t& bytes, CUstream& stream) { op.out = *out; }
SHUNT_SAME(cuMemAllocAsync_ptsz, cuMemAllocAsync)
SHUNT_BEFORE(cuMemAllocFromPoolAsync, CUdeviceptr*& out, size_t& bytes, CUmemoryPool& pool,
             CUstream& stream) {
  op.kind = OpKind::alloc_async, op.bytes = bytes, op.aux = reinterpret_cast<uint64_t>(pool);
}
SHUNT_AFTER(cuMemAllocFromPoolAsync, CUdeviceptr*& out, size_t& bytes, CUmemoryPool& pool, CUstream& stream) {
  op.out = *out;
}
SHUNT_SAME(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync)

SHUNT_BEFORE(cuMemFree_v2, CUdeviceptr& address) { op.kind = OpKind::free_linear, op.object = address; }
SHUNT_BEFORE(cuMemFreeAsync, CUdeviceptr& address, CUstream& stream) {
  op.kind = OpKind::free_async, op.object = address;
}
SHUNT_SAME(cuMemFreeAsync_ptsz, cuMemFreeAsync)
SHUNT_BEFORE(cuMemFreeHost, void*& address) {
  op.kind = OpKind::free_host, op.object = reinterpret_cast<uint64_t>(address);
}
SHUNT_BEFORE(cuMemHostUnregister, void*& address) {
  op.kind = OpKind::unregister_host, op.object = reinterpret_cast<uint64_t>(address);
}

// A reservation is address space; a mapping inside it is memory. cuMemCreate makes memory without an address.
SHUNT_BEFORE(cuMemAddressReserve, CUdeviceptr*& out, size_t& bytes, size_t& align, CUdeviceptr& wish,
             unsigned long long& flags) {
  op.kind = OpKind::alloc_vmm, op.bytes = bytes;
}
SHUNT_AFTER(cuMemAddressReserve, CUdeviceptr*& out, size_t& bytes, size_t& align, CUdeviceptr& wish,
            unsigned long long& flags) {
  op.out = *out;
}
SHUNT_BEFORE(cuMemAddressFree, CUdeviceptr& address, size_t& bytes) {
  op.kind = OpKind::free_vmm, op.object = address, op.bytes = bytes;
}
SHUNT_BEFORE(cuMemMap, CUdeviceptr& address, size_t& bytes, size_t& offset,
             CUmemGenericAllocationHandle& handle, unsigned long long& flags) {
  op.kind = OpKind::map_vmm, op.bytes = bytes, op.aux = handle;
}
SHUNT_AFTER(cuMemMap, CUdeviceptr& address, size_t& bytes, size_t& offset,
            CUmemGenericAllocationHandle& handle, unsigned long long& flags) {
  op.out = address;
}
SHUNT_BEFORE(cuMemUnmap, CUdeviceptr& address, size_t& bytes) {
  op.kind = OpKind::unmap_vmm, op.object = address, op.bytes = bytes;
}

// Questions the memory engine answers itself for memory it put elsewhere.
SHUNT_BEFORE(cuPointerGetAttribute, void*& data, CUpointer_attribute& attribute, CUdeviceptr& pointer) {
  op.kind = OpKind::pointer_attribute, op.object = pointer, op.aux = attribute, op.detail[0] = data;
}
SHUNT_BEFORE(cuPointerGetAttributes, unsigned int& n, CUpointer_attribute*& attributes, void**& data,
             CUdeviceptr& pointer) {
  op.kind = OpKind::pointer_attributes, op.object = pointer, op.aux = n;
  op.detail[0] = attributes, op.detail[1] = data;
}
SHUNT_BEFORE(cuMemGetAddressRange_v2, CUdeviceptr*& base, size_t*& bytes, CUdeviceptr& pointer) {
  op.kind = OpKind::address_range, op.object = pointer, op.deliver = base, op.deliver_pitch = bytes;
}

void append_memory_hooks(std::vector<HookEntry>& t) {
  for (const HookEntry& e : {SHUNT_HOOK(cuMemAlloc_v2),
                             SHUNT_HOOK(cuMemAllocPitch_v2),
                             SHUNT_HOOK(cuMemAllocManaged),
                             SHUNT_HOOK(cuMemAllocHost_v2),
                             SHUNT_HOOK(cuMemHostAlloc),
                             SHUNT_HOOK(cuMemHostRegister_v2),
                             SHUNT_HOOK(cuMemHostRegister),
                             SHUNT_HOOK(cuMemAllocAsync),
                             SHUNT_HOOK(cuMemAllocAsync_ptsz),
                             SHUNT_HOOK(cuMemAllocFromPoolAsync),
                             SHUNT_HOOK(cuMemAllocFromPoolAsync_ptsz),
                             SHUNT_HOOK(cuMemFree_v2),
                             SHUNT_HOOK(cuMemFreeAsync),
                             SHUNT_HOOK(cuMemFreeAsync_ptsz),
                             SHUNT_HOOK(cuMemFreeHost),
                             SHUNT_HOOK(cuMemHostUnregister),
                             SHUNT_HOOK(cuMemAddressReserve),
                             SHUNT_HOOK(cuMemAddressFree),
                             SHUNT_HOOK(cuMemMap),
                             SHUNT_HOOK(cuMemUnmap),
                             SHUNT_HOOK(cuPointerGetAttribute),
                             SHUNT_HOOK(cuPointerGetAttributes),
                             SHUNT_HOOK(cuMemGetAddressRange_v2)})
    t.push_back(e);
}

}  // namespace shunt::exec
