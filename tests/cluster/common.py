"""What the launchers' tests share: the build, a folder of their own, clean variables, and how a job's lines are judged."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLUSTER = SOURCE + "/scripts/cluster"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


class Job:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.tool = build + "/bin/shunt"
        self.program = build + "/tests/apps/job_rank"
        self.count = 0

    def environment(self, **more):
        """Nothing of a surrounding test or launcher; a new rendezvous file for every job."""
        drop = ("SHUNT_", "SIMGPU_", "LD_", "OMPI_", "PMIX_", "SLURM_", "CUDA_VISIBLE")
        self.count += 1
        out = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
        out.update(JOB_ID_FILE=f"{self.folder}/id.{self.count}", JOB_SHOW_DEVICE="1", HOME=self.folder, **more)
        return out

    def run(self, *command, env, limit=90, **options):
        done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit, **options)
        return done.returncode, done.stdout, done.stderr

    def simulated(self, *command, ranks=4, flags=(), env=None):
        """The launcher inside `shunt run --sim`: all its ranks meet on one simulated box."""
        return self.run(self.tool, "run", "--sim", f"b200:{ranks}", *flags, "--", *command, env=env or self.environment())

    def judge(self, result, ranks=4, devices=None):
        code, out, err = result
        assert code == 0, f"exit {code}\n{out}\n{err}"
        done = sorted(int(r) for r in re.findall(rf"rank (\d+) of {ranks}: ok", out))
        assert done == list(range(ranks)), f"ranks that finished: {done}\n{out}\n{err}"
        seen = set(re.findall(rf"of {ranks} device (\S+)", out))
        assert len(seen) == (devices or ranks), f"devices used: {seen}"
        return out, err

    def processes_traced(self, trace):
        text = subprocess.run([self.tool, "trace", "summary", trace], capture_output=True, text=True, env=self.environment()).stdout
        found = re.search(r"(\d+) process", text)
        return int(found.group(1)) if found else 0


def main(tests):
    """tests: function(job). Runs them in one scratch folder under the build, which any user's daemon may enter."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    assert os.path.exists(build + "/tests/apps/job_rank"), "build/tests/apps/job_rank is not built"
    folder = tempfile.mkdtemp(prefix="shunt-cluster-")
    os.chmod(folder, 0o755)
    try:
        tests(Job(build, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
