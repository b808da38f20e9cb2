"""Placement alone: one flavor, one call for all pod sets of a workload, in Domains counting as Kueue counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import Admit, PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    Counting,
    DomainCount,
    Flavor,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    Profile,
    SliceLayer,
    TopologyRequest,
    Workload,
)
from api import workloads as stored
from api.assignment import decode
from api.pod import pods as wire
from api.pod.pod_requests import effective_requests
from api.text.quantity import parse_list
from api.topology_assignment import TopologyAssignment
from tests.conformance.runner import Case, gates

FLAVOR = "tas-flavor"
OTHER_FLAVOR = "other-flavor"


def run(case: Case) -> None:
    """Every pod set has the wanted domains in the wanted order, or the wanted message."""
    given, want = case["input"], case["want"]
    pod_sets = given.get("podSets") or [given]
    workload = given.get("workload")
    ledger = ledger_of(case)
    if workload is None:
        elastic = gates(case)["ElasticJobsViaWorkloadSlicesWithTAS"]
        previous = [pod_set.get("previousAssignment") if elastic else None for pod_set in pod_sets]
        result = ledger.placement.place(list(map(_request, range(len(pod_sets)), pod_sets, previous)))
    elif gates(case)["SkipReassignmentForPodOwnedWorkloads"] and stored.Workload.from_wire(workload).of_one_pod:
        result = _of_one_pod(ledger, pod_sets, workload)
    else:
        requests = list(map(_request, range(len(pod_sets)), pod_sets, _admitted(workload, pod_sets)))
        result = ledger.placement.replace(requests, (workload["status"]["unhealthyNodes"][0]["name"],))
    assert outcome(result, len(pod_sets)) == _wanted(want.get("podSets", [want]))
    assert ledger.audit() == []


def _of_one_pod(ledger: Ledger, pod_sets: Sequence[dict[str, Any]], workload: dict[str, Any]) -> PlacementResult:
    """What the second pass makes of the workload of a single pod."""
    got = map(_decoded, _admitted(workload, pod_sets))
    pairs = [
        (
            PodSet(str(i), given["count"], given["requests"]),
            PodSetAdmission(str(i), {"cpu": FLAVOR}, {}, given["count"], assignment),
        )
        for i, (given, assignment) in enumerate(zip(pod_sets, got, strict=True))
    ]
    asked = Workload("ns/wl", "wl", "ns/lq", "cq", tuple(each for each, _ in pairs), one_pod=True)
    ledger.charge(asked, Admission("cq", tuple(each for _, each in pairs)))
    (decision,) = second_pass(ledger, "ns/wl", (workload["status"]["unhealthyNodes"][0]["name"],), fail_fast=False)
    assert isinstance(decision, Admit)
    return PlacementResult({each.name: each.assignment for each in decision.admission.pod_sets if each.assignment}, {})


def _admitted(workload: dict[str, Any], pod_sets: Sequence[dict[str, Any]]) -> list[Any]:
    """The assignment of each pod set in the workload's status."""
    got = {one["name"]: one.get("topologyAssignment") for one in workload["status"]["admission"]["podSetAssignments"]}
    return [got.get(pod_set["podSetName"]) for pod_set in pod_sets]


def options(case: Case) -> PlacementOptions:
    """The gates of the case."""
    on = gates(case)
    return PlacementOptions(
        counting=Counting.DOMAINS,
        profile=Profile.COMPATIBLE,
        least_free_for_unconstrained=on["TASProfileMixed"],
        balanced=on["TASBalancedPlacement"],
        multi_layer=on["TASMultiLayerTopology"],
        respect_preferred_affinity=on["TASRespectNodeAffinityPreferred"],
        overlapping_flavors=on["TASHandleOverlappingFlavors"],
        leader_constraints=False,
    )


def ledger_of(case: Case) -> Ledger:
    """A ledger that holds what the case says is there."""
    given = case["input"]
    levels = tuple(given["levels"])
    ledger = Ledger(options(case))
    ledger.apply(
        Flavor(FLAVOR, node_labels=given.get("nodeLabels") or {}, topology=given["topologyName"], levels=levels)
    )
    for obj in given["nodes"]:
        ledger.apply(_node(msgspec.convert(obj, wire.Node)))
    for obj in given.get("pods") or ():
        pod = msgspec.convert(obj, wire.Pod)
        if pod.spec.node_name and not pod.terminated:
            ledger.apply(BoundPod(pod.key, pod.spec.node_name, effective_requests(pod.spec)))
    for flavor, key in ((FLAVOR, "priorOwnUsage"), (OTHER_FLAVOR, "priorFlavorUsage")):
        for index, usage in enumerate(given.get(key) or ()):
            ledger.charge(*_prior(f"{key}-{index}", flavor, levels, usage))
    return ledger


def _node(node: wire.Node) -> Node:
    return Node(
        name=node.key,
        labels=node.metadata.labels,
        allocatable=parse_list(node.status.allocatable),
        taints=node.spec.taints,
        usable=node.ready and not node.spec.unschedulable,
    )


def _prior(key: str, flavor: str, levels: tuple[str, ...], usage: dict[str, Any]) -> tuple[Workload, Admission]:
    named = levels[-1:] if levels[-1] == HOSTNAME_LABEL else levels
    assignment = Assignment(named, (DomainCount(tuple(usage["values"]), usage["count"]),))
    pod_set = PodSet("main", usage["count"], usage["singlePodRequests"])
    got = PodSetAdmission("main", {"cpu": flavor}, {}, usage["count"], assignment)
    return Workload(key, key, "ns/lq", "cq", (pod_set,)), Admission("cq", (got,))


def _request(index: int, value: dict[str, Any], previous: dict[str, Any] | None) -> PlacementRequest:
    affinity = msgspec.convert(value.get("nodeAffinity") or {}, wire.NodeAffinity)
    required = affinity.required_during_scheduling_ignored_during_execution
    pod_set = PodSet(
        name=str(index),
        count=value["count"],
        requests=value.get("requests") or {},
        topology=_ask(value),
        node_selector=value.get("nodeSelector") or {},
        affinity=None if required is None else required.node_selector_terms,
        preferred_affinity=affinity.preferred_during_scheduling_ignored_during_execution,
        tolerations=msgspec.convert(value.get("tolerations") or (), tuple[wire.Toleration, ...]),
    )
    implied = value.get("topologyRequest") is None
    return PlacementRequest(pod_set, FLAVOR, value["count"], implied, None if previous is None else _decoded(previous))


def _decoded(value: dict[str, Any]) -> Assignment:
    wire_form = TopologyAssignment.from_wire(value)
    return Assignment(tuple(wire_form.levels), tuple(DomainCount(*domain) for domain in decode(wire_form)))


def _ask(value: dict[str, Any]) -> TopologyRequest:
    request = value.get("topologyRequest") or {}
    return TopologyRequest(
        required=request.get("required"),
        preferred=request.get("preferred"),
        unconstrained=request.get("unconstrained"),
        group=value.get("podSetGroupName"),
        slices=_slices(request),
        explicit=bool(request),
    )


def _slices(request: dict[str, Any]) -> tuple[SliceLayer, ...]:
    layers = request.get("podsetSliceRequiredTopologyConstraints")
    if layers:
        return tuple(SliceLayer(layer.get("topology", ""), layer.get("size", 0)) for layer in layers)
    level = request.get("podSetSliceRequiredTopology")
    return (SliceLayer(level, request.get("podSetSliceSize") or 0),) if level else ()


def outcome(result: PlacementResult, count: int) -> list[tuple[Any, str]]:
    """(levels and domains or None, message) of each pod set, in order."""
    return [(_domains(result.assignments.get(str(i))), _message(result, str(i))) for i in range(count)]


def _message(result: PlacementResult, name: str) -> str:
    return result.failures[name].message if name in result.failures else ""


def _domains(assignment: Assignment | None) -> Any:
    if assignment is None:
        return None
    return list(assignment.levels), [(list(domain.values), domain.count) for domain in assignment.domains]


def _wanted(pod_sets: Sequence[dict[str, Any]]) -> list[tuple[Any, str]]:
    wanted: list[tuple[Any, str]] = []
    for pod_set in pod_sets:
        assignment = pod_set.get("wantAssignment")
        domains = (
            None
            if assignment is None
            else [(domain["values"], domain["count"]) for domain in assignment.get("domains") or ()]
        )
        wanted.append((None if assignment is None else (assignment["levels"], domains), pod_set["wantReason"]))
    return wanted
