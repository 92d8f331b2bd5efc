"""tinygrad: a small network trained through its CUDA back end (DEV names it), against the same in float64 by NumPy."""
import zlib

import numpy as np
from tinygrad import Device, Tensor, dtypes

print(Device.DEFAULT)
STEPS, RATE = 10, 0.5
rng = np.random.default_rng(1)
samples = rng.standard_normal((64, 16)).astype(np.float32)
labels = (samples @ rng.standard_normal((16, 4)).astype(np.float32)).argmax(1).astype(np.int32)
first = (rng.standard_normal((16, 32)) * 0.2).astype(np.float32)
second = (rng.standard_normal((32, 4)) * 0.2).astype(np.float32)

w1, w2 = Tensor(first).contiguous().realize(), Tensor(second).contiguous().realize()
x, y = Tensor(samples), Tensor(labels)
losses = []
for _ in range(STEPS):
    loss = (x @ w1).relu().matmul(w2).sparse_categorical_crossentropy(y)
    g1, g2 = loss.gradient(w1, w2)
    losses.append(loss.item())
    w1, w2 = (w1 - RATE * g1).contiguous().realize(), (w2 - RATE * g2).contiguous().realize()
print("losses", " ".join(v.hex() for v in losses))

a, b, expected = first.astype(np.float64), second.astype(np.float64), []
for _ in range(STEPS):
    h = samples @ a
    r = np.maximum(h, 0)
    z = r @ b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    expected.append(-np.log(p[np.arange(64), labels]).mean())
    g = p.copy()
    g[np.arange(64), labels] -= 1
    g /= 64
    gb, gr = r.T @ g, (g @ b.T) * (h > 0)
    a, b = a - RATE * (samples.T @ gr), b - RATE * gb
assert np.abs(np.array(losses) - np.array(expected)).max() < 2e-6
assert losses[-1] < 0.7 * losses[0]

# A convolution, a reduction over an axis, half precision, sorting, random numbers.
pixels = rng.standard_normal((2, 3, 20, 20)).astype(np.float32)
stencil = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
image, kernel = Tensor(pixels), Tensor(stencil)
windows = np.lib.stride_tricks.sliding_window_view(pixels.astype(np.float64), (3, 3), axis=(2, 3))
assert np.abs(image.conv2d(kernel).numpy() - np.einsum("bcyxij,ocij->boyx", windows, stencil)).max() < 2e-5
powers = np.exp(pixels.astype(np.float64))
assert np.abs(image.softmax(-1).numpy() - powers / powers.sum(-1, keepdims=True)).max() < 1e-6
assert (image.reshape(-1)[:256].sort()[0].numpy() == np.sort(pixels.reshape(-1)[:256])).all()
for name, value in (("conv2d", image.conv2d(kernel)), ("softmax", image.softmax(-1)), ("half", image.cast(dtypes.half).exp()),
                    ("sort", image.reshape(-1)[:256].sort()[0]), ("cumsum", image.cumsum(2))):
    print(name, f"{zlib.crc32(value.numpy().tobytes()):08x}")
Tensor.manual_seed(3)
print("random", f"{zlib.crc32(Tensor.rand(1000).numpy().tobytes()):08x}")
print("PASSED")
