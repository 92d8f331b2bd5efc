"""Ray tasks and actors under shunt: pass runtime_env() to ray.init, a task or an actor.

    ray.init(runtime_env=shunt_runtime_env.runtime_env(SHUNT_OOM="spill"))

Ray starts workers as processes of its own, so a preload in their environment is all that is needed. Ray sets
CUDA_VISIBLE_DEVICES per worker (num_gpus=); shunt chooses among those devices only.
"""
import os
import shutil


def library(prefix=None):
    """libshunt.so of an installation at `prefix`, or of the `shunt` on PATH. The path must be the same on every node."""
    if prefix is None:
        tool = shutil.which("shunt")
        if tool is None:
            raise FileNotFoundError("no `shunt` on PATH: give prefix=, the folder with bin/ and lib/")
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(tool)))
    for place in ("lib/shunt/libshunt.so", "lib/libshunt.so"):
        path = os.path.join(prefix, place)
        if os.access(path, os.R_OK):
            return path
    raise FileNotFoundError(f"no libshunt.so below '{prefix}'")


def runtime_env(prefix=None, preload_after=os.environ.get("LD_PRELOAD", ""), **settings):
    """A runtime_env with shunt first in LD_PRELOAD and `settings` (SHUNT_* names) beside it."""
    wrong = [name for name in settings if not name.startswith("SHUNT_")]
    if wrong:
        raise ValueError(f"{wrong[0]}: settings of shunt begin with SHUNT_")
    others = [p for p in preload_after.split(":") if p and not p.endswith("/libshunt.so")]
    variables = {"LD_PRELOAD": ":".join([library(prefix), *others])}
    variables.update({name: str(value) for name, value in settings.items()})
    return {"env_vars": variables}
