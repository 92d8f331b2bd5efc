#!/usr/bin/env python3
"""What PyTorch's libraries compute, as hashes of the bits: cuBLAS and cuBLASLt by matrix products, cuDNN by convolutions and
normalisation, and a short training run over both. They call the driver through its private tables, which shunt cannot see, so
only equal bits show that nothing was disturbed. scripts/gpu-check runs it with and without the preload.

  scripts/torch_bits.py [--device cuda|cpu]        exit status 77: no PyTorch or no device, with the reason
"""
import argparse
import hashlib
import sys


def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().cpu().view(t.numel(), 1).contiguous().view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def products(device):
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        a, b = torch.randn(384, 640).to(device, kind), torch.randn(640, 512).to(device, kind)
        yield f"matmul {kind}", digest(a @ b)
        yield f"linear with bias {kind}", digest(torch.nn.functional.linear(a, b.t().contiguous(), torch.randn(512).to(device, kind)))
    yield "batched matmul", digest(torch.bmm(torch.randn(16, 64, 96).to(device), torch.randn(16, 96, 32).to(device)))


def convolutions(device):
    layer = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 4, 5)).to(device)
    x = torch.randn(4, 8, 32, 32).to(device).requires_grad_()
    y = layer(x)
    y.square().mean().backward()
    yield "convolution forward", digest(y)
    yield "convolution backward", digest(x.grad, *(p.grad for p in layer.parameters()))


def training(device):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Linear(128, 10)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(256, 64).to(device), torch.randint(0, 10, (256,)).to(device)
    for _ in range(50):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    yield "50 training steps", digest(*model.parameters())


def main():
    global torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    device = parser.parse_args().device
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 77
    if device == "cuda" and not torch.cuda.is_available():
        print("PyTorch sees no CUDA device")
        return 77
    torch.use_deterministic_algorithms(True)
    for part in (products, convolutions, training):
        torch.manual_seed(1)
        for name, bits in part(device):
            print(name, bits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
