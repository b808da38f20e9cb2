"""Reads how a pod reaches its cluster's API server: the ServiceAccount that is mounted into it, and two variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from api.errors import InvalidObject
from api.kube.endpoint import Endpoint, TokenFile, pem_text

FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_pod() -> bool:
    """Reports whether the process runs in a pod of a cluster."""
    return _HOST in os.environ


def endpoint(folder: Path = FOLDER) -> Endpoint:
    """Returns the cluster's API server. Raises InvalidObject or OSError, which name the variable or file that lacks."""
    host, port = (_variable(name) for name in (_HOST, _PORT))
    return Endpoint(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        token_file=TokenFile(folder / "token"),
        ca=pem_text(folder / "ca.crt"),
    )


def _variable(name: str) -> str:
    if value := os.environ.get(name, ""):
        return value
    raise InvalidObject(name, value, "must be set; is this a pod? Outside a cluster, a kubeconfig says where it is")


def namespace(folder: Path = FOLDER) -> str:
    """Returns the pod's namespace, or "" outside a pod."""
    file = folder / "namespace"
    return file.read_text().strip() if file.exists() else ""
