"""The demo's output: a live table on a terminal, else a line per change; at the end the topology tree with its pods.

Called by demo.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from admission.cli.demo.observe import JobState, JobView
from admission.cli.demo.story import GPUS_PER_HOST, HOSTS_PER_RACK, RACKS

Views = Mapping[str, JobView]

_STYLES = {
    JobState.QUEUED: "dim",
    JobState.WAITING: "yellow",
    JobState.ADMITTED: "cyan",
    JobState.RUNNING: "green",
    JobState.FINISHED: "blue",
    JobState.FAILED: "red",
}


class Display:
    """Prints the demo's progress. As a context manager it keeps the live table running."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Prints one line with the time since the start."""
        line = Text(f"[{time.monotonic() - self._begun:5.1f} s] ", style="dim").append(text, style="default")
        self._console.print(line, soft_wrap=True)

    def show(self, views: Views) -> None:
        """Updates the table; without a terminal prints a line for each changed job."""
        if self._live is not None:
            self._live.update(table(views))
            return
        for name, view in views.items():
            line = f"{name}: {view.state}{_detail(view)}"
            if self._shown.get(name) != line and view.state is not JobState.QUEUED:
                self._shown[name] = line
                self.say(line)

    def finish(self, views: Views) -> None:
        """Prints the final table and the tree of pods."""
        if self._live is None:
            self._console.print(table(views))
        else:
            self._live.stop()  # leaves the table above the tree
        self._console.print(tree(views))


def _detail(view: JobView) -> str:
    text = story_of(view)
    return f", {text}" if text else ""


def story_of(view: JobView) -> str:
    """Returns the racks of a running job's pods, or the reason why it waits or failed, or an empty string."""
    if view.state in (JobState.WAITING, JobState.FAILED):
        return f"{view.reason}: {view.message}"
    if view.state is not JobState.RUNNING:
        return ""
    parts = []
    for name, racks in view.racks.items():
        where = ", ".join(f"{pods} in {rack}" for rack, pods in sorted(racks.items()))
        parts.append(where if name == "main" else f"{name}: {where}")
    return "; ".join(parts)


def table(views: Views) -> Table:
    """Returns the table of jobs in order of submission."""
    jobs = Table(title="jobs", title_justify="left", expand=False)
    for heading in ("job", "pods", "asks for", "state", "where, or why not"):
        jobs.add_column(heading, overflow="fold", no_wrap=heading in ("job", "pods", "asks for", "state"))
    for name, view in views.items():
        kind = f"{name} (JobSet)" if view.job.is_jobset else name
        state = Text(view.state, style=_STYLES[view.state])
        jobs.add_row(kind, f"{view.running}/{view.job.pods}", view.job.topology_text, state, story_of(view))
    return jobs


def tree(views: Views) -> Tree:
    """Returns the tree of blocks, racks and hosts with the pods on each host."""
    root = Tree(f"datacenter ({GPUS_PER_HOST} GPUs a host)")
    for block, racks in RACKS.items():
        branch = root.add(block)
        for rack in racks:
            twig = branch.add(rack)
            for number in range(1, HOSTS_PER_RACK + 1):
                twig.add(_host_label(f"b{block[-1]}-r{rack[-1]}-h{number}", views))
    return root


def _host_label(host: str, views: Views) -> Text:
    pods = {name: view.hosts[host] for name, view in views.items() if view.hosts.get(host)}
    free = GPUS_PER_HOST - sum(pods.values())
    text = Text(f"{host}  ")
    text.append(", ".join(f"{name} x{count}" for name, count in pods.items()) or "-", style="green")
    return text.append(f"  {free} free" if free else "", style="dim")
