#!/usr/bin/env python3
"""Programs that have nothing to do with CUDA run unharmed with libshunt.so preloaded: same output, same status, nothing said."""
import argparse
import os
import sys
import tempfile

from run_apps import base_env, run

PYTHON = """
import ctypes, hashlib, os, subprocess, sys, threading
print(hashlib.sha256(b'shunt').hexdigest())
handle = ctypes.CDLL(None)
print(handle.getpid() == os.getpid())
print(subprocess.check_output(['sh', '-c', 'echo child; exit 0']).decode())
pid = os.fork()
if pid == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
threads = [threading.Thread(target=lambda: sum(range(1000))) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
try:
    ctypes.CDLL('libsurely_absent.so.9')
except OSError as e:
    print('absent')
try:
    handle.cuNoSuchFunction
except AttributeError:
    print('no symbol')
sys.exit(5)
"""

CASES = {
    "true": ["/bin/true"],
    "false": ["/bin/false"],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $i | (read x; echo got $x); done; kill -0 $$; exit 3"],
    "bash job": ["bash", "-c", "sleep 0.05 & wait $!; echo $?; trap 'echo trapped' EXIT; cat <(echo substituted)"],
    "signal": ["bash", "-c", "kill -TERM $$"],
    "abort": [sys.executable, "-c", "import os; os.abort()"],
    "python": [sys.executable, "-c", PYTHON],
    "exec chain": ["env", "A=b", "sh", "-c", "exec python3 -c 'import os; print(os.environ[\"A\"])'"],
    "git": ["sh", "-c", "git init -q -b main r && cd r && git -c user.name=n -c user.email=e@x commit -q --allow-empty -m first "
                        "&& git log --format=%s && git fsck 2>&1 && git status --short"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    shim = os.path.join(os.path.abspath(args.build), "lib/libshunt.so")
    if not os.path.exists(shim):
        sys.exit(f"{shim} is not built")
    failed = 0
    for name, command in CASES.items():
        results = []
        for preload in (None, shim):
            env = base_env()
            if preload:
                env["LD_PRELOAD"] = preload
            with tempfile.TemporaryDirectory() as folder:
                here = os.getcwd()
                os.chdir(folder)
                try:
                    results.append(run(command, env, 60))
                finally:
                    os.chdir(here)
        plain, shunt = results
        same = (plain.status, plain.out, plain.err) == (shunt.status, shunt.out, shunt.err)
        print(f"{name:12} status {plain.status:4} {'ok' if same else 'DIFFERS'}")
        if not same:
            failed += 1
            print(f"  without: {plain.status} {plain.out!r} {plain.err!r}\n  with:    {shunt.status} {shunt.out!r} {shunt.err!r}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
