"""flavorassigner: flavors and modes for one workload, against given usage and a given answer of the preemption oracle.

Of a pod set that fits, only the tries that were really made are compared, as Kueue does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admission.engine.convert import convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.flavors.assign import Attempt, FlavorAssignment, Mode, PodSetFlavors, PreemptionOracle
from admission.engine.flavors.search import FlavorSearch, Scope
from admission.engine.journal import Journal
from admission.engine.model import Flavor, FlavorResource
from admission.engine.quota.tree import QuotaTree
from api.queues import ClusterQueue, Cohort
from api.text.quantity import to_int
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload
from tests.conformance.runner import Case, gates, scenarios

Json = dict[str, Any]
OUTSIDE = {
    "does not fit in the original workload resource flavor": "ours names what all pods need, not what the new ones add",
}
# Kueue knows four modes of a flavor; ours tell apart what evicting would do.
MODES = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "Preempt",
    Mode.PREEMPT: "Preempt",
    Mode.RECLAIM: "Preempt",
    Mode.FIT: "Fit",
}
ANSWERS = {"NoCandidates": Mode.NO_CANDIDATES, "Preempt": Mode.PREEMPT, "Reclaim": Mode.RECLAIM}


class FixedOracle(PreemptionOracle):
    """Answers as the case says; by default there is somebody in the own queue to evict."""

    def __init__(self, answers: Mapping[str, Json]) -> None:
        self._answers = answers

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        answer = self._answers.get("/".join(fr))
        if answer is None:
            return Mode.PREEMPT, 0
        return ANSWERS[answer["preemptionPossiblity"]], answer["borrowingAfterSimulation"]


def run(case: Case) -> None:
    """Mode and flavors are as wanted; in TestAssignFlavors and TestDeletedFlavors also every figure and every reason."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    for scenario in scenarios(case):
        found = assign(scenario)
        want = scenario["want"]
        if "wantAssignment" in want:
            assert MODES[found.mode] == want["wantRepMode"]
            compare(found, want["wantAssignment"], _replaced_usage(scenario))
        else:
            assert MODES[found.mode] == want["wantMode"]
            [pod_set] = found.pod_sets
            assert {resource: pick.flavor for resource, pick in pod_set.picks.items()} == want["wantAssigment"]


def assign(case: Case) -> FlavorAssignment:
    """What our search finds."""
    given = case["input"]
    target, other = "clusterQueue", "secondaryClusterQueue"
    if "testClusterQueue" in given:
        target, other = "testClusterQueue", "otherClusterQueue"
    quota = QuotaTree(Journal())
    for cohort in given.get("cohorts") or ():
        quota.set_cohort(convert_queues.cohort(Cohort.from_wire(cohort)))
    for key in (target, other):
        if key in given:
            queue = convert_queues.cluster_queue(ClusterQueue.from_wire(given[key]))
            quota.set_queue(queue)
            quota.add(queue.name, _usage(given.get(f"{key}Usage") or {}))
    spec = quota.spec(given[target]["metadata"]["name"])
    assert spec is not None
    replaced = _replaced(case)
    kept = {(pod_set["name"], name): flavor for pod_set in replaced for name, flavor in pod_set["flavors"].items()}
    scope = Scope(kept=kept, fair=given.get("enableFairSharing", False))
    search = FlavorSearch(spec, _flavors(given), quota, FixedOracle(given.get("simulationResult") or {}), scope)
    reclaimed = given.get("wlReclaimablePods") if gates(case)["ReclaimablePods"] else None
    workload = {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": given.get("wlPods") or given["podSets"]},
        "status": {"reclaimablePods": reclaimed or []},
    }
    return search.assign(convert.workload(Workload.from_wire(workload), cluster_queue=spec.name))


def _replaced(case: Case) -> list[Json]:
    """The pod sets of the slice that the workload is to replace."""
    return (case["input"].get("preemptWorkloadSlice") or {}).get("totalRequests") or []


def _replaced_usage(case: Case) -> dict[FlavorResource, int]:
    """What that slice has; Kueue's figures are without it."""
    had: dict[FlavorResource, int] = {}
    for pod_set in _replaced(case):
        for resource, amount in pod_set["requests"].items():
            pair = pod_set["flavors"][resource], resource
            had[pair] = had.get(pair, 0) + amount
    return had


def _usage(value: Mapping[str, int]) -> dict[FlavorResource, int]:
    return {(flavor, resource): amount for key, amount in value.items() for flavor, _, resource in [key.partition("/")]}


def _flavors(json: Json) -> dict[str, Flavor]:
    topologies = json.get("topologies") or []
    named = {t["metadata"]["name"]: t for t in (topologies.values() if isinstance(topologies, dict) else topologies)}
    flavors = (ResourceFlavor.from_wire(flavor) for flavor in json["resourceFlavors"].values())
    return {flavor.key: convert_queues.flavor(flavor, _topology(flavor, named)) for flavor in flavors}


def _topology(flavor: ResourceFlavor, named: Mapping[str, Json]) -> Topology | None:
    found = named.get(flavor.spec.topology_name or "")
    return None if found is None else Topology.from_wire(found)


def compare(assignment: FlavorAssignment, want: Json, replaced: Mapping[FlavorResource, int]) -> None:
    """The whole assignment. `replaced`: quota that the slice before it has."""
    assert assignment.level == want["borrowing"]
    more = {"/".join(fr): amount - replaced.get(fr, 0) for fr, amount in assignment.usage.items()}
    assert more == want["usage"]["quota"]["assigned"]
    if assignment.mode is Mode.NO_FIT and all(p.error is None for p in assignment.pod_sets):
        assert assignment.reason == want["noFitReason"]
    wanted = {pod_set["name"]: pod_set for pod_set in want["podSets"]}
    assert [pod_set.name for pod_set in assignment.pod_sets] == list(wanted)
    for pod_set in assignment.pod_sets:
        _compare(pod_set, wanted[pod_set.name])


def _compare(pod_set_flavors: PodSetFlavors, want: Json) -> None:
    picks = {name: (pick.flavor, MODES[pick.mode], pick.tried) for name, pick in pod_set_flavors.picks.items()}
    flavors = want.get("flavors") or {}
    assert picks == {name: (pick["name"], pick["mode"], pick["triedFlavorIdx"]) for name, pick in flavors.items()}
    requests = {name: to_int(name, amount) for name, amount in (want.get("requests") or {}).items()}
    assert dict(pod_set_flavors.requests) == requests
    assert sorted(pod_set_flavors.reasons) == sorted(want["status"].get("reasons") or [])
    assert pod_set_flavors.error == (want["status"].get("err") or {}).get("error")
    wanted = want.get("flavorAssignmentAttempts") or []
    fits = any(attempt["mode"] == "Fit" for attempt in wanted)
    if not wanted:
        return
    if fits:
        made = {attempt.flavor: attempt for attempt in pod_set_flavors.attempts}
        assert [MODES[made[a["flavor"]].mode] == a["mode"] for a in wanted if a["flavor"] in made]
    else:
        assert sorted(map(_attempt, pod_set_flavors.attempts)) == sorted(map(_wanted, wanted))


def _attempt(attempt: Attempt) -> tuple[str, str, int, list[str], str]:
    reason = attempt.reason if attempt.mode is Mode.NO_FIT and attempt.reason else ""
    return attempt.flavor, MODES[attempt.mode], attempt.level, sorted(attempt.reasons), str(reason)


def _wanted(attempt: Json) -> tuple[str, str, int, list[str], str]:
    reason = attempt["noFitReason"]
    return attempt["flavor"], attempt["mode"], attempt["borrow"], sorted(attempt.get("reasons") or []), reason
