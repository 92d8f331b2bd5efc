"""PyCUDA: kernels by nvcc (kept as PTX: by default it asks for machine code, which simgpu does not run), GPU arrays,
element-wise and reduction kernels, streams and events. Compared with NumPy; prints digests."""
import zlib

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.compiler as compiler
import pycuda.driver as drv
from pycuda import gpuarray

by_nvcc = compiler.compile
compiler.compile = lambda *args, **named: by_nvcc(*args, **{**named, "target": "ptx"})


def digest(name, array):
    print(name, array.dtype, array.shape, f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}")


module = compiler.SourceModule("""
__constant__ float weights[3];
__global__ void blur(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = weights[0] * in[max(i - 1, 0)] + weights[1] * in[i] + weights[2] * in[min(i + 1, n - 1)];
}
""", options=["--fmad=false"])
weights = np.array([0.25, 0.5, 0.25], np.float32)
drv.memcpy_htod(module.get_global("weights")[0], weights)
blur = module.get_function("blur")
n = 3000
signal = np.random.default_rng(5).standard_normal(n).astype(np.float32)
a, b = gpuarray.to_gpu(signal), gpuarray.empty(n, np.float32)
stream = drv.Stream()
start, end = drv.Event(), drv.Event()
start.record(stream)
for _ in range(50):
    blur(a, b, np.int32(n), block=(128, 1, 1), grid=(24, 1), stream=stream)
    blur(b, a, np.int32(n), block=(128, 1, 1), grid=(24, 1), stream=stream)
end.record(stream)
end.synchronize()
assert end.time_since(start) > 0
expected = signal.copy()
for _ in range(100):
    left, right = np.concatenate([expected[:1], expected[:-1]]), np.concatenate([expected[1:], expected[-1:]])
    expected = weights[0] * left + weights[1] * expected + weights[2] * right
assert (a.get() == expected).all()
digest("blur", a.get())

x = gpuarray.to_gpu(np.linspace(-1, 1, 999).astype(np.float64))
y = 3 * x * x - x + 2
assert np.abs(y.get() - (3 * x.get() ** 2 - x.get() + 2)).max() < 1e-15
digest("arithmetic", y.get())
assert abs(gpuarray.sum(y).get() - y.get().sum()) < 1e-10
pinned = drv.pagelocked_empty(999, np.float64)
drv.memcpy_dtoh_async(pinned, y.gpudata, stream)
stream.synchronize()
assert (pinned == y.get()).all()
try:
    drv.mem_alloc(1 << 60)
except drv.MemoryError as error:
    print("out of memory:", str(error).split(":")[0])
print("PASSED")
