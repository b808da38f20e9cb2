"""What a feature adds to the view of a cluster, which knows no feature by name: cluster_view.py has one line for each.

A feature declares the kinds that it watches. A hook that it does not implement does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING, AmountsChanged
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.watched import View
from admission.engine import model
from api.kube.resources import Resource
from api.topology import Topology
from api.workloads import Workload

T = TypeVar("T")
FeatureT = TypeVar("FeatureT", bound="ViewFeature")
Refusal = tuple[str, str]
"""Why a Workload must not be considered: reason and message."""
NodeHoldChanged = Callable[[str, model.NodeHold | None], None]
"""Gets the name of a hold of nodes, and the hold; None when it ends."""


@dataclass(frozen=True, slots=True)
class TreesChanged:
    """The names of changed topologies, and the nodes whose labels changed."""

    topologies: frozenset[str]
    nodes: frozenset[str]


class ViewFeature(View):
    """The hooks of one feature. Its handlers run before those of all others."""

    holding: ClassVar[Resource | None] = None
    """The kind whose objects hold nodes."""
    topologies: Mapping[str, Topology] = {}
    """Topologies that no Topology object describes, by the name that flavors use."""

    def __init__(self, view: Kinds, copies: Mapping[Resource, Copy[Any]]) -> None:
        self.keep(copies)

    def refusal(self, workload: Workload) -> Refusal | None:
        """Returns why some pod of a Workload without quota could not be bound now, or None."""

    def refuses_start(self, workload: Workload) -> bool:
        """Reports whether another workload of the same cycle has taken what the Workload needs."""
        return False

    def claim_problem(self, key: str) -> str | None:
        """Returns why a pod that names this PersistentVolumeClaim (`namespace/name`) cannot be bound now, or None."""

    def converted(self, workload: Workload, converted: model.Workload) -> model.Workload:
        """Returns the Workload with what it needs of nodes; the same object without any such need."""
        return converted

    def labels_of(self, node: str) -> Mapping[str, str]:
        """Returns the labels of the node that its object does not have."""
        return {}

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the node's extra capacity beyond its resources."""
        return NOTHING

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns what a bound pod uses of that extra capacity."""
        return NOTHING

    def start(self, workload: Workload) -> None:
        """Notes that the Workload gets quota, before the watch shows that."""

    def started(self, key: str) -> None:
        """Handles the end of the write of the Workload's quota, after which the watched state applies."""

    def on_amounts(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Calls `fn` with the Workloads, nodes and pods to evaluate again, after each relevant change."""

    def on_trees(self, fn: Callable[[TreesChanged], None]) -> None:
        """Calls `fn` with each later change of `topologies` and `labels_of`."""

    def on_node_holds(self, fn: NodeHoldChanged) -> None:
        """Calls `fn` with each hold of nodes that comes or changes, and with None for one that ends."""


class ViewFeatures:
    """The features of a view, in the order in which they are asked."""

    def __init__(self, features: Sequence[ViewFeature]) -> None:
        self._features = features

    def of(self, kind: type[FeatureT]) -> FeatureT | None:
        """Returns the feature of this class, None if it is left out."""
        return next((each for each in self._features if isinstance(each, kind)), None)

    @property
    def topologies(self) -> Mapping[str, Topology]:
        """The topologies of all features."""
        return {name: topology for each in self._features for name, topology in each.topologies.items()}

    def refusal(self, workload: Workload) -> Refusal | None:
        """Returns the first answer of a feature."""
        return first_answer(each.refusal(workload) for each in self._features)

    def refuses_start(self, workload: Workload) -> bool:
        """Reports whether a feature says so."""
        return any(each.refuses_start(workload) for each in self._features)

    def claim_problem(self, key: str) -> str | None:
        """Returns the first answer of a feature."""
        return first_answer(each.claim_problem(key) for each in self._features)

    def converted(self, workload: Workload, converted: model.Workload) -> model.Workload:
        """Returns the Workload with what all features say that it needs."""
        for each in self._features:
            converted = each.converted(workload, converted)
        return converted

    def labels_of(self, node: str) -> Mapping[str, str]:
        """Returns the labels of all features."""
        return _joined([each.labels_of(node) for each in self._features], {})

    def offered(self, node: str) -> Mapping[str, int]:
        """Returns the extra capacity of all features."""
        return _joined([each.offered(node) for each in self._features], NOTHING)

    def taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns the usage of all features."""
        return _joined([each.taken(pod) for each in self._features], NOTHING)

    def start(self, workload: Workload) -> None:
        """Tells every feature."""
        for each in self._features:
            each.start(workload)

    def started(self, key: str) -> None:
        """Tells every feature."""
        for each in self._features:
            each.started(key)

    def on_amounts(self, fn: Callable[[AmountsChanged], None]) -> None:
        """Tells every feature."""
        for each in self._features:
            each.on_amounts(fn)

    def on_trees(self, fn: Callable[[TreesChanged], None]) -> None:
        """Tells every feature."""
        for each in self._features:
            each.on_trees(fn)

    def on_node_holds(self, fn: NodeHoldChanged) -> None:
        """Tells every feature."""
        for each in self._features:
            each.on_node_holds(fn)


def first_answer(answers: Iterable[T | None]) -> T | None:
    """Returns the first answer that is not None, or None."""
    return next((answer for answer in answers if answer is not None), None)


def _joined(parts: Sequence[Mapping[str, T]], nothing: Mapping[str, T]) -> Mapping[str, T]:
    return {name: value for part in parts for name, value in part.items()} if any(parts) else nothing
