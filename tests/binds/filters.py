"""A plain model of kube-scheduler's filters on manifests, pod by pod. It shares no code with the engine.

Resources and the number of pods, host ports, taints, node selector and affinity, pod affinity and anti-affinity, spread
constraints. Volumes are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Object = dict[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Placed:
    """A pod on a node."""

    labels: Labels
    spec: Object
    node: str


@dataclass
class Simulated:
    """Nodes by name, and the pods that are there; all of one namespace."""

    nodes: dict[str, Object]
    pods: list[Placed] = field(default_factory=list)

    def bind(self, labels: Labels, spec: Object, rng: Random) -> str | None:
        """The node that the pod gets, any of those that pass; None where none does."""
        fitting = sorted(name for name in self.nodes if self.passes(labels, spec, name))
        if not fitting:
            return None
        node = rng.choice(fitting)
        self.pods.append(Placed(labels, spec, node))
        return node

    def passes(self, labels: Labels, spec: Object, node: str) -> bool:
        return all(
            (
                self._has_room(spec, node),
                _tolerated(spec, self.nodes[node]),
                _selected(spec, self.nodes[node]),
                self._apart(labels, spec, node),
                self._near(labels, spec, node),
                self._even(labels, spec, node),
            )
        )

    # ---- filters

    def _has_room(self, spec: Object, node: str) -> bool:
        here = [pod.spec for pod in self.pods if pod.node == node]
        offers = self.nodes[node]["status"]["allocatable"]
        if len(here) >= int(offers["pods"]) or any(
            _meet(port, taken) for other in here for taken in _ports(other) for port in _ports(spec)
        ):
            return False
        return sum(map(_cpu, here)) + _cpu(spec) <= int(offers["cpu"])

    def _label(self, node: str, key: str) -> str | None:
        found: str | None = self.nodes[node]["metadata"]["labels"].get(key)
        return found

    def _apart(self, labels: Labels, spec: Object, node: str) -> bool:
        for other in self.pods:
            for term, seen in (
                *((term, other.labels) for term in _terms(spec, "podAntiAffinity")),
                *((term, labels) for term in _terms(other.spec, "podAntiAffinity")),
            ):
                here, there = (self._label(one, term["topologyKey"]) for one in (node, other.node))
                if here is not None and here == there and _selects(term["labelSelector"], seen):
                    return False
        return True

    def _near(self, labels: Labels, spec: Object, node: str) -> bool:
        terms = _terms(spec, "podAffinity")
        if any(self._label(node, term["topologyKey"]) is None for term in terms):
            return False
        wanted = [pod for pod in self.pods if all(_selects(term["labelSelector"], pod.labels) for term in terms)]
        found = {(t["topologyKey"], self._label(pod.node, t["topologyKey"])) for t in terms for pod in wanted}
        if all((term["topologyKey"], self._label(node, term["topologyKey"])) in found for term in terms):
            return True
        nowhere = all(value is None for _, value in found)
        return nowhere and all(_selects(term["labelSelector"], labels) for term in terms)

    def _even(self, labels: Labels, spec: Object, node: str) -> bool:
        constraints = spec.get("topologySpreadConstraints", [])
        keys = [one["topologyKey"] for one in constraints]
        if any(self._label(node, key) is None for key in keys):
            return False
        for one in constraints:
            selector = dict(one["labelSelector"])
            counts: Counter[str | None] = Counter()
            for name, each in self.nodes.items():
                if not _selected(spec, each) or any(self._label(name, key) is None for key in keys):
                    continue
                if one.get("nodeTaintsPolicy") == "Honor" and not _tolerated(spec, each):
                    continue
                here = [pod for pod in self.pods if pod.node == name and _selects(selector, pod.labels)]
                counts[self._label(name, one["topologyKey"])] += len(here)
            fewest = min(counts.values()) if len(counts) >= one.get("minDomains", 1) else 0
            own = int(_selects(selector, labels))
            if counts[self._label(node, one["topologyKey"])] + own - fewest > one["maxSkew"]:
                return False
        return True


def _cpu(spec: Object) -> int:
    return sum(int(one["resources"]["requests"]["cpu"]) for one in spec["containers"])


def _ports(spec: Object) -> Sequence[Object]:
    return [port for one in spec["containers"] for port in one.get("ports", [])]


def _meet(first: Object, second: Object) -> bool:
    """Whether two pods with these ports cannot share a node."""
    addresses = {first.get("hostIP"), second.get("hostIP")}
    alike = all(first[key] == second[key] for key in ("hostPort", "protocol"))
    return alike and (len(addresses) == 1 or None in addresses)


def _terms(spec: Object, kind: str) -> list[Object]:
    found: list[Object] = (
        spec.get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    return found


def _selects(selector: Object, labels: Labels) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions", []))


def _holds(first: Object, labels: Labels) -> bool:
    value = labels.get(first["key"])
    match first["operator"]:
        case "In":
            return value in first["values"]
        case "NotIn":
            return value not in first["values"]
        case "Exists":
            return value is not None
        case _:
            return value is None


def _tolerated(spec: Object, node: Object) -> bool:
    keys = {one["key"] for one in spec.get("tolerations", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return taints <= keys and not node["spec"].get("unschedulable")


def _selected(spec: Object, node: Object) -> bool:
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_matches(term, labels) for term in required["nodeSelectorTerms"])


def _matches(term: Object, labels: Labels) -> bool:
    return all(_holds(one, labels) for one in term["matchExpressions"])


def pinned(spec: Object, labels: Mapping[str, str]) -> Object:
    """The spec with these labels of nodes in its selector."""
    return {**spec, "nodeSelector": {**spec.get("nodeSelector", {}), **labels}}


def domains(nodes: Mapping[str, Object], keys: Sequence[str]) -> Iterator[dict[str, str]]:
    """The values of these labels on the nodes, each combination once."""
    found = {tuple(node["metadata"]["labels"][key] for key in keys) for node in nodes.values()}
    yield from (dict(zip(keys, values, strict=True)) for values in sorted(found))
