"""What is placed binds, whatever the pods say: drawn gangs on drawn clusters, against a plain model of the scheduler.

The same draws run on the real control plane: tests/binds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

import msgspec
import pytest

from admission.controllers.pods.gangs.gang import GangTerms, GangUnit
from admission.engine import model
from admission.engine.convert import convert_nodes
from admission.engine.convert import convert_workloads as convert
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ObjectRemoved, PlacementRequest, RemovedKind
from admission.integrations.pods.pod import QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from admission.integrations.sets.statefulset import StatefulSet
from api.names import (
    ADMISSION_GATE,
    GANG,
    MANAGED_LABEL,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PODSET_LABEL,
    PREFER_TOPOLOGY,
    QUEUE_NAME_LABEL,
    REQUIRE_TOPOLOGY,
    WORKLOAD_ANNOTATION,
)
from api.pod import pods
from api.workloads import Workload
from tests.binds.drawn import Draw, Gang, Object
from tests.binds.filters import Simulated, domains, pinned
from tests.budgets import examples
from tests.scenarios.site import GROUP

FLAVOR, SITE = "tas", "site"


@dataclass
class GangCluster:
    """The ledger and the model side by side."""

    draw: Draw
    rng: Random
    ledger: Ledger = field(default_factory=Ledger)
    there: Simulated = field(default_factory=lambda: Simulated({}))
    running: list[Gang] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def open(self) -> None:
        nodes = self.draw.nodes()
        self.there.nodes = {node["metadata"]["name"]: node for node in nodes}
        flavor = model.Flavor(FLAVOR, {GROUP: SITE}, topology="default", levels=self.draw.levels)
        self.ledger.apply(flavor)
        for node in nodes:
            self.ledger.apply(convert_nodes.node(msgspec.convert(node, pods.Node)))

    def bind(self, name: str, labels: dict[str, str], spec: Object, owner: str = "") -> str | None:
        """One pod, by the model; the ledger sees it bound."""
        node = self.there.bind(labels, spec, self.rng)
        if node is not None:
            self.see(name, labels, {**spec, "nodeName": node}, owner)
        return node

    def see(self, name: str, labels: dict[str, str], spec: Object, owner: str) -> None:
        annotations = {WORKLOAD_ANNOTATION: owner} if owner else {}
        meta = {"name": name, "namespace": SITE, "labels": {**labels, PODSET_LABEL: "main"}, "annotations": annotations}
        found = convert_nodes.bound_pod(msgspec.convert({"metadata": meta, "spec": spec}, pods.Pod))
        assert found is not None
        self.ledger.apply(found)

    def end(self, key: str) -> None:
        """Pods whose name begins with this are gone, and their workload with them."""
        for name in [name for name in self.ledger.allocations.pods if name.startswith(f"{SITE}/{key}.")]:
            self.ledger.apply(ObjectRemoved(RemovedKind.POD, name))
        self.ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, f"{SITE}/{key}"))
        self.there.pods = [pod for pod in self.there.pods if pod.spec.get("owner") != key]

    # ---- gangs

    def place(self, gang: Gang, kind: str) -> model.Assignment | None:
        """Where it goes; charged. None: it waits."""
        taken = convert.workload(_workload(gang, kind), cluster_queue="cq")
        [pod_set] = taken.pod_sets
        facts = taken.facts_of(pod_set)
        implied = pod_set.topology is None
        requested = PlacementRequest(pod_set, FLAVOR, gang.pods, implied=implied, facts=facts)
        found = self.ledger.placement.place([requested]).assignments.get("main")
        if found is not None:
            got = model.PodSetAdmission("main", {"cpu": FLAVOR}, {"cpu": 1}, gang.pods, found)
            self.ledger.charge(taken, model.Admission("cq", (got,)))
        return found

    def let_through(self, placed: Sequence[tuple[Gang, model.Assignment]]) -> list[str]:
        """Bind the pods of these gangs in any order; those that no node takes."""
        waiting = [
            (gang, index, dict(zip(found.levels, domain.values, strict=True)))
            for gang, found in placed
            for index, domain in enumerate(domain for domain in found.domains for _ in range(domain.count))
        ]
        self.rng.shuffle(waiting)
        refused = []
        for gang, index, labels in waiting:
            spec = {**pinned(gang.template["spec"], {**labels, GROUP: SITE}), "owner": gang.name}
            if self.bind(f"{gang.name}.{index}", gang.template["metadata"]["labels"], spec, gang.name) is None:
                refused.append(f"{gang.name}.{index} to {labels}, {gang.terms}")
        return refused

    def stock_binds(self, gang: Gang) -> bool:
        """Whether the scheduler alone binds the gang's pods as they want to lie, one after the other."""
        keys = [] if gang.required is None else self.draw.levels[: self.draw.levels.index(gang.required) + 1]
        for domain in domains(self.there.nodes, keys):
            alone, rng = deepcopy(self.there), Random(0)
            spec = pinned(gang.template["spec"], {**domain, GROUP: SITE})
            if all(alone.bind(gang.template["metadata"]["labels"], spec, rng) for _ in range(gang.pods)):
                return True
        return False

    def churn(self) -> None:
        while self.running and (len(self.running) > 6 or self.draw.chance(0.4)):
            self.end(self.running.pop(self.rng.randrange(len(self.running))).name)
        while self.foreign and self.draw.chance(0.3):
            self.end(self.foreign.pop(self.rng.randrange(len(self.foreign))))
        while self.draw.chance(0.4) and len(self.foreign) < 5:
            pod = self.draw.foreign()
            name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
            if self.bind(f"{name}.0", labels, {**pod["spec"], "owner": name}):
                self.foreign.append(name)


def _of_job(gang: Gang) -> Object:
    return gang.template


def _of_pods(gang: Gang, *, group: str = "", joins: bool = False) -> Object:
    """As the pod controller composes it from the pods of the template, which it reads from the API server."""
    read, annotations, labels = QueuedPodReader(), {}, {MANAGED_LABEL: "true", QUEUE_NAME_LABEL: "lq"}
    if joins:
        annotations[GANG] = group
    elif group:
        labels[POD_GROUP_NAME], annotations[POD_GROUP_TOTAL_COUNT] = group, str(gang.pods)
    pods = []
    for index in range(gang.pods):
        # What tells the pods of a set apart, and no term names.
        own = {**gang.template["metadata"]["labels"], **labels, "apps.kubernetes.io/pod-index": str(index)}
        meta = {"name": f"{gang.name}-{index}", "namespace": SITE, "labels": own, "annotations": annotations}
        spec = {**gang.template["spec"], "schedulingGates": [{"name": ADMISSION_GATE}]}
        pods.append(read(msgspec.json.encode({"metadata": meta, "spec": spec})))
    unit = PodUnit.of(pods)
    if joins:
        unit = GangUnit.of_gang(unit, GangTerms(group, gang.pods))
    [pod_set] = unit.pod_sets(topology=False)
    return dict(pod_set.template)


def _of_set(gang: Gang) -> Object:
    metadata = {"name": gang.name, "namespace": SITE, "uid": gang.name}
    spec = {"replicas": gang.pods, "template": gang.template}
    [group] = StatefulSet().groups({"metadata": metadata, "spec": spec}, (), topology=False)
    return dict(group.pod_sets[0].template)


KINDS: dict[str, Callable[[Gang], Object]] = {
    "job": _of_job,
    "gang": lambda gang: _of_pods(gang, group=gang.name, joins=True),
    "pod group": lambda gang: _of_pods(gang, group=gang.name),
    "pods of a quota or a Deployment": _of_pods,
    "StatefulSet": _of_set,
}
"""The template in the Workload of a gang's pods, by what creates the pods."""


def _submitted(gang: Gang, kind: str) -> list[Gang]:
    """Pods that queue as pods are admitted one by one."""
    one_by_one = KINDS[kind] is _of_pods
    return [replace(gang, name=f"{gang.name}-{n}", pods=1) for n in range(gang.pods)] if one_by_one else [gang]


def _workload(gang: Gang, kind: str) -> Workload:
    requested = gang.job["metadata"]["annotations"]
    request = {"required": requested.get(REQUIRE_TOPOLOGY), "preferred": requested.get(PREFER_TOPOLOGY)}
    if requested and not any(request.values()):
        request = {"unconstrained": True}
    pod_set = {"name": "main", "count": gang.pods, "template": KINDS[kind](gang)}
    if requested:
        pod_set["topologyRequest"] = {key: value for key, value in request.items() if value}
    spec = {"queueName": "lq", "podSets": [pod_set]}
    return Workload.from_wire({"metadata": {"name": gang.name, "namespace": SITE, "uid": gang.name}, "spec": spec})


def play(seed: int, gangs: int, kind: str = "job") -> tuple[int, list[str], list[str]]:
    """How many were placed; pods that did not bind; gangs that waited and that the scheduler alone would have bound."""
    rng = Random(seed)
    here = GangCluster(Draw(rng, SITE), rng)
    here.open()
    count, unbound, refused = 0, list[str](), list[str]()
    for _ in range(gangs):
        placed = []
        for gang in [each for _ in range(rng.choice([1, 1, 2])) for each in _submitted(here.draw.gang(), kind)]:
            found = here.place(gang, kind)
            if found is not None:
                placed.append((gang, found))
            elif not placed and here.stock_binds(gang):
                refused.append(f"seed {seed}: {gang.pods} pods {gang.terms}")
        count += len(placed)
        unbound += here.let_through(placed)
        here.running += [gang for gang, _ in placed]
        here.churn()
        if unbound:
            break
    assert here.ledger.audit() == []
    return count, unbound, refused


@pytest.mark.parametrize("part", range(4))
def test_what_is_let_through_binds(part: int) -> None:
    each = examples(4)
    placed, refused = 0, list[str]()
    for seed in range(part * each, (part + 1) * each):
        count, unbound, idle = play(seed, 25)
        assert unbound == [], f"seed {seed}"
        placed, refused = placed + count, refused + idle
    assert placed > 25 * each / 4
    assert len(refused) <= 25 * each / 50, refused


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "job"])
def test_pods_that_queue_as_pods_bind_as_those_of_a_job(kind: str) -> None:
    """The terms of pods select pods by labels, whatever creates these pods."""
    each = examples(4)
    for seed in range(1000, 1000 + each):
        placed, unbound, _ = play(seed, 15, kind)
        assert unbound == [], f"seed {seed}"
        if kind != "pods of a quota or a Deployment":
            assert placed == play(seed, 15)[0], f"seed {seed}"


def test_a_workload_does_not_lead_a_gang_astray_that_gathers_elsewhere() -> None:
    """Its pods were bound first, and the gang's affinity then asked for their host."""
    assert play(221, 25)[1] == []
