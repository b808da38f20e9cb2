"""Failures by a seed: nodes, racks, labels, pods from elsewhere, our processes, the API server, etcd.

Each failure heals itself after a while that the dice say; several happen at once. The seed gives the failures, their order
and their times. All goes through the API server, by the client of hack/controlplane, or by signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from admission.cli.local_cluster.processes import StowageProcesses
from hack.controlplane.api import Object
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.errors import RequestError
from hack.controlplane.nodes import DOWN, fail_node, node
from tests.scenarios.failures import paused
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK, Site

Dice = random.Random
T = TypeVar("T")
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
BLOCKS: Final = 4
RACKS: Final = 5
HOSTS: Final = 10
GPUS: Final = 4
GANGS: Final = 30
_STARTS: Final = "not yet ready to handle request"
"""What an API server that has just started says with status 403: its admission plugins have not listed their objects yet."""
_LOST = (OSError, http.client.HTTPException)


def datacenter(group: str) -> list[Object]:
    """200 hosts in 20 racks of 4 blocks."""
    return [
        node(f"b{b}-r{r}-h{h}", {GROUP: group, BLOCK: f"b{b}", RACK: f"b{b}r{r}"}, {GPU: str(GPUS)})
        for b in range(BLOCKS)
        for r in range(RACKS)
        for h in range(HOSTS)
    ]


class Storm:
    """What befalls the site's cluster; `happened` counts the failures by name."""

    def __init__(self, cluster: ControlPlane, processes: StowageProcesses, site: Site, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self._cluster, self._processes, self._site = cluster, processes, site
        self._api, self._seed = cluster.api, seed
        self._nodes: dict[str, Object] = {each["metadata"]["name"]: each for each in datacenter(site.name)}
        self._troubled: set[str] = set()
        self._serial = 0
        self._alone = asyncio.Lock()
        """Held by what stops the API server: one such failure at a time."""
        self._restarts = {name: asyncio.Lock() for name in processes.children}
        self.gangs: list[str] = []

    # ---- the gangs

    async def open(self) -> None:
        """All gangs are posted."""
        for number in range(GANGS):
            await self._post_gang(random.Random(f"{self._seed} gang {number}"))

    async def _post_gang(self, dice: Dice) -> None:
        self._serial += 1
        name = f"gang-{self._serial}"
        gpus = dice.choice((2, 4))
        annotations = {"kueue.x-k8s.io/podset-required-topology": RACK, "stowage.test/fails-first": "1"}
        job = self._site.job(name, dice.randint(2, 7) * GPUS // gpus, gpus=gpus)
        job |= {"apiVersion": "batch/v1", "kind": "Job"}
        template = job["spec"]["template"]
        template["metadata"]["annotations"] = annotations
        template["spec"]["tolerations"] = [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
            for what in ("not-ready", "unreachable")
        ]
        del job["spec"]["backoffLimit"]
        job["spec"] |= dice.choice((_PATIENT, _IGNORES))
        await self._send("POST", f"/apis/batch/v1/namespaces/{self._site.name}/jobs", job)
        self.gangs.append(name)

    async def replace_gang(self, dice: Dice) -> None:
        """A gang is deleted, another one posted."""
        name = self.gangs.pop(dice.randrange(len(self.gangs)))
        options = {"propagationPolicy": "Background"}
        await self._send("DELETE", f"/apis/batch/v1/namespaces/{self._site.name}/jobs/{name}", options)
        await self._post_gang(dice)

    # ---- nodes

    async def node_dies(self, dice: Dice) -> None:
        """A machine is gone; another one with its name comes later."""
        async with self._trouble([self._one(dice)]) as names:
            await self._gone(names, dice)

    async def rack_dies(self, dice: Dice) -> None:
        """All machines of a rack, at once."""
        first = self._one(dice)
        rack = self._nodes[first]["metadata"]["labels"][RACK]
        every = [name for name, each in self._nodes.items() if each["metadata"]["labels"][RACK] == rack]
        async with self._trouble(every) as names:
            await self._gone(names, dice)

    async def _gone(self, names: Sequence[str], dice: Dice) -> None:
        await asyncio.gather(*(self._send("DELETE", f"{NODES}/{name}") for name in names))
        await self._collect_pods(set(names))
        await _while(dice, 10, 40)
        for name in names:
            await self._send("POST", NODES, self._nodes[name])

    async def _collect_pods(self, nodes: set[str]) -> None:
        """As the pod garbage collector, without its forty seconds of quarantine."""
        reason = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "node is gone"}
        for pod in (await self._send("GET", PODS))["items"]:
            if pod["spec"].get("nodeName") not in nodes:
                continue
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            conditions = [*pod["status"].get("conditions", []), reason]
            await self._send("PATCH", f"{path}/status", {"status": {"phase": "Failed", "conditions": conditions}})
            await self._send("DELETE", path, {"gracePeriodSeconds": 0})

    async def node_flaps(self, dice: Dice) -> None:
        """NotReady, for less or more than the pods tolerate."""
        async with self._trouble([self._one(dice)]) as names:
            await self._retried(lambda: fail_node(self._api, names[0], wait=False))
            await _while(dice, 1, 12)
            await self._send("PATCH", f"{NODES}/{names[0]}", {"metadata": {"labels": {DOWN: None}}})

    async def cordon(self, dice: Dice) -> None:
        """Nothing new may come."""
        async with self._trouble([self._one(dice)]) as names:
            await self._send("PATCH", f"{NODES}/{names[0]}", {"spec": {"unschedulable": True}})
            await _while(dice, 5, 30)
            await self._send("PATCH", f"{NODES}/{names[0]}", {"spec": {"unschedulable": None}})

    async def relabel(self, dice: Dice) -> None:
        """A host is said to be in another rack, and said to be back later."""
        async with self._trouble([self._one(dice)]) as names:
            labels = self._nodes[names[0]]["metadata"]["labels"]
            other = self._nodes[dice.choice(sorted(self._nodes))]["metadata"]["labels"]
            for new in (other, labels):
                await self._send(
                    "PATCH", f"{NODES}/{names[0]}", {"metadata": {"labels": {k: new[k] for k in (BLOCK, RACK)}}}
                )
                await _while(dice, 5, 30)

    async def foreign_pods(self, dice: Dice) -> None:
        """Pods from elsewhere take places in a rack for a while."""
        rack = self._nodes[dice.choice(sorted(self._nodes))]["metadata"]["labels"][RACK]
        names = []
        for _ in range(dice.randint(1, 6)):
            self._serial += 1
            names.append(f"foreign-{self._serial}")
            spec = {**self._site.template(GPUS)["spec"], "nodeSelector": {RACK: rack}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": names[-1]}, "spec": spec}
            await self._send("POST", "/api/v1/namespaces/default/pods", pod)
        await _while(dice, 5, 30)
        for name in names:
            await self._send("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})

    # ---- processes

    async def kill_process(self, dice: Dice) -> None:
        """One of ours."""
        name = dice.choice(sorted(self._restarts))
        async with self._restarts[name]:
            await self._processes.crash(name)
            await _while(dice, 0, 3)
            await self._processes.restart(name)

    async def pause_process(self, dice: Dice) -> None:
        """One of ours stands still, for less or more than its lease lasts."""
        name = dice.choice(sorted(self._restarts))
        async with self._restarts[name]:
            with paused(self._processes.children[name]):
                await _while(dice, 1, 8)

    async def restart_apiserver(self, dice: Dice) -> None:
        """Killed or stopped, and started again."""
        number = dice.choice((signal.SIGTERM, signal.SIGKILL))
        async with self._alone:
            await asyncio.to_thread(self._cluster.end_apiserver, number)
            await _while(dice, 0, 2)
            self._cluster.start_apiserver()  # by this thread: the server ends with the one that started it
            await asyncio.to_thread(self._cluster.apiserver_ready)

    async def pause_etcd(self, dice: Dice) -> None:
        """The API server answers late, or not in time."""
        async with self._alone:
            with self._cluster.paused("etcd"):
                await _while(dice, 1, 4)

    # ---- all of them

    async def rage(self, seconds: float) -> None:
        """A failure every two seconds or so; returns when each has healed."""
        weights = {
            self.node_dies: 6, self.rack_dies: 1, self.node_flaps: 6, self.cordon: 4, self.relabel: 5, self.foreign_pods: 6,
            self.kill_process: 3, self.pause_process: 3, self.restart_apiserver: 1, self.pause_etcd: 1, self.replace_gang: 4,
        }  # fmt: skip
        loop = asyncio.get_running_loop()
        end, dice = loop.time() + seconds, random.Random(self._seed)
        first = list(weights)
        dice.shuffle(first)
        async with asyncio.TaskGroup() as failures:
            while loop.time() < end:
                chosen = first.pop() if first else dice.choices(list(weights), list(weights.values()))[0]
                own = random.Random(dice.random())
                self.happened[chosen.__name__] += 1
                failures.create_task(chosen(own), name=chosen.__name__)
                await _while(dice, 0.5, 3.5)

    def _one(self, dice: Dice) -> str:
        return dice.choice(sorted(set(self._nodes) - self._troubled))

    @contextlib.asynccontextmanager
    async def _trouble(self, names: Sequence[str]) -> AsyncIterator[list[str]]:
        """Those of the nodes that nothing else befalls now."""
        free = [name for name in names if name not in self._troubled]
        self._troubled.update(free)
        try:
            yield free
        finally:
            self._troubled.difference_update(free)

    async def _send(self, method: str, path: str, body: object = None) -> Any:
        kind = "application/strategic-merge-patch+json" if "/status" in path else "application/merge-patch+json"
        content = kind if method == "PATCH" else "application/json"
        return await self._retried(lambda: self._api.request(method, path, body, content))

    async def _retried(self, send: Callable[[], T]) -> T | None:
        """Until the API server has answered; None where the object is gone, or there already."""
        while True:
            try:
                return await asyncio.to_thread(send)
            except RequestError as refused:
                if refused.status in (404, 409):
                    return None
                starts = _STARTS in str(refused)
                if refused.status < 500 and refused.status != 429 and not starts:
                    raise
            except _LOST:
                pass
            await asyncio.sleep(0.2)


async def _while(dice: Dice, least: float, most: float) -> None:
    await asyncio.sleep(dice.uniform(least, most))


_PATIENT: Final = {"backoffLimitPerIndex": 1000}
_IGNORES: Final = {
    "backoffLimitPerIndex": 0,
    "podReplacementPolicy": "Failed",
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    },
}
"""Two ways in which a Job outlives its nodes: it may fail often, or failures of nodes do not count.

By index: else Kubernetes makes no pod for up to ten minutes where a rack took all pods at once.
"""
