"""What is let through binds: drawn gangs on drawn clusters of the real control plane.

    python -m tests.bench binds [--gangs 2000] [--seed 1] [--each 50] [--beside 3] [--keep FOLDER]

Each cluster of a seed gets `each` gangs; `beside` clusters are driven at once on one control plane, each with nodes of its own.
Prints how many were bound, how many waited, which pods the scheduler refused after their gate had opened, and which gangs
waited that it would have bound at that moment, each with what was there. The logs of all processes stay in the folder `keep`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.binds.driver import Driver, Outcome
from tests.scenarios.stage import Stage, real

_CLUSTER = ClusterOptions(disable_admission=("ServiceAccount", "TaintNodesByCondition"), tmpfs=True)


def run(gangs: int = 2000, seed: int = 1, each: int = 50, beside: int = 3, keep: str = "") -> bool:
    """Print the outcome; whether the scheduler refused no pod and 1 % of the gangs at most waited for nothing."""
    began = time.monotonic()
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="stowage-binds-") as folder:
        found = asyncio.run(_all(Path(folder), range(seed, seed + -(-gangs // each)), each, beside))
    print(
        f"{found.gangs} gangs in {time.monotonic() - began:.0f} s: {found.bound} bound, {found.waited} waited with a reason, "
        f"{len(found.silent)} neither; pods refused after their gate: {len(found.unschedulable)}; "
        f"waited though the stock scheduler would have bound them: {len(found.refused)}"
    )
    return not found.unschedulable and not found.silent and len(found.refused) * 100 < found.gangs


async def _all(folder: Path, seeds: range, each: int, beside: int) -> Outcome:
    found, left = Outcome(), list(reversed(seeds))
    with ControlPlane(folder / "cluster", _CLUSTER) as cluster:
        async with real(cluster, folder) as stage, asyncio.TaskGroup() as group:
            for _ in range(beside):
                group.create_task(_worker(stage, left, each, found))
    return found


async def _worker(stage: Stage, seeds: list[int], each: int, outcome: Outcome) -> None:
    while seeds:
        seed = seeds.pop()
        one = await Driver(stage, seed).run(each)
        outcome.add(one)
        _tell(one)
        print(f"seed {seed}: {one.gangs} gangs, {one.bound} bound, {one.waited} waited, refused pods "
              f"{len(one.unschedulable)}, for nothing {len(one.refused)}", flush=True)  # fmt: skip


def _tell(outcome: Outcome) -> None:
    """What explains each finding."""
    for finding in (*outcome.silent, *outcome.refused):
        limit = finding.limit or "no documented limit"
        print(f"\n{finding.gang.name}: {finding.gang.pods} pods, {finding.gang.terms}\n  {finding.said}\n  ({limit})")
        print("  " + "\n  ".join(finding.state))
    for text in outcome.unschedulable:
        print(text)
