"""Pods, groups, gangs and what makes pods in files: the same Workloads as in a cluster, and nothing dropped without a word."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from admission.engine.decision import Admit, Wait
from admission.simulation.run import simulate
from admission.world.files import from_files
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from api import names
from tests.admission.world.world_documents import RACK, Manifest, job, manifest, queue, tree, world

SAMPLES = Path(__file__).resolve().parents[3] / "config" / "samples"
QUEUED = {names.QUEUE_NAME_LABEL: "q"}
GATED = {"schedulingGates": [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}]}


def pod(
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    *,
    cpu: str = "1",
    spec: dict[str, Any] | None = None,
    **meta: Any,
) -> Manifest:
    """A Pod; `meta` are more fields of its metadata."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    own = {"labels": labels or {}, "annotations": annotations or {}, **meta}
    return manifest("Pod", name, "default", metadata=own, spec={"containers": [container], **(spec or {})})


def member(name: str, group: str, total: int, **annotations: str) -> Manifest:
    """A pod of a queue's group."""
    said = {names.POD_GROUP_TOTAL_COUNT: str(total), names.REQUIRE_TOPOLOGY: RACK, **annotations}
    return pod(name, {**QUEUED, names.POD_GROUP_NAME: group}, said)


def gang(name: str, count: int, minimum: int | None, **more: Any) -> list[Manifest]:
    """Pods of a gang that names no queue."""
    labels = {names.GANG_NAME: name, **({names.GANG_MINIMUM: str(minimum)} if minimum else {})}
    return [pod(f"{name}-{n}", labels, **more) for n in range(count)]


def pod_group(name: str, minimum: Any) -> Manifest:
    made = manifest("PodGroup", name, "default", spec={"minMember": minimum})
    return made | {"apiVersion": "scheduling.x-k8s.io/v1alpha1"}


def maker(
    kind: str,
    name: str = "web",
    replicas: Any = 2,
    labels: dict[str, str] | None = None,
    template: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A Deployment, StatefulSet or ReplicaSet; `template` are the labels of its pods."""
    shape = pod("x", template)
    shape = {"metadata": {"labels": template or {}}, "spec": shape["spec"]}
    own = {"labels": labels or {}, "annotations": annotations or {}}
    made = manifest(kind, name, "default", metadata=own, spec={"replicas": replicas, "template": shape, **spec})
    return made | {"apiVersion": "apps/v1"}


def told(scene: World) -> dict[str, str]:
    """By title, after one cycle: the pods that are admitted, or why it waits."""
    found = {}
    for decision in scene.cycle().decisions:
        title = scene.title(decision.workload).replace("default/", "")
        if isinstance(decision, Admit):
            found[title] = str(sum(pod_set.count for pod_set in decision.admission.pod_sets))
        elif isinstance(decision, Wait):
            found[title] = str(decision.reason)
    return found


def faults(scene: World) -> list[str]:
    return [f"{fault.object}: {fault.message}" for fault in scene.faults]


def test_the_samples_play_with_their_pods() -> None:
    made = from_files([SAMPLES])
    unread = [fault for fault in faults(made) if "a kind that has no part in admission" in fault]
    assert [fault.partition(":")[0] for fault in unread] == [
        "Workflow default/steps",
        "Workflow default/ring",
        "DisaggregatedSet default/serve",
    ]
    [fault] = [fault for fault in faults(made) if fault not in unread]
    assert fault.startswith("ConfigMap default/cluster-tree: data.tree: the cluster has no node")
    titles = {about.title for about in made.about.values()}
    assert {
        "PodGroup default/train",
        "PodGroup default/group-a",
        "Pods default/ring",
        "Pod default/web-pod-2",
    } <= titles


def test_a_gang_that_names_no_queue_has_the_one_that_the_controller_would_make() -> None:
    [waiting] = from_files([SAMPLES / "gang.yaml"]).queues.workloads()
    assert (waiting.key, waiting.cluster_queue, waiting.blocked) == ("default/train", names.GANG_QUEUE, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param([pod("a", QUEUED)], {"Pod a": "1"}, id="a pod of a queue"),
        pytest.param([pod("a", QUEUED, cpu="5")], {"Pod a": "TopologyPlacementFailed"}, id="one that is too large"),
        pytest.param([member(f"m{n}", "ring", 3) for n in range(3)], {"Pods ring": "3"}, id="a group"),
        pytest.param(
            [member(f"m{n}", "ring", 9) for n in range(9)],
            {"Pods ring": "TopologyPlacementFailed"},
            id="too wide for a rack",
        ),
        pytest.param(
            [member("m0", "ring", 3, **{names.POD_GROUP_FAST_ADMISSION: "true"})], {"Pods ring": "3"}, id="fast"
        ),
        pytest.param(gang("g", 3, 3), {"PodGroup g": "3"}, id="a gang without a queue"),
        pytest.param(gang("g", 4, 3), {"PodGroup g": "4"}, id="more than the minimum"),
        pytest.param([*gang("g", 3, None), pod_group("g", 3)], {"PodGroup g": "3"}, id="a gang of a PodGroup"),
        pytest.param(
            [maker("Deployment", labels=QUEUED)], {"Pod web-pod-0": "1", "Pod web-pod-1": "1"}, id="a Deployment"
        ),
        pytest.param([maker("StatefulSet", labels=QUEUED)], {"StatefulSet web": "2"}, id="a StatefulSet of a queue"),
        pytest.param(
            [maker("StatefulSet", template=QUEUED)],
            {"Pod web-0": "1", "Pod web-1": "1"},
            id="its pods",
        ),
        pytest.param(
            [maker("ReplicaSet", template=QUEUED)], {"Pod web-pod-0": "1", "Pod web-pod-1": "1"}, id="a ReplicaSet"
        ),
        pytest.param(
            [
                maker(
                    "StatefulSet",
                    template={names.GANG_NAME: "g", names.GANG_MINIMUM: "2"},
                    podManagementPolicy="Parallel",
                )
            ],
            {"PodGroup g": "2"},
            id="a gang of a StatefulSet",
        ),
    ],
)
def test_what_waits_in_files_is_admitted_as_in_a_cluster(value: list[Manifest], message: dict[str, str]) -> None:
    made = world(tree(), queue(), value)
    assert not made.faults
    assert told(made) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(
            [pod("a")],
            f"Pod default/a: names no queue (label {names.QUEUE_NAME_LABEL}) and no gang, so nothing holds it back, "
            "and no node holds it",
            id="no queue",
        ),
        pytest.param(
            [member("m0", "ring", 2)],
            "Pod default/m0: 'ring' group has fewer runnable pods than expected",
            id="a group that is not whole",
        ),
        pytest.param(gang("g", 2, 3), "Pod default/g-0: 2 of 3 pods exist", id="a gang below its minimum"),
        pytest.param(
            gang("g", 2, None),
            "Pod default/g-0: no PodGroup g says how many pods the gang needs, and no pod does",
            id="no minimum",
        ),
        pytest.param([pod_group("g", 2)], "PodGroup default/g: no pod of its gang is there that waits", id="no pods"),
        pytest.param(
            [maker("Deployment")],
            f"Deployment default/web: names no queue (label {names.QUEUE_NAME_LABEL}) and no gang, so nothing holds it "
            "back, and no node holds it",
            id="a Deployment without a queue",
        ),
        pytest.param(
            [maker("Deployment", replicas="three", labels=QUEUED)],
            "Deployment default/web: spec.replicas: 'three': must be a whole number, not negative",
            id="no number",
        ),
        pytest.param(
            [maker("StatefulSet", template={**QUEUED, names.POD_GROUP_NAME: "ring"})],
            "StatefulSet default/web: spec.podManagementPolicy: None: must be Parallel: pods that come when the one before "
            "is ready never make a whole group",
            id="a group that is never whole",
        ),
        pytest.param(
            [pod("a", QUEUED, ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}])],
            "Pod default/a: is part of Job j, which is not there, and no node holds it",
            id="a pod of a job that is not there",
        ),
        pytest.param(
            [maker("ReplicaSet", template=QUEUED) | {"metadata": {
                "name": "web-5f", "namespace": "default",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}]}}],
            "ReplicaSet default/web-5f: is part of Deployment web, which is not there",
            id="a ReplicaSet of a Deployment that is not there",
        ),
        pytest.param([pod("a", QUEUED), pod("a", QUEUED)], "Pod default/a: appears twice", id="twice"),
        pytest.param(
            [job("j"), job("j", 2)], "Job default/j: appears twice: the first one counts", id="a job twice"
        ),
        pytest.param([pod("a", QUEUED, cpu="lots")], "Pod default/a: spec.podSets[0].template", id="a bad quantity"),
        pytest.param(
            [*gang("g", 1, 2), *gang("g2", 0, 2), pod("g-1", {names.GANG_NAME: "g", names.GANG_MINIMUM: "none"})],
            f"Pod default/g-1: metadata.labels[{names.GANG_MINIMUM}]",
            id="a bad minimum",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_named_with_the_reason(value: list[Manifest], message: str) -> None:
    made = world(tree(), queue(), value, job("good"))
    assert any(fault.startswith(message) for fault in faults(made)), faults(made)
    assert "1" in told(made).values(), "and the rest goes on"


def test_a_bound_pod_uses_capacity_and_a_terminated_one_none() -> None:
    bound = pod("there", cpu="3", spec={"nodeName": "r0-h0"}) | {"status": {"phase": "Running"}}
    over = pod("over", cpu="3", spec={"nodeName": "r0-h0"}) | {"status": {"phase": "Succeeded"}}
    never = pod("never") | {"status": {"phase": "Failed"}}
    made = world(tree(1, 1), queue(), bound, over, never, job("a"), job("b"))
    assert not made.faults
    assert sorted(told(made).values()) == ["1", "TopologyPlacementFailed"]


def test_a_copy_of_a_live_cluster_plays_each_pod_once() -> None:
    """As kubectl prints it: the Deployment, its ReplicaSet, a pod that runs, one that waits with its Workload."""
    by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f", "uid": "u", "controller": True}
    of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    replica_set = maker("ReplicaSet", "web-5f", template=QUEUED)
    replica_set["metadata"]["ownerReferences"] = [of]
    seen = {**QUEUED, names.MANAGED_LABEL: "true"}
    runs = pod("web-5f-a", seen, {names.ROLE_HASH: "r"}, spec={"nodeName": "r0-h0"}, ownerReferences=[by], uid="ua")
    waits = pod("web-5f-b", seen, {names.ROLE_HASH: "r"}, spec=GATED, ownerReferences=[by], uid="ub")
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    workload = manifest(
        "Workload",
        "pod-web-5f-b",
        "default",
        metadata={
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "web-5f-b", "uid": "ub", "controller": True}
            ]
        },
        spec={
            "queueName": "q",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    )
    made = world(tree(), queue(), maker("Deployment", labels=QUEUED), replica_set, runs, waits, workload)
    assert not made.faults
    assert told(made) == {"Pod web-5f-b": "1"}


def test_gates_that_stand_in_the_file_change_nothing() -> None:
    plain, gated = (world(tree(), queue(), pod("a", QUEUED, spec=spec)) for spec in ({}, GATED))
    assert told(plain) == told(gated) == {"Pod a": "1"}


def test_a_group_comes_with_its_last_pod_and_runs_as_long_as_its_longest() -> None:
    times = [("0s", "10s"), ("20s", "30s")]
    pods = [
        member(f"m{n}", "ring", 2, **{names.SIMULATED_ARRIVAL: at, names.SIMULATED_DURATION: runs})
        for n, (at, runs) in enumerate(times)
    ]
    [run] = simulate(world(tree(), queue(), pods)).runs.values()
    assert (run.arrived, run.admitted, run.ended) == (20.0, 20.0, 50.0)


def test_pods_of_a_deployment_run_on_unless_it_says_otherwise() -> None:
    made = world(tree(), queue(), maker("Deployment", labels=QUEUED), job("a"))
    assert [about.run_for for about in made.about.values() if about.title.startswith("Pod")] == [inf, inf]
    again = from_snapshot(decode(capture_world(made).encode()))
    assert again.about == made.about
    states = {run.title: run.ended for run in simulate(made).runs.values()}
    assert states == {"Job default/a": 600.0, "Pod default/web-pod-0": None, "Pod default/web-pod-1": None}
    limited = maker("Deployment", labels=QUEUED, annotations={names.SIMULATED_DURATION: "5s"})
    assert {run.ended for run in simulate(world(tree(), queue(), limited)).runs.values()} == {5.0}


def test_gangs_that_start_together_do_so_in_files_too() -> None:
    groups = '["default/a", "default/b"]'
    both = [
        *gang("a", 2, 2, annotations={names.SIGS_GANG_GROUPS: groups}),
        *gang("b", 8, 8, annotations={names.SIGS_GANG_GROUPS: groups}),
    ]
    assert told(world(tree(), queue(), both)) == {"PodGroup a": "2", "PodGroup b": "8"}
    assert set(told(world(tree(1, 2), queue(), both)).values()) <= {"TopologyPlacementFailed", "WaitingForGangs"}
    assert told(world(tree(), queue(), both[:2])) == {"PodGroup a": "WaitingForGangs"}
