"""A Workload with a closed preemption gate says what it could do, and evicts nobody until somebody opens the gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import WORKLOADS
from api.meta import find_condition, rfc3339
from api.names import BLOCKED_ON_PREEMPTION_GATES, EVICTED, QUOTA_RESERVED
from api.workloads import Workload
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_lifecycle import says

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

GATED = "Workload requires preemption, but it's gated"


async def test_a_closed_preemption_gate_spares_the_victims(site: Callable[[str], Site]) -> None:
    here = site("gates")
    await here.open({"b1": {"r1": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    await here.submit(here.job("low", 4))
    await here.running("low", 4)
    pod_sets = [{"name": "main", "count": 4, "template": here.template()}]
    spec = {"queueName": "lq", "priority": 5, "podSets": pod_sets, "preemptionGates": [{"name": "example.com/go"}]}
    await here.make(WORKLOADS, {"metadata": {"name": "high", "namespace": here.name}, "spec": spec})
    await _holds(here, QUOTA_RESERVED, "False", "AdmissionGated")
    await _holds(here, BLOCKED_ON_PREEMPTION_GATES, "True", "PreemptionGated")
    assert len(await here.pods("low")) == 4
    gate = {"name": "example.com/go", "position": "Open", "lastTransitionTime": rfc3339(0)}
    body: dict[str, Any] = {"status": {"preemptionGates": [gate]}}
    await here.kube.patch(WORKLOADS, "high", body, here.name, kind=PatchKind.MERGE, subresource="status")
    await says(here, "low", EVICTED, "True", "Preempted")
    await _holds(here, QUOTA_RESERVED, "True", "QuotaReserved")
    await _holds(here, BLOCKED_ON_PREEMPTION_GATES, "False", None)


async def _holds(here: Site, kind: str, status: str, reason: str | None) -> None:
    last: Any = None

    async def check() -> bool:
        nonlocal last
        workload = Workload.from_wire(await here.kube.get(WORKLOADS, "high", here.name))
        last = find_condition(workload.status.conditions, kind)
        if last is None or last.status != status or reason not in (None, last.reason):
            return False
        return kind != BLOCKED_ON_PREEMPTION_GATES or GATED in last.message

    try:
        await eventually(f"{kind}={status} {reason}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}: {last}") from None
