"""A plain model of what kube-scheduler's filter InterPodAffinity decides, for tests. It shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product


@dataclass(frozen=True)
class Term:
    """Pods with this label value (None: any pod of the namespaces), by the topology key; `namespaces` None: the pod's own."""

    key: str
    app: str | None
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OnePod:
    """A pod; `node` where it is, or where it has to go."""

    app: str
    apart: tuple[Term, ...] = ()
    near: tuple[Term, ...] = ()
    namespace: str = "ns"
    node: str = ""


Nodes = Mapping[str, Mapping[str, str]]


def selects(term: Term, owner: OnePod, other: OnePod) -> bool:
    """Whether the owner's term selects the other pod."""
    return other.namespace in (term.namespaces or (owner.namespace,)) and term.app in (None, other.app)


def passes(pod: OnePod, there: Sequence[OnePod], nodes: Nodes) -> bool:
    """Whether the filter lets the pod onto its node, beside the pods that are there."""
    here = nodes[pod.node]
    if not is_near(pod, there, nodes):
        return False
    for other in there:
        at = nodes.get(other.node, {})
        for term, owner, one in ((t, pod, other) for t in pod.apart):
            if selects(term, owner, one) and term.key in here and here[term.key] == at.get(term.key):
                return False
        for term in other.apart:
            if selects(term, other, pod) and term.key in at and here.get(term.key) == at[term.key]:
                return False
    return True


def is_near(pod: OnePod, there: Sequence[OnePod], nodes: Nodes) -> bool:
    """Whether required affinity allows the node; the first of several that select each other may go anywhere."""
    here = nodes[pod.node]
    if any(term.key not in here for term in pod.near):
        return False
    wanted = [one for one in there if all(selects(term, pod, one) for term in pod.near)]
    at = [(term.key, nodes.get(one.node, {}).get(term.key)) for one in wanted for term in pod.near]
    if all((term.key, here[term.key]) in at for term in pod.near):
        return True
    return all(value is None for _, value in at) and all(selects(term, pod, pod) for term in pod.near)


def binds(gang: Sequence[OnePod], there: Sequence[OnePod], nodes: Nodes) -> bool:
    """Whether the gang's pods can be bound to their nodes in every order."""
    for order in permutations(gang):
        now = list(there)
        for pod in order:
            if not passes(pod, now, nodes):
                return False
            now.append(pod)
    return True


@dataclass(frozen=True)
class TermCluster:
    """Nodes by name with their labels, free pods of each, and the pods that are there."""

    nodes: Nodes
    free: Mapping[str, int]
    pods: Sequence[OnePod] = field(default_factory=tuple)

    def ways(self, gang: Sequence[OnePod]) -> Iterator[tuple[str, ...]]:
        """All choices of nodes that capacity allows, a node for each pod in order."""
        for choice in product(sorted(self.nodes), repeat=len(gang)):
            if all(choice.count(node) <= self.free[node] for node in choice):
                yield choice
