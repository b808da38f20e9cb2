"""The floor's process: admits every Workload as soon as it is seen, with the writes of the controller and no decision at all.

    python -m tests.bench.perfload.stamp KUBECONFIG

The same informer, the same status, the same patch, and as many writes at once as the controller has; no queue, no quota, no
place: all pods go to one host by turns.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import uvloop

from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.status import patch_status
from api import names
from api.assignment import encode
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import WORKLOADS
from api.kube.settings import ClientSettings
from api.workloads import Admission, PodSetAssignment, Workload
from tests.bench.perfload.objects import FLAVOR

_WRITES_AT_ONCE = 32
_HOSTS = 640


async def stamp(kubeconfig: Path) -> None:
    """Until cancelled."""
    waiting: asyncio.Queue[Workload] = asyncio.Queue()
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
        informer = Informer(kube, WORKLOADS, Workload)

        def changed(change: Change[Workload]) -> None:
            if change.type is ChangeType.ADDED:
                waiting.put_nowait(change.object)

        informer.add_handler(changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            for number in range(_WRITES_AT_ONCE):
                group.create_task(_write(kube, informer, waiting, number))


async def _write(kube: Kube, informer: Informer[Workload], waiting: asyncio.Queue[Workload], turn: int) -> None:
    while True:
        workload = await waiting.get()
        turn += _WRITES_AT_ONCE
        now, admission = time.time(), _admission(workload, turn % _HOSTS)
        status = conditions.reserved(workload.status, admission, now, workload.metadata.generation)
        status = conditions.synced_admitted(status, now, workload.metadata.generation)
        informer.observe(await patch_status(kube, workload, status, Writer.SCHEDULER))


def _admission(workload: Workload, host: int) -> Admission:
    pod_set = workload.spec.pod_sets[0]
    placed = None
    if pod_set.topology_request is not None:
        placed = encode((names.HOSTNAME_LABEL,), [((f"b0-r{host // 64}-h{host % 64:02d}",), pod_set.count)])
    assigned = PodSetAssignment(
        name=pod_set.name,
        flavors={"cpu": FLAVOR},
        resource_usage={"cpu": "5"},
        count=pod_set.count,
        topology_assignment=placed,
    )
    return Admission(cluster_queue=workload.spec.queue_name, pod_set_assignments=(assigned,))


if __name__ == "__main__":
    uvloop.run(stamp(Path(sys.argv[1])))
