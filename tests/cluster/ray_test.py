#!/usr/bin/env python3
"""A real local Ray: tasks with scripts/cluster/ray's runtime_env run under shunt, tasks without it do not."""
import os
import sys

import common

# The driver program, as a user writes it; runs inside a simulated box whose programs are not under shunt by themselves.
DRIVER = r"""
import ctypes, json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
prefix, program, folder = sys.argv[2:5]
import ray
import shunt_runtime_env

ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20, _temp_dir=folder + "/ray")

@ray.remote(num_gpus=1)
def rank(r):
    environment = dict(os.environ, RANK=str(r), WORLD_SIZE="2", LOCAL_RANK="0")
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, os.environ["CUDA_VISIBLE_DEVICES"]

@ray.remote(num_gpus=1)
def devices():
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(-1)
    status = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count))]
    mapped = [l.split()[-1] for l in open("/proc/self/maps") if "libshunt" in l]
    return status, count.value, sorted(set(os.path.basename(m) for m in mapped))

under = shunt_runtime_env.runtime_env(prefix, SHUNT_TRACE=folder + "/ray-trace")
out = {"ranks": ray.get([rank.options(runtime_env=under).remote(r) for r in range(2)]),
       "under": ray.get(devices.options(runtime_env=under).remote()), "plain": ray.get(devices.remote())}
print("RESULT " + json.dumps(out))
ray.shutdown()
"""


def wrong_use():
    sys.path.insert(0, common.CLUSTER + "/ray")
    import shunt_runtime_env
    for arguments, settings, word in ((("/no/such",), {}, "/no/such"), ((), {"OOM": "spill"}, "OOM")):
        try:
            shunt_runtime_env.runtime_env(*(arguments or ("/",)), **settings)
        except (FileNotFoundError, ValueError) as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{arguments} {settings}: accepted")


def tests(job):
    import json
    import re
    wrong_use()
    python = common.SOURCE + "/.venv/bin/python"
    if job.run(python, "-c", "import ray", env=job.environment())[0] != 0:
        common.skip("Ray is not in .venv (scripts/setup --tests fetches it; the registry was not reached)")
    driver = job.folder + "/driver.py"
    with open(driver, "w") as file:
        file.write(DRIVER)
    env = job.environment(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    plain = 'export LD_PRELOAD="${LD_PRELOAD#*libshunt.so:}"; unset SHUNT_PLACED SHUNT_RUN_ID; exec "$@"'
    code, out, err = job.simulated("sh", "-c", plain, "sh", python, driver, common.CLUSTER + "/ray", job.build, job.program, job.folder,
                                   ranks=2, flags=("-q",), env=env)
    assert code == 0, out + err
    result = json.loads(re.search(r"^RESULT (.*)$", out, re.M).group(1))
    text = "\n".join(r[1] for r in result["ranks"])
    job.judge((max(r[0] for r in result["ranks"]), text, ""), ranks=2)
    assert {r[2] for r in result["ranks"]} == {"0", "1"}, result
    assert job.processes_traced(job.folder + "/ray-trace.shunt") >= 2
    assert result["under"] == [[0, 0], 1, ["libshunt.so", "libshunt_rt.so"]], result["under"]
    assert result["plain"] == [[0, 0], 1, []], result["plain"]
    print("2 ranks as Ray tasks under shunt, traced, one device each; a task without the runtime_env has no shunt: ok")


common.main(tests)
