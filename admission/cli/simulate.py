"""`stowage simulate`: runs the real engine on virtual time, over files, or over one instant of a live cluster plus a job.

Exit codes: 0 when simulated, 2 when not: an unreadable file, no job, or an unreachable cluster. Objects that cannot be read
are named on standard error, and the rest is simulated.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from admission.cli.connection import connect, worded
from admission.simulation import picture, result_json, tables
from admission.simulation.comparison import figures_of_load
from admission.simulation.moves.maker import Moves
from admission.simulation.result import SimulationResult, WorkloadRun, figures
from admission.simulation.run import Progress as Step
from admission.simulation.run import SimulationOptions, simulate_with
from admission.world.cluster import load_cluster
from admission.world.documents import documents
from admission.world.files import add_jobs, load_files
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world, from_snapshot
from admission.world.world import World
from api.errors import StowageError

PLAYED, NOT_PLAYED = 0, 2
_ROWS = 40
_WIDTH = 120
_LONG = 200
"""Number of workloads from which the simulation shows a progress bar."""


@dataclass(frozen=True, slots=True)
class SimulateArguments:
    """Arguments of the command."""

    files: Sequence[Path] = ()
    """Without any it reads a live cluster."""
    extra: Sequence[Path] = ()
    """Added jobs (`--with`)."""
    run_for: float = 600.0
    until: float = inf
    as_json: bool = False
    all_rows: bool = False
    picture: Path | None = None
    picture_at: float | None = None
    replay: bool = False
    moves: bool = False
    """Whether it simulates also with moves, and compares."""
    save_every: float = inf
    """The seconds between checkpoints of jobs that name none."""
    kubeconfig: Path | None = None
    context: str | None = None


class NothingToPlay(StowageError):
    """The input has no workload."""


def run(arguments: SimulateArguments, rules: WorldRules, out: Console | None = None, err: Console | None = None) -> int:
    """Runs the command and returns its exit code."""
    out, err = out or _console(), err or Console(stderr=True)
    try:
        world, added = _world(arguments, rules)
        if arguments.replay:
            _replay(world, out)
        else:
            _play(arguments, rules, world, added, out, err)
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"cannot simulate: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_PLAYED
    return PLAYED


def _console() -> Console:
    """Returns a console as wide as the terminal, or `_WIDTH` columns for a file or pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


# ---- input


def _world(arguments: SimulateArguments, rules: WorldRules) -> tuple[World, list[str]]:
    """Returns the world, and the keys of the workloads that `--with` added."""
    if arguments.files:
        world, objects = load_files(arguments.files, rules)
        if not arguments.extra:
            return world, []
        if objects is None:
            raise NothingToPlay("--with: a snapshot holds no LocalQueues, so that no job can be added to it")
        return world, add_jobs(world, objects, documents(arguments.extra))
    if arguments.extra:
        return asyncio.run(_live(arguments, rules))
    raise NothingToPlay("name files, a snapshot (--snapshot), or a job to try on the live cluster (--with)")


async def _live(arguments: SimulateArguments, rules: WorldRules) -> tuple[World, list[str]]:
    extra = list(documents(arguments.extra))  # reports unreadable files before it connects
    async with await connect(arguments.kubeconfig, arguments.context) as kube:
        world, objects = await load_cluster(kube, rules)
    return world, add_jobs(world, objects, extra)


# ---- simulation


def _play(
    arguments: SimulateArguments, rules: WorldRules, world: World, added: list[str], out: Console, err: Console
) -> None:
    faults = [str(fault) for fault in world.faults]
    if not arguments.as_json:
        for fault in faults:
            err.print(fault, style="yellow", markup=False, soft_wrap=True, highlight=False)
    if arguments.extra and not added:
        raise NothingToPlay(f"--with: no job to try{': ' + faults[-1] if faults else ''}")
    if not world.about and not world.arrivals and not len(world.queues) and not world.ledger.admissions:
        raise NothingToPlay("there is no job and no Workload")
    before = capture_world(world) if arguments.picture or arguments.moves else None
    options = SimulationOptions(arguments.run_for, 0.0 if added else arguments.until, arguments.save_every)
    without = None
    if before is not None and arguments.moves:
        with _bar(err, _size(world)) as step:
            without = figures_of_load(simulate_with(world, replace(options, progress=step)))
        world, options = from_snapshot(before), replace(options, maker=partial(Moves, after=rules.moves_after))
    with _bar(err, _size(world)) as step:
        outcome = simulate_with(world, replace(options, progress=step))
    if before is not None and arguments.picture is not None:
        moment = outcome.peak if arguments.picture_at is None else arguments.picture_at
        again = from_snapshot(before)
        simulate_with(again, replace(options, until=moment))
        picture.draw(again.ledger, moment, arguments.picture)
    shown = [outcome.runs[key] for key in added] or list(outcome.runs.values())
    if arguments.as_json:
        out.file.write(result_json.encoded(outcome, shown, faults, without) + "\n")
    elif added:
        _answer(shown, world, out)
    else:
        _print_result(arguments, outcome, world, out)
        if without is not None:
            out.print(tables.compared({"without": without, "with moves": figures_of_load(outcome)}))


def _size(world: World) -> int:
    return len(world.queues) + len(world.arrivals) + len(world.ledger.admissions)


@contextlib.contextmanager
def _bar(err: Console, size: int) -> Iterator[Step | None]:
    """Yields a progress callback for a large simulation on a terminal, else None."""
    if not err.is_terminal or size < _LONG:
        yield None
        return
    columns = (TextColumn("admitted"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as progress:
        task = progress.add_task("", total=size)

        def step(settled: int, total: int, now: float) -> None:
            progress.update(task, completed=settled, total=total, description=f"at {tables.clock(now)}")

        yield step


def _replay(world: World, out: Console) -> None:
    """Prints the decisions at the snapshot's moment, one JSON object per line, then those of inadmissible workloads.

    The output for a snapshot is the same bytes each time.
    """
    slept = world.queues.refusals().keys()
    _decide(world, out, None)
    if slept:
        world.state.requeue_all()
        _decide(world, out, slept)


def _decide(world: World, out: Console, of: Collection[str] | None) -> None:
    """Runs cycles until no decision is left; prints decisions on the workloads in `of`, or on all."""
    more = True
    while more:
        report = world.cycle()
        for decision in report.decisions:
            if of is not None and decision.workload not in of:
                continue
            line = {"decision": type(decision).__name__, **msgspec.to_builtins(decision)}
            out.file.write(msgspec.json.encode(line).decode() + "\n")
        more = report.more


# ---- output


def _print_result(arguments: SimulateArguments, outcome: SimulationResult, world: World, out: Console) -> None:
    runs = list(outcome.runs.values())
    shown = runs if arguments.all_rows else runs[:_ROWS]
    out.print(tables.workloads(shown, world.ledger))
    if len(shown) < len(runs):
        out.print(f"and {len(runs) - len(shown)} more (--all shows them)", markup=False, highlight=False)
    if waiting := outcome.waiting():
        out.print(tables.reasons(waiting))
    out.print(tables.waits(outcome))
    out.print(tables.use(outcome))
    got = figures(runs)
    text = f"{got.admitted} of {got.count} admitted within {tables.clock(outcome.ended)} of virtual time"
    out.print(f"{text}; {outcome.cycles} cycles, {outcome.decisions} decisions", markup=False, highlight=False)


def _answer(runs: Sequence[WorkloadRun], world: World, out: Console) -> None:
    """Prints whether the added jobs would run now, where, and which victims they would evict."""
    for one in runs:
        if one.admission is not None:
            text, style = f"would run now: {tables.where(one.admission, world.ledger)}", "green"
            if one.preempts:
                text += f"; evicts {', '.join(map(world.title, one.preempts))}"
        else:
            text, style = f"would wait: {tables.why(one)}", "yellow"
        out.print(f"{one.title} {text}", style=style, markup=False, soft_wrap=True, highlight=False)
