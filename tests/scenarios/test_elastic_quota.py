"""Elastic quotas, from the manifest to pods on nodes: the four stories, defaults, status, what is refused. One that is
deleted: test_deleted_elastic_quota.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from api.errors import Forbidden
from api.kube.client import PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    ELASTIC_QUOTAS,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_QUOTAS,
    SIGS_ELASTIC_QUOTAS,
    Resource,
)
from api.names import QUEUE_NAME_LABEL
from hack.controlplane.options import ClusterOptions
from tests.scenarios.quota_tenants import Tenants
from tests.scenarios.site import Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
ENVIRONMENT = {"STOWAGE_CONTROLLER__WAIT_REPORT_PERIOD": "0.5", "STOWAGE_CONTROLLER__QUEUE_STATUS_PERIOD": "0.5"}

MakeSite = Callable[[str], Site]
# Long ones whose parts have quick tests of their own.
ON_THE_REAL_ONE = pytest.mark.parametrize("stage", [pytest.param("real", marks=pytest.mark.e2e)], indirect=True)
MANAGED = "kueue.x-k8s.io/managed-namespace"


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


async def test_a_max_above_a_resource_quota_is_reported(site: MakeSite) -> None:
    story = Tenants(site("hard"))
    await story.open({"n": 4}, a=(1, 3))
    where = story.corners["a"].name
    hard = {"metadata": {"name": "hard", "namespace": where}, "spec": {"hard": {f"requests.{story.resource}": "2"}}}
    await story.site.make(RESOURCE_QUOTAS, hard)
    message = f"max is 3 {story.resource} (the ResourceQuota hard allows 2)"

    async def says(status: str) -> bool:
        conditions = ((await story.quota("a")).get("status") or {}).get("conditions", ())
        told = [c for c in conditions if c["type"] == "AboveResourceQuota" and c["status"] == status]
        return bool(told) and (status == "False" or told[0]["message"] == message)

    async def warned() -> bool:
        events = (await story.kube.list(EVENTS, where)).items
        return any(e["type"] == "Warning" and e["message"] == message for e in events)

    await eventually("told that max is above hard", lambda: says("True"))
    await eventually("a warning", warned)
    await story.kube.delete(RESOURCE_QUOTAS, "hard", where)
    await eventually("all is well again", lambda: says("False"))


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
