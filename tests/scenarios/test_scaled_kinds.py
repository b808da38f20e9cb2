"""Kinds that only have a scale subresource: their pods wait as one group, which may grow and shrink.

The kinds are made up, and declared while the controller runs. Their controller is a stand-in that makes and ends pods.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from admission.cli.jobkind import roles_of
from api.errors import ApiError, NotFound
from api.job_kinds import JobKind
from api.kube.client import Kube, PatchKind
from api.kube.resources import CLUSTER_QUEUES, CRDS, EVENTS, JOB_KINDS, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import (
    ELASTIC_JOB,
    FINISHED,
    POD_GROUP_NAME,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    REQUIRE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from api.workloads import Workload
from tests.crds import crd_of
from tests.scenarios.set_controllers import StandIn, has_ended, is_ready, running
from tests.scenarios.site import GPU, RACK, Site, eventually, never
from tests.scenarios.test_job_kinds import CLUSTER_ROLES, active

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]

ELASTIC = {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"}
ONE_RACK = {REQUIRE_TOPOLOGY: RACK}


@dataclass(frozen=True)
class Kind:
    """A made-up kind. `template`: where its pod template stands that the JobKind names, None where it names none."""

    resource: Resource
    template: bool

    @property
    def declaration(self) -> Object:
        """Its JobKind."""
        r = self.resource
        scale: Object = {"selector": "status.selector"}
        if self.template:
            scale["template"] = "spec.animal"
        spec = {"group": r.group, "version": r.version, "plural": r.plural, "kind": r.kind, "scale": scale}
        return {"metadata": {"name": f"{r.plural}.{r.group}"}, "spec": spec}

    @property
    def crd(self) -> Object:
        """With the scale subresource."""
        made = crd_of(self.resource)
        scale = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
        made["spec"]["versions"][0]["subresources"]["scale"] = scale
        return made


HERD = Kind(Resource("herds.example.com", "v1", "herds", "Herd"), template=True)
FLOCK = Kind(Resource("flocks.example.com", "v1", "flocks", "Flock"), template=False)
BOTH = pytest.mark.parametrize("kind", [HERD, FLOCK], ids=["template", "pods only"])


class Keeper(StandIn):
    """Its controller: makes the pods that are missing, ends the youngest of those that are too many."""

    def __init__(self, kube: Kube, kind: Kind) -> None:
        super().__init__(kube)
        self.resource = kind.resource

    async def sync(self, obj: Object, pods: Sequence[Object]) -> None:
        """See StandIn."""
        uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
        mine = [pod for pod in pods if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences", ()))]
        standing = [pod for pod in mine if not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")]
        wanted = obj["spec"].get("replicas", 1)
        for _ in range(min(wanted, 50) - len(standing)):
            await self.create(
                obj, self.resource, f"{name}-{secrets.token_hex(4)}", obj["spec"]["animal"], {"herd": name}
            )
        # those that wait first, and of those that run not the last ones by name
        spare = sorted(standing, key=lambda pod: (is_ready(pod), pod["metadata"]["name"]))[: len(standing) - wanted]
        for pod in (*(spare if len(standing) > wanted else ()), *(pod for pod in mine if has_ended(pod))):
            await self.delete(pod)
        selector = obj["spec"].get("selector", f"herd={name}")
        await self.tell(obj, {"replicas": len(standing), "selector": selector})


async def declared(here: Site, kind: Kind) -> None:
    """The kind, once its JobKind says that it is managed."""
    for role in roles_of(JobKind.from_wire(kind.declaration)):
        await here.make(CLUSTER_ROLES, role)
    await here.make(CRDS, kind.crd)
    await here.make(JOB_KINDS, kind.declaration)
    await active(here, kind.declaration, "True", "Managed")


def herd(here: Site, kind: Kind, name: str, replicas: int | None, annotations: Object, **more: Any) -> Object:
    """As a user writes it; where the template is not known its pods name the queue."""
    template = here.template()
    if not kind.template:
        template["metadata"]["labels"] = {QUEUE_NAME_LABEL: "lq"}
        template["metadata"]["annotations"] = dict(annotations)
    meta = {
        "name": name,
        "namespace": here.name,
        "labels": {QUEUE_NAME_LABEL: "lq"},
        "annotations": dict(annotations),
    }
    size = {} if replicas is None else {"replicas": replicas}
    return {"metadata": meta, "spec": {**size, "animal": template, **more}}


async def submit(here: Site, kind: Kind, obj: Object) -> Object:
    async def made() -> Object | None:
        try:
            return await here.make(kind.resource, obj)
        except NotFound:
            return None

    return await eventually(f"{kind.resource.plural} are served", made)


async def pods_of(here: Site, name: str) -> list[Object]:
    page = await here.kube.list(PODS, here.name, label_selector=f"herd={name}")
    return [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]


async def runs(here: Site, name: str, count: int, *, waiting: int = 0) -> list[Object]:
    """Its pods, once so many run and so many wait."""

    async def check() -> list[Object] | None:
        pods = await pods_of(here, name)
        bound = [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["spec"].get("nodeName")]
        return bound if len(bound) == count and len(pods) == count + waiting else None

    try:
        return await eventually(f"{count} pods of {name} run", check, seconds=60)
    except AssertionError as late:
        pods = [(p["metadata"]["name"], p["status"].get("phase"), p["spec"].get("schedulingGates"))
                for p in await pods_of(here, name)]  # fmt: skip
        raise AssertionError(f"{late}; {pods}; {await here.story(name)}") from None


async def live(here: Site, name: str) -> list[Workload]:
    """Its Workloads that are not Finished, the one with quota first."""
    found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
    mine = [w for w in found if any(o.name == name for o in w.metadata.owner_references)]
    mine = [w for w in mine if not is_true(w.status.conditions, FINISHED)]
    return sorted(mine, key=lambda w: not is_true(w.status.conditions, QUOTA_RESERVED))


async def used(here: Site, gpus: int) -> None:
    """The queue's GPUs in use."""

    async def check() -> bool:
        found = await here.kube.get(CLUSTER_QUEUES, here.name)
        flavors = found.get("status", {}).get("flavorsReservation") or []
        total = [r["total"] for flavor in flavors for r in flavor["resources"] if r["name"] == GPU]
        return bool(total) and int(total[0]) == gpus

    await eventually(f"{gpus} GPUs are in use", check)


async def scale(here: Site, kind: Kind, name: str, replicas: int) -> None:
    await here.change(kind.resource, name, {"spec": {"replicas": replicas}})


def nodes_of(pods: Sequence[Object]) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


@BOTH
async def test_pods_of_a_scale_start_together_in_one_rack_and_are_given_back(site: MakeSite, kind: Kind) -> None:
    here = site(f"scaled-{kind.resource.plural}")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=4)
    await declared(here, kind)
    async with running(Keeper(here.kube, kind)):
        await submit(here, kind, herd(here, kind, "first", 4, ONE_RACK))
        pods = await runs(here, "first", 4)
        assert len(await here.racks(pods)) == 1
        (workload,) = await live(here, "first")
        assert [(p.name, p.count) for p in workload.spec.pod_sets] == [("main", 4)]
        # the quota is used up: the next one waits as a whole, with a reason, and no pod of it runs
        await submit(here, kind, herd(here, kind, "second", 2, ONE_RACK))
        await here.waits("second", "WaitingForQuota", "insufficient unused quota")
        await runs(here, "second", 0, waiting=2)
        # fewer pods: their quota returns, the others stay
        await scale(here, kind, "first", 2)
        left = await runs(here, "first", 2)
        assert nodes_of(left).items() <= nodes_of(pods).items()
        await runs(here, "second", 2)
        await here.remove(kind.resource, "first")
        await used(here, 2)


@BOTH
async def test_an_elastic_scale_grows_in_place_and_shrinks_at_once(site: MakeSite, kind: Kind) -> None:
    here = site(f"elastic-{kind.resource.plural}")
    await here.open({"b1": {"r1": 4, "r2": 3}}, quota=7)
    await declared(here, kind)
    async with running(Keeper(here.kube, kind)):
        await submit(here, kind, herd(here, kind, "first", 5, ELASTIC))
        pods = await runs(here, "first", 5)
        # 12 at room for 7: 7 run, those that ran stay where they are, the others wait with a reason
        await scale(here, kind, "first", 12)
        more = await runs(here, "first", 7, waiting=5)
        assert nodes_of(pods).items() <= nodes_of(more).items()
        await used(here, 7)

        async def waits() -> bool:
            found = await live(here, "first")
            said = [c.message for w in found[1:] for c in w.status.conditions if c.type == QUOTA_RESERVED]
            return len(found) == 2 and bool(said) and "" not in said

        await eventually("the next slice says why it waits", waits)
        # 3: quota and nodes are free at once, whichever pods its controller ends
        await scale(here, kind, "first", 3)
        fewer = await runs(here, "first", 3)
        assert nodes_of(fewer).items() <= nodes_of(more).items()
        await used(here, 3)
        await here.submit(here.job("other", 4))
        await here.running("other", 4)
        # it grows again, beside the other
        await here.remove(Resource("batch", "v1", "jobs", "Job"), "other")
        await scale(here, kind, "first", 6)
        assert nodes_of(fewer).items() <= nodes_of(await runs(here, "first", 6)).items()
        # scaled to nothing it holds nothing
        await scale(here, kind, "first", 0)
        await runs(here, "first", 0)
        await used(here, 0)


async def test_an_evicted_elastic_scale_stops_whole_and_starts_anew(site: MakeSite) -> None:
    here = site("evicted-herd")
    await here.open({"b1": {"r1": 4}}, quota=4)
    await declared(here, HERD)
    async with running(Keeper(here.kube, HERD)):
        await submit(here, HERD, herd(here, HERD, "first", 2, ELASTIC))
        await runs(here, "first", 2)
        await scale(here, HERD, "first", 4)
        before = nodes_of(await runs(here, "first", 4))
        (acting,) = await live(here, "first")
        await here.kube.patch(
            WORKLOADS, acting.metadata.name, {"spec": {"active": False}}, here.name, kind=PatchKind.MERGE
        )
        await runs(here, "first", 0, waiting=4)
        await used(here, 0)
        await here.kube.patch(
            WORKLOADS, acting.metadata.name, {"spec": {"active": True}}, here.name, kind=PatchKind.MERGE
        )
        after = nodes_of(await runs(here, "first", 4))
        assert not before.keys() & after.keys()


async def test_a_stranger_among_the_pods_and_numbers_without_sense(site: MakeSite) -> None:
    """A pod that claims the wrong object, replicas of a billion or of none, a selector that is none."""
    here = site("hostile-herd")
    await here.open({"b1": {"r1": 4}}, quota=4)
    await declared(here, FLOCK)
    keeper = Keeper(here.kube, FLOCK)
    async with running(keeper):
        owner = await submit(here, FLOCK, herd(here, FLOCK, "good", None, {}))  # no replicas: one
        await runs(here, "good", 1)
        template = herd(here, FLOCK, "x", 1, {})["spec"]["animal"]
        forged = {**owner, "metadata": {**owner["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}}
        for claimed, labels, said in (
            (forged, {"herd": "good"}, "has another UID"),
            (owner, {"herd": "other"}, "status.selector"),
            ({**owner, "metadata": {**owner["metadata"], "name": "none"}}, {"herd": "good"}, "does not exist"),
        ):
            with pytest.raises(ApiError) as error:
                await keeper.create(claimed, FLOCK.resource, f"forged-{secrets.token_hex(2)}", template, labels)
            assert said in error.value.message
        # more than its template: refused or held, but never started
        large = {**template, "spec": {**template["spec"], "containers": [here.template(3)["spec"]["containers"][0]]}}
        with contextlib.suppress(ApiError):
            await keeper.create(owner, FLOCK.resource, "large", large, {"herd": "good"})

        async def started() -> bool:
            pods = await here.kube.list(PODS, here.name)
            return any(pod["metadata"]["name"] == "large" and pod["spec"].get("nodeName") for pod in pods.items)

        await never("the large pod starts", started)
        with pytest.raises(ApiError) as error:
            await submit(here, FLOCK, herd(here, FLOCK, "bad", -3, {}))
        assert "spec.replicas" in error.value.message
        with pytest.raises(ApiError) as error:
            await submit(here, FLOCK, herd(here, FLOCK, "huge", 10**9, {}))
        assert "spec.replicas" in error.value.message
        await submit(here, FLOCK, herd(here, FLOCK, "odd", 1, {}, selector="herd in (("))

        async def told() -> bool:
            events = (await here.kube.list(EVENTS, here.name)).items
            return any("status.selector" in (e.get("note") or e.get("message") or "") for e in events)

        await eventually("the selector is named in an event", told)
        # the others are not disturbed
        await submit(here, FLOCK, herd(here, FLOCK, "later", 2, {}))
        await runs(here, "later", 2)


async def test_a_user_cannot_write_the_marks_of_a_set(site: MakeSite) -> None:
    here = site("marks-herd")
    await here.open({"b1": {"r1": 1}}, quota=1)
    await declared(here, FLOCK)
    body = here.template()
    meta = {
        "name": "alone",
        "namespace": here.name,
        "labels": {QUEUE_NAME_LABEL: "lq"},
        "annotations": {
            "stowage.dev/set-name": "none",
            "kueue.x-k8s.io/pod-suspending-parent": "flocks.example.com/flock",
        },
    }
    await here.make(PODS, {"metadata": meta, "spec": body["spec"]})

    async def runs_alone() -> bool:
        pod = await here.kube.get(PODS, "alone", here.name)
        return bool(pod["spec"].get("nodeName"))

    await eventually("it is queued as the pod that it is", runs_alone)
    assert POD_GROUP_NAME not in (await here.kube.get(PODS, "alone", here.name))["metadata"].get("labels", {})
