#!/usr/bin/env python3
"""Exit status 0 if this machine has a CUDA driver that initialises and sees a device, 1 otherwise; says which on --verbose."""
import ctypes
import sys


def answer():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False, "libcuda.so.1 is not installed"
    status = driver.cuInit(0)
    if status != 0:
        return False, f"cuInit returned {status}"
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value > 0, f"{count.value} devices"


def devices():
    """One line a device, asked from the driver: containers with a driver often have no nvidia-smi."""
    driver = ctypes.CDLL("libcuda.so.1")
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    lines = []
    for ordinal in range(count.value):
        name, size = ctypes.create_string_buffer(256), ctypes.c_size_t(0)
        driver.cuDeviceGetName(name, len(name), ordinal)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), ordinal)
        lines.append(f"{name.value.decode(errors='replace')}, {size.value / 2**30:.0f} GiB, "
                     f"driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}")
    return lines


if __name__ == "__main__":
    found, why = answer()
    if "--verbose" in sys.argv:
        print(why)
    sys.exit(0 if found else 1)
