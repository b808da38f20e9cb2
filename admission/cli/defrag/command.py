"""`stowage defrag`: which running workloads could move so that a gang gets its domain, at what cost, and what fits then.

Reads a live cluster, files or a snapshot, and changes nothing; with `--apply` the controller of a live cluster makes the moves
(apply.py). Exit codes: 0 when planned, also if no move helps, and with `--apply` when all moves were made; 1 when they
were not; 2 when nothing was planned: an unreadable file, no such job or level, or an unreachable cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from admission.cli.connection import connect, worded
from admission.cli.defrag.apply import apply
from admission.doctor.report import plain
from admission.engine.decision import Certificate, Proof
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.model import to_text
from admission.simulation import tables
from admission.simulation.moves.defragmentation import (
    Defragmentation,
    DomainRoom,
    FlavorRoom,
    for_domain,
    for_waiting,
    for_workloads,
)
from admission.world.cluster import load_cluster
from admission.world.documents import Document, documents
from admission.world.files import add_jobs, load_files
from admission.world.rules import WorldRules
from admission.world.world import World
from api.errors import StowageError

PLANNED, NOT_MADE, NOT_PLANNED = 0, 1, 2
_WIDTH = 120
_DOMAINS: Final = 40
"""Domains that a tree shows; those that the moves change come first."""


@dataclass(frozen=True, slots=True)
class DefragArguments:
    """Arguments of the command. Without `files` it reads a live cluster. `jobs` are files with jobs to plan for (`--for`).

    `apply`: has the controller make the first plan, for a waiting workload or a domain of a live cluster.
    """

    files: Sequence[Path] = ()
    jobs: Sequence[Path] = ()
    domain: str = ""
    as_json: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    apply: bool = False


class NothingToPlanFor(StowageError):
    """The input has no job."""


def run(arguments: DefragArguments, rules: WorldRules, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or _console(), err or Console(stderr=True)
    try:
        world, added = _world(arguments, rules)
        for fault in world.faults:
            err.print(str(fault), style="yellow", markup=False, soft_wrap=True, highlight=False)
        results = _planned(arguments, world, added)
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"cannot plan: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_PLANNED
    if arguments.as_json:
        wire = [_wire(one) for one in results]
        out.file.write(msgspec.json.format(msgspec.json.encode(wire), indent=1).decode() + "\n")
    else:
        for one in results:
            _print(one, world, out)
    return _applied(arguments, results, err) if arguments.apply else PLANNED


def _applied(arguments: DefragArguments, results: Sequence[Defragmentation], err: Console) -> int:
    """Has the first plan made, and prints each step to `err`, so that JSON stays JSON."""
    made = next((one.result for one in results if isinstance(one.result, MovePlan)), None)
    if made is None:
        _line(err, "nothing was moved: there is no plan", "yellow")
        return NOT_MADE
    flavor = next(iter(sorted(made.moves[0].after.pod_sets[0].flavors.values())))
    what = f"workload {made.workload}" if made.workload else f"domain {arguments.domain}"

    async def ask() -> None:
        async with await connect(arguments.kubeconfig, arguments.context) as kube:
            await apply(kube, flavor, what, lambda text: _line(err, text))

    try:
        asyncio.run(ask())
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"not moved: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_MADE
    return PLANNED


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def _world(arguments: DefragArguments, rules: WorldRules) -> tuple[World, list[str]]:
    """Returns the world, and the keys of the workloads that `--for` added."""
    jobs = list(documents(arguments.jobs)) if arguments.jobs else []  # reports unreadable files before it connects
    if not arguments.files:
        return asyncio.run(_live(arguments, jobs, rules))
    world, objects = load_files(arguments.files, rules)
    if not jobs:
        return world, []
    if objects is None:
        raise NothingToPlanFor("--for: a snapshot holds no LocalQueues, so that no job can be added to it")
    return world, add_jobs(world, objects, jobs)


async def _live(arguments: DefragArguments, jobs: Sequence[Document], rules: WorldRules) -> tuple[World, list[str]]:
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        world, objects = await load_cluster(kube, rules)
    return world, add_jobs(world, objects, jobs)


def _planned(arguments: DefragArguments, world: World, added: Sequence[str]) -> list[Defragmentation]:
    if arguments.jobs:
        if not added:
            fault = f": {world.faults[-1]}" if world.faults else ""
            raise NothingToPlanFor(f"--for: no job to plan for{fault}")
        return for_workloads(world, added, arguments.domain)
    if arguments.domain:
        return [for_domain(world, arguments.domain)]
    results = for_waiting(world)
    if not results:
        raise NothingToPlanFor("no workload waits; --for names a job, --domain a level of which a domain shall be free")
    return results


# ---- output


def _print(defragmentation: Defragmentation, world: World, out: Console) -> None:
    result, target = defragmentation.result, plain(defragmentation.target)
    if isinstance(result, NoPlan):
        _line(out, f"{target}: no moves: {plain(result.message)}", "yellow")
        for why, count in sorted(result.stays.items(), key=lambda each: (-each[1], each[0])):
            _line(out, f"  {count} workload(s) stay: {why}")
        return
    goal = f"domain {'/'.join(result.domain)} would be free" if result.domain else "it would start"
    _line(out, f"{target}: {len(result.moves)} move(s), then {plain(goal)}", "green")
    out.print(_moves(result, world))
    if result.admission is not None:
        _line(out, f"its place: {plain(tables.where(result.admission, world.ledger))}")
    _line(out, f"work lost: {result.cost} device-seconds; {_proof(result.certificate)}")
    for room in defragmentation.rooms:
        out.print(_gangs(room))
        out.print(_tree(room, after=False))
        out.print(_tree(room, after=True))


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(text, style=style, markup=False, soft_wrap=True, highlight=False)


def _proof(certificate: Certificate) -> str:
    if certificate.proof is Proof.OPTIMAL:
        return "proved: no moves lose less"
    return f"not proved: every other plan loses at least {certificate.bound[0]}"


def _moves(result: MovePlan, world: World) -> Table:
    table = Table(title="moves", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("job", "from", "to", "device-seconds lost"):
        table.add_column(heading, overflow="fold", justify="right" if heading.endswith("lost") else "left")
    for move in result.moves:
        places = (tables.where(admission, world.ledger) for admission in (move.before, move.after))
        table.add_row(plain(world.title(move.workload)), *map(plain, places), str(move.cost))
    return table


def _gangs(room: FlavorRoom) -> Table:
    table = Table(title=f"largest gang on flavor {room.flavor}", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("level", "pods of", "before", "after"):
        table.add_column(heading, overflow="fold", justify="right" if heading in ("before", "after") else "left")
    for level, shape, before, after in room.gangs:
        table.add_row(plain(level), plain(shape), str(before), str(after))
    return table


def _tree(room: FlavorRoom, *, after: bool) -> Tree:
    """Returns the tree of the domains with their free amounts, the changed ones before others if there are many."""
    root = Tree(plain(f"{'after' if after else 'before'}: free {room.resource} on flavor {room.flavor}"))
    shown = sorted(room.domains, key=lambda domain: (domain.before == domain.after, domain.path))[:_DOMAINS]
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for domain in sorted(shown, key=lambda domain: domain.path):
        above = next(
            branches[domain.path[:n]] for n in range(len(domain.path) - 1, -1, -1) if domain.path[:n] in branches
        )
        branches[domain.path] = above.add(_label(domain, room.resource, after=after))
    if len(room.domains) > len(shown):
        root.add(f"and {len(room.domains) - len(shown)} more")
    return root


def _label(domain: DomainRoom, resource: str, *, after: bool) -> str:
    free = domain.after if after else domain.before
    more = domain.after - domain.before
    changed = f"  ({'+' if more > 0 else ''}{to_text(resource, more)})" if after and more else ""
    amounts = f"{to_text(resource, free)} of {to_text(resource, domain.total)}"
    return plain(f"{domain.path[-1]}  {amounts}") + changed


def _wire(defragmentation: Defragmentation) -> dict[str, Any]:
    kind = "plan" if isinstance(defragmentation.result, MovePlan) else "noPlan"
    result = msgspec.to_builtins(defragmentation.result)
    return {"target": defragmentation.target, kind: result, "rooms": msgspec.to_builtins(defragmentation.rooms)}
