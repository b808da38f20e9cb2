"""Jobs end to end on the real control plane, driven by the neutral load tool that stands beside the project.

    python -m tests.bench jobs [LOAD ...] [--floor | --protocol] [--top N]

Each load of loads.json gets a control plane of its own with kwok nodes; Stowage's three processes run beside it on the same
machine under their own ServiceAccounts. Prints the tool's table, the CPU seconds and memory of our processes, and how
many API requests a job costs by verb and resource. `--floor` runs the same Jobs without any queueing, `--protocol` with the
writes of the queueing and nothing else (jobstamp.py; each job must fit on one host).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from admission.cli.local_cluster.processes import StowageProcesses, start_interpreter
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.bench.loads import loads
from tests.bench.measure import cost, pid_of
from tests.bench.perfload.run import print_profile, profiled
from tests.bench.protocol import BenchMode, stamping
from tests.scenarios.stage import real

TOOL = Path(__file__).resolve().parents[3] / "shared" / "bench" / "jobs_bench.py"
LOADS = loads("jobs")
CLUSTER = ClusterOptions(
    gogc=400, disable_admission=("ServiceAccount", "TaintNodesByCondition"), node_monitor_period="5s", tmpfs=True
)

_SETTLED = 20.0
"""Seconds between the last node of the setup and the measurement of idle memory."""


def run(names: list[str], *, mode: BenchMode = BenchMode.STOWAGE, top: int = 0) -> None:
    """Runs the loads one after the other and prints what they cost; `top`: and lines of a profile of the controller."""
    if not TOOL.exists():
        print(f"the load tool is not there: {TOOL.name} is expected in ../shared/bench")
        return
    for name in names or list(LOADS):
        with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
            asyncio.run(_one(name, Path(folder), mode, top))
            print_profile(Path(folder), top)


async def _one(name: str, folder: Path, mode: BenchMode, top: int) -> None:
    with ControlPlane(folder / "cluster", CLUSTER) as cluster:
        if mode is BenchMode.FLOOR:
            await _drive(name, cluster, folder, mode)
        elif mode is BenchMode.PROTOCOL:
            async with stamping(cluster, "tests.bench.jobstamp") as pid:
                _account(cluster, {"stamp": pid})
                await _drive(name, cluster, folder, mode)
        else:
            # As an operator starts them: a forked process would have what all three import in its memory.
            async with real(cluster, folder, launch=start_interpreter) as stage:
                if top:
                    await profiled(stage.processes)
                children = stage.processes.children.values()
                pids = {child.name: pid_of(child) for child in children}
                _account(cluster, pids)
                await _drive(name, cluster, folder, mode, pids)
                await _requests(stage.processes, LOADS[name]["jobs"])


def _account(cluster: ControlPlane, pids: Mapping[str, int]) -> None:
    """Names our processes in the file in which the tool looks for those whose CPU it adds up."""
    path = cluster.folder / "state.json"
    state = json.loads(path.read_text())
    state["pids"] += [[f"stowage-{name}", pid] for name, pid in pids.items()]
    path.write_text(json.dumps(state))


async def _drive(
    name: str, cluster: ControlPlane, folder: Path, mode: BenchMode, ours: Mapping[str, int] | None = None
) -> None:
    load = LOADS[name]
    common = ["--kubeconfig", str(cluster.kubeconfig), *(["--no-queue"] if mode is BenchMode.FLOOR else [])]
    blocks = ["--blocks", str(load["blocks"])] if "blocks" in load else []
    await _call("setup", *common, *blocks)
    if ours:
        await asyncio.sleep(_SETTLED)
        _tell_memory(name, "idle", {process: cost(pid).resident for process, pid in ours.items()})
    topology = "none" if mode is BenchMode.FLOOR else load["topology"]
    out = folder / "result.json"
    options = ["--jobs", str(load["jobs"]), "--pods", str(load["pods"]), "--topology", topology, "--out", str(out)]
    for key in ("run_for", "rate"):
        if key in load:
            options += [f"--{key.replace('_', '-')}", str(load[key])]
    state = str(cluster.folder / "state.json")
    await _call("run", *common, *options, "--state", state, "--label", f"{name}{mode.value}")
    _summarise(name, json.loads(out.read_text()), mode)
    if ours:
        _tell_memory(name, "highest", {process: cost(pid).highest for process, pid in ours.items()})


def _tell_memory(name: str, when: str, sizes: Mapping[str, float]) -> None:
    told = ", ".join(f"{process} {size:.0f}" for process, size in sizes.items())
    print(f"SUMMARY {name}, {when} memory in MiB: {told}; together {sum(sizes.values()):.0f}", flush=True)


async def _call(*arguments: str) -> None:
    await asyncio.to_thread(subprocess.run, [sys.executable, str(TOOL), *arguments], check=False)


def _summarise(name: str, result: dict[str, Any], mode: BenchMode) -> None:
    ours = sum(seconds for part, seconds in result["cpu_s"].items() if part.startswith("stowage-"))
    server = result["cpu_s"].get("apiserver", 0.0) or result["cpu_s"].get("kube-apiserver", 0.0)
    clock, stages = result["clock"], result["stages_since_job_post"]
    print(
        f"SUMMARY {name}{mode.value}: wall {result['wall_s']} s, last bound {clock['bound'][1]} s, "
        f"last admitted {clock.get('admitted', [0, 0])[1]} s, posted to bound p50 {stages['all pods bound']['p50']} "
        f"p95 {stages['all pods bound']['p95']} s, CPU ours {ours:.1f} / API server {server:.1f} s; "
        f"violations {result['required_violations']}; Kueue {LOADS[name].get('kueue')}; floor {LOADS[name].get('floor')}"
    )


async def _requests(processes: StowageProcesses, jobs: int) -> None:
    """API requests per job, by process, verb and resource; from each process's own counter."""
    async with aiohttp.ClientSession() as session:
        for child in processes.children.values():
            async with session.get(f"http://127.0.0.1:{child.health_port}/metrics") as answer:
                text = await answer.text()
            counts: Counter[str] = Counter()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name == "stowage_api_requests_total":
                        counts[f"{sample.labels['verb']} {sample.labels['resource']} {sample.labels['code']}"] += int(
                            sample.value
                        )
            told = ", ".join(f"{what} {count / jobs:.2f}" for what, count in counts.most_common(12))
            print(f"requests per job, {child.name}: {told}")
