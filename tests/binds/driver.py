"""Submits drawn gangs to a real control plane, and judges what became of each.

A gang is either bound whole, or its Workload says why it waits. Then copies of its pods without gates are made, beside all that
is there: where the stock scheduler binds all of them (in one domain, where the gang requires that), the gang was refused for
nothing. Pods that the scheduler refused after their gate had opened are found by its events. Foreign pods come and go between
bursts of gangs, which meet each other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from admission.controllers.watch.kinds import BOUND_PODS
from api.errors import NotFound
from api.kube.resources import CLAIMS, EVENTS, JOBS, NODES, PODS, RESOURCE_SLICES, VOLUMES, WORKLOADS
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from tests.binds.drawn import Draw, Gang, Object
from tests.binds.limits import limit_of
from tests.binds.outside import ATTACHED, Made
from tests.scenarios.site import GROUP, Site, eventually
from tests.scenarios.stage import Stage

_SETTLED = 120.0
"""Seconds in which a gang is bound or says why it waits."""
_SHADOW = 6.0
"""Seconds in which the stock scheduler binds the copies, or refuses one."""
_ROUNDS = 3
"""How often a gang waits and its copies are bound, until it counts as refused: what it waited for may be over."""
_BOUND_PODS = f'stowage_informer_resource_version{{resource="pods",selection="{BOUND_PODS}"}}'
_BUSY = 6
"""Gangs that run at once."""


@dataclass(frozen=True)
class Finding:
    """What became of a gang that was not bound at once, with all that explains it."""

    gang: Gang
    said: str
    state: tuple[str, ...]
    limit: str | None = None
    """The documented limit that it meets."""


@dataclass
class Outcome:
    """Of one cluster, or of several together."""

    gangs: int = 0
    bound: int = 0
    waited: int = 0
    unschedulable: list[str] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)
    silent: list[Finding] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.gangs, self.bound, self.waited = (
            self.gangs + other.gangs, self.bound + other.bound, self.waited + other.waited,
        )  # fmt: skip
        self.unschedulable += other.unschedulable
        self.refused += other.refused
        self.silent += other.silent


class Driver:
    """One cluster of a seed, in a corner of the stage of its own."""

    def __init__(self, stage: Stage, seed: int, prefix: str = "binds") -> None:
        self.site = Site(stage.kube, f"{prefix}-{seed}")
        self.rng = Random(seed)
        self.draw = Draw(self.rng, self.site.name)
        self.outcome = Outcome()
        self._kube = stage.kube
        self._metrics = f"http://127.0.0.1:{stage.processes.children['controller'].health_port}/metrics"
        self._running: list[Gang] = []
        self._waiting: list[Gang] = []
        self._foreign: list[str] = []
        self._shadows = self._markers = 0

    async def run(self, gangs: int) -> Outcome:
        """So many gangs; leaves nothing that runs."""
        await self._open()
        while self.outcome.gangs < gangs:
            burst = [self.draw.gang() for _ in range(min(gangs - self.outcome.gangs, self.rng.choice([1, 1, 1, 2, 3])))]
            for gang in burst:
                await self._submit(gang)
            self.outcome.gangs += len(burst)
            waiting = [(gang, said) for gang in burst if (said := await self._judged(gang))]
            self.outcome.waited += len(waiting)
            await self._end_those_that_wait()
            for gang, said in waiting:
                await self._compare(gang, said)
            await self._churn()
        await self._look_for_refusals()
        await self._close()
        return self.outcome

    # ---- the cluster

    async def _open(self) -> None:
        nodes = self.draw.nodes()
        await self.site.open({}, levels=self.draw.levels)
        await asyncio.gather(*(self.site.make(NODES, node) for node in nodes))
        for node in nodes:
            await eventually(f"node {node['metadata']['name']} usable", lambda node=node: self._usable(node))  # type: ignore[misc]
        for resource, made in self.draw.objects():
            await self.site.make(resource, made)
        for _ in range(self.rng.randint(0, 4)):
            await self._add_foreign()
        await self._seen()

    async def _usable(self, node: Object) -> bool:
        found = await self._kube.get(NODES, node["metadata"]["name"])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"].get("conditions", []))
        drawn = {taint["key"] for taint in node["spec"].get("taints", [])} | {"node.kubernetes.io/unschedulable"}
        return ready and {taint["key"] for taint in found.get("spec", {}).get("taints", [])} <= drawn

    async def _add_foreign(self) -> None:
        """A foreign pod that finds no node is taken away again."""
        pod = self.draw.foreign()
        await self.site.make(PODS, pod)
        name = pod["metadata"]["name"]
        if await self._bound([name]):
            self._foreign.append(name)
        else:
            await self._gone(name)

    async def _end_those_that_wait(self) -> None:
        """Before foreign pods come: a gang that is let through meanwhile would race with them, and nobody can help that."""
        while self._waiting:
            await self._end(self._waiting.pop())

    async def _churn(self) -> None:
        """Gangs end, and those that wait take their place; then foreign pods come and go."""
        again = [self._running.pop(self.rng.randrange(len(self._running))) for _ in self._running[_BUSY:]]
        while self._running and self.draw.chance(0.4):
            again.append(self._running.pop(self.rng.randrange(len(self._running))))
        for gang in again:
            await self._end(gang)
        while self._foreign and self.draw.chance(0.3):
            await self._gone(self._foreign.pop(self.rng.randrange(len(self._foreign))))
        while self.draw.chance(0.3) and len(self._foreign) < 5:
            await self._add_foreign()
        await self._seen()

    async def _seen(self) -> None:
        """Waits until the controller has seen all bound pods that came and went: their watch delivers in order, so it has once
        it has seen one more. What it decides before, nobody can blame it for.
        """
        self._markers += 1
        name = f"marker-{self._markers}"
        spec = {"nodeName": f"no-node-of-{self.site.name}", "containers": [{"name": "main", "image": "pause"}]}
        made = await self._kube.create(PODS, {"metadata": {"name": name, "namespace": self.site.name}, "spec": spec})
        least = int(made["metadata"]["resourceVersion"])

        async def seen() -> bool:
            async with aiohttp.ClientSession() as session, session.get(self._metrics) as answer:
                text = await answer.text()
            found = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(_BOUND_PODS)]
            return bool(found) and float(found[0]) >= least

        await eventually("the controller has seen the pods", seen)
        await self._gone(name)

    async def _end(self, gang: Gang) -> None:
        await self._kube.delete(JOBS, gang.name, self.site.name, propagation="Background")

        async def gone() -> bool:
            return not await self.site.pods(gang.name) and await self.site.workload_of(gang.name) is None

        await eventually(f"pods and Workload of {gang.name} gone", gone)

    async def _gone(self, pod: str) -> None:
        with suppress(NotFound):  # of a pod on no node, Kubernetes' garbage collector may come first
            await self._kube.delete(PODS, pod, self.site.name, grace_seconds=0)

        async def gone() -> bool:
            try:
                await self._kube.get(PODS, pod, self.site.name)
            except NotFound:
                return True
            return False

        await eventually(f"{pod} gone", gone)

    async def _close(self) -> None:
        for gang in (*self._running, *self._waiting):
            await self._end(gang)
        for pod in self._foreign:
            await self._gone(pod)
        for node in self.draw.hosts:
            await self._kube.delete(NODES, node)
            with suppress(NotFound):
                await self._kube.delete(RESOURCE_SLICES, node)

    # ---- one gang

    async def _submit(self, gang: Gang) -> None:
        for resource, made in gang.claims:
            await self.site.make(resource, made)
        await self.site.submit(gang.job)

    async def _judged(self, gang: Gang) -> str:
        """Why it waits; empty where it does not."""
        said = await self._settled(gang)
        if said is None:
            self.outcome.bound += 1
            self._running.append(gang)
            return ""
        if not said:
            self.outcome.silent.append(Finding(gang, await self.site.story(gang.name), await self._state()))
            self._running.append(gang)
            return ""
        self._waiting.append(gang)
        return said

    async def _compare(self, gang: Gang, message: str) -> None:
        """A gang that waited, and has ended; where the stock scheduler binds it, it is submitted again."""
        state: tuple[str, ...] = ()
        for _ in range(_ROUNDS):
            if not await self._stock_binds(gang):
                return
            await self._seen()
            await self._submit(gang)
            again = await self._settled(gang)
            if again is None:
                self._running.append(gang)
                return
            message, state = again or message, await self._state()
            await self._end(gang)
        apart = ATTACHED not in gang.terms or await self._stock_binds(gang, apart=True)
        self.outcome.refused.append(Finding(gang, message, state, limit_of(gang, message, apart=apart)))

    async def _settled(self, gang: Gang) -> str | None:
        """None: it is bound whole. Else why it waits; empty where it is neither bound nor says so."""
        until, before = time.monotonic() + _SETTLED, ""
        while time.monotonic() < until:
            pods = await self.site.pods(gang.name)
            if len(pods) == gang.pods and all(pod["spec"].get("nodeName") for pod in pods):
                return None
            said = await self._said(gang)
            if said and said == before:
                return said
            before = said
            await asyncio.sleep(0.3 if said else 0.1)
        return ""

    async def _said(self, gang: Gang) -> str:
        workload = await self.site.workload_of(gang.name)
        found = find_condition(workload.status.conditions, QUOTA_RESERVED) if workload else None
        if found is None or found.status != "False":
            return ""
        bound = [pod for pod in await self.site.pods(gang.name) if pod["spec"].get("nodeName")]
        text = f"{found.reason}: {found.message}"
        return "" if bound or "being counted" in text or "waits for PersistentVolumeClaim" in text else text

    # ---- the stock scheduler alone

    async def _stock_binds(self, gang: Gang, *, apart: bool = False) -> bool:
        """Whether it would bind the gang's pods now, as the gang wants to lie; `apart`: each with a claim of its own."""
        if gang.required is None:
            return await self._shadow(gang, {}, apart=apart)
        page = await self._kube.list(NODES, label_selector=f"{GROUP}={self.site.name}")
        depth = self.draw.levels.index(gang.required) + 1
        labels = [node["metadata"]["labels"] for node in page.items]
        domains = {tuple((key, each[key]) for key in self.draw.levels[:depth]) for each in labels}
        own = gang.template["spec"].get("nodeSelector", {})
        for domain in map(dict, sorted(domains)):
            against = any(own.get(key, value) != value for key, value in domain.items())
            if not against and await self._shadow(gang, domain, apart=apart):
                return True
        return False

    async def _shadow(self, gang: Gang, domain: dict[str, str], *, apart: bool) -> bool:
        self._shadows += 1
        spec = gang.template["spec"]
        spec = {**spec, "nodeSelector": {**spec.get("nodeSelector", {}), **domain, GROUP: self.site.name}}
        jobs = dict.fromkeys(("job-name", "batch.kubernetes.io/job-name"), gang.name)
        labels = {**gang.template["metadata"]["labels"], **jobs}
        names = [f"shadow-{self._shadows}-{index}" for index in range(gang.pods)]
        meta = {"namespace": self.site.name, "labels": labels}
        pods = [{"metadata": {"name": n, **meta}, "spec": {**spec, **(_own_claim(n) if apart else {})}} for n in names]
        volumes = [made for name in names for made in self._attached(name)] if apart else []
        for resource, made in volumes:
            await self.site.make(resource, made)
        await asyncio.gather(*(self.site.make(PODS, pod) for pod in pods))
        try:
            return await self._bound(names)
        finally:
            for name in names:
                await self._gone(name)
            for resource, made in reversed(volumes):
                namespace = made["metadata"].get("namespace")
                await self._kube.delete(resource, made["metadata"]["name"], namespace)
            await self._free_volumes()

    def _attached(self, name: str) -> Iterable[Made]:
        return self.draw.outside.attached(name) if self.draw.outside is not None else ()

    async def _free_volumes(self) -> None:
        """Volumes whose claim went with its pod are free again: the gang finds what the copies found."""
        for volume in (await self._kube.list(VOLUMES)).items:
            claim = volume["spec"].get("claimRef") or {}
            if volume["metadata"].get("deletionTimestamp"):
                continue  # it was made for the copies
            if claim.get("namespace") == self.site.name and claim.get("name", "").startswith("shadow-"):
                await eventually(f"claim {claim['name']} gone", lambda claim=claim: self._has_no_claim(claim["name"]))  # type: ignore[misc]
                await self.site.change(VOLUMES, volume["metadata"]["name"], {"spec": {"claimRef": None}}, cluster=True)

    async def _has_no_claim(self, name: str) -> bool:
        try:
            await self._kube.get(CLAIMS, name, self.site.name)
        except NotFound:
            return True
        return False

    async def _bound(self, names: Iterable[str]) -> bool:
        """Whether all are bound; not, once those that are not have been refused."""
        until, refused = time.monotonic() + _SHADOW, 0
        while time.monotonic() < until:
            pods = [await self._kube.get(PODS, name, self.site.name) for name in names]
            left = [pod for pod in pods if not pod["spec"].get("nodeName")]
            if not left:
                return True
            refused = refused + 1 if all(map(_is_refused, left)) else 0
            if refused > 2:
                return False
            await asyncio.sleep(0.1)
        return False

    # ---- what is reported

    async def _look_for_refusals(self) -> None:
        page = await self._kube.list(EVENTS, self.site.name)
        for event in page.items:
            about = event["involvedObject"]["name"]
            # Others tell of a binding that failed on the way (the pod was deleted) and is tried again.
            refused = event["reason"] == "FailedScheduling" and "nodes are available" in event["message"]
            if refused and about.startswith("gang-"):
                self.outcome.unschedulable.append(f"{self.site.name}/{about}: {event['message']}")

    async def _state(self) -> tuple[str, ...]:
        nodes = (await self._kube.list(NODES, label_selector=f"{GROUP}={self.site.name}")).items
        pods = (await self._kube.list(PODS, self.site.name)).items
        told = [
            f"{node['metadata']['name']} {sorted(node['metadata']['labels'].items())} "
            f"{node['status']['allocatable']} {node['spec'].get('taints')}"
            for node in nodes
        ]
        told += [_told(pod["metadata"], pod["spec"]) for pod in pods]
        workloads = (await self._kube.list(WORKLOADS, self.site.name)).items
        told += [
            f"{item['metadata']['name']}: {item['status'].get('admission')}" for item in workloads if "status" in item
        ]
        return tuple(told)


def _own_claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def _told(meta: dict[str, Any], spec: dict[str, Any]) -> str:
    main = spec["containers"][0]
    more = [spec.get(key) for key in ("affinity", "resourceClaims", "volumes", "runtimeClassName") if key in spec]
    asked = f"{main['resources'].get('requests')} {main.get('ports')} {more}"
    return (
        f"{meta['creationTimestamp']} {meta['name']} on {spec.get('nodeName')} app={meta['labels'].get('app')} {asked}"
    )


def _is_refused(pod: dict[str, Any]) -> bool:
    said = (pod.get("status") or {}).get("conditions") or []
    return any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable" for c in said
    )
