"""cuda-python: NVRTC compiles, the driver bindings load, launch, time, capture and copy. Prints digests; asserts itself."""
import ctypes
import zlib

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

SOURCE = b"""
#include <cuda_fp16.h>
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
template <typename T, int kTile>
__global__ void transpose(const T* in, T* out, int w, int h) {
  __shared__ T tile[kTile][kTile + 1];
  int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
  __syncthreads();
  x = blockIdx.y * kTile + threadIdx.x, y = blockIdx.x * kTile + threadIdx.y;
  if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}
"""


def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else result[1:]


def digest(name, array):
    print(name, array.dtype, array.shape, f"{zlib.crc32(array.tobytes()):08x}")


ok(cu.cuInit(0))
device = ok(cu.cuDeviceGet(0))
ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(device))))
attribute = cu.CUdevice_attribute
major = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
minor = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))

program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"client.cu", 0, [], []))
names = [b"transpose<float, 16>", b"transpose<short, 8>"]
for name in names:
    ok(nvrtc.nvrtcAddNameExpression(program, name))
import nvidia.cu13 as toolkit  # the headers come with the runtime's wheel

options = [b"--gpu-architecture=compute_%d%d" % (major, minor), b"--fmad=false", b"--include-path=" + toolkit.__path__[0].encode() + b"/include"]
result = nvrtc.nvrtcCompileProgram(program, len(options), options)
if int(result[0]) != 0:
    log = b" " * ok(nvrtc.nvrtcGetProgramLogSize(program))
    ok(nvrtc.nvrtcGetProgramLog(program, log))
    raise SystemExit(log.decode())
ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
ok(nvrtc.nvrtcGetPTX(program, ptx))
module = ok(cu.cuModuleLoadData(ptx))
stream = ok(cu.cuStreamCreate(0))

n = 10000
x, y = np.linspace(0, 1, n, dtype=np.float32), np.ones(n, np.float32)
dx, dy = ok(cu.cuMemAlloc(4 * n)), ok(cu.cuMemAlloc(4 * n))
ok(cu.cuMemcpyHtoDAsync(dx, x.ctypes.data, 4 * n, stream))
ok(cu.cuMemcpyHtoDAsync(dy, y.ctypes.data, 4 * n, stream))
saxpy = ok(cu.cuModuleGetFunction(module, b"saxpy"))
arguments = ((2.5, dx, dy, n), (ctypes.c_float, None, None, ctypes.c_int))
for _ in range(200):  # enough for whoever looks for repetition
    ok(cu.cuLaunchKernel(saxpy, 8, 1, 1, 64, 1, 1, 0, stream, arguments, 0))
out = np.empty_like(y)
ok(cu.cuMemcpyDtoHAsync(out.ctypes.data, dy, 4 * n, stream))
ok(cu.cuStreamSynchronize(stream))
expected = y.copy()
for _ in range(200):
    expected = np.float32(2.5) * x + expected
assert (out == expected).all()
digest("saxpy", out)

for name, dtype, tile, (w, h) in ((names[0], np.float32, 16, (100, 37)), (names[1], np.int16, 8, (33, 65))):
    kernel = ok(cu.cuModuleGetFunction(module, ok(nvrtc.nvrtcGetLoweredName(program, name))))
    matrix = np.arange(w * h, dtype=dtype).reshape(h, w)
    source, target = ok(cu.cuMemAlloc(matrix.nbytes)), ok(cu.cuMemAlloc(matrix.nbytes))
    ok(cu.cuMemcpyHtoD(source, matrix.ctypes.data, matrix.nbytes))
    # Captured and launched twice: the same bytes.
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    ok(cu.cuLaunchKernel(kernel, -(-w // tile), -(-h // tile), 1, tile, tile, 1, 0, stream,
                         ((source, target, w, h), (None, None, ctypes.c_int, ctypes.c_int)), 0))
    executable = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream)), 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    result = np.empty((w, h), dtype)
    ok(cu.cuMemcpyDtoH(result.ctypes.data, target, result.nbytes))
    assert (result == matrix.T).all()
    digest(name.decode(), result)

assert int(cu.cuMemAlloc(1 << 60)[0]) == int(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)
assert int(cu.cuModuleGetFunction(module, b"nothing")[0]) == int(cu.CUresult.CUDA_ERROR_NOT_FOUND)
print("PASSED")
