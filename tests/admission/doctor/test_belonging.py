"""Whose a pod on an exclusive node is. Workloads say it, not the pod: all who may create pods can write its marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admission.cli.local_cluster.install import install
from admission.doctor import pod_owners
from admission.doctor.checks import ALL
from admission.doctor.pod_facts import ListedPod, Owner, PodFacts, pod_facts
from admission.doctor.question import Question
from admission.doctor.read import look
from admission.doctor.report import examined
from admission.doctor.view import View
from api.assignment import encode
from api.embedded.server import EmbeddedServer
from api.kube import resources as kinds
from api.kube.client import Kube, PatchKind
from api.kube.settings import ClientSettings
from api.meta import rfc3339
from api.names import (
    HOSTNAME_LABEL,
    MANAGED_LABEL,
    PODSET_LABEL,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)
from tests.admission.doctor import healthy
from tests.admission.doctor.healthy import POOL, RACK, TAINT, Obj, named
from tests.builders import NOW, condition, pod_template

JOB = Owner("batch/v1", "Job", "train", "job", True)
CHILD = Owner("batch/v1", "Job", "train-workers-0", "child", True)
AGENT = Owner("apps/v1", "DaemonSet", "agent", "agent", True)
NODE = Owner("v1", "Node", "n0", "node-n0", True)


def workload(name: str = "w", *, places: dict[str, int] | None, status: Obj | None = None, first: str = "") -> Obj:
    """An admitted Workload of Job train in namespace a, with so many pods on each host; None: without a topology.

    `first` is the name of the first slice of an elastic job.
    """
    count = sum((places or {"": 2}).values())
    assigned: Obj = {"name": "main", "flavors": {"cpu": "train"}, "count": count}
    if places is not None:
        assigned["topologyAssignment"] = encode(
            [HOSTNAME_LABEL], [((host,), number) for host, number in places.items()]
        ).to_wire()
    admission = {"clusterQueue": "research", "podSetAssignments": [assigned]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}
    found = named(name, {}, {"admission": admission, **(status or {})}, namespace="a")
    found["metadata"]["annotations"] = {WORKLOAD_SLICE_NAME: first} if first else {}
    found["metadata"]["ownerReferences"] = [owner]
    return found


def pod(name: str, node: str = "n0", namespace: str = "a", **says: object) -> PodFacts:
    """A pod that says to be of Workload w."""
    told = {"uid": f"uid-{name}", "workload": "w", "pod_set": "main", "managed": True, **says}
    return msgspec.structs.replace(PodFacts(namespace, name, node), **told)


OURS = pod("train-0", owner=JOB)


def site(pods: Sequence[PodFacts], *workloads: Obj, **more: Any) -> View:
    objects = healthy.objects()
    for node in objects[kinds.NODES]:
        node["metadata"]["uid"] = f"node-{node['metadata']['name']}"
    objects[kinds.WORKLOADS] = list(workloads)
    objects[kinds.DAEMON_SETS] = [named("agent", namespace="a", uid="agent")]
    return replace(healthy.view(objects, pods=pods), **more)


def accused(view: View) -> list[str]:
    report = examined(view, [check for check in ALL if check.name == "foreign-pods"])
    assert not report.unread
    return [each.object.removeprefix("Pod ") for _, some in report.findings for each in some]


EVICTED = {"conditions": [condition("Evicted")]}
ATTACKS: dict[str, tuple[View, str]] = {
    "a label of ours": (site([pod("evil", workload="")]), "a/evil"),
    "the name of a Workload that does not exist": (site([pod("evil")]), "a/evil"),
    "the name of a Workload of another namespace": (
        site([pod("evil", namespace="b")], workload(places={"n0": 1})),
        "b/evil",
    ),
    "the name of a Workload that waits": (site([pod("evil")], named("w", {}, {}, namespace="a")), "a/evil"),
    "the name of a Workload that was admitted elsewhere": (site([pod("evil")], workload(places={"n1": 1})), "a/evil"),
    "the name of another pod set": (site([pod("evil", pod_set="other")], workload(places={"n0": 1})), "a/evil"),
    "a place that another pod has": (site([pod("evil"), OURS], workload(places={"n0": 1})), "a/evil"),
    "a place that another pod has, without a topology": (
        site([pod("evil"), OURS, pod("train-1", "n1", owner=JOB)], workload(places=None)),
        "a/evil",
    ),
    "a controller that does not exist": (
        site([pod("evil", owner=CHILD), OURS], workload(places={"n0": 1}), parents={"child": ""}),
        "a/evil",
    ),
    "the owner of a Workload of another namespace": (
        site([pod("evil", namespace="b", workload="", owner=JOB)], workload(places={"n0": 1})),
        "b/evil",
    ),
    "a DaemonSet that does not exist": (
        site([pod("evil", workload="", owner=msgspec.structs.replace(AGENT, uid="x"))]),
        "a/evil",
    ),
    "a DaemonSet of another namespace": (site([pod("evil", namespace="b", workload="", owner=AGENT)]), "b/evil"),
    "another node": (site([pod("evil", "n1", workload="", owner=NODE, mirror=True)]), "a/evil"),
    "the node, but no static pod": (site([pod("evil", workload="", owner=NODE)]), "a/evil"),
    "its deletion in a hundred years": (site([pod("evil", until=NOW + 3.2e9)]), "a/evil"),
    "a Workload that finished long ago": (
        site(
            [OURS],
            workload(
                places={"n0": 1},
                status={"conditions": [{**condition("Finished"), "lastTransitionTime": rfc3339(NOW - 900)}]},
            ),
        ),
        "a/train-0",
    ),
}


@pytest.mark.parametrize(("view", "name"), ATTACKS.values(), ids=ATTACKS)
def test_what_a_pod_says_of_itself_gives_it_no_place(view: View, name: str) -> None:
    assert accused(view) == [name]


SOUND: dict[str, View] = {
    "a pod where its Workload has quota": site([OURS], workload(places={"n0": 1})),
    "a pod of a rack": site(
        [OURS],
        {
            **workload(places={"n0": 1}),
            "status": {
                "admission": {
                    "clusterQueue": "research",
                    "podSetAssignments": [
                        {"name": "main", "count": 1, "topologyAssignment": encode([RACK], [(("r1",), 1)]).to_wire()}
                    ],
                }
            },
        },
    ),
    "pods of a Job whose parent owns the Workload": site(
        [pod("train-0", owner=CHILD), pod("train-1", owner=CHILD)],
        workload(places={"n0": 2}),
    ),
    "pods without annotation, as Kueue starts them": site(
        [pod("train-0", workload="", owner=JOB), pod("train-1", workload="", owner=CHILD)],
        workload(places=None),
        parents={"child": "job"},
    ),
    "a pod that owns its Workload": site(
        [pod("single", workload="", uid="job")],
        workload(places=None),
    ),
    "pods of two slices of an elastic job": site(
        [pod("train-0", owner=JOB), pod("train-1", owner=JOB)],
        workload(places={"n0": 1}),
        workload("w-2", places={"n0": 1}, first="w"),
    ),
    "pods of a workload that was evicted just now": site(
        [OURS], named("w", {}, EVICTED, namespace="a", annotations={}), now=NOW + 5
    ),
    "a pod on a host that is being replaced": site(
        [OURS], workload(places={"n1": 1}, status={"unhealthyNodes": [{"name": "n0"}]})
    ),
    "a pod that is being deleted": site([pod("train-0", until=NOW + 30)]),
    "a DaemonSet's pod": site([pod("agent-0", workload="", managed=False, owner=AGENT)]),
    "a static pod": site([pod("proxy", workload="", managed=False, owner=NODE, mirror=True)]),
    "a pod beside the exclusive nodes": site([pod("other", "n4", workload="")]),
}


@pytest.mark.parametrize("view", SOUND.values(), ids=SOUND)
def test_pods_that_may_be_there_are_not_named(view: View) -> None:
    assert accused(view) == []


def test_a_pod_that_stays_while_it_is_being_deleted_is_ended_at_once() -> None:
    ((_, (finding,)),) = examined(site([pod("evil", until=NOW + 3.2e9)]), ALL).findings
    assert finding.command == "kubectl -n a delete pod evil --grace-period=30"


def test_of_a_pod_that_names_a_workload_it_is_said_that_it_has_no_place_there() -> None:
    ((_, (finding,)),) = examined(site([pod("evil")]), ALL).findings
    assert finding.what.startswith("has no place of Workload w, which it names, and runs on n0")


def test_the_facts_of_a_pod_are_read_from_its_marks() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "a",
        "deletionTimestamp": "soon",
        "labels": {PODSET_LABEL: "main", MANAGED_LABEL: "true"},
        "annotations": {WORKLOAD_ANNOTATION: "w-2", WORKLOAD_SLICE_NAME: "w", TOPOLOGY_WORKLOAD: "x"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}, job],
    }
    facts = pod_facts(msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n0"}}, ListedPod))
    assert facts == PodFacts("a", "p", "n0", "", "w", "main", True, JOB)
    ended = {"metadata": metadata, "spec": {"nodeName": "n0"}, "status": {"phase": "Failed"}}
    assert pod_facts(msgspec.convert(ended, ListedPod)) is None


def test_of_a_pod_with_endless_marks_nothing_long_is_kept() -> None:
    endless = "x" * 200_000
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": endless, "uid": "job", "controller": True}
    marks = {WORKLOAD_ANNOTATION: endless, TOPOLOGY_PODSET: endless}
    metadata = {"name": "p", "namespace": "a", "annotations": marks, "ownerReferences": [owner]}
    facts = pod_facts(msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n0"}}, ListedPod))
    assert facts == PodFacts("a", "p", "n0")


# ---- the controllers above a pod, on the embedded server


async def test_owners_are_followed_in_bounds_and_only_if_their_uid_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedServer() as server:
        settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"), attempts=1)
        async with await Kube.connect(settings) as kube:
            await kube.create(kinds.NAMESPACES, {"metadata": {"name": "a"}})
            spec = {"template": pod_template(), "suspend": True}
            above = (await kube.create(kinds.JOBS, {"metadata": {"name": "above", "namespace": "a"}, "spec": spec}))[
                "metadata"
            ]["uid"]
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": above, "controller": True}
            job = {"metadata": {"name": "child", "namespace": "a", "ownerReferences": [reference]}, "spec": spec}
            child = (await kube.create(kinds.JOBS, job))["metadata"]["uid"]

            def owned(name: str, uid: str) -> PodFacts:
                return pod(uid, workload="", owner=Owner("batch/v1", "Job", name, uid, True))

            pods = [owned("child", child), owned("child", "made-up"), owned("gone", "gone")]
            found = await pod_owners.follow(kube, pods, ())
            assert found.parents == {child: above, above: "", "made-up": "", "gone": ""}
            assert not found.unfollowed
            assert not found.gap

            monkeypatch.setattr(pod_owners, "MOST_OWNERS", 2)
            found = await pod_owners.follow(kube, [owned("gone", f"x{number}") for number in range(5)], ())
    assert sorted(found.parents) == ["x0", "x1"]
    assert found.unfollowed == {"x2", "x3", "x4"}
    assert found.gap == "only 2 were looked up"


def test_a_pod_whose_owners_were_not_looked_up_is_not_named_and_the_check_does_not_pass() -> None:
    """Its command deletes."""
    stranger = pod("train-0", workload="", owner=CHILD)
    gaps = {Question.POD_OWNERS: "only 500 were looked up"}
    report = examined(site([stranger], unfollowed=frozenset(("child",)), gaps=gaps), ALL)
    assert not report.findings
    assert report.unread["foreign-pods"] == "owners of pods: only 500 were looked up"


async def test_of_listed_objects_the_pod_without_a_place_is_named(tmp_path: Path) -> None:
    """As a cluster has them: a Job's two pods, and one with the same marks that nobody owns."""
    async with EmbeddedServer() as server:
        settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"), attempts=1)
        async with await Kube.connect(settings) as kube:
            await install(kube, "https://127.0.0.1:1")
            await kube.delete(kinds.MUTATING_WEBHOOKS, "stowage-mutating-webhook-configuration")
            await kube.delete(kinds.VALIDATING_WEBHOOKS, "stowage-validating-webhook-configuration")
            await kube.create(kinds.NAMESPACES, {"metadata": {"name": "a"}})
            for name in ("n0", "n1"):
                await kube.create(
                    kinds.NODES, {"metadata": {"name": name, "labels": {POOL: "t", HOSTNAME_LABEL: name}}}
                )
            flavor = {"metadata": {"name": "train"}, "spec": {"nodeLabels": {POOL: "t"}, "nodeTaints": [TAINT]}}
            await kube.create(kinds.RESOURCE_FLAVORS, _typed(kinds.RESOURCE_FLAVORS, flavor))
            job = {
                "metadata": {"name": "train", "namespace": "a"},
                "spec": {"template": pod_template(), "suspend": True},
            }
            uid = (await kube.create(kinds.JOBS, job))["metadata"]["uid"]
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
            admitted = workload(places={"n0": 1, "n1": 1})
            admitted["metadata"]["ownerReferences"] = [owner]
            admitted["spec"] = {"podSets": [{"name": "main", "count": 2, "template": pod_template()}]}
            await kube.create(kinds.WORKLOADS, _typed(kinds.WORKLOADS, admitted))
            await kube.patch(
                kinds.WORKLOADS, "w", {"status": admitted["status"]}, "a", subresource="status", kind=PatchKind.MERGE
            )
            marks = {"labels": {PODSET_LABEL: "main"}, "annotations": {WORKLOAD_ANNOTATION: "w"}}
            for name, node, more in (
                ("train-0", "n0", {**marks, "ownerReferences": [owner]}),
                ("train-1", "n1", {**marks, "ownerReferences": [owner]}),
                ("a-stranger", "n1", marks),
            ):
                spec = {**pod_template()["spec"], "nodeName": node}
                await kube.create(kinds.PODS, {"metadata": {"name": name, "namespace": "a", **more}, "spec": spec})
            view = await look(kube, healthy.OURS, healthy.shipped(), ALL)
    assert accused(view) == ["a/a-stranger"]


def _typed(resource: kinds.Resource, obj: Obj) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
