"""`stowage version`: the versions of this command, of the API server, and of Stowage in the cluster. Reads only.

Exit codes: 0, or 2 when the cluster does not answer (the version of this command is printed anyway).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from admission.cli.connection import connect, worded
from api.errors import StowageError
from api.kube.resources import DEPLOYMENTS

PRINTED, NO_ANSWER = 0, 2
OURS = "app.kubernetes.io/name=stowage"
_MOST = 20


@dataclass(frozen=True, slots=True)
class VersionArguments:
    """Arguments of the command; with `client` no cluster is asked."""

    client: bool = False
    as_json: bool = False
    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: VersionArguments, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or Console(), err or Console(stderr=True)
    versions, code = {"stowage": version("stowage")}, PRINTED
    if not arguments.client:
        try:
            versions |= asyncio.run(_in_cluster(arguments))
        except (StowageError, OSError, TimeoutError) as failed:
            err.print(f"no version: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
            code = NO_ANSWER
    if arguments.as_json:
        out.file.write(json.dumps(versions, indent=2) + "\n")
    else:
        for name, text in versions.items():
            out.print(f"{name}: {text}", markup=False, soft_wrap=True, highlight=False)
    return code


async def _in_cluster(arguments: VersionArguments) -> dict[str, str]:
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        server = msgspec.json.decode(await kube.get_path("/version"))
        page = await kube.list(DEPLOYMENTS, label_selector=OURS, limit=_MOST)
    versions = {"kubernetes": str(server.get("gitVersion") or "unknown")}
    for deployment in sorted(page.items, key=_name):
        versions[_name(deployment)] = ", ".join(images(deployment)) or "no container"
    return versions


def _name(deployment: dict[str, Any]) -> str:
    return f"{deployment['metadata'].get('namespace')}/{deployment['metadata']['name']}"


def images(deployment: dict[str, Any]) -> list[str]:
    """Returns the images of a Deployment's containers."""
    spec = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [str(container.get("image")) for container in spec.get("containers") or ()]
