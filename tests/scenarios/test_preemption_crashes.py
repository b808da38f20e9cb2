"""A process killed at each step of a preemption: the end is as without, and nobody is evicted twice.

Two jobs of six pods fill a rack of three hosts. An urgent one of twelve takes their place, and they come back when it has gone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.resources import JOBS, WORKLOADS
from api.meta import is_true
from api.names import EVICTED, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.change_watcher import Watchman, watched
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import RECLAIM, prioritized

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]
VICTIMS, EACH, URGENT = ("first", "second"), 6, "urgent"


def states(seen: Watchman, kind: str) -> list[bool]:
    """Of the victims: whether the condition holds."""
    return [(w := seen.workload(name)) is not None and is_true(w.status.conditions, kind) for name in VICTIMS]


def reserved(seen: Watchman) -> bool:
    urgent = seen.workload(URGENT)
    return urgent is not None and is_true(urgent.status.conditions, QUOTA_RESERVED)


STEPS: dict[str, Callable[[Watchman], bool]] = {
    "queued": lambda seen: seen.workload(URGENT) is not None,
    "one-evicted": lambda seen: any(states(seen, EVICTED)),
    "both-evicted": lambda seen: all(states(seen, EVICTED)),
    "one-released": lambda seen: not all(states(seen, QUOTA_RESERVED)),
    "both-released": lambda seen: not any(states(seen, QUOTA_RESERVED)),
    "reserved": reserved,
    "gated": lambda seen: reserved(seen) and seen.gated > 0,
    "bound": lambda seen: reserved(seen) and seen.bound > 0,
}
LONG = {"queued", "both-evicted", "both-released", "gated"}


def rows() -> list[object]:
    """Who is killed at which step; the ungater has no part in what comes before the pods."""
    pairs = [("controller", step) for step in STEPS] + [("ungater", "gated"), ("ungater", "bound")]
    return [
        pytest.param(*pair, id="-".join(pair), marks=[pytest.mark.long] if pair[1] in LONG else []) for pair in pairs
    ]


def evictions(workload: Workload | None) -> int:
    assert workload is not None
    stats = workload.status.scheduling_stats
    return sum(one.count for one in stats.evictions) if stats else 0


@pytest.mark.parametrize(("victim", "step"), rows())
async def test_killed_while_a_job_takes_the_place_of_others(
    site: MakeSite, stage: Stage, victim: str, step: str
) -> None:
    here = site(f"taking-{victim}-{step}")
    await here.open({"b1": {"r1": 3}}, preemption=RECLAIM)
    for name in VICTIMS:
        await here.submit(here.job(name, EACH, {REQUIRE_TOPOLOGY: RACK}))
        await here.running(name, EACH)
    async with watched(here, evicts=True) as seen:
        await here.submit(await prioritized(here, here.job(URGENT, 2 * EACH, {REQUIRE_TOPOLOGY: RACK}), 100))
        await seen.sees(step, STEPS[step])
        await stage.processes.crash(victim)
        await stage.processes.restart(victim)
        await here.running(URGENT, 2 * EACH)
        assert [await here.pods(name) for name in VICTIMS] == [[], []]
        await here.kube.delete(JOBS, URGENT, here.name, propagation="Background")
        for name in VICTIMS:
            await here.running(name, EACH)
            assert evictions(await here.workload_of(name)) == 1

    async def gone() -> bool:
        return len((await here.kube.list(WORKLOADS, here.name)).items) == len(VICTIMS)

    await eventually("nothing is left of the urgent one", gone)
