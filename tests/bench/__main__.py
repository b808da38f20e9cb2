"""`python -m tests.bench [PART ...]`: prints figures of one part or of all; nothing here passes or fails."""

from __future__ import annotations

import typer

from tests.bench import (
    answers,
    binds,
    coldstart,
    cycle,
    defrag,
    defrag_load,
    ends,
    exact,
    explain,
    failures,
    forecast,
    gangs,
    holds,
    jobs,
    joint,
    kinds,
    leadership,
    long_cycles,
    page,
    placement,
    preemption,
    rack_gangs,
    shaping,
    simulate,
    soak,
    steps,
    take_over,
    terms,
    waiting,
    webhook,
)
from tests.bench.page_scenes import Beside
from tests.bench.perfload import run as perfload
from tests.bench.protocol import BenchMode

SIZES = "640,5000,15000,50000,100000"
app = typer.Typer(no_args_is_help=False, add_completion=False)


@app.command("jobs")
def jobs_command(
    loads: list[str] = typer.Argument(default=None),  # noqa: B008  typer's way
    floor: bool = False,
    protocol: bool = False,
    top: int = 0,
) -> None:
    """Jobs end to end on the real control plane."""
    mode = BenchMode.FLOOR if floor else BenchMode.PROTOCOL if protocol else BenchMode.STOWAGE
    jobs.run(loads or [], mode=mode, top=top)


@app.command("gangs")
def gangs_command(
    loads: list[str] = typer.Argument(default=None),  # noqa: B008  typer's way
    dialect: str = "labels",
    share: float = 1.0,
    floor: bool = True,
    protocol: bool = False,
    top: int = 0,
) -> None:
    """Gangs of plain pods end to end on the real control plane, beside the same pods without us."""
    gangs.run(loads or [], gangs.Run(gangs.Dialect(dialect), share, floor, protocol, top))


@app.command("failures")
def failures_command(pods: int = 512, nodes: int = 1000, die: str = "1,2,8", spares: int = 0) -> None:
    """Nodes that die under one large gang."""
    failures.run(pods, nodes, [int(number) for number in die.split(",")], spares)


@app.command("leadership")
def leadership_command(times: int = 3) -> None:
    """The time without a leader when one is stopped or killed."""
    leadership.run(times)


@app.command("placement")
def placement_command(sizes: str = SIZES, repeat: int = 15) -> None:
    """One placement decision on Kueue's clusters."""
    placement.main(["--sizes", sizes, "--repeat", str(repeat)])


@app.command("terms")
def terms_command(nodes: int = 15_000, repeat: int = 15) -> None:
    """One placement beside pods that keep others away."""
    terms.run(nodes, repeat)


@app.command("binds")
def binds_command(gangs: int = 2000, seed: int = 1, each: int = 50, beside: int = 3, keep: str = "") -> None:
    """Whether drawn gangs that are let through are bound, on the real control plane."""
    binds.run(gangs, seed, each, beside, keep)


@app.command("exact")
def exact_command(first: int = 4000, three: int = 1000) -> None:
    """Profile Exact on random trees, balanced placement, encoding."""
    exact.main(["--one", str(first), "--three", str(three)])


@app.command("coldstart")
def coldstart_command(load: str = typer.Argument(default="coldstart")) -> None:
    """The controller's start beside a large cluster: `coldstart`, or `nodes` for very many of these alone."""
    coldstart.run(load)


@app.command("preemption")
def preemption_command(nodes: int = 2000, candidates: int = 700, repeat: int = 3) -> None:
    """Whom to evict on a full cluster."""
    preemption.run(nodes, candidates, repeat)


@app.command("rack-gangs")
def rack_gangs_command(nodes: int = 0, decisions: int = 1, wide: int = 16, repeat: int = 3) -> None:
    """Whom to evict for gangs of a rack or block where quota and nodes are both full: one cycle."""
    rack_gangs.run(nodes, decisions, wide, repeat)


@app.command("defrag")
def defrag_command(nodes: int = 2000, candidates: int = 700, repeat: int = 3, loads: bool = True) -> None:
    """Which workloads to move for a gang that no rack holds; then, with `loads`, what `defrag-load` prints."""
    defrag.run(nodes, candidates, repeat)
    take_over.run(nodes, candidates)
    if loads:
        defrag_load.run()


@app.command("defrag-load")
def defrag_load_command(only: str = "", hours: float = defrag_load.FRAGMENTED.hours) -> None:
    """Whole loads with and without moves, and with a descheduler instead, on virtual time."""
    defrag_load.run(only, hours)


@app.command("cycle")
def cycle_command() -> None:
    """One admission cycle beside many nodes, and beside many that wait."""
    cycle.run()


@app.command("long-cycles")
def long_cycles_command(only: str = "", top: int = 0, repeat: int = 2) -> None:
    """Cycles with many queues or flavors under fair sharing, with many taints, under placement constraints."""
    long_cycles.run(only, top, repeat)


@app.command("answers")
def answers_command(scenes: int = 500, steps: int = 40, keep: str = "") -> None:
    """The hash of all decisions in drawn scenes, to compare before and after a change of the engine."""
    answers.run(scenes, steps, keep)


@app.command("waiting")
def waiting_command() -> None:
    """Cycles beside very many that wait, and a book of very many nodes."""
    waiting.run()


@app.command("ends")
def ends_command(jobs: int = 1000) -> None:
    """How soon Workloads are Finished after their jobs."""
    ends.run(jobs)


@app.command("holds")
def holds_command(share: float = 1.0) -> None:
    """Which work holds the controller's event loop beside a large cluster."""
    holds.run(share)


@app.command("webhook")
def webhook_command(creations: int = 0) -> None:
    """Reviews at many clients at once, or a storm of creations."""
    webhook.run(creations)


@app.command("simulate")
def simulate_command(profile: str = "Exact", top: int = 0) -> None:
    """Kueue's performance load on virtual time."""
    simulate.main(["--profile", profile, "--top", str(top)])


@app.command("forecast")
def forecast_command(jobs: int = 400, seeds: int = 3, first_seed: int = 1) -> None:
    """Calibration and cost of forecasts of starts."""
    forecast.run(jobs, seeds, first_seed)


@app.command("perfload")
def perfload_command(fraction: float = 1.0, without_topology: bool = False, floor: bool = False, top: int = 0) -> None:
    """Kueue's performance load on the real API server."""
    perfload.run(perfload.Run(fraction, not without_topology, floor, top))


@app.command("shaping")
def shaping_command(sizes: str = "5000,15000", repeat: int = 5) -> None:
    """One placement decision under placement constraints."""
    shaping.run(sizes, repeat)


@app.command("explain")
def explain_command(nodes: int = 5000, repeat: int = 5) -> None:
    """Why a workload waits and what would let it in."""
    explain.run(nodes, repeat)


@app.command("joint")
def joint_command(each: int = 300) -> None:
    """Several pod sets that compete for racks: what is missed, and the time of the joint search."""
    joint.run(each)


@app.command("soak")
def soak_command(minutes: float = 60.0, jobs: int = 20_000) -> None:
    """Queues and jobs that come and go: whether memory, tasks, descriptors or metric series grow."""
    soak.run(minutes, jobs)


@app.command("steps")
def steps_command(count: int = 10_000, repeat: int = 40) -> None:
    """What it costs to measure the steps of the event loop."""
    steps.run(count, repeat)


@app.command("kinds")
def kinds_command(seconds: float = 60.0) -> None:
    """Idle processes with kinds declared and absent, beside none; lines of code per kind."""
    kinds.run(seconds)


@app.command("page")
def page_command(sizes: str = "1000,15000", beside: Beside = Beside.STAND_IN) -> None:
    """The dashboard's page in a headless Chromium: its size, first picture, events, frames of a zoom."""
    page.run(sizes, beside)


@app.callback(invoke_without_command=True)
def everything(context: typer.Context) -> None:
    """Without a command: all of it."""
    if context.invoked_subcommand is None:
        placement.main([])
        preemption.run()
        rack_gangs.run()
        defrag.run()
        defrag_load.run()
        cycle.run()
        waiting.run()
        long_cycles.run()
        exact.main([])
        shaping.run()
        joint.run()
        explain.run()
        simulate.main([])
        forecast.run()
        coldstart.run()
        coldstart.run("nodes")
        webhook.run()
        perfload.run(perfload.Run())
        jobs.run([])
        gangs.run([], gangs.Run())


if __name__ == "__main__":
    app()
