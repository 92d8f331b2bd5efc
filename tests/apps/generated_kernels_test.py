#!/usr/bin/env python3
"""Ten kernels made today from a seed (the date, or SHUNT_KERNEL_SEED) and ten from a fixed one, each compared with the host
evaluation of the same expression trees, on simgpu alone and with shunt."""
import argparse
import datetime
import os
import subprocess
import sys

import gen_kernels
from run_apps import run, sim_env

FIXED_SEED = "first"


def build(nvcc, folder, seed):
    source = os.path.join(folder, f"generated_{seed}.cu")
    program = source[:-3]
    with open(source, "w") as f:
        f.write(gen_kernels.generate(seed, 10))
    command = [nvcc, "-O2", "-std=c++17", "-I", os.path.dirname(os.path.abspath(__file__)), "-cudart", "shared", "-fmad=false",
               "-Xcompiler", "-ffp-contract=off,-w", "-w", "-gencode", "arch=compute_75,code=compute_75", source, "-o", program]
    subprocess.run(command, check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--seed", action="append", help="run these seeds instead")
    args = parser.parse_args()
    build_dir = os.path.abspath(args.build)
    folder = os.path.join(build_dir, "tests/apps/generated")
    os.makedirs(folder, exist_ok=True)
    today = os.environ.get("SHUNT_KERNEL_SEED") or datetime.date.today().isoformat()
    failed = 0
    for seed in args.seed or [FIXED_SEED, today]:
        print(f"seed {seed} (repeat with SHUNT_KERNEL_SEED={seed})", flush=True)
        program = build(args.nvcc, folder, seed)
        plain = run([program], sim_env(build_dir, "b200:1"), 120)
        env = dict(sim_env(build_dir, "b200:1"), LD_PRELOAD=os.path.join(build_dir, "lib/libshunt.so"))
        shunt = run([program], env, 120)
        sys.stdout.write(plain.out)
        if plain.status != 0:
            print(f"FAILED on simgpu: status {plain.status}\n{plain.err}")
            failed += 1
        elif (shunt.status, shunt.out, shunt.err) != (plain.status, plain.out, plain.err):
            print(f"FAILED: differs with shunt\n{shunt.out}{shunt.err}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
