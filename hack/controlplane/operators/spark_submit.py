"""Replaces Spark's `spark-submit`, a Java program: creates the driver's pod from the arguments that spark-operator passes.

The pod has what matters to admission: name, labels, annotations, the application's pod template, cpu, and memory with Spark's
overhead. It also has the node selector and tolerations of the application's driver, which spark-operator's webhook would add;
that webhook is not registered. hack/controlplane/kubeconfig.py writes KUBECONFIG. The operator runs this module as a program.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

from hack.controlplane.api import Api

Object = dict[str, Any]
_DRIVER: Final = "spark-kubernetes-driver"
_LEAST_OVERHEAD: Final = 384
_UNITS: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


def configuration(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the configuration that the --conf arguments give."""
    pairs = [value for flag, value in pairwise(arguments) if flag == "--conf"]
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def memory(text: str) -> str:
    """Returns the sum of heap and Spark's overhead, which is a tenth of the heap, at least 384 MiB."""
    digits = text.rstrip("bBkKmMgGtT")
    heap = int(int(digits) * _UNITS.get(text[len(digits) :][:1].lower(), 1))
    return f"{heap + max(heap // 10, _LEAST_OVERHEAD)}Mi"


def spark_pod(part: Mapping[str, Any], template: Object, role: str, metadata: Object) -> Object:
    """Returns the pod of the driver or of an executor; `part` is spec.driver or spec.executor of the application."""
    spec = {**(template.get("spec") or {})}
    first, *others = spec.get("containers") or [{}]
    requests = {
        "cpu": str(part.get("coreRequest") or part.get("cores") or 1),
        "memory": memory(part.get("memory") or "1g"),
    }
    own = first.get("resources") or {}
    resources = {**own, "requests": {**(own.get("requests") or {}), **requests}}
    spec["containers"] = [
        {"image": "spark", **first, "name": first.get("name") or role, "resources": resources},
        *others,
    ]
    spec["restartPolicy"] = "Never"
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **(part.get("nodeSelector") or {})}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *(part.get("tolerations") or ())]
    shape = template.get("metadata") or {}
    for name in ("labels", "annotations"):
        metadata[name] = {**(shape.get(name) or {}), **(part.get(name) or {}), **(metadata.get(name) or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def prefixed(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns the entries whose keys have the prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def submit(arguments: Sequence[str], api: Api) -> None:
    """Creates the driver's pod. Raises RequestError."""
    conf = configuration(arguments)
    namespace = conf["spark.kubernetes.namespace"]
    labels = prefixed(conf, "spark.kubernetes.driver.label.")
    name = labels["sparkoperator.k8s.io/app-name"]
    application = api.get(f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{namespace}/sparkapplications/{name}")
    template = yaml.safe_load(Path(conf["spark.kubernetes.driver.podTemplateFile"]).read_text())
    labels |= {"spark-role": "driver", "spark-app-selector": f"spark-{uuid.uuid4().hex}"}
    metadata = {
        "name": conf["spark.kubernetes.driver.pod.name"],
        "namespace": namespace,
        "labels": labels,
        "annotations": prefixed(conf, "spark.kubernetes.driver.annotation."),
        "ownerReferences": (template.get("metadata") or {}).get("ownerReferences") or [],
    }
    pod = spark_pod(application["spec"]["driver"], template, _DRIVER, metadata)
    api.create(f"/api/v1/namespaces/{namespace}/pods", pod)


def connected(file: Path) -> Api:
    """Returns a client of the API server of a kubeconfig with one cluster and one user."""
    content = json.loads(file.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        parts = (user["client-certificate-data"], user["client-key-data"])
        pair.write_bytes(b"".join(base64.b64decode(part) for part in parts))
        context.load_cert_chain(pair)
    return Api(cluster["server"], context)


if __name__ == "__main__":
    submit(sys.argv[1:], connected(Path(os.environ["KUBECONFIG"])))
