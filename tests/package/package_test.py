#!/usr/bin/env python3
"""Packages made by cpack: contents and dependencies (files), use from any prefix (prefix), installation by dpkg on a Debian
root made for the purpose (clean_root)."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

BUILD = ""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout, done.stderr


def must(*command, **options):
    code, out, err = run(*command, **options)
    assert code == 0, f"{command}: exit {code}\n{out}\n{err}"
    return out


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def package(kind, folder):
    must("cpack", "-G", kind, "--config", BUILD + "/CPackConfig.cmake", "-B", folder)
    made = glob.glob(folder + ("/*.deb" if kind == "DEB" else "/*.tar.gz"))
    assert len(made) == 1, made
    return made[0]


def glibc_wanted(path):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", must("objdump", "-T", path))
    return max((int(a), int(b)) for a, b in versions)


def files(folder):
    deb = package("DEB", folder)
    root = folder + "/root"
    must("dpkg-deb", "-x", deb, root)
    listed = {os.path.relpath(os.path.join(d, f), root) for d, _, names in os.walk(root) for f in names}
    for wanted in ("usr/bin/shunt", "usr/lib/shunt/libshunt.so", "usr/lib/shunt/libshunt_rt.so", "usr/lib/shunt/simgpu/libcuda.so.1",
                   "usr/lib/shunt/simgpu/libcudart.so.13", "usr/lib/shunt/simgpu/libnccl.so.2", "usr/lib/shunt/simgpu/libcupti.so.13",
                   "usr/lib/shunt/simgpu/libnvidia-ml.so.1", "usr/share/man/man1/shunt.1.gz", "usr/share/doc/shunt/copyright",
                   "usr/share/bash-completion/completions/shunt", "usr/share/zsh/vendor-completions/_shunt",
                   "usr/share/fish/vendor_completions.d/shunt.fish"):
        assert wanted in listed, f"{wanted} is not in the package"
    # Nothing where the loader looks by itself, nothing of the tests.
    for path in listed:
        assert not re.fullmatch(r"usr/lib/(x86_64-linux-gnu/)?[^/]*\.so.*", path), path
        assert "/tests" not in path and "nccl_caller" not in path, path
    depends = must("dpkg-deb", "-f", deb, "Depends")
    floor = tuple(int(n) for n in re.search(r"libc6 \(>= (\d+)\.(\d+)\)", depends).groups())
    wanted = {}
    for path in sorted(listed):
        with open(f"{root}/{path}", "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        dynamic = must("objdump", "-p", f"{root}/{path}")
        needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
        extra = needed - {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
        assert not extra, f"{path} needs {extra}, which Depends ({depends.strip()}) does not bring"
        # CI's and a developer's build paths have no place in a package.
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, path
        wanted[path] = glibc_wanted(f"{root}/{path}")
    assert max(wanted.values()) == floor, f"Depends says libc6 {floor}, the binaries want {wanted}"
    print(f"{len(listed)} files, {len(wanted)} of them ELF, libc6 >= {floor[0]}.{floor[1]}: ok")


def use(prefix):
    """The main jobs, from an installation at `prefix`."""
    tool = prefix + "/bin/shunt"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHUNT_", "SIMGPU_", "LD_"))}
    where = must(tool, "version", env=environment)
    assert where.count(os.path.realpath(prefix)) == 3, where
    out = must(tool, "run", "--sim", "b200:2,rubin:1", "--", BUILD + "/tests/apps/vecadd", env=environment)
    assert "PASSED" in out, out
    with tempfile.TemporaryDirectory() as folder:
        must(tool, "run", "--sim", "b200:1@mem=96MiB", "--oom=spill", "-o", folder + "/grow", "--", BUILD + "/tests/apps/growing", "16",
             env=environment)
        summary = must(tool, "trace", "summary", folder + "/grow.shunt", env=environment)
        assert "oom" in summary, summary
    out = must(tool, "run", "--sim", "b200:1", "--gpu-trace=node", "-q", "--", BUILD + "/tests/apps/vecadd",
               env=environment)
    assert "PASSED" in out, out


def prefix(folder):
    archive = package("TGZ", folder)
    first = folder + "/opt/söme-where"
    os.makedirs(first)
    with tarfile.open(archive) as tar:
        tar.extractall(first, filter="data") if sys.version_info >= (3, 12) else tar.extractall(first)
    tree = glob.glob(first + "/*/bin")
    assert len(tree) == 1, tree
    use(os.path.dirname(tree[0]))
    moved = folder + "/moved"
    shutil.move(os.path.dirname(tree[0]), moved)
    use(moved)
    os.symlink(moved + "/bin/shunt", folder + "/shunt")
    assert moved in must(folder + "/shunt", "version")
    # The loader splits LD_PRELOAD at blanks and colons: such a place cannot work, and says so before the program starts.
    for bad in ("with blank", "with:colon"):
        shutil.copytree(moved, f"{folder}/{bad}", symlinks=True)
        code, out, err = run(f"{folder}/{bad}/bin/shunt", "run", "--sim", "b200:1", "--", BUILD + "/tests/apps/vecadd")
        assert code == 125 and "PASSED" not in out, (code, out, err)
        assert bad in err and "LD_PRELOAD" in err, err
    print("works from two prefixes and through a link; refuses blanks and colons in its path: ok")


def clean_root(folder):
    if os.geteuid() != 0:
        skip("a Debian root is made by mmdebstrap, as root")
    if not shutil.which("mmdebstrap"):
        skip("mmdebstrap is not installed")
    deb = package("DEB", folder)
    root = folder + "/root"
    code, out, err = run("mmdebstrap", "--variant=minbase", "--quiet", "bookworm", root)
    if code != 0:
        skip(f"no Debian root could be made (registry not reached?): {err.strip().splitlines()[-1:]}")
    try:
        shutil.copy(deb, root + "/tmp/shunt.deb")
        shutil.copy(BUILD + "/tests/apps/vecadd", root + "/tmp/vecadd")
        os.makedirs(root + "/proc", exist_ok=True)
        must("mount", "-t", "proc", "proc", root + "/proc")
        inside = lambda *command: run("chroot", root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", *command)
        code, out, err = inside("dpkg", "-i", "/tmp/shunt.deb")
        assert code == 0, err + out
        code, out, err = inside("shunt", "run", "--sim", "b200:2,rubin:2", "--summary", "--", "/tmp/vecadd")
        assert code == 0 and "PASSED" in out and "placement" in err, (code, out, err)
        code, out, err = inside("shunt", "devices", "--sim", "rubin:1")
        assert code == 0 and "rubin" in out, (code, out, err)
        code, out, err = inside("shunt", "devices")
        assert code != 0 and "--sim" in err and len(err.strip().splitlines()) == 1, (code, out, err)
        code, out, err = inside("dpkg", "-r", "shunt")
        assert code == 0, err
        left = must("find", root + "/usr", "-path", "*shunt*")
        assert left == "", left
        print("installed by dpkg on a new Debian root, ran, removed without a rest: ok")
    finally:
        run("umount", root + "/proc")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("part", choices=["files", "prefix", "clean_root"])
    known = parser.parse_args()
    BUILD = os.path.abspath(known.build)
    # /tmp may be mounted so that nothing runs from it; the build folder surely lets programs run.
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="package-") as scratch:
        {"files": files, "prefix": prefix, "clean_root": clean_root}[known.part](scratch)
