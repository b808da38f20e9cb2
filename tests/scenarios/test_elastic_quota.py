"""Elastic quotas, from the manifest to pods on nodes: the four stories, defaults, status, what is refused.

All elastic quotas of a cluster share one cohort. So that the scenarios do not meet, each has a resource of its own on nodes
of its own: what a quota does not name and nobody asks of it makes no difference to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from api.errors import Forbidden
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    ELASTIC_QUOTAS,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    SIGS_ELASTIC_QUOTAS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from api.meta import find_condition, is_true, parse_time
from api.names import EVICTED, HOSTNAME_LABEL, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL, QUOTA_RESERVED
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
ENVIRONMENT = {"STOWAGE_CONTROLLER__WAIT_REPORT_PERIOD": "0.5", "STOWAGE_CONTROLLER__QUEUE_STATUS_PERIOD": "0.5"}

MakeSite = Callable[[str], Site]
# Long ones whose parts have quick tests of their own.
ON_THE_REAL_ONE = pytest.mark.parametrize("stage", [pytest.param("real", marks=pytest.mark.e2e)], indirect=True)
MANAGED = "kueue.x-k8s.io/managed-namespace"


@dataclass
class Tenants:
    """A story's nodes and its namespaces with elastic quotas; jobs are named after their namespace: `a1` is one of `a`."""

    site: Site
    corners: dict[str, Site] = field(default_factory=dict)

    @property
    def kube(self) -> Kube:
        return self.site.kube

    @property
    def resource(self) -> str:
        """What the story is about."""
        return f"example.com/{self.site.name}"

    async def open(self, nodes: Mapping[str, int], **limits: tuple[int, int]) -> None:
        """Nodes with so much of the resource each, and a namespace with (min, max) each."""
        for name, amount in nodes.items():
            await self._node(f"{self.site.name}-{name}", amount)
        for name, (least, most) in limits.items():
            await self.tenant(name, least, most)

    async def _node(self, name: str, amount: int) -> None:
        labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", self.resource: str(amount)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self.site.make(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

        async def usable() -> bool:
            node = await self.kube.get(NODES, name)
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            return ready and not node.get("spec", {}).get("taints")

        await eventually(f"node {name} usable", usable)

    async def tenant(self, name: str, least: int, most: int, kind: Resource = ELASTIC_QUOTAS) -> None:
        """The namespace `<story>-<name>` with its quota; waits until jobs without a queue name would go by it."""
        corner = self.corners[name] = Site(self.kube, f"{self.site.name}-{name}")
        await self.site.make(NAMESPACES, {"metadata": {"name": corner.name}})
        spec = {"min": {self.resource: least}, "max": {self.resource: most}}
        await self.site.make(kind, {"metadata": {"name": "quota", "namespace": corner.name}, "spec": spec})
        await eventually(f"quota of {corner.name} in force", lambda: self._in_force(corner, kind))

    async def _in_force(self, corner: Site, kind: Resource) -> bool:
        quota = await self.kube.get(kind, "quota", corner.name)
        active = [c for c in (quota.get("status") or {}).get("conditions", ()) if c["type"] == "Active"]
        if not active or active[0]["status"] != "True":
            return False
        probe = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **self.job(corner, "probe", 1)}
        made = await self.kube.create(JOBS, probe, dry_run=True)
        return bool(made["metadata"].get("labels", {}).get(QUEUE_NAME_LABEL) == "elastic-quota")

    def job(self, corner: Site, name: str, pods: int, each: int = 1, **more: Any) -> dict[str, Any]:
        """A Job that names no queue, of so many pods with so much of the resource each."""
        job = corner.job(name, pods, queue=None, **more)
        amounts = {"cpu": "100m", self.resource: str(each)}
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        return job

    def of(self, name: str) -> Site:
        """Where the job lives."""
        return self.corners[name.rstrip("0123456789")]

    async def submit(self, name: str, pods: int, each: int = 1, *, priority: str | None = None, host: str = "") -> None:
        """A Job of the namespace that its name begins with."""
        corner = self.of(name)
        job = self.job(corner, name, pods, each)
        if priority is not None:
            job["metadata"]["labels"][PRIORITY_CLASS_LABEL] = priority
        if host:
            job["spec"]["template"]["spec"]["nodeSelector"] = {HOSTNAME_LABEL: f"{self.site.name}-{host}"}
        await corner.submit(job)

    async def runs(self, name: str, pods: int) -> None:
        """Waits for its pods."""
        await self.of(name).running(name, pods)

    async def run(self, name: str, pods: int, each: int = 1, *, priority: str | None = None, host: str = "") -> None:
        """Both."""
        await self.submit(name, pods, each, priority=priority, host=host)
        await self.runs(name, pods)

    async def waits(self, name: str, reason: str = "WaitingForQuota", text: str = "") -> None:
        """Waits until it says that it waits."""
        await self.of(name).waits(name, reason, text)

    async def a_second_after(self, name: str) -> None:
        """Conditions tell whole seconds: a workload that starts from now on has started later than this one."""
        workload = await self.of(name).admitted(name)
        told = find_condition(workload.status.conditions, QUOTA_RESERVED)
        assert told is not None
        since = parse_time(told.last_transition_time) or 0.0

        async def check() -> bool:
            return time.time() >= since + 1

        await eventually(f"a second after {name}", check)

    async def ends(self, name: str) -> None:
        """Deletes it, and its Workload with it."""
        await self.of(name).remove(JOBS, name)

    async def priority(self, name: str, value: int) -> None:
        await self.site.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    async def evicted(self, name: str) -> None:
        """Waits until it has been evicted for another one, and is suspended again."""
        corner = self.of(name)

        async def check() -> bool:
            job = await corner.get_job(name)
            workload = await corner.workload_of(name)
            told = find_condition(workload.status.conditions, "Preempted") if workload else None
            return bool(job["spec"].get("suspend")) and told is not None and not await corner.pods(name)

        try:
            await eventually(f"{name} evicted", check)
        except AssertionError as late:
            raise AssertionError(f"{late}; {await corner.story(name)}") from None

    async def stays(self, *names: str) -> None:
        """For a while none of them is evicted."""

        async def check() -> bool:
            found = [await self.of(name).workload_of(name) for name in names]
            return any(w is None or is_true(w.status.conditions, EVICTED) for w in found)

        await never(f"one of {names} evicted", check, seconds=1.0)

    async def quota(self, name: str, kind: Resource = ELASTIC_QUOTAS) -> dict[str, Any]:
        return await self.kube.get(kind, "quota", self.corners[name].name)

    async def uses(self, **used: int) -> None:
        """Waits until status.used says so."""
        for name, amount in used.items():

            async def check(name: str = name, amount: int = amount) -> bool:
                status = (await self.quota(name)).get("status") or {}
                return bool((status.get("used") or {}).get(self.resource) == str(amount))

            await eventually(f"{name} uses {amount}", check)


# ---- the stories

TEN = {f"n{i}": 2 for i in range(5)}


async def test_story_1_what_was_lent_is_taken_back_and_no_more(site: MakeSite) -> None:
    story = Tenants(site("one"))
    await story.open(TEN, a=(4, 6), b=(6, 8))
    await story.run("a1", 2)
    await story.run("b1", 3)
    await story.run("a2", 2)
    await story.submit("a9", 3)
    await story.waits("a9", text="1 more needed")
    await story.ends("a9")
    await story.a_second_after("a2")
    await story.run("a3", 2)
    await story.uses(a=6, b=3)
    await story.submit("b2", 3)
    await story.evicted("a3")
    await story.runs("b2", 3)
    await story.uses(a=4, b=6)
    await story.submit("b3", 1)
    await story.waits("b3", text="1 more needed")
    await story.submit("b4", 2)
    await story.waits("b4", text="2 more needed")
    await story.stays("a1", "a2", "b1", "b2")


async def test_story_2_a_namespace_within_its_min_keeps_it(site: MakeSite) -> None:
    story = Tenants(site("two"))
    await story.priority("two-low", -1)
    await story.priority("two-high", 1)
    await story.open(TEN, a=(3, 4), b=(4, 6), c=(3, 4))
    for name, pods in (("a1", 3), ("b1", 2), ("c1", 2), ("c2", 1), ("a2", 1)):
        await story.run(name, pods)
    await story.run("b2", 1, priority="two-low")
    await story.submit("b3", 1)
    await story.evicted("a2")
    await story.runs("b3", 1)
    await story.uses(a=3, b=4, c=3)
    await story.ends("a2")
    await story.ends("c2")
    await story.run("b4", 1)
    await story.uses(a=3, b=5, c=2)
    await story.submit("b5", 1, priority="two-high")
    await story.evicted("b2")
    await story.runs("b5", 1)
    await story.stays("a1", "b1", "b3", "b4", "c1")
    await story.uses(a=3, b=5, c=2)


async def test_story_3_one_beyond_its_min_does_not_evict_another_that_is(site: MakeSite) -> None:
    story = Tenants(site("three"))
    await story.priority("three-high", 1000)
    await story.open({"n": 2}, q=(0, 2), r=(0, 2), s=(1, 2))
    await story.run("q1", 1)
    await story.submit("r1", 1, priority="three-high")
    await story.waits("r1", text="1 more needed")
    await story.stays("q1")


@pytest.mark.parametrize("pods", [1, 2], ids=["one-pod", "gang"])
async def test_story_4_pods_on_two_nodes_go_for_one(site: MakeSite, pods: int) -> None:
    story = Tenants(site(f"four-{pods}"))
    await story.open({"n1": 2, "n2": 2}, q=(0, 2), r=(2, 2))
    await story.run("q1", 1, host="n1")
    await story.run("q2", 1, host="n2")
    await story.submit("r1", pods, 2 // pods)
    await story.evicted("q1")
    await story.evicted("q2")
    await story.runs("r1", pods)
    await story.uses(q=0, r=2)


async def test_story_4_a_workload_that_can_never_run_evicts_nothing(site: MakeSite) -> None:
    story = Tenants(site("four-small"))
    await story.open({"n1": 1, "n2": 1}, q=(0, 2), r=(2, 2))
    await story.run("q1", 1, host="n1")
    await story.run("q2", 1, host="n2")
    await story.submit("r1", 1, 2)
    await story.waits("r1", "TopologyPlacementFailed", "doesn't allow to fit any of 1 pod(s)")
    await story.stays("q1", "q2")


# ---- around them


async def test_the_other_group_means_the_same(site: MakeSite) -> None:
    story = Tenants(site("older"))
    await story.open({"n": 2})
    await story.tenant("a", 1, 1, SIGS_ELASTIC_QUOTAS)
    await story.run("a1", 1)

    async def told() -> bool:
        status = (await story.quota("a", SIGS_ELASTIC_QUOTAS)).get("status") or {}
        return bool(status.get("used") == {story.resource: "1"})

    await eventually("status.used in the other group", told)
    await story.submit("a2", 1)
    await story.waits("a2", "WaitingForQuota")


@pytest.mark.parametrize("kind", [ELASTIC_QUOTAS, SIGS_ELASTIC_QUOTAS], ids=lambda kind: kind.group)
async def test_a_namespace_has_one(site: MakeSite, kind: Resource) -> None:
    story = Tenants(site(f"single-{'x' if kind is ELASTIC_QUOTAS else 'sigs'}"))
    await story.open({}, a=(0, 1))
    namespace = story.corners["a"].name
    second = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "second", "namespace": namespace}}
    with pytest.raises(Forbidden) as caught:
        await story.kube.create(kind, second)
    assert str(caught.value).partition("denied the request: ")[2] == (
        f'metadata.namespace: Forbidden: namespace "{namespace}" has the ElasticQuota "quota" (scheduling.x-k8s.io): '
        "there is one for a namespace"
    )


@ON_THE_REAL_ONE
async def test_guarantees_beyond_the_capacity_are_reported(site: MakeSite) -> None:
    story = Tenants(site("over"))
    await story.open({"n": 4}, a=(3, 4), b=(3, 4))
    message = f"the sum of min of all elastic quotas is 6 {story.resource}, the cluster has 4"

    async def says(status: str, *names: str) -> bool:
        for name in names:
            conditions = ((await story.quota(name)).get("status") or {}).get("conditions", ())
            found = [c for c in conditions if c["type"] == "Overcommitted" and c["status"] == status]
            if not found or (status == "True" and message not in found[0]["message"]):
                return False
        return True

    await eventually("told that more is promised than there is", lambda: says("True", "a", "b"))

    async def warned() -> bool:
        events = (await story.kube.list(EVENTS, story.corners["a"].name)).items
        return any(
            e["type"] == "Warning" and e["reason"] == "Overcommitted" and message in e["message"] for e in events
        )

    await eventually("a warning", warned)
    await story.run("a1", 3)
    await story.submit("b1", 2)
    await story.waits("b1", "TopologyPlacementFailed", "allows to fit only 1 out of 2 pod(s)")
    await story.run("b2", 1)
    smaller = {"spec": {"min": {story.resource: 1}}}
    await story.kube.patch(ELASTIC_QUOTAS, "quota", smaller, story.corners["b"].name, kind=PatchKind.MERGE)
    await eventually("all is well again", lambda: says("False", "a", "b"))


@ON_THE_REAL_ONE
async def test_its_queues_come_and_go_with_it(site: MakeSite) -> None:
    story = Tenants(site("gone"))
    await story.open({"n": 2}, a=(1, 1))
    await story.run("a1", 1)
    corner = story.corners["a"]
    await story.submit("a2", 1)
    await story.waits("a2")
    await corner.remove(ELASTIC_QUOTAS, "quota")
    await corner.waits("a2", "Misconfigured", "LocalQueue elastic-quota doesn't exist")
    await story.stays("a1")
    await story.tenant("a", 2, 2)
    await story.runs("a2", 1)
    await corner.remove(ELASTIC_QUOTAS, "quota")
    for name in ("a1", "a2"):
        await story.ends(name)

    async def left() -> bool:
        queues = [*(await story.kube.list(CLUSTER_QUEUES)).items, *(await story.kube.list(LOCAL_QUEUES)).items]
        return not any(q["metadata"].get("labels", {}).get("stowage.dev/elastic-quota") == corner.name for q in queues)

    await eventually("queues gone", left)


@ON_THE_REAL_ONE
async def test_a_queue_that_is_named_or_is_the_default_goes_before_it(site: MakeSite) -> None:
    here = site("named")
    await here.open({"b1": {"r1": 1}})
    story = Tenants(here)
    story.corners["a"] = here
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.make(
        ELASTIC_QUOTAS,
        {"metadata": {"name": "quota", "namespace": here.name}, "spec": {"max": {"nvidia.com/gpu": 0}}},
    )

    async def managed() -> bool:
        namespace = await here.kube.get(NAMESPACES, here.name)
        return bool(namespace["metadata"].get("labels", {}).get(MANAGED) == "true")

    await eventually("namespace managed", managed)
    await here.submit(here.job("own", 1))
    await here.running("own", 1)
    local = {"metadata": {"name": "default", "namespace": here.name}, "spec": {"clusterQueue": here.name}}
    await here.make(LOCAL_QUEUES, local)

    async def first() -> bool:
        probe = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **here.job("probe", 1, queue=None)}
        made = await here.kube.create(JOBS, probe, dry_run=True)
        return bool(made["metadata"].get("labels", {}).get(QUEUE_NAME_LABEL) == "default")

    await eventually("the webhook knows the default queue", first)
    await here.submit(here.job("plain", 1, queue=None))
    await here.running("plain", 1)


async def test_a_queue_of_its_name_with_another_owner_stays_as_it_is(site: MakeSite) -> None:
    here = site("taken")
    await here.open({"b1": {"r1": 1}})
    local = {"metadata": {"name": "elastic-quota", "namespace": here.name}, "spec": {"clusterQueue": here.name}}
    await here.make(LOCAL_QUEUES, local)
    await here.make(ELASTIC_QUOTAS, {"metadata": {"name": "quota", "namespace": here.name}, "spec": {}})

    async def told() -> bool:
        quota = await here.kube.get(ELASTIC_QUOTAS, "quota", here.name)
        conditions = (quota.get("status") or {}).get("conditions", ())
        return [(c["type"], c["status"], c["reason"], c["message"]) for c in conditions] == [
            ("Active", "False", "NameTaken", "the LocalQueue elastic-quota is managed by another owner")
        ]

    await eventually("told that the name is taken", told)
    await here.submit(here.job("own", 1, queue="elastic-quota"))
    await here.running("own", 1)


async def test_of_two_made_at_once_one_holds_and_the_other_is_refused_or_says_so(site: MakeSite) -> None:
    here = site("both")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})

    async def make(kind: Resource) -> Resource | None:
        try:
            await here.make(kind, {"metadata": {"name": "quota", "namespace": here.name}, "spec": {}})
        except Forbidden:
            return None
        return kind

    both = await asyncio.gather(make(ELASTIC_QUOTAS), make(SIGS_ELASTIC_QUOTAS))
    made = [kind for kind in both if kind is not None]
    assert made

    async def told() -> list[str] | None:
        found = [await here.kube.get(kind, "quota", here.name) for kind in made]
        active = [
            c for quota in found for c in (quota.get("status") or {}).get("conditions", ()) if c["type"] == "Active"
        ]
        return sorted(c["reason"] for c in active) if len(active) == len(made) else None

    async def settled() -> bool:
        return await told() == (["Ready"] if len(made) == 1 else ["Ready", "SecondInNamespace"])

    await eventually("one holds", settled)


@ON_THE_REAL_ONE
async def test_changes_of_its_queue_are_reverted_but_a_stop_policy_stays(site: MakeSite) -> None:
    story = Tenants(site("changed"))
    await story.open({"n": 1}, a=(1, 1))
    name = f"elastic-quota.{story.corners['a'].name}"
    changed = {"spec": {"cohortName": "elsewhere", "stopPolicy": "Hold"}}
    await story.kube.patch(CLUSTER_QUEUES, name, changed, kind=PatchKind.MERGE)

    async def right() -> bool:
        spec = (await story.kube.get(CLUSTER_QUEUES, name))["spec"]
        return bool((spec["cohortName"], spec["stopPolicy"]) == ("elastic-quota", "Hold"))

    await eventually("put right", right)
    await story.submit("a1", 1)
    await story.waits("a1", "Suspended", f"ClusterQueue {name} is inactive")
    await story.kube.patch(CLUSTER_QUEUES, name, {"spec": {"stopPolicy": "None"}}, kind=PatchKind.MERGE)
    await story.runs("a1", 1)
