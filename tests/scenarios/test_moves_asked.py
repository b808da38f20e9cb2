"""Moves that the policy of a Topology asks for, in the background."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.resources import EVENTS, TOPOLOGIES
from api.names import DEFRAGMENT, MOVABLE, MOVES_PER_DAY
from tests.scenarios.site import Site, eventually, never
from tests.scenarios.test_moves import fragmented
from tests.scenarios.test_moves_made import ENVIRONMENT as MOVES_ON
from tests.scenarios.test_moves_made import MAY_MOVE, moves_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = MOVES_ON
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


async def moved(here: Site) -> bool:
    return moves_of(await here.workload_of("small")) > 0


async def apart(here: Site) -> bool:
    """`small` runs in racks beside the other two, whose jobs may not be moved."""
    return sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]


async def test_a_policy_makes_a_rack_free(site: MakeSite) -> None:
    here = site("policy")
    await fragmented(here, MAY_MOVE, gang=False)
    text = "rack: largest gang < 2 hosts"
    await here.change(TOPOLOGIES, here.name, {"metadata": {"annotations": {DEFRAGMENT: text}}}, cluster=True)

    async def is_moved() -> bool:
        return await moved(here)

    await eventually("the policy made a rack free", is_moved)
    await eventually("the moved job runs in the other racks", lambda: apart(here))


async def test_a_policy_without_a_budget_or_out_of_its_hours_moves_nothing(site: MakeSite) -> None:
    here = site("no-budget")
    await fragmented(here, MAY_MOVE, gang=False)
    annotations = {DEFRAGMENT: "rack: largest gang < 2 hosts", MOVES_PER_DAY: "0"}
    await here.change(TOPOLOGIES, here.name, {"metadata": {"annotations": annotations}}, cluster=True)
    await never("a budget of zero was exceeded", lambda: moved(here), 4.0)


async def test_a_policy_that_cannot_be_read_is_told(site: MakeSite) -> None:
    here = site("bad-policy")
    await fragmented(here, {MOVABLE: "true"}, gang=False)
    await here.change(TOPOLOGIES, here.name, {"metadata": {"annotations": {DEFRAGMENT: "always"}}}, cluster=True)

    async def told() -> bool:
        events = (await here.kube.list(EVENTS)).items
        mine = [one for one in events if one["involvedObject"]["name"] == here.name]
        return any("largest gang < 16 hosts" in one["message"] for one in mine if one["reason"] == "InvalidAnnotation")

    await eventually("an event says what is allowed", told)
