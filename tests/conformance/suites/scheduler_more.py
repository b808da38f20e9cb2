"""scheduler_more: several rounds: an order by past usage of LocalQueues, and a search over flavors that goes on where it ended.

All is compared as in scheduler_quota: conditions are sorted, and their times are not ours, since a case is one moment.
"""

from __future__ import annotations

from typing import Any

from admission.engine.convert import convert_queues
from admission.engine.queue.past_usage import PastUsage, UsageRules
from admission.engine.queue.queues import PendingQueues
from api.meta import parse_time
from api.queues import LocalQueue
from api.text.duration import seconds
from api.text.quantity import to_int
from tests.conformance.runner import Case, gates
from tests.conformance.suites.cycles import CycleCase, shown_workload
from tests.conformance.suites.scheduler_quota import object_key, shown

Json = dict[str, Any]


def run(case: Case) -> None:
    """By the Go test that the case is of."""
    if case["name"].startswith("TestScheduleForAFS"):
        _by_past_usage(case)
    else:
        _with_churn(case)


def _by_past_usage(case: Case) -> None:
    given = case["input"]
    world = CycleCase(case, PendingQueues(_past(case)))
    for _ in given["workloads"]:
        world.round()
    wanted = {object_key(workload): shown_workload(workload) for workload in case["want"]["wantWorkloads"]}
    assert shown(world) == wanted


def _past(case: Case) -> PastUsage:
    given = case["input"]
    if not gates(case)["AdmissionFairSharing"]:
        return PastUsage()
    rules = given["admissionFairSharing"]
    weights = rules.get("resourceWeights") or {}
    past = PastUsage(UsageRules(seconds(rules["usageHalfLifeTime"]), seconds(rules["usageSamplingInterval"]), weights))
    for queue in map(LocalQueue.from_wire, given["localQueues"]):
        past.set_weight(queue.key, convert_queues.local_queue_weight(queue))
    now = parse_time(given["now"]) or 0.0
    for name, amounts in (given.get("initialUsage") or {}).items():
        past.restore(f"default/{name}", {r: float(to_int(r, text)) for r, text in amounts.items()}, now)
    return past


def _with_churn(case: Case) -> None:
    given, want = case["input"], case["want"]
    world = CycleCase(case)
    for number in range(given["cycles"]):
        world.round()
        if not given.get("noChurn"):
            world.set_nominal("tas-cq", 1, {True: "5", False: "4"}[number % 2 == 0])
        world.queues.lines.requeue(["tas-cq"])
    assert _flavor(world, "default/blocker") == want["wantBlockerFlavor"]
    assert _flavor(world, "default/pending") == want["wantPendingFlavor"]


def _flavor(world: CycleCase, key: str) -> str:
    admission = world.workloads[key].status.admission
    return "" if admission is None else admission.pod_set_assignments[0].flavors["cpu"]
