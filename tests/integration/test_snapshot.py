"""What the controller process saw, from its own mouth: played again it decides what it had decided."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
from rich.console import Console

from admission.cli.demo.demo import StoryPlayer
from admission.cli.demo.display import Display
from admission.cli.demo.story import FOLLOWS, AwaitedState, story
from admission.cli.local_cluster.embedded import embedded
from admission.cli.local_cluster.processes import StowageProcesses
from admission.engine.decision import Wait
from admission.world.snapshot import capture_world, decode, from_snapshot
from api.kube.resources import WORKLOADS
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from api.workloads import Workload


async def test_a_snapshot_of_the_controller_decides_as_it_did(tmp_path: Path) -> None:
    """Asked for while a job waits: the job's Workload says in its status what the replay says."""
    topologies = story()
    until = next(number for number, topology in enumerate(topologies) if topology.outcome is AwaitedState.WAITING)
    display = Display(Console(quiet=True))
    async with asyncio.timeout(300), embedded(tmp_path, {"STOWAGE_CONTROLLER__SNAPSHOTS": "true"}) as cluster:
        teller = StoryPlayer(cluster.kube, display, 0.0)
        await teller._build()
        for topology in topologies[: until + 1]:
            await teller.submit(topology)
        page = (await cluster.kube.list(WORKLOADS, decode=Workload)).items
        world = from_snapshot(decode(await _asked(cluster.processes)))
    waiting = next(workload for workload in page if FOLLOWS in workload.metadata.name)
    admitted = {workload.key for workload in page if workload.status.admission is not None}
    assert world.ledger.admissions.keys() == admitted
    assert not world.ledger.audit()
    world.state.requeue_all()
    (decision,) = world.cycle().decisions
    condition = find_condition(waiting.status.conditions, QUOTA_RESERVED)
    assert isinstance(decision, Wait)
    assert condition is not None
    assert (decision.workload, decision.reason) == (waiting.key, condition.reason)
    assert condition.message.startswith(decision.message)
    assert capture_world(world).encode()


async def _asked(processes: StowageProcesses) -> bytes:
    port = processes.children["controller"].health_port
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/snapshot") as answer:
        assert answer.status == 200
        return await answer.read()
