"""numba-cuda: kernels compiled by NVVM to PTX and linked by the driver. Compared with NumPy; prints digests."""
import math
import warnings
import zlib

import numpy as np
from numba import cuda, float32, int32, vectorize
from numba.core.errors import NumbaPerformanceWarning

warnings.simplefilter("ignore", NumbaPerformanceWarning)
warnings.simplefilter("ignore", RuntimeWarning)  # that the driver links, which is what is wanted here


def digest(name, array):
    print(name, array.dtype, array.shape, f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}")


@cuda.jit
def matmul(a, b, c):
    tile_a, tile_b = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range((a.shape[1] + 15) // 16):
        tile_a[ty, tx] = a[y, k * 16 + tx] if y < a.shape[0] and k * 16 + tx < a.shape[1] else 0
        tile_b[ty, tx] = b[k * 16 + ty, x] if x < b.shape[1] and k * 16 + ty < b.shape[0] else 0
        cuda.syncthreads()
        for i in range(16):
            total += tile_a[ty, i] * tile_b[i, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.jit
def mandelbrot(out, limit):
    x, y = cuda.grid(2)
    if x >= out.shape[1] or y >= out.shape[0]:
        return
    c = complex(-2 + 3 * x / out.shape[1], -1 + 2 * y / out.shape[0])
    z = 0j
    for i in range(limit):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag > 4:
            out[y, x] = i
            return
    out[y, x] = limit


@cuda.jit
def histogram(values, bins):
    local = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 32:
        local[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(local, values[i] % 32, 1)
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(bins, t, local[t])


@cuda.jit
def warp_sums(values, out):
    v = values[cuda.grid(1)]
    for offset in (16, 8, 4, 2, 1):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
    if cuda.laneid == 0:
        out[cuda.grid(1) // 32] = v


@vectorize(["float64(float64, float64)"], target="cuda")
def mixture(x, y):
    return math.exp(-x * x) * math.sin(y) + math.log1p(abs(x)) / math.sqrt(1 + y * y) + math.atan2(x, y) + math.erf(x)


@cuda.reduce
def total(a, b):
    return a + b


rng = np.random.default_rng(7)
a, b = rng.standard_normal((70, 45), np.float32), rng.standard_normal((45, 33), np.float32)
c = np.zeros((70, 33), np.float32)
matmul[(3, 5), (16, 16)](a, b, c)
assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4
digest("matmul", c)

image = np.zeros((40, 60), np.int32)
mandelbrot[(4, 5), (16, 8)](image, 50)
expected = np.full(image.shape, 50, np.int32)
for y in range(40):
    for x in range(60):
        p, z = complex(-2 + 3 * x / 60, -1 + 2 * y / 40), 0j
        for i in range(50):
            z = z * z + p
            if z.real * z.real + z.imag * z.imag > 4:
                expected[y, x] = i
                break
assert (image != expected).mean() < 0.01  # contraction may move points on the edge
digest("mandelbrot", image)

values = rng.integers(0, 1 << 20, 5000).astype(np.int32)
bins = cuda.to_device(np.zeros(32, np.int32))
stream = cuda.stream()
on_device = cuda.to_device(values, stream)
for _ in range(60):  # enough for whoever looks for repetition
    histogram[4, 64, stream](on_device, bins)
stream.synchronize()
assert (bins.copy_to_host() == 60 * np.bincount(values % 32, minlength=32)).all()
digest("histogram", bins.copy_to_host())

sums = np.zeros(8, np.int64)
warp_sums[2, 128](np.arange(256, dtype=np.int64), sums)
assert (sums == np.arange(256).reshape(8, 32).sum(1)).all()

x, y = rng.standard_normal(1000), rng.standard_normal(1000)
got = mixture(x, y)
erf = np.array([math.erf(v) for v in x])
want = np.exp(-x * x) * np.sin(y) + np.log1p(np.abs(x)) / np.sqrt(1 + y * y) + np.arctan2(x, y) + erf
assert np.abs(got - want).max() < 1e-14, np.abs(got - want).max()
digest("mixture", got)

assert total(np.arange(4000, dtype=np.int64)) == 4000 * 3999 // 2
try:
    cuda.device_array(1 << 58, np.uint8)
except cuda.cudadrv.driver.CudaAPIError as error:
    print("out of memory:", error.code)
print("PASSED")
