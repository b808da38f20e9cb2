"""What kinds of job cost: idle processes with 20 kinds declared whose CRDs are absent, beside none; and lines of code per kind.

    python -m tests.bench kinds

The embedded API server and the three processes, as the demo starts them. Nothing happens while CPU is measured; it includes
what each process does in any case (leases, its own metrics, checks of its certificate). The server answers from this process,
on the same cores.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from admission.cli.local_cluster.embedded import EmbeddedCluster, embedded
from admission.cli.local_cluster.processes import COMMANDS
from admission.integrations import job, jobset
from admission.integrations.registry import DECLARED, FOLDER
from admission.integrations.sets import leaderworkerset, statefulset
from admission.webhook.kinds import job as job_rules
from admission.webhook.kinds import jobset as jobset_rules
from admission.webhook.kinds import leaderworkerset as group_rules
from admission.webhook.kinds import statefulset as set_rules
from api.job_kinds import JobKind
from api.kube.resources import JOB_KINDS
from api.meta import find_condition
from tests.bench.measure import ProcessCost, cost

DECLARED_KINDS = 20
_SETTLED = 20.0
"""Seconds after the last change until the measurement begins."""
OWN: Mapping[str, tuple[ModuleType, ...]] = {
    "Job": (job, job_rules),
    "JobSet": (jobset, jobset_rules),
    "StatefulSet": (statefulset, set_rules),
    "LeaderWorkerSet": (leaderworkerset, group_rules),
}
"""Kinds with an adapter of their own, and the modules that are theirs alone."""


def run(seconds: float = 60.0) -> None:
    """Prints the lines of each kind, then two lines for each process: none declared, and 20 that are absent."""
    for line in lines():
        print(line, flush=True)
    for kinds in (0, DECLARED_KINDS):
        with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
            for name, spent in asyncio.run(_idle(Path(folder), kinds, seconds)).items():
                print(f"SUMMARY idle {name}, {kinds} kinds declared and absent: {_told(spent, seconds)}", flush=True)


def lines() -> Iterator[str]:
    """How long each kind is: its declaration, and the Python that serves it alone."""
    for adapter in DECLARED:
        yaml = len((FOLDER / f"{adapter.resource.kind.lower()}.yaml").read_text().splitlines())
        modules = {inspect.getmodule(type(function)) for function in adapter.functions}
        yield f"{adapter.resource.kind}: {yaml} lines of YAML, {sum(map(_length, modules))} of Python"
    for kind, own in OWN.items():
        yield f"{kind}: {sum(map(_length, own))} lines of Python"


def _length(module: ModuleType | None) -> int:
    return 0 if module is None else len(inspect.getsource(module).splitlines())


def _told(spent: ProcessCost, seconds: float) -> str:
    return f"{spent.resident:.0f} MiB resident, {1000 * spent.cpu / seconds:.1f} ms of CPU a second"


async def _idle(folder: Path, kinds: int, seconds: float) -> dict[str, ProcessCost]:
    """CPU within so many seconds, and memory at their end, by process."""
    async with embedded(folder) as cluster:
        for number in range(kinds):
            await cluster.kube.create(JOB_KINDS, _absent(number))
        await _noticed(cluster, kinds)
        await asyncio.sleep(_SETTLED)
        pids = dict(zip(COMMANDS, cluster.processes.pids, strict=True))
        before = {name: cost(pid) for name, pid in pids.items()}
        await asyncio.sleep(seconds)
        after = {name: cost(pid) for name, pid in pids.items()}
    return {n: ProcessCost(after[n].cpu - before[n].cpu, after[n].resident, after[n].highest) for n in pids}


async def _noticed(cluster: EmbeddedCluster, kinds: int) -> None:
    """Until each JobKind says that it is not served."""
    async with asyncio.timeout(120):
        while True:
            found = [JobKind.from_wire(one) for one in (await cluster.kube.list(JOB_KINDS)).items]
            said = [find_condition(one.status.conditions, "Active") for one in found]
            if sum(one is not None and one.reason == "NotServed" for one in said) == kinds:
                return
            await asyncio.sleep(0.2)


def _absent(number: int) -> dict[str, object]:
    group, kind = f"absent{number}.example.com", f"Absent{number}"
    plural = kind.lower() + "s"
    spec = {
        "group": group,
        "version": "v1",
        "plural": plural,
        "kind": kind,
        "suspend": {"path": "spec.suspend"},
        "podSets": [{"each": "spec.roles{}", "template": "template", "count": [{"path": "replicas"}]}],
        "status": {"active": {"expression": "object.?status.?active.orValue(0) > 0"}},
    }
    meta = {"name": f"{plural}.{group}"}
    return {"apiVersion": JobKind.API_VERSION, "kind": JobKind.KIND, "metadata": meta, "spec": spec}
