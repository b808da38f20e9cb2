"""Moves beside a tenant who makes them difficult, and nodes that fail in the middle of a plan."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from itertools import cycle

import pytest

from api.errors import StowageError
from api.kube.client import PatchKind
from api.kube.resources import JOBS
from api.meta import find_condition, is_true, rfc3339
from api.names import ADMITTED, EVICTED, LAST_CHECKPOINT, MINIMUM_RUN_TIME, MOVABLE, MOVE_COST, MOVING, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.test_moves import fragmented
from tests.scenarios.test_moves_made import ENVIRONMENT as MOVES
from tests.scenarios.test_moves_made import MAY_MOVE, moves_of
from tests.scenarios.test_node_failure import assigned, node_dies, patient

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = MOVES
SHARES_STAGE = True

MakeSite = Callable[[str], Site]

ABSURD = (
    {MOVABLE: "true", MOVE_COST: "168h", MINIMUM_RUN_TIME: "8784h"},
    {MOVABLE: "false", MOVE_COST: "0s", MINIMUM_RUN_TIME: "0s", LAST_CHECKPOINT: "1970-01-01T00:00:00Z"},
    {MOVABLE: "true", MOVE_COST: "168h", MINIMUM_RUN_TIME: "0s", LAST_CHECKPOINT: "2999-01-01T00:00:00Z"},
    {MOVABLE: "perhaps", MOVE_COST: "-1s", MINIMUM_RUN_TIME: "for ever", LAST_CHECKPOINT: "soon"},
    {MOVABLE: "true", MOVE_COST: "999999999999h"},
)
"""What the tenant writes in turn. The webhook refuses the last two."""


@contextlib.asynccontextmanager
async def rewritten(here: Site, job: str) -> AsyncIterator[list[int]]:
    """Rewrites all annotations of the job again and again meanwhile; yields [writes, refusals]."""
    counts = [0, 0]

    async def rewrite() -> None:
        for absurd in cycle(ABSURD):
            given = {LAST_CHECKPOINT: rfc3339(time.time()), **absurd}
            try:
                await here.kube.patch(JOBS, job, {"metadata": {"annotations": given}}, here.name, kind=PatchKind.MERGE)
                counts[0] += 1
            except StowageError:
                counts[1] += 1
            await asyncio.sleep(0.02)

    task = asyncio.create_task(rewrite())
    try:
        yield counts
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_tenant_who_rewrites_all_annotations_delays_no_moves(site: MakeSite) -> None:
    """`left` never helps the gang, but its movability changes all the time; then `small` may move."""
    here = site("rewrites")
    await fragmented(here, {})
    async with rewritten(here, "left") as counts:
        await eventually("it is refused", lambda: _at_least(counts, 3))
        await here.change(JOBS, "small", {"metadata": {"annotations": MAY_MOVE}})
        assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
        assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
    assert moves_of(await here.workload_of("small")) == 1
    assert moves_of(await here.workload_of("left")) == 0
    assert len(await here.running("left", 6)) == 6


async def _at_least(counts: list[int], refusals: int) -> bool:
    return counts[1] >= refusals and counts[0] >= refusals


async def test_a_node_that_fails_under_a_mover_on_its_way_costs_nobody_else_anything(site: MakeSite) -> None:
    """The node of `small`'s new place is gone before it runs there: it finds another place, and the gang gets its rack."""
    here = site("fails")
    await fragmented(here, {}, gang=False)
    await here.add_nodes({"b1": {"r4": 1}})
    await here.change(JOBS, "small", {"spec": {"backoffLimit": 20}})
    await here.change(JOBS, "small", {"metadata": {"annotations": MAY_MOVE}})
    await here.submit(patient(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK})))

    async def on_its_way() -> Workload | None:
        workload = await here.workload_of("small")
        found = None if workload is None else find_condition(workload.status.conditions, MOVING)
        return workload if found is not None else None

    (new,) = assigned(await eventually("small is on its way", on_its_way))
    await node_dies(here, new)
    assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
    for name in ("left", "right"):
        assert len(await here.running(name, 6)) == 6
        workload = await here.workload_of(name)
        assert workload is not None
        assert find_condition(workload.status.conditions, EVICTED) is None
    workload = await here.workload_of("small")
    assert workload is not None
    assert is_true(workload.status.conditions, ADMITTED)
