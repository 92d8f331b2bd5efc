// Driver API, linked with -lcuda: embedded PTX text, contexts pushed and popped, `extra` launch parameters,
// globals, copies of every direct kind, memset of every width, a host function, function attributes.
#include "driver_check.h"

static const char kPtx[] = R"(
.version 6.4
.target sm_75
.address_size 64

.visible .global .align 4 .u32 offset = 5;
.visible .const .align 4 .b32 scale[2] = {3, 4};

.visible .entry affine(.param .u64 out, .param .u64 in, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<12>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.u32 %p, %r4, %r5;
  @%p bra DONE;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mul.wide.u32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  and.b32 %r7, %r4, 1;
  mul.wide.u32 %rd5, %r7, 4;
  mov.u64 %rd6, scale;
  add.s64 %rd6, %rd6, %rd5;
  ld.const.u32 %r8, [%rd6];
  ld.global.u32 %r9, [offset];
  mad.lo.u32 %r10, %r6, %r8, %r9;
  add.s64 %rd7, %rd1, %rd3;
  st.global.u32 [%rd7], %r10;
DONE:
  ret;
}
)";

static void CUDA_CB count(void* p) { ++*static_cast<int*>(p); }

int main() {
  DRIVER(cuInit(0));
  int devices = 0, version = 0;
  DRIVER(cuDeviceGetCount(&devices));
  DRIVER(cuDriverGetVersion(&version));
  if (devices < 1 || version < 12000) return finish(false);
  CUdevice device;
  DRIVER(cuDeviceGet(&device, 0));
  char name[256];
  size_t total = 0;
  DRIVER(cuDeviceGetName(name, sizeof name, device));
  DRIVER(cuDeviceTotalMem(&total, device));
  bool ok = name[0] && total > (1ull << 30);

  CUcontext context, current;
#if CUDA_VERSION >= 13000
  DRIVER(cuCtxCreate(&context, nullptr, 0, device));
#else
  DRIVER(cuCtxCreate(&context, 0, device));
#endif
  DRIVER(cuCtxPopCurrent(&current));
  ok &= current == context;
  DRIVER(cuCtxGetCurrent(&current));
  ok &= current == nullptr;
  CUdeviceptr nothing;
  ok &= cuMemAlloc(&nothing, 4) == CUDA_ERROR_INVALID_CONTEXT;
  DRIVER(cuCtxPushCurrent(context));

  CUmodule module;
  DRIVER(cuModuleLoadData(&module, kPtx));
  CUfunction function;
  DRIVER(cuModuleGetFunction(&function, module, "affine"));
  ok &= cuModuleGetFunction(&function, module, "no_such_kernel") == CUDA_ERROR_NOT_FOUND;
  DRIVER(cuModuleGetFunction(&function, module, "affine"));
  int threads = 0;
  DRIVER(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  ok &= threads >= 512;
  CUdeviceptr offset;
  size_t size = 0;
  DRIVER(cuModuleGetGlobal(&offset, &size, module, "offset"));
  ok &= size == 4;
  DRIVER(cuMemsetD32(offset, 100, 1));

  const unsigned n = 3000;
  std::vector<unsigned> in(n), out(n), want(n);
  for (unsigned i = 0; i < n; ++i) {
    in[i] = i * 77u;
    want[i] = in[i] * (i & 1 ? 4u : 3u) + 100u;
  }
  CUdeviceptr d_in, d_out;
  DRIVER(cuMemAlloc(&d_in, n * 4));
  DRIVER(cuMemAlloc(&d_out, n * 4));
  DRIVER(cuMemcpyHtoD(d_in, in.data(), n * 4));
  CUstream stream;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  struct {
    CUdeviceptr out, in;
    unsigned n;
  } packed = {d_out, d_in, n};
  size_t packed_bytes = 20;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  DRIVER(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
  int called = 0;
  DRIVER(cuLaunchHostFunc(stream, count, &called));
  DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuMemcpyDtoH(out.data(), d_out, n * 4));
  ok &= out == want && called == 1;
  std::printf("affine: %s\n", out == want ? "ok" : "WRONG");

  DRIVER(cuMemsetD8(d_in, 0xab, 16));
  DRIVER(cuMemsetD16(d_in + 16, 0x1234, 8));
  DRIVER(cuMemsetD32Async(d_in + 32, 0xdeadbeef, 4, stream));
  DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuMemcpyDtoD(d_out, d_in, 48));
  DRIVER(cuMemcpyDtoH(out.data(), d_out, 48));
  ok &= out[0] == 0xabababab && out[4] == 0x12341234 && out[8] == 0xdeadbeef;
  std::printf("memset: %s\n", out[8] == 0xdeadbeef ? "ok" : "WRONG");

  unsigned type = 0;
  CUdeviceptr base;
  DRIVER(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d_in));
  DRIVER(cuMemGetAddressRange(&base, &size, d_in + 100));
  ok &= type == CU_MEMORYTYPE_DEVICE && base == d_in && size == n * 4;
  const char* text = nullptr;
  DRIVER(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  std::printf("%s\n", text);
  ok &= cuModuleLoadData(&module, "no PTX at all") != CUDA_SUCCESS;
  DRIVER(cuMemFree(d_in));
  DRIVER(cuMemFree(d_out));
  ok &= cuMemFree(d_out) == CUDA_ERROR_INVALID_VALUE;
  DRIVER(cuCtxDestroy(context));
  return finish(ok);
}
