#!/usr/bin/env python3
"""The `shunt` command as its users meet it. Every case runs the built command; none needs a GPU."""
import argparse
import json
import os
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = ""


def clean_env(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("SHUNT_", "SIMGPU_")) and k not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "XDG_CONFIG_HOME")}
    env.update(more)
    return env


class Case(unittest.TestCase):
    def setUp(self):
        self.shunt = os.path.join(BUILD, "bin/shunt")
        self.lib = os.path.join(BUILD, "lib")
        self.folder = tempfile.TemporaryDirectory()
        self.dir = self.folder.name
        self.env = clean_env(HOME=self.dir)

    def tearDown(self):
        self.folder.cleanup()

    def run_shunt(self, *arguments, env=None, cwd=None, timeout=60):
        return subprocess.run([self.shunt, *arguments], env=env or self.env, cwd=cwd or self.dir, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout)

    def app(self, name="vecadd"):
        app = os.path.join(BUILD, "tests/apps", name)
        if not os.access(app, os.X_OK):
            self.skipTest("tests/apps is not built")
        return app

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(self.path(name), mode)
        return self.path(name)

    def assert_error(self, done, status, *words):
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("[shunt] error: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])


class Status(Case):
    MODES = ([], ["--summary"])

    def test_exit_status(self):
        for mode in self.MODES:
            for status in (0, 1, 7, 41, 255):
                self.assertEqual(self.run_shunt("run", "-q", *mode, "--", "sh", "-c", f"exit {status}").returncode, status)

    def test_signals(self):
        for name in ("TERM", "KILL", "SEGV", "ABRT"):
            number = int(getattr(signal, "SIG" + name))
            command = ["--", "sh", "-c", f"kill -{name} $$"]
            self.assertEqual(self.run_shunt("run", "-q", *command).returncode, -number, "exec: native")
            self.assertEqual(self.run_shunt("run", "-q", "--summary", *command).returncode, 128 + number, "supervised: as a shell")

    def test_pid_is_the_programs(self):
        p = subprocess.Popen([self.shunt, "run", "-q", "--", "sh", "-c", "echo $$"], env=self.env, stdout=subprocess.PIPE, text=True)
        self.assertEqual(int(p.communicate()[0]), p.pid)

    def test_supervisor_forwards_signals(self):
        for name, number in (("TERM", 15), ("USR1", 10), ("INT", 2), ("HUP", 1)):
            script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
            p = subprocess.Popen([self.shunt, "run", "-q", "--summary", "--", "sh", "-c", script], env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
            self.assertEqual(p.stdout.readline(), "ready\n")
            p.send_signal(number)
            self.assertEqual(p.communicate(timeout=20)[0], f"got {name}\n")
            self.assertEqual(p.returncode, 9)

    def test_supervisor_stops_with_the_program(self):
        p = subprocess.Popen([self.shunt, "run", "-q", "--summary", "--", "sh", "-c", "kill -STOP $$; exit 3"], env=self.env,
                             stderr=subprocess.DEVNULL, start_new_session=True)
        _, status = os.waitpid(p.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        os.killpg(p.pid, signal.SIGCONT)
        _, status = os.waitpid(p.pid, 0)
        p.returncode = 0
        self.assertEqual(os.waitstatus_to_exitcode(status), 3)

    def test_program_arguments_are_untouched(self):
        odd = ["--graphs=off", "--", "-q", "", "a b", "ü\n"]
        done = self.run_shunt("run", "-q", "--", sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *odd)
        self.assertEqual(json.loads(done.stdout), odd)
        done = self.run_shunt("run", "-q", "echo", "--summary", "x")  # without "--" options end at the program
        self.assertEqual(done.stdout, "--summary x\n")

    def test_stdin_and_stdout_belong_to_the_program(self):
        done = subprocess.run([self.shunt, "run", "--", "cat"], env=self.env, input="hello", capture_output=True, text=True)
        self.assertEqual(done.stdout, "hello")
        self.assertTrue(all(line.startswith("[shunt] ") for line in done.stderr.splitlines()))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(self.run_shunt("run", "-q", "--", "true").stderr, "")


class Refusals(Case):
    def test_missing_and_not_executable(self):
        self.assert_error(self.run_shunt("run", "--", "/no/such/program"), 127, "/no/such/program")
        self.assert_error(self.run_shunt("run", "--", "surely-not-installed"), 127, "surely-not-installed", "PATH")
        plain = self.write("plain", "#!/bin/sh\n")
        self.assert_error(self.run_shunt("run", "--", plain), 126, plain, "chmod +x")
        self.assert_error(self.run_shunt("run", "--", self.dir), 126, "folder")
        lost = self.write("lost", "#!/no/such/interpreter\n", 0o755)
        for mode in ([], ["--summary"]):
            self.assert_error(self.run_shunt("run", "-q", *mode, "--", lost), 127, "interpreter")
        text = self.write("text", "no format at all", 0o755)
        self.assert_error(self.run_shunt("run", "-q", "--", text), 126, "executable format")

    def test_foreign_executables(self):
        elf32 = self.write("elf32", b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x03\x00\x01\x00\x00\x00" + bytes(28), 0o755)
        self.assert_error(self.run_shunt("run", "--", elf32), 126, "32-bit")
        arm = self.write("arm", b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, 183, 1) + bytes(40), 0o755)
        self.assert_error(self.run_shunt("run", "--", arm), 126, "another processor")
        torn = self.write("torn", b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, 62, 1) + b"\xff" * 40, 0o755)
        self.assertIn(self.run_shunt("run", "-q", "--", torn).returncode, (126, -11))  # the kernel's business, but no crash of ours

    @unittest.skipUnless(os.geteuid() == 0, "changing owners needs root")
    def test_setuid(self):
        copy = self.path("setuid")
        shutil.copy("/bin/true", copy)
        os.chown(copy, 12345, 12345)
        os.chmod(copy, stat.S_ISUID | 0o755)
        self.assert_error(self.run_shunt("run", "--", copy), 126, "setuid")

    def test_options(self):
        self.assert_error(self.run_shunt("run", "--placment=on", "--", "true"), 125, "--placment", "did you mean --placement?")
        self.assert_error(self.run_shunt("run", "--xyzzy-plugh", "--", "true"), 125, "--xyzzy-plugh", "--help")
        self.assert_error(self.run_shunt("run", "--graphs", "shadwo", "--", "true"), 125, "--graphs", "shadwo", "did you mean 'shadow'")
        self.assert_error(self.run_shunt("run", "--trace-max=lots", "--", "true"), 125, "lots", "64MiB")
        self.assert_error(self.run_shunt("run", "--trace-max"), 125, "needs a value")
        self.assert_error(self.run_shunt("run", "--hint", "mem=huge", "--", "true"), 125, "huge", "mem=200GiB")
        self.assert_error(self.run_shunt("run", "--hint", "memm=1GiB", "--", "true"), 125, "did you mean 'mem='")
        self.assert_error(self.run_shunt("run", "--hint", "model=b2000", "--", "true"), 125, "did you mean model=b200")
        self.assert_error(self.run_shunt("run"), 125, "no program")
        self.assert_error(self.run_shunt("run", "--config", "/no/such.toml", "--", "true"), 125, "/no/such.toml")
        self.assert_error(self.run_shunt("runn", "true"), 125, "runn", "`shunt run`")
        self.assert_error(self.run_shunt("help", "enviroment"), 125, "enviroment")

    def test_sim_specification(self):
        for spec, word in (("b2000:1", "did you mean 'b200'"), ("b200:0", "b200:0"), ("b200:1@mem=lots", "lots"), ("b200:1@colour=red", "colour")):
            self.assert_error(self.run_shunt("run", "--sim", spec, "--", "true"), 125, word)
        self.assert_error(self.run_shunt("run", "--sim", "b200:1", "--sim-links", "nvlink99", "--", "true"), 125, "nvlink99")

    def test_incomplete_installation(self):
        os.makedirs(self.path("bin"))
        os.makedirs(self.path("lib"))
        shutil.copy(self.shunt, self.path("bin/shunt"))
        self.shunt = self.path("bin/shunt")
        self.assert_error(self.run_shunt("run", "--", "true"), 125, "libshunt.so", self.path("lib"))
        shutil.copy(os.path.join(BUILD, "lib/libshunt.so"), self.path("lib"))
        self.assert_error(self.run_shunt("run", "--", "true"), 125, "libshunt_rt.so")
        shutil.copy(os.path.join(BUILD, "lib/libshunt_rt.so"), self.path("lib"))
        self.assertEqual(self.run_shunt("run", "--", "true").returncode, 0)
        self.assert_error(self.run_shunt("run", "--sim", "b200:1", "--", "true"), 125, "simgpu")


class Environment(Case):
    def variables(self, *arguments, env=None):
        done = self.run_shunt("run", "-q", *arguments, "--", "env", "-0", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(e.split("=", 1) for e in done.stdout.split("\0") if "=" in e)

    def test_preload_is_prepended(self):
        other = self.path("libother.so")
        subprocess.run(["cc", "-shared", "-o", other, "-x", "c", "/dev/null"], check=True)
        env = dict(self.env, LD_PRELOAD=other)
        self.assertEqual(self.variables(env=env)["LD_PRELOAD"], f"{self.lib}/libshunt.so:{other}")
        preload = self.variables("--sim", "b200:1", env=env)["LD_PRELOAD"].split(":")
        self.assertEqual(preload[0], f"{self.lib}/libshunt.so")
        self.assertEqual(preload[1], f"{self.lib}/simgpu/libcuda.so.1")
        self.assertEqual(preload[-1], other)

    def test_nesting_does_not_repeat(self):
        done = self.run_shunt("run", "-q", "--", self.shunt, "run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(done.stdout.strip(), f"{self.lib}/libshunt.so")

    def test_library_path_is_prepended(self):
        env = dict(self.env, LD_LIBRARY_PATH="/some/where")
        self.assertEqual(self.variables("--sim", "b200:1", env=env)["LD_LIBRARY_PATH"], f"{self.lib}/simgpu:/some/where")
        self.assertEqual(self.variables(env=env)["LD_LIBRARY_PATH"], "/some/where")

    def test_settings_reach_the_program(self):
        v = self.variables("--graphs=off", "--oom", "spill", "--hint", "mem=1GiB", "--hint", "role=train", "--summary=0")
        self.assertEqual((v["SHUNT_GRAPHS"], v["SHUNT_OOM"], v["SHUNT_HINT"]), ("off", "spill", "mem=1GiB,role=train"))
        self.assertNotIn("SHUNT_OVERLAP", v)
        self.assertNotIn("SHUNT_SUMMARY", v)
        self.assertRegex(v["SHUNT_RUN_ID"], "^[0-9a-f]{16}$")

    def test_visible_devices(self):
        self.assertNotIn("CUDA_VISIBLE_DEVICES", self.variables("--sim", "b200:2"))
        v = self.variables("--sim", "b200:2,rubin:2", "--hint", "mem=200GiB")
        visible = v["CUDA_VISIBLE_DEVICES"].split(",")
        self.assertEqual(len(visible), 4)
        self.assertTrue(all(u.startswith("GPU-") for u in visible))
        self.assertTrue(v["SHUNT_PLACED"].startswith(visible[0] + "|memory-hint|applied"))
        env = dict(self.env, CUDA_VISIBLE_DEVICES="1,0")
        self.assertEqual(self.variables("--sim", "b200:2,rubin:2", "--hint", "mem=200GiB", env=env)["CUDA_VISIBLE_DEVICES"], "1,0")
        self.assertNotIn("CUDA_VISIBLE_DEVICES", self.variables("--sim", "b200:2,rubin:2", "--placement=shadow", "--hint", "mem=200GiB"))
        env = dict(self.env, LOCAL_WORLD_SIZE="4")
        self.assertNotIn("CUDA_VISIBLE_DEVICES", self.variables("--sim", "b200:2,rubin:2", "--hint", "mem=200GiB", env=env))

    def test_device_order(self):
        self.assertEqual(self.variables("--sim", "b200:2,rubin:2")["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")
        env = dict(self.env, CUDA_DEVICE_ORDER="FASTEST_FIRST")
        done = self.run_shunt("run", "--sim", "b200:2,rubin:2", "--", "true", env=env)
        self.assertRegex(done.stderr, r"device 0 Rubin .*\[default-device\]")

    def test_unknown_variables_are_reported_once(self):
        env = dict(self.env, SHUNT_PLACMENT="on", SHUNT_GRAPHS="maybe")
        done = self.run_shunt("run", "-q", "--", "true", env=env)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("SHUNT_PLACMENT: unknown option; did you mean SHUNT_PLACEMENT?"), 1)
        self.assertEqual(done.stderr.count("SHUNT_GRAPHS: bad value 'maybe'"), 1)
        env["SHUNT_STRICT"] = "1"
        self.assert_error(self.run_shunt("run", "-q", "--", "true", env=env), 125, "SHUNT_")

    def test_bystanders_see_nothing(self):
        env = dict(self.env, LD_PRELOAD=f"{self.lib}/libshunt.so")
        for command in (["bash", "-c", "echo $((6*7))"], [sys.executable, "-c", "print(42)"], ["git", "--version"]):
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Settings(Case):
    def config(self, *arguments, env=None):
        done = self.run_shunt("config", "--json", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_precedence(self):
        self.env["XDG_CONFIG_HOME"] = self.path("xdg")
        os.makedirs(self.path("xdg/shunt"))
        expected = []

        def check(value, origin):
            s = self.config(*expected)["settings"]["log"]
            self.assertEqual((s["value"], s["origin"]), (value, origin))
        check("warn", "default")
        self.write("xdg/shunt/shunt.toml", 'log = "off"\n')
        check("off", "user file")
        self.write("shunt.toml", 'log = "error"\n')
        check("error", "./shunt.toml")
        self.write("mine.toml", 'log = "info"\n')
        expected += ["--config", self.path("mine.toml")]
        check("info", "--config")
        self.env["SHUNT_LOG"] = "debug"
        check("debug", "environment")
        expected += ["--log=warn"]
        check("warn", "flag")

    def test_toml_forms(self):
        self.write("shunt.toml", 'graphs = false\nplacement = "mixed"\n[trace]\nmax = "64MiB"\ncalls = "all"\n[hint]\nmem = "2GiB"\nbatch = 4\n')
        s = self.config()["settings"]
        self.assertEqual([s[k]["value"] for k in ("graphs", "placement", "trace-max", "trace-calls", "hint")],
                         ["off", "mixed", "64MiB", "all", "mem=2GiB,batch=4" if s["hint"]["value"].startswith("mem") else "batch=4,mem=2GiB"])

    def test_toml_errors(self):
        self.write("shunt.toml", 'grahps = "on"\nlog = "loud"\n')
        problems = self.config()["problems"]
        self.assertTrue(any("grahps" in p and "did you mean graphs?" in p for p in problems), problems)
        self.assertTrue(any("loud" in p for p in problems), problems)
        self.write("shunt.toml", 'graphs = [unclosed\n')
        problems = self.config()["problems"]
        self.assertEqual(len(problems), 1)
        self.assertIn("shunt.toml:", problems[0])
        self.assertEqual(self.run_shunt("run", "-q", "--", "true").returncode, 0)

    def test_show_origin(self):
        done = self.run_shunt("config", "--show-origin", "--graphs=off", env=dict(self.env, SHUNT_OOM="auto"))
        self.assertRegex(done.stdout, r"graphs +off +flag +--graphs")
        self.assertRegex(done.stdout, r"oom +auto +environment +SHUNT_OOM")
        self.assertRegex(done.stdout, r"overlap +off +default")


class Traces(Case):
    def test_names(self):
        done = self.run_shunt("run", "-q", "-o", "r-%q{MARK}", "--sim", "b200:1", "--", self.app(), env=dict(self.env, MARK="x"))
        self.assertEqual(done.returncode, 0, done.stderr)
        files = os.listdir(self.path("r-x.shunt"))
        self.assertIn("run.json", files)
        self.assertEqual(len([f for f in files if f.endswith(".shnt")]), 1)
        with open(self.path("r-x.shunt/run.json")) as f:
            record = json.load(f)
        self.assertEqual(record["argv"], [self.app()])
        self.assertEqual(record["settings"]["trace"]["origin"], "flag")
        self.assertEqual(record["placement"]["reason"], "single-device")
        self.assertEqual(record["devices"][0]["model"], "b200")

    def test_never_overwrites(self):
        first = self.run_shunt("run", "-q", "-o", "a.shunt", "--", "true")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assert_error(self.run_shunt("run", "-q", "-o", "a.shunt", "--", "true"), 125, "a.shunt", "-f")
        self.assertEqual(self.run_shunt("run", "-q", "-f", "-o", "a.shunt", "--", "true").returncode, 0)
        self.assert_error(self.run_shunt("run", "-q", "-o", "/proc/no/a", "--", "true"), 125, "/proc/no/a.shunt")

    def test_summary(self):
        self.env["TMPDIR"] = tempfile.mkdtemp(dir=self.dir)   # /tmp may hold others' folders
        done = self.run_shunt("run", "--summary", "--sim", "b200:2,rubin:2", "--hint", "mem=200GiB", "--", self.app())
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 9, done.stderr)  # the start line and eight more
        self.assertRegex(lines[0], r"^\[shunt\] device 2 Rubin .*\[memory-hint\]; device model differs")
        self.assertRegex(lines[1], r"^\[shunt\] \d+\.\d s, pid \d+, exit 0$")
        self.assertRegex(lines[2], "feature +decisions +applied +declined +main reason declined +gpu time")
        self.assertRegex(lines[6], r"placement +1 +1 +0 +- +-")
        self.assertIn("0 dropped", lines[7])
        self.assertEqual(os.listdir(self.env["TMPDIR"]), [])

    def test_summary_of_a_program_without_cuda(self):
        done = self.run_shunt("run", "--summary", "--", "sh", "-c", "exit 4")
        self.assertEqual(done.returncode, 4)
        self.assertIn("exit 4", done.stderr)
        self.assertIn("no process made a CUDA call", done.stderr)

    def test_calls_are_recorded(self):
        self.run_shunt("run", "-q", "-o", "c", "--trace-calls=all", "--sim", "b200:1", "--", self.app())
        done = self.run_shunt("trace", "summary", "--json", "c.shunt")
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)
        self.assertEqual(self.run_shunt("trace", "check", "c.shunt").returncode, 0)


class Boxes(Case):
    def boxes(self):
        """Boxes, and what programs keep beside them (the memory ledger), by file name."""
        return set(f for f in os.listdir("/dev/shm") if "simgpu-" in f)

    def wait_gone(self, names):
        for _ in range(200):
            if not any(name in left for name in names for left in self.boxes()):
                return True
            time.sleep(0.02)
        return False

    def test_removed_after_every_kind_of_end(self):
        for mode in ([], ["--summary"]):
            for script in ("true", "exit 3", "kill -KILL $$"):
                done = self.run_shunt("run", "-q", *mode, "--sim", "b200:1", "--", "sh", "-c", f"echo $SIMGPU_BOX; {script}")
                name = done.stdout.strip().lstrip("/")
                self.assertTrue(name.startswith("simgpu-"))
                self.assertTrue(self.wait_gone({name}), name)

    def test_the_ledger_goes_with_the_box(self):
        done = self.run_shunt("run", "-q", "--sim", "b200:1@mem=96MiB", "--oom=spill", "--", self.app("growing"), "16")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_shunt("run", "-q", "--sim", "b200:1", "--", "sh", "-c", f"echo $SIMGPU_BOX; ls /dev/shm; {self.app()} >/dev/null; ls /dev/shm")
        name = done.stdout.split("\n")[0].lstrip("/")
        self.assertIn("_" + name, done.stdout, "the program has a ledger while it runs")
        self.assertTrue(self.wait_gone({name}), self.boxes())

    def test_ledgers_of_gone_boxes_are_swept(self):
        gone = f"simgpu-{os.getuid()}-999999999-1-0"
        named = f"box-of-somebody-{os.getpid()}"
        boot = subprocess.run([self.shunt, "run", "-q", "--sim", "b200:1", "--", "sh", "-c", f"{self.app()} >/dev/null; ls /dev/shm | grep ledger.*simgpu"],
                              env=self.env, capture_output=True, text=True).stdout.split("_simgpu")[0]
        self.assertIn("shunt-ledger", boot)
        stale, kept = [f"/dev/shm/{boot}_{box}" for box in (gone, named)]
        for path in (stale, kept):
            with open(path, "wb") as file:
                file.write(b"\0" * 64)
        try:
            self.run_shunt("run", "-q", "--sim", "b200:1", "--", "true")
            self.assertFalse(os.path.exists(stale))
            self.assertTrue(os.path.exists(kept), "a box that somebody named may be made again")
        finally:
            for path in (stale, kept):
                if os.path.exists(path):
                    os.unlink(path)

    def test_nothing_left_by_refusals(self):
        before = self.boxes()
        self.run_shunt("run", "--sim", "b200:1", "--", "/no/such")
        self.run_shunt("run", "--sim", "b200:1", "-o", "/proc/x/y", "--", "true")
        lost = self.write("lost", "#!/no/such/interpreter\n", 0o755)
        self.run_shunt("run", "--sim", "b200:1", "--", lost)
        self.assertTrue(self.wait_gone(self.boxes() - before))

    def test_the_janitor_holds_no_pipe(self):
        start = time.monotonic()
        done = subprocess.run(["sh", "-c", f"'{self.shunt}' run -q --sim b200:1 -- sh -c 'sleep 30 >/dev/null 2>&1 & echo started' | cat"],
                              env=self.env, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.stdout, "started\n")
        self.assertLess(time.monotonic() - start, 10)

    def test_the_program_has_no_unknown_child(self):
        script = "import os\ntry:\n os.waitpid(-1, os.WNOHANG)\n print('child')\nexcept ChildProcessError:\n print('none')"
        done = self.run_shunt("run", "-q", "--sim", "b200:1", "--", sys.executable, "-c", script)
        self.assertEqual(done.stdout, "none\n")


DRIVER_PROGRAM = r"""
import ctypes, os, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
def look():
    count = ctypes.c_int(-1)
    status = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count))]
    names = []
    for i in range(count.value):
        device, total = ctypes.c_int(-1), ctypes.c_size_t(0)
        status += [cuda.cuDeviceGet(ctypes.byref(device), i), cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)]
        names.append("%d:%d" % (device.value, total.value >> 30))
    return "%s %s" % (sorted(set(status)), " ".join(names))
if sys.argv[1] == "fork":
    if os.fork() == 0:
        print(look(), flush=True)
        os._exit(0)
    os.wait()
elif sys.argv[1] == "threads":
    cuda.cuInit(0)
    out = []
    workers = [threading.Thread(target=lambda: out.append(look())) for _ in range(8)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    print(" ".join(str(n) for n in sorted(set(out))))
elif sys.argv[1] == "early":
    device = ctypes.c_int(-1)
    print(cuda.cuDeviceGet(ctypes.byref(device), 0), end=" ")
    print(look())
else:
    print(look())
"""


class BarePreload(Case):
    """The in-process form of placement: the driver's own answers, renumbered."""

    def look(self, how="plain", preload=True, **more):
        env = dict(self.env, LD_LIBRARY_PATH=f"{self.lib}/simgpu", SIMGPU_SPEC="b200:2,rubin:2", CUDA_DEVICE_ORDER="PCI_BUS_ID", **more)
        if preload:
            env["LD_PRELOAD"] = f"{self.lib}/libshunt.so"
        done = subprocess.run([sys.executable, "-c", DRIVER_PROGRAM, how], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_silent_without_a_reason(self):
        plain = self.look(preload=False)
        self.assertEqual(plain.stdout, "[0] 0:179 1:179 2:279 3:279\n")
        done = self.look()
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, ""))

    def test_hint_renumbers(self):
        done = self.look(SHUNT_HINT="mem=200GiB")
        self.assertEqual(done.stdout, "[0] 0:279 1:279 2:179 3:179\n")
        self.assertRegex(done.stderr, r"^\[shunt\] device 0 is Rubin \(GPU 2, GPU-.*memory-hint, decision \d+\]; device model differs\n$")

    def test_the_users_list_limits_it(self):
        done = self.look(SHUNT_HINT="mem=200GiB", CUDA_VISIBLE_DEVICES="0,3,1")
        self.assertEqual(done.stdout, "[0] 0:279 1:179 2:179\n")

    def test_one_map_for_all_threads_and_for_children(self):
        self.assertEqual(self.look("threads", SHUNT_HINT="mem=200GiB").stdout, "[0] 0:279 1:279 2:179 3:179\n")
        self.assertEqual(self.look("fork", SHUNT_HINT="mem=200GiB").stdout, "[0] 0:279 1:279 2:179 3:179\n")

    def test_nothing_is_decided_before_cuinit(self):
        self.assertEqual(self.look("early", SHUNT_HINT="mem=200GiB").stdout, "3 [0] 0:279 1:279 2:179 3:179\n")

    def test_ranks_shadow_and_off_switch_change_nothing(self):
        for more in ({"LOCAL_WORLD_SIZE": "2"}, {"SHUNT_PLACEMENT": "shadow"}, {"SHUNT_PLACEMENT": "off"}, {"SHUNT_DISABLE": "1"}):
            self.assertEqual(self.look(SHUNT_HINT="mem=200GiB", **more).stdout, "[0] 0:179 1:179 2:279 3:279\n", more)

    def test_bad_settings_are_said_once_and_ignored(self):
        done = self.look(SHUNT_GRAPHS="maybe", SHUNT_PLACMENT="on")
        self.assertEqual(done.stdout, "[0] 0:179 1:179 2:279 3:279\n")
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assertIn("did you mean SHUNT_PLACEMENT?", done.stderr)

    def test_a_trace_is_written_only_on_request(self):
        self.look()
        self.assertEqual(os.listdir(self.dir), [])
        self.look(SHUNT_TRACE=self.path("t"), SHUNT_HINT="mem=200GiB")
        self.assertEqual(sorted(f.split(".")[-1] for f in os.listdir(self.path("t.shunt"))), ["json", "shnt"])
        text = self.run_shunt("trace", "summary", "t.shunt").stdout
        self.assertRegex(text, r"placement +1 +1 +0")


class Looks(Case):
    def test_color(self):
        bad = ["run", "--graphs=x", "--", "true"]
        self.assertNotIn("\033", self.run_shunt(*bad).stderr)
        self.assertIn("\033", self.run_shunt("run", "--color=always", "--graphs=x", "--", "true").stderr)

        def on_terminal(**more):
            master, slave = pty.openpty()
            subprocess.run([self.shunt, "nonsense"], env={**self.env, "TERM": "xterm", **more}, stderr=slave, stdin=subprocess.DEVNULL)
            os.close(slave)
            text = os.read(master, 4096).decode()
            os.close(master)
            return text
        self.assertIn("\033", on_terminal())
        self.assertNotIn("\033", on_terminal(NO_COLOR="1"))
        self.assertNotIn("\033", on_terminal(TERM="dumb"))

    def test_help(self):
        top = self.run_shunt("--help").stdout
        self.assertLess(top.index("Examples"), top.index("Usage"))
        for verb in ("run", "devices", "config", "trace", "version", "help"):
            self.assertRegex(top, rf"(?m)^  {verb} ")
        self.assertEqual(self.run_shunt("-h").stdout, top)
        run = self.run_shunt("run", "--help")
        self.assertEqual(run.returncode, 0)
        for flag in ("--placement", "--hint", "--sim", "-o, --trace", "-q, --quiet", "--oom"):
            self.assertIn(flag, run.stdout)
        self.assertIn("Examples", run.stdout)
        for topic in ("env", "placement", "sim", "models", "reasons"):
            self.assertEqual(self.run_shunt("help", topic).returncode, 0)
        self.assertIn("SHUNT_TRACE_MAX", self.run_shunt("help", "env").stdout)

    def test_every_option_is_a_flag_and_a_variable(self):
        settings = json.loads(self.run_shunt("config", "--json").stdout)["settings"]
        text = self.run_shunt("run", "--help").stdout
        self.assertGreater(len(settings), 20)
        for name, setting in settings.items():
            self.assertIn(f"--{name}", text)
            self.assertEqual(setting["variable"], "SHUNT_" + name.upper().replace("-", "_"))

    def test_devices(self):
        done = self.run_shunt("devices", "--sim", "b200:1,rubin:2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["devices"]), 3)
        self.assertIn("rubin", self.run_shunt("devices", "--sim", "rubin:1").stdout.lower())
        self.assert_error(self.run_shunt("devices", "extra"), 125, "extra")

    def test_version(self):
        done = json.loads(self.run_shunt("version", "--json").stdout)
        self.assertRegex(done["version"], r"^\d+\.\d+")
        self.assertTrue(os.path.isabs(done["interposer"]))
        self.assertRegex(self.run_shunt("--version").stdout, r"^shunt \d")

    def test_placement_lines(self):
        def start(*arguments, **env):
            done = self.run_shunt("run", "--sim", "b200:2,rubin:2", *arguments, "--", "true", env=dict(self.env, **env))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            return done.stderr
        self.assertRegex(start(), r"device 0 B200 .*default device.*\[default-device\]")
        self.assertRegex(start("--hint", "mem=200GiB"), r"device 2 Rubin .*200 GiB \+ 8 %.*device model differs")
        self.assertRegex(start("--placement=mixed"), r"device 2 Rubin .*\[mixed\]")
        self.assertRegex(start("--hint", "role=forward"), r"device 2 Rubin .*\[role-hint\]")
        self.assertRegex(start("--hint", "model=rubin"), r"device 2 Rubin .*\[model-hint\]")
        self.assertRegex(start("--hint", "mem=999GiB"), r"device 0 B200 .*\[no-feasible-device\]")
        self.assertRegex(start("--placement=off"), r"\[mode-off\]")
        self.assertRegex(start("--placement=shadow", "--hint", "mem=200GiB"), r"shadow: not applied")
        self.assertRegex(start(CUDA_VISIBLE_DEVICES="3"), r"device 3 Rubin .*only visible device")
        self.assertRegex(start(CUDA_VISIBLE_DEVICES=""), r"hides every device")
        self.assertRegex(start(SHUNT_DISABLE="1"), r"disabled by SHUNT_DISABLE")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    args, rest = parser.parse_known_args()
    BUILD = os.path.abspath(args.build)
    unittest.main(argv=[sys.argv[0]] + rest)
