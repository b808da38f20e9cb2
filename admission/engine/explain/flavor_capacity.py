"""Computes what each level of a flavor's topology offers to pod sets that are placed together, and what limits it.

explain.py calls it for pod sets that a placement refused. It reads the placement's own counts (topology/count.py) on the
ledger as it is, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from admission.engine.explain.capacity_users import CapacityUsers
from admission.engine.explain.explanation import Exclusion, LevelView, Shortage
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import RESERVED_EFFECT, Node
from admission.engine.reasons import Reason
from admission.engine.topology.constraints import Group, ResolvedRequest, build
from admission.engine.topology.count import Counter, Numbers, count_in, rows_below
from admission.engine.topology.neighbours.placed import APART
from admission.engine.topology.neighbours.within import one_each
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.match import TOLD, taint_text, untolerated
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import NodeRecord


class FlavorCapacity:
    """The tree of one flavor with the workloads and pods on it."""

    def __init__(self, ledger: Ledger, flavor: str, tree: Tree) -> None:
        self._ledger, self._flavor, self.tree = ledger, flavor, tree
        self._takers: CapacityUsers | None = None

    @classmethod
    def of(cls, ledger: Ledger, flavor: str) -> FlavorCapacity | None:
        """Returns the capacity of a flavor, or None for a flavor without a tree."""
        tree = ledger.capacity.trees.get(flavor)
        return None if tree is None or flavor not in ledger.flavors else cls(ledger, flavor, tree)

    @property
    def takers(self) -> CapacityUsers:
        """The workloads and pods on the tree's rows."""
        if self._takers is None:
            self._takers = CapacityUsers(self._ledger, self.tree)
        return self._takers

    def resolve(self, group: Group) -> ResolvedRequest | str:
        """Returns the group's request to the tree, or the message about an invalid request."""
        return build(self.tree, self._ledger.flavors[self._flavor], group, self._ledger.options)

    def levels(self, group: Group) -> tuple[LevelView, ...]:
        """Returns a view of each level, widest first; empty for an invalid request."""
        resolved = self.resolve(group)
        if isinstance(resolved, str):
            return ()
        every = Counter(self.tree, resolved).levels()
        return tuple(self._level(resolved, level, numbers) for level, numbers in enumerate(every))

    def best(self, resolved: ResolvedRequest, level: int, numbers: Numbers) -> list[int]:
        """Returns the level's domains, those that hold most first; ties break by name."""
        domains = self.tree.levels[level]
        ids, counts = domains.ids(), self.counts(resolved, level, numbers)
        order = np.lexsort((domains.label[ids], -numbers.pod[ids], -counts[ids]))
        ordered: list[int] = ids[order].tolist()
        return ordered

    def counts(self, resolved: ResolvedRequest, level: int, numbers: Numbers) -> Ints:
        """Returns slices by domain where the level counts slices, else pods; with room for the leader if there is one."""
        if in_slices(resolved, level):
            return numbers.slice_l if resolved.leaders else numbers.slice
        return numbers.pod_l if resolved.leaders else numbers.pod

    def _level(self, resolved: ResolvedRequest, level: int, numbers: Numbers) -> LevelView:
        sliced = in_slices(resolved, level)
        unit, wanted = ("slices", resolved.need) if sliced else ("pods", resolved.need * resolved.slice_size)
        view = LevelView(self.tree.shape.levels[level], (), 0, wanted, unit, 0, asked=level == resolved.level)
        best = self.best(resolved, level, numbers)[:1]
        if not best:
            return view
        counts, slot = self.counts(resolved, level, numbers), best[0]
        fits, rows = int(counts[slot]), rows_below(self.tree, level, [slot])
        insufficient = tuple(self._insufficient(resolved, rows))
        shortages = tuple(one for one in insufficient if one.free < one.asked)
        leader = not resolved.leaders or (numbers.leader is not None and bool(numbers.leader[slot]))
        own = tuple(self._apart(resolved, rows))
        return replace(
            view,
            domain=self.tree.levels[level].paths[slot],
            fits=fits,
            everywhere=int(counts[self.tree.levels[level].ids()].sum()),
            shortages=shortages,
            torn=tuple(one for one in insufficient if one.free >= one.asked),
            exclusions=(*self._exclusions(resolved, rows), *own),
            fragmented=fits < wanted and leader and not shortages and not own,
            leader=leader,
        )

    def record(self, name: str) -> NodeRecord:
        """Returns the record of one of the tree's nodes."""
        return self._ledger.capacity.nodes[name]

    def node(self, name: str) -> Node | None:
        """Returns one of the tree's nodes, or None."""
        return self.record(name).node

    # ---- limits of a domain

    def usable(self, resolved: ResolvedRequest) -> Bools:
        """Returns the rows that pass all tests except capacity."""
        alive = self.tree.rows.alive
        feasible = self.tree.usable(resolved.wants)
        return alive if feasible is None else alive & feasible

    def _insufficient(self, resolved: ResolvedRequest, rows: Bools) -> Iterator[Shortage]:
        """Yields each resource that by itself keeps some pods off the nodes of the domain, where a pod needs one whole node."""
        pods, usable = resolved.need * resolved.slice_size, rows & self.usable(resolved)
        for resource, amount in sorted(resolved.request.items()):
            if amount <= 0:
                continue
            free = np.where(usable, np.clip(self._free(resource), 0, None), 0)
            holds = int((free // amount).sum())
            if holds < pods:
                takers = self.takers.most(usable, resource)
                yield Shortage(resource, pods * amount, int(free.sum()), holds, (pods - holds) * amount, takers)

    def _free(self, resource: str) -> Ints:
        column = self.tree.columns.index.get(resource)
        free = None if column is None else self.tree.free(column)
        return np.zeros(self.tree.rows.size, dtype=np.int64) if free is None else free

    def _exclusions(self, resolved: ResolvedRequest, rows: Bools) -> Iterator[Exclusion]:
        excluded = np.flatnonzero(rows & ~self.usable(resolved)).tolist()
        if not excluded:
            return
        fit, exclusions = self._fit(resolved), dict[tuple[Reason, str], tuple[int, int]]()
        closing = list(self.tree.neighbours.closing(resolved.wants.facts, self.tree, empty=False))
        suits = self.tree.matcher.feasible(resolved.wants, self.tree.rows.size)
        for row in excluded:
            near = next(((kind, key) for kind, key, closed in closing if closed[row]), None)
            near = near if suits is None or suits[row] else None
            why = _why(resolved, self.tree.matcher.node(row), near)
            nodes, pods = exclusions.get(why, (0, 0))
            exclusions[why] = (nodes + 1, pods + int(fit[row]))
        for code in sorted({code for code, _ in exclusions}):
            yield from _told(code, [(what, *sums) for (each, what), sums in exclusions.items() if each is code])

    def _fit(self, resolved: ResolvedRequest) -> Ints:
        """Returns how many pods fit into each row by capacity alone."""
        free = {self.tree.columns.of(name): self._free(name) for name in resolved.request}
        return count_in(resolved.request, free, self.tree.columns.index, self.tree.rows.size)

    def _apart(self, resolved: ResolvedRequest, rows: Bools) -> Iterator[Exclusion]:
        """Yields the nodes that stay free because the pods' own anti-affinity keeps them apart."""
        keys = self.tree.neighbours.keys_apart(resolved.wants.facts)
        if not keys:
            return
        fit = np.where(rows & self.usable(resolved), self._fit(resolved), 0)
        left = fit - one_each(self.tree, fit, keys, resolved.level if resolved.required else None)
        if number := int((left > 0).sum()):
            what = f"{' and '.join(keys)} among its own pods"
            yield Exclusion(Reason.POD_ANTI_AFFINITY, what, number, int(left.sum()))


_SEVERAL: Final = {
    Reason.UNTOLERATED_TAINT: "taints",
    Reason.NODE_SELECTOR_MISMATCH: "labels of the node selector",
}


def _told(code: Reason, by_nodes: list[tuple[str, int, int]]) -> Iterator[Exclusion]:
    """Yields the exclusions by one test, each as (what, nodes, pods): those of most nodes by name, and the others together."""
    ranked = sorted(by_nodes, key=lambda item: (-item[1], item[0]))
    named = len(ranked) if len(ranked) <= TOLD + 1 else TOLD
    yield from (Exclusion(code, *one) for one in sorted(ranked[:named]))
    if others := ranked[named:]:
        what = f"{len(others)} more {_several(code, others[0][0])}"
        yield Exclusion(code, what, sum(one[1] for one in others), sum(one[2] for one in others), len(others))


def _several(code: Reason, what: str) -> str:
    """Returns the noun for several exclusions by one test, of which `what` is one."""
    return f"{what.rpartition(' ')[0]}s" if code is Reason.HELD_NODE else _SEVERAL.get(code, "terms")


def in_slices(resolved: ResolvedRequest, level: int) -> bool:
    """Reports whether the level is counted in slices."""
    return resolved.slice_size > 1 and level <= resolved.slice_level


def _why(resolved: ResolvedRequest, node: Node | None, near: tuple[str, str] | None) -> tuple[Reason, str]:
    """Returns the first test that the node fails, in the placement's order; `near` is a pod term that alone excludes it."""
    if near is not None:
        return Reason.POD_ANTI_AFFINITY if near[0] == APART else Reason.POD_AFFINITY, near[1]
    labels = {} if node is None else node.labels
    taint = untolerated(() if node is None else node.taints, resolved.wants.tolerations, resolved.wants.node_holds)
    if taint is not None and taint.effect == RESERVED_EFFECT:
        return Reason.HELD_NODE, taint_text(taint)
    if taint is not None:
        return Reason.UNTOLERATED_TAINT, taint_text(taint)
    for key, value in resolved.wants.selector:
        if labels.get(key) != value:
            return Reason.NODE_SELECTOR_MISMATCH, f"{key}={value}"
    return Reason.NODE_AFFINITY_MISMATCH, ""
