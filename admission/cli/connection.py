"""Connects the commands to a live cluster, with kubectl's rules. They only read.

Uses `--kubeconfig`, else the first file of the variable KUBECONFIG, else ~/.kube/config, else the pod's ServiceAccount.
"""

from __future__ import annotations

import os
from pathlib import Path

from api.errors import InvalidObject, StowageError, Unreachable
from api.kube import service_account
from api.kube.client import Kube
from api.kube.kubeconfig import namespace
from api.kube.settings import ClientSettings


def kubeconfig(path: Path | None) -> Path | None:
    """Returns the kubeconfig to use, or None for the pod's ServiceAccount."""
    if path is not None:
        return path
    if named := os.environ.get("KUBECONFIG", ""):
        return Path(named.split(os.pathsep)[0])
    home = Path.home() / ".kube" / "config"
    return home if home.exists() else None


def own_namespace(path: Path | None, context: str | None = None) -> str:
    """Returns the namespace of the kubeconfig's context, as kubectl uses it; `default` if it names none."""
    file = kubeconfig(path)
    own = namespace(file, context) if file is not None else service_account.namespace()
    return own or "default"


class NoCluster(StowageError):
    """No kubeconfig or ServiceAccount was found, or it is unusable; the message lists what was tried."""


async def connect(path: Path | None = None, context: str | None = None) -> Kube:
    """Returns a client to use with `async with`. Raises NoCluster."""
    file = kubeconfig(path)
    if file is None and not service_account.is_pod():
        raise NoCluster(
            "no cluster: --kubeconfig, KUBECONFIG and ~/.kube/config name no kubeconfig, and this is not a pod"
        )
    if file is not None and not file.exists():
        raise NoCluster(f"no cluster: {file}: No such file or directory")
    settings = ClientSettings(kubeconfig=file, context=context, user_agent="stowage-cli", attempts=3)
    try:
        return await Kube.connect(settings)
    except (InvalidObject, OSError) as bad:
        raise NoCluster(f"no cluster: {bad}") from None


def worded(failed: BaseException) -> str:
    """Returns the error's message on one line."""
    if isinstance(failed, Unreachable):
        return f"the cluster does not answer: {failed.message}"
    if isinstance(failed, TimeoutError):
        return "the cluster does not answer in time"
    if isinstance(failed, OSError) and failed.strerror:
        return f"{failed.filename}: {failed.strerror}" if failed.filename else failed.strerror
    return " ".join(str(failed).split()) or type(failed).__name__
