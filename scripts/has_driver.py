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


if __name__ == "__main__":
    found, why = answer()
    if "--verbose" in sys.argv:
        print(why)
    sys.exit(0 if found else 1)
