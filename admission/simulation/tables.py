"""The result as tables: workloads with their domains or wait reasons, waits by queue, use of capacity.

Called by the command line, which prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import HOSTNAME_LABEL, Admission, Assignment, to_text
from admission.simulation.comparison import LoadFigures
from admission.simulation.result import SimulationResult, WaitFigures, WorkloadRun, WorkloadState, figures

_STYLES = {
    WorkloadState.WAITING: "yellow",
    WorkloadState.RUNNING: "green",
    WorkloadState.FINISHED: "blue",
    WorkloadState.REJECTED: "red",
}
_NAMED = 2
"""Number of domains of one parent that are listed by name; a larger number is only counted."""


def workloads(runs: Sequence[WorkloadRun], ledger: Ledger) -> Table:
    """Returns a table with one row per workload, in the given order."""
    table = _table("workloads", ("job", "pods", "arrives", "admitted", "ends", "where, or why not"))
    for run in runs:
        detail = Text(where(run.admission, ledger) if run.admission else why(run), style=_STYLES[run.state])
        table.add_row(
            run.title,
            str(run.pods),
            clock(run.arrived),
            clock(run.admitted),
            clock(run.ended),
            detail,
        )
    return table


def waits(outcome: SimulationResult) -> Table:
    """Returns a table of waits by queue and priority."""
    groups: dict[tuple[str, int], list[WorkloadRun]] = {}
    for run in outcome.runs.values():
        groups.setdefault((run.workload.cluster_queue, run.workload.priority), []).append(run)
    table = _table("time to admission", ("queue", "priority", "jobs", "admitted", "mean", "median", "95 %", "longest"))
    for (queue, priority), runs in sorted(groups.items(), key=lambda group: (group[0][0], -group[0][1])):
        table.add_row(queue or "-", str(priority), *_figures(runs))
    if len(groups) > 1:
        table.add_section()
        table.add_row("all", "", *_figures(outcome.runs.values()))
    return table


def _figures(runs: Iterable[WorkloadRun]) -> list[str]:
    got = figures(runs)
    numbers = (got.mean, got.median, got.p95, got.most)
    return [str(got.count), str(got.admitted), *(clock(number if got.admitted else None) for number in numbers)]


def reasons(runs: Iterable[WorkloadRun]) -> Table:
    """Returns a table of wait reasons, most frequent first."""
    counted = Counter((run.reason, run.message) for run in runs)
    table = _table("still waiting", ("jobs", "reason", "message"))
    for (reason, message), count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(str(count), reason or "-", message)
    return table


def use(outcome: SimulationResult) -> Table:
    """Returns a table of each flavor's use of resources."""
    table = _table("use of capacity", ("flavor", "resource", "quota", "nodes", "mean use", "", "highest"))
    for line in outcome.use:
        table.add_row(
            line.flavor,
            line.resource,
            to_text(line.resource, line.quota),
            "-" if line.nodes is None else to_text(line.resource, line.nodes),
            to_text(line.resource, round(line.mean)),
            f"{line.share:.1%}",
            to_text(line.resource, line.highest),
        )
    return table


def compared(loads: Mapping[str, LoadFigures]) -> Table:
    """Returns a table with a column for each simulation of the same load."""
    table = _table("the same load", ("", *loads))
    every = list(loads.values())
    for kind, of in (("workloads that require a domain", "gangs"), ("others", "others")):
        waits: list[WaitFigures] = [getattr(one, of) for one in every]
        table.add_row(f"{kind}: admitted", *(f"{one.admitted} of {one.count}" for one in waits))
        table.add_row("  time to admission, median", *(clock(one.median) for one in waits))
        table.add_row("  95 %", *(clock(one.p95) for one in waits))
        table.add_row("  longest", *(clock(one.most) for one in waits))
    table.add_row("  from arrival to end, mean", *(clock(one.turnaround) for one in every))
    table.add_row("finished", *(str(one.finished) for one in every))
    table.add_row("moves, evictions", *(f"{one.relocations}, {one.evictions}" for one in every))
    table.add_row("device-hours lost", *(f"{one.lost / 3600:.1f}" for one in every))
    for flavor, resource in dict.fromkeys((line[0], line[1]) for one in every for line in one.use):
        shares = [next((line[2] for line in one.use if line[:2] == (flavor, resource)), 0.0) for one in every]
        table.add_row(f"use of {resource} on {flavor}", *(f"{share:.1%}" for share in shares))
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(
        title=title, title_justify="left", expand=False, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for heading in headings:
        wordy = heading.startswith("where") or heading == "message"
        free = wordy or heading in ("job", "queue", "reason")
        table.add_column(heading, overflow="fold", no_wrap=not free, min_width=24 if wordy else None)
    return table


def clock(seconds: float | None) -> str:
    """Formats seconds: `-`, `0.25s`, `12.5s`, `3m20s`, `2h05m`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def why(run: WorkloadRun) -> str:
    """Returns why a workload waits, or which victims it would evict."""
    if run.preempts:
        return f"evicts {', '.join(run.preempts)}: {run.message}"
    return ": ".join(part for part in (run.reason, run.message) if part) or "not considered yet"


def where(admission: Admission, ledger: Ledger) -> str:
    """Returns the domains of each pod set; hosts are listed under their parent domain."""
    parts = []
    for got in admission.pod_sets:
        flavors = ", ".join(sorted(set(got.flavors.values()))) or "no flavor"
        place = "; ".join(_domains(got.assignment, ledger)) if got.assignment else f"{got.count} on {flavors}"
        parts.append(place if len(admission.pod_sets) == 1 else f"{got.name}: {place}")
    return " | ".join(parts)


def _domains(assignment: Assignment, ledger: Ledger) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for domain in assignment.domains:
        path = _path(assignment, domain.values, ledger)
        groups.setdefault(path[:-1], []).append((path[-1], domain.count))
    for parent, children in groups.items():
        pods, above = sum(count for _, count in children), "/".join(parent)
        if len(children) > _NAMED:
            yield f"{pods} in {above or 'the tree'} ({len(children)} domains)"
        else:
            yield ", ".join(f"{count} in {'/'.join((*parent, name))}" for name, count in children)


def _path(assignment: Assignment, values: tuple[str, ...], ledger: Ledger) -> tuple[str, ...]:
    """Returns the full path of a domain; an assignment to hosts has only the hostname."""
    if assignment.levels != (HOSTNAME_LABEL,):
        return values
    for tree in ledger.capacity.trees.values():
        row = tree.row_of_host.get(values[0]) if tree.shape.by_host else None
        if row is not None:
            return tree.rows.paths[row]
    return values
