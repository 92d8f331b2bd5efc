#!/usr/bin/env python3
"""Open MPI: mpirun under shunt, shunt under mpirun, and a failing rank's status."""
import shutil

import common


def tests(job):
    assert shutil.which("mpirun"), "mpirun is not installed: scripts/setup --tests"
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "pml", "ob1", "-n"]

    trace = job.folder + "/outside"
    job.judge(job.simulated(*mpirun, "4", job.program, flags=("-q", "-o", trace)))
    assert job.processes_traced(trace + ".shunt") == 4, "the trace has one file a rank"
    print("shunt run -- mpirun: 4 ranks on 4 devices, 4 traced: ok")

    out, err = job.judge(job.simulated(*mpirun, "4", job.tool, "run", "--", job.program))
    assert err.count("[multi-rank-job]") == 4, err
    print("mpirun shunt run --: 4 ranks on 4 devices, each keeps its own: ok")

    job.judge(job.simulated(*mpirun, "2", job.program, ranks=2), ranks=2)
    job.judge(job.simulated(*mpirun, "4", job.program, flags=("--placement=off", "--graphs=off", "--oom=off")))
    print("2 ranks, and 4 with every engine off: ok")

    # mpirun's own verdict on a rank that fails must survive both orders.
    plain = job.run(*mpirun, "2", "sh", "-c", "exit 7", env=job.environment())[0]
    outside = job.simulated(*mpirun, "2", "sh", "-c", "exit 7")[0]
    inside = job.simulated(*mpirun, "2", job.tool, "run", "-q", "--", "sh", "-c", "exit 7")[0]
    assert plain == outside == inside == 7, (plain, outside, inside)
    print("exit status 7 of a rank: the same plainly, under and inside shunt: ok")


common.main(tests)
