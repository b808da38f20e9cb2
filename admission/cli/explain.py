"""`stowage explain NAMESPACE/NAME`: why a workload waits and what would admit it, from a live cluster or a snapshot.

The name is a Workload's or its job's. Reads once and writes nothing. Exit codes: 0 when explained, 2 when not: no such
workload, an invalid name, or an unreachable cluster.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from admission.cli.connection import connect, worded
from admission.cli.explanation import show, show_held, show_placement
from admission.cli.strangers import unmanaged
from admission.engine.explain.explanation_json import to_wire
from admission.engine.features import held_records
from admission.world.cluster import from_cluster
from admission.world.explaining import UnknownWorkload, explained, found
from admission.world.files import from_files
from admission.world.rules import WorldRules
from admission.world.world import World
from api.errors import StowageError
from api.kube.resources import CONFIG_MAPS
from api.meta import split_key

EXPLAINED, NOT_EXPLAINED = 0, 2
_WIDTH = 120
NOT_MANAGED = "NotManaged"
"""The verdict on an object that names a queue and is of an unmanaged kind."""


@dataclass(frozen=True, slots=True)
class ExplainArguments:
    """Arguments of the command. Without `snapshot` it reads the live cluster."""

    name: str
    as_json: bool = False
    snapshot: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None


class InvalidName(StowageError):
    """Not of the form NAMESPACE/NAME."""


def run(arguments: ExplainArguments, rules: WorldRules, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or _console(), err or Console(stderr=True)
    try:
        _check_name(arguments.name)
        world = (
            from_files([arguments.snapshot], rules)
            if arguments.snapshot
            else asyncio.run(_cluster_world(arguments, rules))
        )
        key, others = found(world, arguments.name)
        explanation = explained(world, key)
    except UnknownWorkload as unknown:
        notice = None if arguments.snapshot else _unmanaged_notice(arguments)
        if notice is None:
            return _failed(unknown, err)
        _show_unmanaged(arguments, notice, out)
        return EXPLAINED
    except (StowageError, OSError, TimeoutError) as failed:
        return _failed(failed, err)
    notes = [_describe_related(world, key, other) for other in others]
    notes += [str(fault) for fault in world.faults if fault.object.startswith(CONFIG_MAPS.kind)]
    for note in notes:
        err.print(note, style="yellow", markup=False, soft_wrap=True, highlight=False)
    if arguments.as_json:
        out.file.write(json.dumps({"title": world.title(key), **to_wire(explanation)}, indent=2) + "\n")
    else:
        show(explanation, world.title(key), out)
        show_placement(world.ledger.admissions.get(key), world.unbound.get(key, ""), out)
        show_held(held_records.text_of(world.ledger, key), out)
    return EXPLAINED


def _describe_related(world: World, key: str, other: str) -> str:
    """Describes another Workload of the same job: the slice that it grows from, or that of an earlier job."""
    workload = world.workload(key)
    if workload is not None and workload.replaces == other:
        return f"Workload {other} has the quota of the pods that run"
    return f"there is also Workload {other}, of an earlier one of that name"


def _failed(why: BaseException, err: Console) -> int:
    err.print(f"cannot explain: {worded(why)}", style="red", markup=False, soft_wrap=True, highlight=False)
    return NOT_EXPLAINED


def _unmanaged_notice(arguments: ExplainArguments) -> str | None:
    """Returns the notice on an object of that name and an unmanaged kind; None if there is none or it cannot be read."""

    async def read() -> str | None:
        async with await connect(arguments.kubeconfig, arguments.context) as kube:
            namespace, name = split_key(arguments.name)
            return await unmanaged(kube, namespace, name) if namespace else None

    try:
        return asyncio.run(read())
    except (StowageError, OSError, TimeoutError):
        return None


def _show_unmanaged(arguments: ExplainArguments, notice: str, out: Console) -> None:
    if arguments.as_json:
        out.file.write(
            json.dumps({"title": arguments.name, "verdict": NOT_MANAGED, "headline": notice}, indent=2) + "\n"
        )
    else:
        out.print(Text(f"{arguments.name}: ").append("not managed", style="yellow"), soft_wrap=True)
        out.print(Text(f"  {notice}"), soft_wrap=True)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


async def _cluster_world(arguments: ExplainArguments, rules: WorldRules) -> World:
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        return await from_cluster(kube, rules)


def _check_name(name: str) -> None:
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest) or "/" in rest:
        raise InvalidName(f"{name!r} is no workload: allowed is NAMESPACE/NAME, of a Workload or of its job")
