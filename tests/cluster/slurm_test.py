#!/usr/bin/env python3
"""Slurm: munged, slurmctld and slurmd of this machine on ports of their own, GRES with four devices, and the recipes of
scripts/cluster/slurm as its Prolog, Epilog and TaskProlog."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import common


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    def __init__(self, job):
        self.job, self.daemons = job, []
        self.at = f = job.folder + "/slurm"
        os.makedirs(f, mode=0o755)
        for sub in ("state", "spool", "munge", "log"):
            os.mkdir(f"{f}/{sub}", mode=0o755)
        # An installation as the package lays it out, with the recipes' settings changed where an administrator would.
        self.prefix = f + "/prefix"
        os.makedirs(self.prefix + "/share/shunt/cluster")
        os.symlink(job.build + "/bin", self.prefix + "/bin")
        os.symlink(job.build + "/lib", self.prefix + "/lib")
        self.recipes = self.prefix + "/share/shunt/cluster/slurm"
        shutil.copytree(common.CLUSTER + "/slurm", self.recipes)
        self.change("prolog", "log=/var/log/shunt", f"log={f}/log")
        for i in range(4):
            try:
                os.mknod(f"{f}/gpu{i}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            except PermissionError:
                common.skip("GRES wants device files, and mknod is not permitted here")
        host = socket.gethostname().split(".")[0]
        with open(f + "/slurm.conf", "w") as out:
            out.write(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={f}/munge/socket
CredType=cred/munge
StateSaveLocation={f}/state
SlurmdSpoolDir={f}/spool
SlurmctldPidFile={f}/slurmctld.pid
SlurmdPidFile={f}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
PrologFlags=Alloc
Prolog={self.recipes}/prolog
Epilog={self.recipes}/epilog
TaskProlog={self.recipes}/task_prolog
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        with open(f + "/gres.conf", "w") as out:
            out.write(f"Name=gpu File={f}/gpu[0-3]\n")
        with open(f + "/cgroup.conf", "w") as out:
            out.write("CgroupAutomount=no\nIgnoreSystemd=yes\n")
        with open(f + "/munge/key", "wb") as out:
            out.write(os.urandom(1024))
        os.chmod(f + "/munge/key", 0o400)

    def change(self, file, old, new):
        path = f"{self.recipes}/{file}"
        text = open(path).read()
        assert old in text, (file, old)
        with open(path, "w") as out:
            out.write(text.replace(old, new))

    def environment(self, **more):
        return self.job.environment(SLURM_CONF=self.at + "/slurm.conf", **more)

    def start(self):
        m = self.at + "/munge"
        for name, command in (("munged", ["munged", "--foreground", "--force", f"--socket={m}/socket", f"--key-file={m}/key",
                                          f"--pid-file={m}/pid", f"--log-file={m}/log", f"--seed-file={m}/seed"]),
                              ("slurmctld", ["slurmctld", "-D"]), ("slurmd", ["slurmd", "-D"])):
            log = open(f"{self.at}/{name}.out", "w")
            self.daemons.append(subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            if name == "munged":
                self.wait(lambda: os.path.exists(m + "/socket"), "munged's socket")
        self.wait(lambda: "idle" in self.job.run("sinfo", "-h", "-o", "%T", env=self.environment())[1], "an idle node")

    def wait(self, condition, what):
        end = time.monotonic() + 40
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.1)
        logs = "\n".join(open(p, errors="replace").read()[-2000:] for p in glob.glob(self.at + "/*.out"))
        raise AssertionError(f"{what} after 40 s: no\n{logs}")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def srun(self, *command, gpus=True, ranks=4, **more):
        each = ["--gpus-per-task=1"] if gpus else []
        return self.job.run("srun", "-n", str(ranks), *each, *command, env=self.environment(**more))


def tests(job):
    if os.geteuid() != 0:
        common.skip("slurmd starts tasks as other users and so runs as root only")
    for tool in ("munged", "slurmctld", "slurmd", "srun", "sbatch"):
        assert shutil.which(tool), f"{tool} is not installed: scripts/setup --tests"
    cluster = Cluster(job)
    try:
        cluster.start()
        recipes(job, cluster)
    finally:
        cluster.stop()


def on_plain_box(job, cluster, *command, **more):
    """A simulated box whose programs do not run under shunt until somebody puts it there."""
    plain = 'export LD_PRELOAD="${LD_PRELOAD#*libshunt.so:}"; unset SHUNT_PLACED SHUNT_RUN_ID CUDA_DEVICE_ORDER; cd "$0"; exec env "$@"'
    settings = [f"{k}={v}" for k, v in more.items()]
    return job.simulated("sh", "-c", plain, job.folder, *settings, *command, flags=("-q",), env=cluster.environment())


def recipes(job, cluster):
    # A job under shunt run: srun exports the environment, every task has one of the box's four devices by GRES.
    trace = job.folder + "/srun"
    env = cluster.environment()
    job.judge(job.simulated("srun", "-n", "4", "--gpus-per-task=1", job.program, flags=("-q", "-o", trace), env=env))
    assert job.processes_traced(trace + ".shunt") >= 4
    print("shunt run -- srun: 4 tasks on 4 devices, all traced: ok")
    job.judge(job.simulated("srun", "-n", "4", "--gpus-per-task=1", job.tool, "run", "-q", "--", job.program, env=cluster.environment()))
    print("srun shunt run --: 4 tasks on 4 devices: ok")

    # The TaskProlog. policy=ask: a task with a GPU whose job sets a SHUNT_* variable, and no other.
    show = ("sh", "-c", "echo preload=$LD_PRELOAD")
    preloads = lambda **more: re.findall(r"preload=(\S*)", cluster.srun(*show, ranks=2, **more)[1])
    ours = job.build + "/lib/libshunt.so"
    assert preloads() == ["", ""], "policy ask, nothing asked"
    resolved = lambda found: [os.path.realpath(p.split(":")[0]) for p in found]
    assert resolved(preloads(SHUNT_OOM="retry")) == [os.path.realpath(ours)] * 2, "policy ask, asked"
    assert preloads(SHUNT_OOM="retry", gpus=False) == ["", ""], "no GPU"
    assert preloads(SHUNT_OOM="retry", SHUNT_DISABLE="1") == ["", ""], "disabled"
    other = preloads(SHUNT_OOM="retry", LD_PRELOAD="/lib/x86_64-linux-gnu/libm.so.6")
    assert [p.split(":")[1:] for p in other] == [["/lib/x86_64-linux-gnu/libm.so.6"]] * 2, other
    cluster.change("task_prolog", "policy=ask", "policy=all")
    assert resolved(preloads()) == [os.path.realpath(ours)] * 2, "policy all"
    assert preloads(SHUNT_DISABLE="1") == ["", ""], "policy all, disabled"
    print("TaskProlog: ask, all, disabled, no GPU, other preloads: ok")

    # What the TaskProlog starts is shunt at work: the job's ranks leave traces.
    job.judge(on_plain_box(job, cluster, "srun", "-n", "4", "--gpus-per-task=1", job.program, SHUNT_TRACE=job.folder + "/prolog"))
    assert job.processes_traced(job.folder + "/prolog.shunt") == 4
    print("TaskProlog on a real job: 4 ranks, 4 traced: ok")

    missing = cluster.prefix + "-away"
    os.rename(cluster.prefix + "/lib", missing)
    os.symlink(cluster.at, cluster.prefix + "/lib")
    code, out, err = cluster.srun("echo", "ran", ranks=1)
    os.unlink(cluster.prefix + "/lib")
    os.rename(missing, cluster.prefix + "/lib")
    assert code == 0 and "ran" in out and "no libshunt.so below" in out, (code, out, err)
    print("TaskProlog without an installation: says so, the task runs: ok")

    # The example of a batch job, as shipped.
    with open(f"{cluster.recipes}/job.sbatch") as file:
        script = file.read()
    batch = job.folder + "/job.sbatch"
    with open(batch, "w") as out:
        out.write(script)
    code, out, err = on_plain_box(job, cluster, "sbatch", "--wait", "-o", job.folder + "/batch.out", batch, job.program)
    job.judge((code, open(job.folder + "/batch.out").read(), err))
    number = re.search(r"job (\d+)", out).group(1)
    assert job.processes_traced(f"{job.folder}/trace-{number}.shunt") == 4
    print("job.sbatch: 4 ranks, trace named after the job: ok")

    # The Prolog kept doctor's answer for every job, and no job was refused though this node has no driver.
    logs = glob.glob(cluster.at + "/log/doctor.*.json")
    assert logs, "the prolog wrote nothing"
    findings = json.load(open(logs[0]))
    assert findings["findings"], findings
    assert "idle" in job.run("sinfo", "-h", "-o", "%T", env=cluster.environment())[1]
    print(f"Prolog: doctor's answer kept for {len(logs)} jobs: ok")

    # With drain=1 an error of doctor's (here: no driver at all) takes the node out, as a failing prolog does.
    cluster.change("prolog", "drain=0", "drain=1")
    job.run("srun", "-n", "1", "--immediate=5", "true", env=cluster.environment(), limit=40)
    cluster.wait(lambda: "drain" in job.run("sinfo", "-h", "-o", "%T", env=cluster.environment())[1], "a drained node")
    print("Prolog with drain=1: a node that doctor finds an error on is drained: ok")

    # The Epilog gives back what a killed process held. A rank of two that waits for the other holds its arrays.
    script = f"""{job.program} & rank=$!
for i in $(seq 100); do {job.tool} ledger --json | grep -q job_rank && break; sleep 0.1; done
kill -KILL $rank; wait $rank 2>/dev/null
{job.tool} ledger | grep -c "job_rank (ended)"
SLURM_JOB_USER=root SLURM_JOB_ID=1 {cluster.recipes}/epilog; echo "epilog $?"
{job.tool} ledger | grep -c job_rank"""
    code, out, err = job.simulated("sh", "-c", script, ranks=1, flags=("-q",), env=job.environment(WORLD_SIZE="2", RANK="0"))
    assert out.split() == ["1", "epilog", "0", "0"], (out, err)
    print("Epilog: the ledger forgets a killed rank: ok")


common.main(tests)
