"""The command `stowage` for people. Each command lives in its own module; here are only names and options."""

from __future__ import annotations

from typing import Annotated

import typer

from admission.cli import demo as demo_command

app = typer.Typer(name="stowage", no_args_is_help=True, add_completion=False)


@app.callback()
def stowage() -> None:
    """Topology-aware gang admission for Kubernetes."""


@app.command()
def demo(
    deadline: Annotated[float, typer.Option(min=1, help="Seconds within which the story must come true.")] = 60.0,
    pace: Annotated[float, typer.Option(min=0, help="Seconds between two jobs, to watch them come.")] = 1.0,
) -> None:
    """A small datacenter on an embedded API server: jobs that require racks, one that waits and says why."""
    raise typer.Exit(demo_command.run(deadline, pace))
