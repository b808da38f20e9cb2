"""A topology that ends at the rack, once pods have terms: leaders, workers and successors get hosts.

Drawn groups on drawn clusters, against a plain model of the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from admission.engine import model
from admission.engine.convert import convert_workloads as convert
from admission.engine.model import HOSTNAME_LABEL, Assignment, ObjectRemoved, PlacementRequest, RemovedKind
from api.workloads import Workload
from tests.admission.engine.topology import vectors
from tests.admission.engine.topology.test_drawn_gangs import FLAVOR, SITE, GangCluster
from tests.admission.engine.topology.vectors import ledger, node
from tests.binds.drawn import Draw, Object
from tests.binds.filters import pinned
from tests.budgets import examples
from tests.scenarios.site import BLOCK, GROUP, RACK

Found = Mapping[str, Assignment]
SEEDS = examples(20)


class ByRack(Draw):
    """Draws whose topology ends at the rack."""

    def nodes(self) -> list[Object]:
        found = super().nodes()
        self.levels = (BLOCK, RACK)
        return found


@dataclass(frozen=True)
class Group:
    """Pod sets that are placed together, by name: a template and a number of pods."""

    name: str
    parts: Mapping[str, tuple[Object, int]]

    def workload(self) -> model.Workload:
        request = {"required": RACK, "podSetGroupName": "g"} if len(self.parts) > 1 else {"required": RACK}
        pod_sets = [
            {"name": name, "count": count, "template": template, "topologyRequest": request}
            for name, (template, count) in self.parts.items()
        ]
        meta = {"name": self.name, "namespace": SITE, "uid": self.name}
        given = {"metadata": meta, "spec": {"queueName": "lq", "podSets": pod_sets}}
        return convert.workload(Workload.from_wire(given), cluster_queue="cq")


class Groups(GangCluster):
    """Places, binds and repairs groups."""

    def requests(self, of: Group, previous: Found | None = None) -> list[PlacementRequest]:
        taken = of.workload()
        return [
            PlacementRequest(
                each, FLAVOR, each.count, facts=taken.facts_of(each), previous=previous[each.name] if previous else None
            )
            for each in taken.pod_sets
        ]

    def try_to_place(self, of: Group) -> Found | None:
        found = self.ledger.placement.place(self.requests(of))
        if found.fits:
            self.charge(of, found.assignments)
        return found.assignments if found.fits else None

    def charge(self, of: Group, expected: Found) -> None:
        parts = tuple(
            model.PodSetAdmission(name, {"cpu": FLAVOR}, {"cpu": 1}, of.parts[name][1], assignment)
            for name, assignment in expected.items()
        )
        self.ledger.charge(of.workload(), model.Admission("cq", parts))

    def bound(self, of: Group, expected: Found) -> list[str]:
        """Binds the pods in any order; returns those that no node takes."""
        waiting = [
            (name, dict(zip(assignment.levels, domain.values, strict=True)))
            for name, assignment in expected.items()
            for domain in assignment.domains
            for _ in range(domain.count)
        ]
        self.rng.shuffle(waiting)
        return [text for name, labels in waiting if (text := self.refused(of, name, labels))]

    def refused(self, of: Group, name: str, labels: Mapping[str, str]) -> str:
        template, self.draw.made = of.parts[name][0], self.draw.made + 1
        spec = {**pinned(template["spec"], {**labels, GROUP: SITE}), "owner": of.name}
        node = self.bind(f"{of.name}.{name}-{self.draw.made}", template["metadata"]["labels"], spec, of.name)
        return "" if node else f"{of.name} {name} to {labels}: {template['spec']}"

    def lose(self, host: str) -> None:
        for name in [name for name, pod in self.ledger.allocations.pods.items() if pod.node == host]:
            self.ledger.apply(ObjectRemoved(RemovedKind.POD, name))
        self.ledger.apply(ObjectRemoved(RemovedKind.NODE, host))
        self.there.pods = [pod for pod in self.there.pods if pod.node != host]
        del self.there.nodes[host]


def opened(seed: int) -> Groups:
    rng = Random(seed)
    here = Groups(ByRack(rng, SITE), rng)
    here.open()
    # One pod with a term: from now on assignments name hosts.
    term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": "nobody"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    container = {"name": "main", "resources": {"requests": {"cpu": "0"}}}
    here.bind("first.0", {"app": "first"}, {"containers": [container], "affinity": affinity, "owner": "first"})
    return here


def drawn(here: Groups, *, leader: bool) -> Group:
    gang = here.draw.gang()
    parts = {"workers": (gang.template, gang.pods)}
    return Group(gang.name, {"leader": (here.draw.gang().template, 1), **parts} if leader else parts)


def test_a_leader_and_its_workers_get_hosts_where_they_bind() -> None:
    placed = 0
    for seed in range(SEEDS):
        here = opened(seed)
        for _ in range(12):
            group = drawn(here, leader=True)
            if (found := here.try_to_place(group)) is None:
                continue
            placed += 1
            assert here.bound(group, found) == [], f"seed {seed}"
            assert {each.levels[-1] for each in found.values()} == {HOSTNAME_LABEL}
            assert len({domain.values[:2] for each in found.values() for domain in each.domains}) == 1
        assert here.ledger.audit() == []
    assert placed > SEEDS


@pytest.mark.parametrize("leader", [False, True], ids=["gang", "leader-and-workers"])
def test_the_pods_of_a_failed_node_get_hosts_in_the_same_rack(leader: bool) -> None:
    replaced = 0
    for seed in range(SEEDS):
        here, running = opened(seed), list[tuple[Group, Found]]()
        for _ in range(6):
            group = drawn(here, leader=leader)
            if (found := here.try_to_place(group)) is not None:
                assert here.bound(group, found) == []
                running.append((group, found))
        if not running:
            continue
        group, found = here.rng.choice(running)
        host = here.rng.choice(sorted(_hosts(found)))
        here.lose(host)
        outcome = here.ledger.placement.replace(here.requests(group, found), [host], ())
        if not outcome.fits:
            continue
        replaced += 1
        after: Found = {**found, **outcome.assignments}
        here.charge(group, after)
        assert _rack(after) == _rack(found) or _hosts(found) == {host}
        for name in found:
            more = _counts(after[name]) - _counts(found[name])
            assert sum(more.values()) == _counts(found[name])[host], "the others stay"
            for successor, count in more.items():
                labels = {HOSTNAME_LABEL: successor}
                assert [text for _ in range(count) if (text := here.refused(group, name, labels))] == [], f"seed {seed}"
    assert replaced > SEEDS // 6


@pytest.mark.parametrize("profile", list(model.Profile))
def test_a_pod_with_terms_elsewhere_changes_the_hosts_that_are_named_and_no_outcome(profile: model.Profile) -> None:
    """From the first such pod on, all assignments name hosts; each gang still gets the racks that it would have got."""
    levels, named = (BLOCK, RACK), 0
    for seed in range(SEEDS):
        rng, options = Random(seed), model.PlacementOptions(counting=model.Counting.NODES, profile=profile)
        nodes = [node(f"n{i}", {BLOCK: f"b{i // 9}", RACK: f"r{i // 3}"}, rng.randint(1, 6)) for i in range(18)]
        plain, pinned_to_hosts = (ledger(options, nodes, levels) for _ in range(2))
        term = model.PodTerm(HOSTNAME_LABEL, (), ("other",))
        facts = model.PodFacts("other", (("app", "first"),), (term,))
        pinned_to_hosts.apply(model.BoundPod("other/first", "n0", {}, facts=facts))
        for i in range(rng.randint(0, 12)):
            taken = model.BoundPod(f"ns/p{i}", f"n{rng.randrange(18)}", {"cpu": 1000 * rng.randint(1, 3)})
            plain.apply(taken)
            pinned_to_hosts.apply(taken)
        for _ in range(20):
            request = rng.choice(
                [
                    model.TopologyRequest(required=rng.choice(levels)),
                    model.TopologyRequest(preferred=rng.choice(levels)),
                    model.TopologyRequest(unconstrained=True),
                ]
            )
            own = model.PodFacts("ns", (("app", "train"),))
            pod_set = model.PodSet(
                "main", rng.randint(1, 12), {"cpu": 1000 * rng.randint(1, 2)}, topology=request, facts=own
            )
            asked = [PlacementRequest(pod_set, vectors.FLAVOR, pod_set.count, facts=own)]
            one, other = plain.placement.place(asked), pinned_to_hosts.placement.place(asked)
            assert {name: why.message for name, why in one.failures.items()} == {
                name: why.message for name, why in other.failures.items()
            }
            if one.fits:
                racks = Counter({domain.values: domain.count for domain in one.assignments["main"].domains})
                hosts = Counter[tuple[str, ...]]()
                for domain in other.assignments["main"].domains:
                    hosts[domain.values[:2]] += domain.count
                assert hosts == racks, f"seed {seed}"
                named += other.assignments["main"].levels[-1] == HOSTNAME_LABEL
    assert named > SEEDS


def _counts(assignment: Assignment) -> Counter[str]:
    return Counter({domain.values[-1]: domain.count for domain in assignment.domains})


def _hosts(expected: Found) -> set[str]:
    return {host for each in expected.values() for host in _counts(each)}


def _rack(expected: Found) -> Any:
    [rack] = {domain.values[:2] for each in expected.values() for domain in each.domains}
    return rack
