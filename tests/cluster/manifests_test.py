#!/usr/bin/env python3
"""Manifests of scripts/cluster/kubernetes: Kubernetes' own kinds against its published schemas (strict: no unknown field), the
CDI file against the rules of the CDI specification, and paths, options and variables against the product itself."""
import glob
import json
import os
import re
import subprocess
import sys

import common

# Rules of the Container Device Interface, version 0.6, that apply here.
CDI_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
CDI_EDITS = {"env", "deviceNodes", "hooks", "mounts"}
CDI_MOUNT = {"hostPath", "containerPath", "options", "type"}


def cdi_problems(spec):
    found = []
    unknown = set(spec) - {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
    found += [f"unknown field {u}" for u in unknown]
    if not re.fullmatch(r"\d+\.\d+\.\d+", str(spec.get("cdiVersion"))):
        found.append("cdiVersion")
    vendor, _, kind = str(spec.get("kind")).partition("/")
    if not re.fullmatch(rf"{CDI_NAME}", vendor) or not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?", kind):
        found.append(f"kind {spec.get('kind')}")
    if not spec.get("devices"):
        found.append("no devices")
    for device in spec.get("devices", []):
        if not re.fullmatch(CDI_NAME, device.get("name", "")):
            found.append(f"device name {device.get('name')}")
        edits = device.get("containerEdits", {})
        if not edits or set(edits) - CDI_EDITS:
            found.append(f"edits {sorted(edits)}")
        for variable in edits.get("env", []):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", variable):
                found.append(f"env {variable}")
        for mount in edits.get("mounts", []):
            if set(mount) - CDI_MOUNT or not mount.get("hostPath", "").startswith("/") or not mount.get("containerPath", "").startswith("/"):
                found.append(f"mount {mount}")
    return found


def variables(node):
    """Every env entry of every container."""
    if isinstance(node, dict):
        if set(node) == {"name", "value"}:
            yield node["name"], node["value"]
        for value in node.values():
            yield from variables(value)
    elif isinstance(node, list):
        for value in node:
            yield from variables(value)


def tests(job):
    folder = common.CLUSTER + "/kubernetes"
    cdi = json.load(open(folder + "/cdi-shunt.json"))
    assert cdi_problems(cdi) == [], cdi_problems(cdi)
    # The judge itself must be able to refuse.
    for spoil in ({"kind": "shunt"}, {"devices": []}, {"cdiVersion": "6"}, {"extra": 1},
                  {"devices": [{"name": "a", "containerEdits": {"env": ["1=2"]}}]},
                  {"devices": [{"name": "a", "containerEdits": {"mounts": [{"hostPath": "x", "containerPath": "/y"}]}}]}):
        assert cdi_problems({**cdi, **spoil}), spoil
    # What the CDI file and the init container preload is where the package puts it.
    installed = "lib/shunt/libshunt.so"
    edits = cdi["devices"][0]["containerEdits"]
    assert edits["env"] == [f"LD_PRELOAD={edits['mounts'][0]['containerPath']}/{installed}"], edits
    print("cdi-shunt.json: ok")

    python = common.SOURCE + "/.venv/bin/python"
    if sys.prefix == sys.base_prefix:
        if job.run(python, "-c", "import kubernetes_validate", env=job.environment())[0] != 0:
            common.skip("kubernetes-validate is not in .venv (scripts/setup --tests fetches it; the registry was not reached)")
        os.rmdir(job.folder)  # the next one makes its own
        os.execv(python, [python, *sys.argv])
    import kubernetes_validate
    import yaml
    version = kubernetes_validate.latest_version()
    known = set(re.findall(r"SHUNT_[A-Z_]+", subprocess.run([job.tool, "help", "env"], capture_output=True, text=True).stdout))
    checked = 0
    for path in sorted(glob.glob(folder + "/*.yaml")):
        for document in yaml.safe_load_all(open(path)):
            if not document["apiVersion"].startswith("keda.sh/"):  # not Kubernetes' own: tests of the endpoint check it
                kubernetes_validate.validate(document, version, strict=True)
                spoiled = {**document, "spec": {**document["spec"], "noSuchField": 1}}
                try:
                    kubernetes_validate.validate(spoiled, version, strict=True)
                except kubernetes_validate.ValidationError:
                    pass
                else:
                    raise AssertionError("the schema accepts an unknown field")
            for name, value in variables(document):
                if name == "LD_PRELOAD":
                    assert value.endswith("/" + installed), value
                elif name.startswith("SHUNT_"):
                    assert name in known, f"{path}: {name} is no variable of shunt"
            checked += 1
    pod = yaml.safe_load(open(folder + "/pod-cdi.yaml"))
    assert cdi["kind"] + "=" + cdi["devices"][0]["name"] in pod["metadata"]["annotations"].values()
    assert checked >= 2, checked
    print(f"{checked} manifests against Kubernetes {version}: ok")


common.main(tests)
