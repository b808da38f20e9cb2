"""An upper bound of the pods that fit on the nodes, quicker to compute than a placement: it can only rule a workload out.

The bound counts free resources only. Taints, selectors, slices and pod terms can only reduce the number of pods that fit,
so a workload that the bound rules out cannot be placed; any other workload may still fail. Called by queries.py: the
search for an expected start asks about many moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admission.engine.model import PODS, Amounts, PlacementRequest
from admission.engine.topology.count import count_in, free_amounts, sum_by
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import LIMIT


@dataclass(frozen=True, slots=True)
class _Need:
    """Pods in one domain of a level."""

    amounts: Amounts
    """What each pod requests."""
    count: int
    """The number of pods."""
    level: int | None
    """None for the whole tree."""


class CapacityBound:
    """The bound for the pod sets of one workload. Each pod set has one request for each flavor that it may use."""

    def __init__(self, trees: Mapping[str, Tree], pod_sets: Iterable[Sequence[PlacementRequest]]) -> None:
        self._pod_sets = [
            [(trees[request.flavor], _need(trees[request.flavor], request)) for request in requests]
            for requests in pod_sets
            if all(request.flavor in trees for request in requests)
        ]

    def rules_out(self) -> bool:
        """Reports whether a pod set certainly cannot be placed now. False proves nothing."""
        return any(not any(_may_hold(tree, need) for tree, need in requests) for requests in self._pod_sets)


def _need(tree: Tree, request: PlacementRequest) -> _Need:
    amounts = {**{name: min(amount, LIMIT) for name, amount in request.pod_set.requests.items()}, PODS: 1}
    topology = request.pod_set.topology
    slice_size = topology.slices[0].size if topology is not None and topology.slices else 1
    count = request.count - request.count % max(1, slice_size)  # only whole slices are placed
    if topology is None or topology.required is None or topology.relax_after is not None:
        return _Need(amounts, count, None)
    return _Need(amounts, count, tree.level_of(topology.required))


def _may_hold(tree: Tree, need: _Need) -> bool:
    free = free_amounts(tree, need.amounts, simulate_empty=False)
    fit = count_in(need.amounts, free, tree.columns.index, tree.rows.size)
    if need.level is None:
        return int(fit.sum()) >= need.count
    if tree.rows is not tree.levels[-1]:
        fit = sum_by(tree.rows.parent, fit, tree.levels[-1].size)
    for level in range(tree.depth - 1, need.level, -1):
        fit = sum_by(tree.levels[level].parent, fit, tree.levels[level - 1].size)
    return bool(len(fit)) and int(fit.max()) >= need.count
