"""`stowage support-bundle`: one archive with objects, statuses, logs, metrics, snapshot and doctor's report, redacted.

Reads only, and no Secret. The file is readable only by its owner, and an existing file is never overwritten. Exit codes: 0 when
everything is in it, 1 when it was written and parts are missing (its README says which), 2 when it was not written.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import tarfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich.console import Console

from admission.cli.connection import connect, worded
from admission.cli.doctor import DoctorArguments, report_of, to_wire
from admission.support.collect import Collector, Part, encoded, readme
from admission.support.redaction import value
from admission.world.cluster import from_cluster
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world
from api.errors import StowageError
from api.kube.client import Kube

COMPLETE, INCOMPLETE, NOT_WRITTEN = 0, 1, 2
_NAMESPACE = "stowage-system"


@dataclass(frozen=True, slots=True)
class BundleArguments:
    """Arguments of the command."""

    output: Path
    namespace: str = ""
    snapshot: bool = True
    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: BundleArguments, rules: WorldRules, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    err = err or Console(stderr=True)
    try:
        missing = asyncio.run(_run(arguments, rules))
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"no bundle: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_WRITTEN
    for name, why in sorted(missing.items()):
        err.print(f"{name}: not in the bundle: {why}", style="yellow", markup=False, soft_wrap=True, highlight=False)
    err.print(f"{arguments.output}: read it before you send it", markup=False, soft_wrap=True, highlight=False)
    return INCOMPLETE if missing else COMPLETE


async def _run(arguments: BundleArguments, rules: WorldRules) -> dict[str, str]:
    """Writes the archive and returns what it lacks."""
    if arguments.output.exists():  # checked again when it is written; this spares reading the cluster in vain
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(arguments.output))
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        await kube.get_path("/version")
        collector = Collector(kube, arguments.namespace or _NAMESPACE)
        parts = {name: data async for name, data in _parts(kube, arguments, rules, collector)}
    sizes = {name: len(data) for name, data in parts.items()}
    parts["README.txt"] = readme(version("stowage"), sizes, collector.missing)
    descriptor = os.open(arguments.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(_archive(parts))
    return collector.missing


async def _parts(
    kube: Kube, arguments: BundleArguments, rules: WorldRules, collector: Collector
) -> AsyncIterator[Part]:
    async for part in collector.objects():
        yield part
    async for part in collector.processes():
        yield part
    server = msgspec.json.decode(await kube.get_path("/version"))
    yield "version.json", encoded({"stowage": version("stowage"), "kubernetes": value(server)})
    try:
        doctor = DoctorArguments(arguments.namespace, kubeconfig=arguments.kubeconfig, context=arguments.context)
        yield "doctor.json", encoded(value(to_wire(await report_of(doctor))))
    except (StowageError, TimeoutError) as failed:
        collector.missing["doctor.json"] = worded(failed)
    if arguments.snapshot:
        try:
            captured = capture_world(await from_cluster(kube, rules)).encode()
            yield "snapshot.json", encoded(value(msgspec.json.decode(captured)))
        except (StowageError, TimeoutError) as failed:
            collector.missing["snapshot.json"] = worded(failed)


def _archive(parts: dict[str, bytes]) -> bytes:
    """Returns a gzipped tar in one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in sorted(parts.items()):
            member = tarfile.TarInfo(f"stowage-support/{name}")
            member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()
