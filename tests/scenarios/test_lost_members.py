"""A gang that has been bound whole loses a member: every dialect, every owner of the pods, every loss.

The lost member waits for its successor, the others run on, and a Job counts no failure but the loss itself. Each row of the
table plays in a namespace of its own, and all rows that are asked for play at the same time: the garbage collector takes most
of a minute to take the pods of a node that is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    SIGS_POD_GROUPS,
    STATEFUL_SETS,
    WORKLOADS,
    Resource,
)
from api.meta import is_true
from api.names import (
    GANG_BOUND,
    GANG_LABEL,
    GANG_MINIMUM,
    GANG_NAME,
    KOORDINATOR_MATCH_POLICY,
    KOORDINATOR_MINIMUM,
    KOORDINATOR_NAME,
    SAKKARA_GROUP,
    SAKKARA_GROUP_NAME,
    SAKKARA_RANK,
    SIGS_GANG,
    SIGS_GANG_GROUPS,
    SIGS_GANG_MINIMUM,
    SIGS_GANG_NAME,
)
from api.workloads import Workload
from tests.scenarios.gangs import a_pod, story
from tests.scenarios.site import Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

Texts = Mapping[str, str]
SIZE = 3
TIMEOUT = 5
"""Seconds within which a gang must be bound. Sakkara has no such limit."""
AT_ONCE = 8
"""Rows that start at the same time: the scheduler binds no more than some tens of pods a second."""
LIMIT = 150.0
"""Seconds that one step of a row may take."""
OTHER = "other"
"""The second gang of a GangGroup, of one pod."""


@dataclass(frozen=True)
class MemberDialect:
    """How pods say that they are the gang g. `group`: the kind of the PodGroup that says more. `both`: the annotation of
    a GangGroup, of g and OTHER."""

    labels: Texts = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)
    group: Resource | None = None
    both: str = ""


DIALECTS = {
    "label": MemberDialect({GANG_NAME: "g", GANG_MINIMUM: "3"}, group=POD_GROUPS),
    "sigs-label": MemberDialect({SIGS_GANG_NAME: "g", SIGS_GANG_MINIMUM: "3"}, group=SIGS_POD_GROUPS),
    "annotation": MemberDialect(annotations={KOORDINATOR_NAME: "g", KOORDINATOR_MINIMUM: "3"}, group=POD_GROUPS),
    "podgroup": MemberDialect({GANG_LABEL: "g"}, group=POD_GROUPS),
    "sigs-podgroup": MemberDialect({SIGS_GANG: "g"}, group=SIGS_POD_GROUPS),
    "once-satisfied": MemberDialect({GANG_LABEL: "g"}, {KOORDINATOR_MATCH_POLICY: "once-satisfied"}, group=POD_GROUPS),
    "ganggroup": MemberDialect(
        {SIGS_GANG_NAME: "g", SIGS_GANG_MINIMUM: "3"}, group=SIGS_POD_GROUPS, both=SIGS_GANG_GROUPS
    ),
    "sakkara": MemberDialect({SAKKARA_GROUP_NAME: "g"}),
}
OWNERS: dict[str, Resource] = {"pods": PODS, "job": JOBS, "deployment": DEPLOYMENTS, "statefulset": STATEFUL_SETS}
LOSSES = ("deleted", "failed", "node")


class LostMemberRow(NamedTuple):
    """One line of the table."""

    dialect: str
    owner: str
    loss: str


TABLE = [LostMemberRow(*row) for row in itertools.product(DIALECTS, OWNERS, LOSSES)]


@dataclass
class ObservedMembers:
    """All pods of the cluster, read at most twice a second for all rows together."""

    kube: Kube
    at: float = -1.0
    pods: list[dict[str, Any]] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def running(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Those of the namespace that run and are not on their way out, by UID."""
        async with self.lock:
            if time.monotonic() > self.at + 0.5:
                self.pods, self.at = (await self.kube.list(PODS)).items, time.monotonic()
        return {
            pod["metadata"]["uid"]: pod
            for pod in self.pods
            if pod["metadata"]["namespace"] == namespace
            and pod.get("status", {}).get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        }


def owner_of(here: Site, owner: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    """A Job, Deployment or StatefulSet p whose pods are like that one."""
    meta = {key: dict(pod["metadata"][key]) for key in ("labels", "annotations")}
    meta["labels"]["app"] = "p"
    template = {"metadata": meta, "spec": {**pod["spec"]}}
    metadata = {"name": "p", "namespace": here.name}
    if owner == "job":
        spec = {"parallelism": SIZE, "completions": SIZE, "completionMode": "Indexed", "backoffLimit": 1}
        return {"metadata": metadata, "spec": {**spec, "template": template}}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": SIZE, "selector": {"matchLabels": {"app": "p"}}, "template": template}
    if owner == "statefulset":
        spec |= {"serviceName": "p", "podManagementPolicy": "Parallel"}
    return {"metadata": metadata, "spec": spec}


async def begin(here: Site, row: LostMemberRow) -> Any:
    """Makes the gang and what describes it; a pod as its members are."""
    dialect = DIALECTS[row.dialect]
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    here.gpus_per_host = 1 if row.loss == "node" else SIZE + 1
    await here.add_nodes({"b": {"r": SIZE + 2 if row.loss == "node" else 1}})
    if dialect.group is not None:
        spec = {"minMember": SIZE, "scheduleTimeoutSeconds": TIMEOUT}
        await here.make(dialect.group, {"metadata": {"name": "g", "namespace": here.name}, "spec": spec})
    if row.dialect == "sakkara":
        metadata = {"name": "g", "namespace": here.name, "labels": {SAKKARA_GROUP: ""}}
        await here.make(CONFIG_MAPS, {"metadata": metadata, "data": {"name": "g", "size": str(SIZE)}})
    annotations = dict(dialect.annotations)
    if dialect.both:
        annotations[dialect.both] = json.dumps([f"{here.name}/g", f"{here.name}/{OTHER}"])
        labels = {**dialect.labels, SIGS_GANG_NAME: OTHER, SIGS_GANG_MINIMUM: "1"}
        await here.make(PODS, a_pod(here, OTHER, labels, annotations, gpus=1))
    member = a_pod(here, "p", dict(dialect.labels), annotations, gpus=1)
    if row.owner == "pods":
        for number in range(SIZE):
            await here.make(PODS, named(member, f"p-{number}"))
    else:
        await here.make(OWNERS[row.owner], owner_of(here, row.owner, member))
    return member


def named(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


async def lose(here: Site, seen: ObservedMembers, pod: Mapping[str, Any], loss: str) -> None:
    """The pod is deleted, fails, or goes with its node."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    if loss == "deleted":
        await here.kube.delete(PODS, name, here.name)
    elif loss == "failed":
        body = {"status": {"phase": "Failed"}}
        await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")
    else:
        await here.kube.delete(NODES, pod["spec"]["nodeName"])

    async def gone() -> bool:
        return uid not in await seen.running(here.name)

    await eventually(f"{name} is lost", gone)


def ranks(pods: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {uid: pod["metadata"]["labels"].get(SAKKARA_RANK, "") for uid, pod in pods.items()}


async def play(here: Site, seen: ObservedMembers, row: LostMemberRow, starting: asyncio.Semaphore) -> None:
    """The gang runs, loses a member, and gets another."""
    size = SIZE + bool(DIALECTS[row.dialect].both)

    async def all_run() -> dict[str, dict[str, Any]] | None:
        found = await seen.running(here.name)
        ranked = row.dialect != "sakkara" or {*ranks(found).values()} == {*"012"}
        return found if len(found) == size and ranked else None

    async def bound() -> bool:
        """A gang that a slow machine binds after its schedule timeout is evicted, and its pods are made again."""
        if DIALECTS[row.dialect].group is None:
            return True
        workload = Workload.from_wire(await here.kube.get(WORKLOADS, "g", here.name))
        return is_true(workload.status.conditions, GANG_BOUND)

    async with starting:
        member = await begin(here, row)
        await told(here, f"{size} pods run", all_run)
        await told(here, "the Workload says that the gang was bound", bound)
        before = await told(here, f"{size} pods run", all_run)
    workloads = await workloads_of(here)
    lost = min(
        (pod for pod in before.values() if pod["metadata"]["name"] != OTHER), key=lambda p: p["metadata"]["name"]
    )
    await lose(here, seen, lost, row.loss)
    others = before.keys() - {lost["metadata"]["uid"]}

    async def others_end() -> bool:
        return not others <= (await seen.running(here.name)).keys()

    if row.owner == "pods":
        await never("the others run on", others_end, seconds=TIMEOUT + 2.0)
        await here.make(PODS, named(member, "p-next"))
    after = await told(here, "the successor runs", all_run)
    assert others < after.keys(), f"the others run on: {await story(here)}"
    assert await workloads_of(here) == workloads, "the successor has the place of the lost one"
    events = (await here.kube.list(EVENTS, here.name)).items
    assert not [e["message"] for e in events if e["reason"].startswith("Evicted")]
    if row.owner == "job":
        status = (await here.get_job("p"))["status"]
        assert status.get("failed", 0) <= 1, status
        assert not any(c["type"] in ("Failed", "FailureTarget") for c in status.get("conditions") or ()), status
    kept = {uid: ranks(before)[uid] for uid in others}
    assert ranks(after).items() >= kept.items(), "the others keep their ranks, the successor has that of the lost one"


async def workloads_of(here: Site) -> set[str]:
    return {found["metadata"]["uid"] for found in (await here.kube.list(WORKLOADS, here.name)).items}


async def told(here: Site, what: str, check: Any) -> Any:
    """Waits for it; a failure is told with the namespace's story."""
    try:
        return await eventually(what, check, LIMIT)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here)}") from None


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def played(
    stage: Stage, request: pytest.FixtureRequest
) -> AsyncIterator[dict[LostMemberRow, asyncio.Task[None]]]:
    """All rows that are asked for on this stage, each as a task that plays it."""
    asked: list[Any] = [
        item.callspec.params["row"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and item.callspec.params["stage"] == stage.name
    ]
    seen, starting = ObservedMembers(stage.kube), asyncio.Semaphore(AT_ONCE)
    tasks = {
        row: asyncio.create_task(play(Site(stage.kube, f"lost-{'-'.join(row)}"), seen, row, starting))
        for row in asked
        if not unplayable(stage, row)
    }
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def unplayable(stage: Stage, row: LostMemberRow) -> str:
    """Why the row cannot be played on this stage; empty where it can."""
    if stage.name == "embedded" and (row.owner != "pods" or row.loss == "node"):
        return "the embedded API server has neither these owners' controllers nor a garbage collector of pods"
    return ""


def marked(row: LostMemberRow) -> Any:
    """Two rows tell of lost nodes in each run of the suite, the others in the long one: each takes more than half a minute."""
    short = row.loss != "node" or row in (
        LostMemberRow("label", "pods", "node"),
        LostMemberRow("podgroup", "deployment", "node"),
    )
    return pytest.param(row, id="-".join(row), marks=() if short else pytest.mark.long)


@pytest.mark.parametrize("row", [marked(row) for row in TABLE])
async def test_a_lost_member_of_a_gang_that_has_run_ends_none_of_the_others(
    stage: Stage, played: Mapping[LostMemberRow, asyncio.Task[None]], row: LostMemberRow
) -> None:
    """The timeout bounds the start only; the successor takes the place of the lost one."""
    if why := unplayable(stage, row):
        pytest.skip(why)
    await played[row]
