"""The commands of `python -m hack.controlplane`: build, up, down, ps, run. The package's docstring shows them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from hack.controlplane import build, processes
from hack.controlplane.cluster import STATE, ControlPlane
from hack.controlplane.errors import ControlPlaneError
from hack.controlplane.helm import RECIPE as HELM
from hack.controlplane.kueuectl import RECIPE as KUEUECTL
from hack.controlplane.lws import RECIPE as LWS
from hack.controlplane.operators import OPERATORS
from hack.controlplane.options import STAGES, ClusterOptions
from hack.controlplane.prometheus import RECIPE as PROMETHEUS

TOOLS = (KUEUECTL, PROMETHEUS, HELM)


class OptionalServer(StrEnum):
    """Servers that a cluster may run without."""

    KWOK = "kwok"
    SCHEDULER = "scheduler"
    CONTROLLER_MANAGER = "controller-manager"


app = typer.Typer(help="A real Kubernetes control plane on loopback.", no_args_is_help=True, add_completion=False)

Folder = Annotated[
    Path | None, typer.Option("--dir", help="Run folder (default: up: in the cache; run: a temporary one).")
]
Jobset = Annotated[bool, typer.Option(help="Run the JobSet controller.")]
Lws = Annotated[bool, typer.Option(help="Run the LeaderWorkerSet controller.")]
Without = Annotated[list[OptionalServer], typer.Option(help="Leave a server out (may be repeated).")]
Tmpfs = Annotated[bool, typer.Option(help="Keep etcd's data in memory.")]
Gogc = Annotated[int | None, typer.Option(help="GOGC of the servers; 400 saves CPU and costs memory.")]
Admission = Annotated[str, typer.Option(help="Admission plugins to disable.")]
Gates = Annotated[str, typer.Option(help="Feature gates, as A=true,B=false.")]
Leases = Annotated[int, typer.Option(help="Seconds of a node's lease; 0: none, nodes never time out.")]
Monitor = Annotated[str, typer.Option(help="How often nodes are looked at; 5s for thousands.")]
Stages = Annotated[Path, typer.Option(help="kwok's stages.")]
Command = Annotated[list[str], typer.Argument(help="What to run, after --.")]


@app.command("build")
def build_command(
    lws: Annotated[bool, typer.Option(help="Build the LeaderWorkerSet controller as well.")] = False,
    tools: Annotated[
        bool, typer.Option(help="Build kueuectl, promtool and helm as well, which a few tests need.")
    ] = False,
    operators: Annotated[bool, typer.Option(help="Build the operators of all job kinds as well.")] = False,
) -> None:
    """Build missing programs and print their folder."""
    recipes = [build.CONTROL_PLANE, *([LWS] if lws else ()), *(TOOLS if tools else ())]
    recipes += [operator.recipe for operator in OPERATORS.values() if operators]
    for recipe in recipes:
        typer.echo(build.ensure(recipe=recipe).folder)


@app.command()
def up(
    folder: Folder = None,
    jobset: Jobset = False,
    lws: Lws = False,
    without: Without = [],  # noqa: B006  (typer copies defaults)
    tmpfs: Tmpfs = False,
    gogc: Gogc = None,
    disable_admission: Admission = "ServiceAccount",
    feature_gates: Gates = "",
    node_leases: Leases = 0,
    node_monitor_period: Monitor = "1s",
    kwok_stages: Stages = STAGES,
) -> None:
    """Start a cluster and leave it running."""
    place = folder or _default_folder()
    if (place / STATE).exists():
        raise ControlPlaneError(f"{place / STATE} exists: a cluster runs there; stop it with `down`")
    chosen = _options(
        jobset,
        lws,
        without,
        tmpfs,
        gogc,
        disable_admission,
        feature_gates,
        node_leases,
        node_monitor_period,
        kwok_stages,
    )
    cluster = ControlPlane(place, chosen, die_with_parent=False)
    cluster.start()
    typer.echo(f"ready after {_spelled(cluster.times)}", err=True)
    typer.echo(f"export KUBECONFIG={cluster.kubeconfig}")


@app.command()
def down(folder: Folder = None) -> None:
    """Stop the cluster that `up` started."""
    place, state = _state(folder)
    processes.stop([(name, pid) for name, pid in state["pids"]], place)
    shutil.rmtree(state["etcd_data"], ignore_errors=True)
    (place / STATE).unlink(missing_ok=True)


@app.command()
def ps(folder: Folder = None) -> None:
    """Print the memory of each server, and how long each took to become ready."""
    _, state = _state(folder)
    sizes = [(name, pid, processes.resident_bytes(pid)) for name, pid in state["pids"]]
    for name, pid, size in sizes:
        typer.echo(f"{name:20} {pid:8} " + ("gone" if size is None else f"{size / 2**20:8.1f} MiB"))
    typer.echo(
        f"{'all':29} {sum(size or 0 for *_, size in sizes) / 2**20:8.1f} MiB; ready after {_spelled(state['times'])}"
    )


@app.command()
def run(
    command: Command,
    folder: Folder = None,
    jobset: Jobset = False,
    lws: Lws = False,
    without: Without = [],  # noqa: B006  (typer copies defaults)
    tmpfs: Tmpfs = False,
    gogc: Gogc = None,
    disable_admission: Admission = "ServiceAccount",
    feature_gates: Gates = "",
    node_leases: Leases = 0,
    node_monitor_period: Monitor = "1s",
    kwok_stages: Stages = STAGES,
) -> None:
    """Start a cluster, run a command with KUBECONFIG set, stop the cluster; exit as the command did."""
    chosen = _options(
        jobset,
        lws,
        without,
        tmpfs,
        gogc,
        disable_admission,
        feature_gates,
        node_leases,
        node_monitor_period,
        kwok_stages,
    )
    place = folder or Path(tempfile.mkdtemp(prefix="stowage-controlplane-"))
    signal.signal(signal.SIGTERM, _terminated)
    with ControlPlane(place, chosen) as cluster:
        typer.echo(f"control plane: ready after {_spelled(cluster.times)}", err=True)
        code = subprocess.call(command, env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)})
    if code:
        typer.echo(f"control plane: the command failed with {code}; logs are in {place}", err=True)
    elif folder is None:
        shutil.rmtree(place, ignore_errors=True)
    raise typer.Exit(code if code >= 0 else 128 - code)


def _options(
    jobset: bool,
    lws: bool,
    without: list[OptionalServer],
    tmpfs: bool,
    gogc: int | None,
    disable_admission: str,
    feature_gates: str,
    node_leases: int,
    node_monitor_period: str,
    kwok_stages: Path,
) -> ClusterOptions:
    return ClusterOptions(
        jobset=jobset,
        lws=lws,
        kwok=OptionalServer.KWOK not in without,
        scheduler=OptionalServer.SCHEDULER not in without,
        controller_manager=OptionalServer.CONTROLLER_MANAGER not in without,
        tmpfs=tmpfs,
        gogc=gogc,
        disable_admission=tuple(filter(None, disable_admission.split(","))),
        feature_gates=parse_gates(feature_gates),
        node_lease_seconds=node_leases,
        node_monitor_period=node_monitor_period,
        kwok_stages=kwok_stages.resolve(),
    )


def parse_gates(text: str) -> dict[str, bool]:
    """Parses feature gates: `A=true` becomes {"A": True}. Raises typer.BadParameter."""
    gates: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or value not in ("true", "false"):
            raise typer.BadParameter(f"--feature-gates: {part!r}: must be NAME=true or NAME=false")
        gates[name] = value == "true"
    return gates


def _default_folder() -> Path:
    return build.cache_root() / "clusters" / "default"


def _state(folder: Path | None) -> tuple[Path, dict[str, Any]]:
    place = (folder or _default_folder()).resolve()
    if not (place / STATE).exists():
        raise ControlPlaneError(f"no cluster runs in {place}")
    state: dict[str, Any] = json.loads((place / STATE).read_text())
    return place, state


def _spelled(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items())


def _terminated(number: int, frame: FrameType | None) -> None:
    # exits normally, so that the cluster is stopped in order
    raise SystemExit(128 + number)


def main() -> None:
    try:
        app()
    except ControlPlaneError as error:
        sys.exit(f"control plane: {error}")


if __name__ == "__main__":
    main()
