"""Rank order after placement: the pod of rank k goes to the place of rank k, for every kind, alone and in a pod-set group.

Pods are made from the started job's templates and numbered as the kind's own controller numbers them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from admission.integrations.base import JobIntegration
from admission.integrations.paths import with_value
from admission.integrations.podset import PodSetInfo
from admission.integrations.registry import ADAPTERS, BY_FRAMEWORK
from api import names
from api.assignment import encode
from api.pod.pods import Pod
from api.workloads import PodSet, Workload
from tests.admission.integrations.samples import CRANES, Object, annotated, larger, merged, sample
from tests.builders import condition, pod
from ungater.gate_plan import plan

KINDS = pytest.mark.parametrize("kind", [*ADAPTERS, CRANES], ids=lambda kind: kind.framework)
GROUPED = {names.PODSET_GROUP_NAME: "together"}
WITHOUT_RANKS = {"ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice", "sparkoperator.k8s.io/sparkapplication"}


def started(kind: JobIntegration, job: Object) -> Object:
    said, gate = {names.WORKLOAD_ANNOTATION: "wl"}, (names.TOPOLOGY_GATE,)
    infos = [
        PodSetInfo(one.name, one.count, {names.PODSET_LABEL: one.name}, said, scheduling_gates=gate)
        for one in kind.pod_sets(job)
    ]
    found: Object = merged(job, kind.start(job, infos))
    return found


def hosts_of(pod_set: PodSet) -> list[str]:
    """The host of each rank: two pods on each."""
    return [f"{pod_set.name}-{rank // 2}" for rank in range(pod_set.count)]


def admitted(pod_sets: tuple[PodSet, ...]) -> Workload:
    assignments = []
    for one in pod_sets:
        domains = [((host,), count) for host, count in Counter(hosts_of(one)).items()]
        placed = encode((names.HOSTNAME_LABEL,), domains).to_wire()
        assignments.append({"name": one.name, "count": one.count, "flavors": {}, "topologyAssignment": placed})
    spec = {"podSets": [one.to_wire() for one in pod_sets]}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignments},
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
    }
    return Workload.from_wire({"metadata": {"name": "wl", "namespace": "ns"}, "spec": spec, "status": status})


def pods_of(pod_set: PodSet, first: int) -> list[Pod]:
    """As the kind's controller makes them: with the template's annotations and the labels that say the order."""
    meta, order = pod_set.template["metadata"], pod_set.topology_request
    assert order is not None
    made = []
    for rank in range(pod_set.count):
        index, labels = first + rank, dict(meta.get("labels") or {})
        if order.sub_group_index_label is not None and order.sub_group_count:
            each = pod_set.count // order.sub_group_count
            index, labels[order.sub_group_index_label] = rank % each, str(rank // each)
        if order.pod_index_label is not None:
            labels[order.pod_index_label] = str(index)
        made.append(pod(f"{pod_set.name}-{rank}", labels=labels, annotations=dict(meta.get("annotations") or {})))
    return made


def placed(workload: Workload, pods: list[Pod]) -> dict[str, str]:
    """Host by pod, after they were seen one by one in some order."""
    known: dict[str, Pod] = {}
    order = list(pods)
    random.Random(7).shuffle(order)
    for one in order:
        known[one.metadata.name] = one
        for opening in plan(workload, list(known.values())):
            meta = opening.pod.metadata
            known[meta.name] = pod(
                meta.name,
                gated=False,
                labels=meta.labels,
                annotations=meta.annotations,
                selector=dict(opening.node_labels),
            )
    return {name: one.spec.node_selector[names.HOSTNAME_LABEL] for name, one in known.items() if not one.gated}


def follows(kind: JobIntegration, job: Object, first: Mapping[str, int] | None = None) -> None:
    """Every pod gets the place of its rank; where a kind has no ranks, every place is used as often as it was assigned."""
    pod_sets = kind.pod_sets(started(kind, job))
    found = placed(
        admitted(pod_sets), [one for each in pod_sets for one in pods_of(each, (first or {}).get(each.name, 0))]
    )
    for one in pod_sets:
        hosts = [found[f"{one.name}-{rank}"] for rank in range(one.count)]
        ranked = one.topology_request is not None and one.topology_request.pod_index_label is not None
        assert hosts == hosts_of(one) if ranked else Counter(hosts) == Counter(hosts_of(one)), one.name


def asking(kind: JobIntegration) -> Object:
    job: Object = with_value(sample(kind), ("metadata", "annotations"), {names.REQUIRED_TOPOLOGY: "rack"})
    return larger(kind, annotated(kind, job, {names.REQUIRED_TOPOLOGY: "rack"}))


@KINDS
def test_rank_k_gets_the_place_of_rank_k(kind: JobIntegration) -> None:
    job = asking(kind)
    ranked = [one.topology_request and one.topology_request.pod_index_label for one in kind.pod_sets(job)]
    assert any(ranked) is (kind.framework not in WITHOUT_RANKS)
    follows(kind, job)


@KINDS
def test_so_it_does_in_a_pod_set_group(kind: JobIntegration) -> None:
    """A launcher with its workers, a head with its workers, a driver with its executors: each numbered from 0."""
    job = annotated(kind, asking(kind), GROUPED)
    asked = [one.topology_request for one in kind.pod_sets(job)]
    assert {one.pod_set_group_name for one in asked if one is not None} == {"together"}
    follows(kind, job)


@pytest.mark.parametrize("annotations", [{}, GROUPED], ids=["alone", "in a group"])
def test_workers_that_are_numbered_after_their_launcher(annotations: Mapping[str, str]) -> None:
    """MPIJob with runLauncherAsWorker: the operator gives the first worker the index 1."""
    kind = BY_FRAMEWORK["kubeflow.org/mpijob"]
    job = annotated(kind, asking(kind), annotations)
    job = with_value(job, ("spec", "runLauncherAsWorker"), True)
    follows(kind, job, {"worker": 1})


@KINDS
def test_what_a_start_says_of_ranks_is_taken_back(kind: JobIntegration) -> None:
    job = annotated(kind, asking(kind), GROUPED)
    running = started(kind, job)
    stopped = merged(running, kind.stop(running, None) or {})
    stopped = merged(stopped, kind.stop(stopped, kind.pod_sets(job)) or {})
    assert stopped["spec"] == job["spec"]
