"""A slow model of the cluster: nothing is kept but the objects, and each answer is computed from them anew.

It shares no code with the engine. Quota follows the formulas of cycle.md 4.3 (`Formulas`); a node is used by the pods of the
admissions that name it, by pods that outlive their admission, and by foreign pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from admission.engine.model import Admission, BoundPod, ClusterQueue, Cohort, Node, Quota, StopPolicy, Workload
from tests.admission.engine.builders import HOST, RACK
from tests.admission.engine.quota.test_quota import Formulas

FLAVORS = ("placed", "plain")
"""The first has racks of hosts, the second only quota."""


@dataclass
class Model:
    """The objects as they are. `workloads`: all that have not ended, those in `admitted` with what they got."""

    queues: dict[str, ClusterQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, BoundPod] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    admitted: dict[str, Admission] = field(default_factory=dict)
    last: dict[str, Admission] = field(default_factory=dict)
    """The latest admission of each workload: its queue and flavor pay for pods that are still bound."""

    # ---- quota

    def used(self, flavor: str) -> dict[str, int]:
        """CPU of this flavor by queue: what a workload has reserved or what its bound pods use, whichever is more."""
        used, bound = dict.fromkeys(self.queues, 0), Counter[str]()
        for pod in self.pods.values():
            if pod.workload is not None:
                bound[pod.workload] += pod.requests["cpu"]
        self.last.update(self.admitted)
        for key, admission in self.last.items():
            (pod_set,) = admission.pod_sets
            reserved = pod_set.usage["cpu"] if key in self.admitted else 0
            if pod_set.flavors["cpu"] == flavor:
                used[admission.cluster_queue] += max(reserved, bound[key])
        return used

    def quota(self, flavor: str) -> Formulas:
        """The quota tree of this flavor."""
        nodes: dict[str, tuple[str | None, Quota]] = {
            name: (cohort.parent, cohort.quotas.get((flavor, "cpu"), Quota(0))) for name, cohort in self.cohorts.items()
        }
        for name, queue in self.queues.items():
            quotas = {each.flavor: each.quotas["cpu"] for group in queue.groups for each in group.flavors}
            nodes[name] = queue.cohort, quotas.get(flavor, Quota(0))
        return Formulas(nodes, self.used(flavor))

    # ---- nodes

    def on_nodes(self) -> dict[str, Counter[str]]:
        """What is taken of each node, by resource."""
        taken: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        bound: Counter[tuple[str, str]] = Counter()
        for pod in self.pods.values():
            if pod.workload is not None:
                bound[pod.workload, pod.node] += 1
            elif pod.node in taken:
                taken[pod.node].update({**pod.requests, "pods": 1})
        reserved: Counter[tuple[str, str]] = Counter()
        for key, admission in self.admitted.items():
            for node, count in hosts(admission):
                reserved[key, node] += count
        for key, node in bound.keys() | reserved.keys():
            if node in taken:
                count = max(bound[key, node], reserved[key, node])
                requests = {**self.workloads[key].pod_sets[0].requests, "pods": 1}
                taken[node].update({name: amount * count for name, amount in requests.items()})
        return taken

    def free(self) -> dict[tuple[str, ...], int]:
        """What is free for each queue and cohort by flavor, and on each node by resource; below 0: over-booked."""
        found: dict[tuple[str, ...], int] = {}
        for flavor in FLAVORS:
            formulas = self.quota(flavor)
            found.update({(flavor, name): formulas.available(name) for name in formulas.nodes})
        for name, taken in self.on_nodes().items():
            for resource, amount in self.nodes[name].allocatable.items():
                found["node", name, resource] = amount - taken[resource]
        return found

    # ---- what a decision has to hold

    def wrong(self, key: str, admission: Admission, before: Admission | None) -> Iterator[str]:
        """What is wrong with an admission that was just decided. `before`: it replaces this one, of a failed node."""
        workload, (got,) = self.workloads[key], admission.pod_sets
        (asked,) = workload.pod_sets
        queue = self.queues[workload.cluster_queue]
        if admission.cluster_queue != workload.cluster_queue:
            yield f"admitted by {admission.cluster_queue}"
        if before is None and (queue.stop is not StopPolicy.NONE or workload.blocked is not None):
            yield "admitted although held"
        least = asked.count if asked.min_count is None else asked.min_count
        if not least <= got.count <= asked.count:
            yield f"{got.count} pods, {least} to {asked.count} were asked"
        if got.usage["cpu"] != got.count * asked.requests["cpu"]:
            yield f"charged {dict(got.usage)} for {got.count} pods"
        if got.flavors["cpu"] not in queue.flavors:
            yield f"flavor {got.flavors['cpu']} is not its queue's"
        placed = got.flavors["cpu"] == "placed"
        if placed != (got.assignment is not None):
            yield "an assignment where there is no topology, or none where there is"
        if placed:
            yield from self._misplaced(workload, admission, before)

    def _misplaced(self, workload: Workload, admission: Admission, before: Admission | None) -> Iterator[str]:
        (got,) = admission.pod_sets
        stays = {} if before is None else dict(hosts(before))
        places = dict(hosts(admission))
        if sum(places.values()) != got.count or min(places.values()) < 1:
            yield f"{got.count} pods on {places}"
        racks = set()
        for name, count in places.items():
            node = self.nodes.get(name)
            if count <= stays.get(name, 0):
                continue
            if node is None or not node.usable:
                yield f"{name} cannot be used"
            else:
                racks.add(node.labels[RACK])
        topology = workload.pod_sets[0].topology
        if topology is not None and topology.required == RACK and len(racks) > 1:
            yield f"required rack, placed in {sorted(racks)}"
        if topology is not None and topology.required == HOST and len(places) > 1:
            yield f"required host, placed on {sorted(places)}"


def hosts(admission: Admission) -> Iterator[tuple[str, int]]:
    """The hosts that an admission names, with pods."""
    for pod_set in admission.pod_sets:
        if pod_set.assignment is not None:
            yield from ((domain.values[-1], domain.count) for domain in pod_set.assignment.domains)
