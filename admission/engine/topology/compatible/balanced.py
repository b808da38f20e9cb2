"""Balanced placement: equal shares on as few domains as possible (placement.md 5.12, 5.15.2, 5.15.12).

Among all sets of siblings the algorithm takes the one whose smallest share can be largest. In a copy of this set it removes
the domains that cannot hold that share. From the rest it chooses the fewest domains that hold all slices, the most even
choice first. Each domain gets the share, and the first ones part of the remainder. If any step fails, BestFit is used
instead. Called by tree_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from admission.engine.topology.compatible.pick import PickedDomain, PickOrder
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

Cloner = Callable[[int, Iterable[int]], list[PickedDomain]]
"""Maps (level, slots) to copies of these domains, each with its subtree."""


@dataclass(frozen=True, slots=True)
class Start:
    """The domains from which the descent starts, with their shares, and their level."""

    level: int
    domains: list[PickedDomain]


@dataclass(frozen=True, slots=True)
class Greedy:
    """The result of taking the largest domains first: whether they hold all slices, how many domains are needed, and the last
    domain taken with a leader and the last without.
    """

    fits: bool
    count: int
    last_leader: PickedDomain | None
    last: PickedDomain | None


@dataclass(frozen=True, slots=True)
class SiblingSet:
    """A pruned set of siblings."""

    domains: list[PickedDomain]
    share: int
    """The slices that each of them can hold."""
    count: int
    """How many of them are needed."""


class Balance:
    """One attempt at a balanced placement."""

    def __init__(
        self, tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers], profile: PickOrder, cloner: Cloner
    ) -> None:
        self._tree = tree
        self._resolved = resolved
        self._numbers = numbers
        self._prunable = resolved.leaders <= 1 and not profile.by_affinity
        self._profile = replace(profile, least=False)
        self._cloner = cloner

    def find(self) -> Start | None:
        """Returns the domains with their shares; None if there is no balanced placement."""
        best: SiblingSet | None = None
        for slots in self._sibling_sets():
            if not (self._prunable and self._cannot_improve(best, slots)):
                best = self._better(best, slots)
        if best is None or best.share <= 0:
            return None
        domains, level = best.domains, self._resolved.level
        if level < self._resolved.slice_level:
            chosen = self._optimal(domains, self._by_entropy(domains))
            if chosen is None:
                return None
            domains, level = _children(chosen), level + 1
        shared = self._share_out(domains, best.share)
        return None if shared is None else Start(level, shared)

    def _sibling_sets(self) -> list[list[int]]:
        level = self._resolved.level
        if level == 0:
            return [self._tree.levels[0].ids().tolist()]
        above = self._tree.levels[level - 1]
        return [list(above.children[slot]) for slot in above.in_order(above.ids().tolist())]

    # ---- which set of siblings

    def _cannot_improve(self, best: SiblingSet | None, slots: Sequence[int]) -> bool:
        """Reports whether `_better` would keep the best set anyway.

        This bound needs no copies of domains, since pruning never increases a share and never decreases a count.
        """
        resolved, ids = self._resolved, np.array(slots, dtype=np.int64)
        upper = self._numbers[resolved.level].slice[ids]
        level = resolved.level
        if level < resolved.slice_level:
            ids, level = self._tree.levels[level].children_of(ids), level + 1
        share = self._share(level, ids)
        if not share:
            return True
        if best is None:
            return False
        return share < best.share or (share == best.share and _fewest(upper, resolved.need) >= best.count)

    def _share(self, level: int, ids: Ints) -> int:
        """Returns an upper bound of the share of each needed domain; 0 if the domains do not hold all slices.

        The domain with the leader is taken first, then the largest.
        """
        resolved, numbers = self._resolved, self._numbers[level]
        sizes, rest, limits = numbers.slice[ids], resolved.need, list[int]()
        if resolved.leaders:
            able = np.flatnonzero(numbers.leader[ids]) if numbers.leader is not None else ids[:0]
            if not len(able):
                return 0
            some = ids[able]
            order = np.lexsort((self._tree.levels[level].label[some], numbers.pod_l[some], -numbers.slice_l[some]))
            beside = int(numbers.slice_l[some[order[0]]])
            sizes, rest, limits = np.delete(sizes, able[order[0]]), rest - beside, [beside]
        count = len(limits)
        if rest > 0:
            more = _fewest(sizes, rest)
            if not more:
                return 0
            count += more
            limits.append(int(np.partition(sizes, len(sizes) - more)[len(sizes) - more]))
        return min(resolved.need // count, *limits)

    def _better(self, best: SiblingSet | None, slots: list[int]) -> SiblingSet | None:
        resolved = self._resolved
        domains = self._cloner(resolved.level, slots)
        siblings = self._greedy(_children(domains) if resolved.level < resolved.slice_level else domains)
        if not siblings.fits or not siblings.count:
            return best
        share = _least(resolved.need // siblings.count, _beside(siblings.last_leader), _slices(siblings.last))
        floor = best.share if best else 0
        if share < floor:
            return best
        count = self._pruned(domains, share)
        with_leader = min(share, siblings.last.slice_l) if resolved.leaders and siblings.last else share
        if count is None and with_leader < share:
            if with_leader <= 0 or with_leader < floor:
                return best
            share, domains = with_leader, self._cloner(resolved.level, slots)
            count = self._pruned(domains, share)
        if count is None:
            return best
        if best is None or share > best.share or (share == best.share and count < best.count):
            return SiblingSet(domains, share, count)
        return best

    def _greedy(self, domains: Sequence[PickedDomain]) -> Greedy:
        rest, leaders, count = self._resolved.need, self._resolved.leaders, 0
        last_leader: PickedDomain | None = None
        last: PickedDomain | None = None
        ordered = self._profile.with_leader(domains)
        at = 0
        while leaders > 0 and at < len(ordered) and ordered[at].leader > 0:
            last_leader = ordered[at]
            leaders, rest, count, at = leaders - last_leader.leader, rest - last_leader.slice_l, count + 1, at + 1
        for domain in self._profile.plain(ordered[at:]):
            if rest <= 0 or domain.slice <= 0:
                break
            last, rest, count = domain, rest - domain.slice, count + 1
        return Greedy(rest <= 0 and leaders <= 0, count, last_leader, last)

    def _pruned(self, domains: list[PickedDomain], share: int) -> int | None:
        """Prunes domains below the share. Returns how many are needed; None if the rest does not hold all slices."""
        for domain in domains:
            for child in domain.children or ():
                self._test(child, share)
        for domain in domains:
            self._roll_up(domain, self._resolved.level)
            self._test(domain, share)
        siblings = self._greedy(domains)
        return siblings.count if siblings.fits else None

    def _test(self, domain: PickedDomain, share: int) -> None:
        if domain.slice < share:
            _empty(domain)
        elif self._resolved.leaders and domain.leader > 0 and domain.slice_l < share:
            _no_leader(domain)

    def _roll_up(self, domain: PickedDomain, level: int) -> None:
        """Recomputes the counts of a subtree from its lowest domains, ignoring inner slice layers."""
        children = domain.children
        if children:
            # A domain without children keeps its counts.
            if children[0].children:
                for child in children:
                    self._roll_up(child, level + 1)
            self._sum(domain, children)
        if level == self._resolved.slice_level:
            domain.slice, domain.slice_l = (
                domain.pod // self._resolved.slice_size,
                domain.pod_l // self._resolved.slice_size,
            )

    def _sum(self, domain: PickedDomain, children: list[PickedDomain]) -> None:
        hosts = [child for child in children if not self._resolved.leaders or child.leader > 0]
        domain.pod, domain.slice = sum(child.pod for child in children), sum(child.slice for child in children)
        domain.leader = max(child.leader for child in children)
        domain.affinity = sum(child.affinity for child in children)
        domain.pod_l = domain.pod - min(child.pod - child.pod_l for child in hosts) if hosts else 0
        domain.slice_l = domain.slice - min(child.slice - child.slice_l for child in hosts) if hosts else 0

    # ---- which domains of the set

    def _by_entropy(self, domains: list[PickedDomain]) -> list[PickedDomain]:
        return sorted(domains, key=lambda d: (-d.leader, -d.slice_l, -_entropy(d), d.label))

    def _optimal(self, domains: list[PickedDomain], ordered: list[PickedDomain]) -> list[PickedDomain] | None:
        """Returns the fewest domains that hold all slices, with the least excess; the first found wins a tie."""
        resolved, most = self._resolved, self._greedy(domains).count
        states: list[dict[tuple[int, int], tuple[PickedDomain, ...]]] = [{} for _ in range(most + 1)]
        states[0][resolved.leaders, resolved.need * resolved.slice_size] = ()
        for domain in ordered:
            for used in range(most - 1, -1, -1):
                for leaders, pods in sorted(states[used]):
                    if leaders <= 0 and pods <= 0:
                        continue
                    before = states[used][leaders, pods]
                    if leaders > 0 and domain.leader > 0:
                        states[used + 1].setdefault((leaders - domain.leader, pods - domain.pod_l), (*before, domain))
                    if domain.slice > 0:
                        states[used + 1].setdefault((leaders, pods - domain.pod), (*before, domain))
        ends = [pods for leaders, pods in states[most] if leaders == 0 and pods <= 0]
        return list(states[most][0, max(ends)]) if ends else None

    def _share_out(self, domains: list[PickedDomain], share: int) -> list[PickedDomain] | None:
        """Gives each domain the share, and the first domains as much of the remainder as fits. None if a remainder is left."""
        resolved = self._resolved
        chosen = self._optimal(domains, sorted(domains, key=lambda d: d.label))
        if chosen is None or resolved.need < len(chosen) * share:
            return None
        extra, leaders = resolved.need - len(chosen) * share, resolved.leaders
        ordered = self._profile.with_leader(chosen)
        for domain in ordered:
            capacity = domain.slice_l if leaders > 0 else domain.slice
            more = min(capacity - share, extra) if extra > 0 else 0
            domain.leader = 1 if leaders > 0 else 0
            extra, leaders = extra - more, leaders - domain.leader
            domain.slice = domain.slice_l = share + more
            domain.pod = domain.slice * resolved.slice_size
            domain.pod_l = domain.pod - domain.leader
        return ordered if extra <= 0 and leaders <= 0 else None


def _children(domains: Iterable[PickedDomain]) -> list[PickedDomain]:
    return [child for domain in domains for child in domain.children or ()]


def _fewest(sizes: Ints, need: int) -> int:
    """Returns how many of the largest sizes add up to the need; 0 if all of them do not."""
    held = np.cumsum(-np.sort(-sizes))
    return int(np.searchsorted(held, need)) + 1 if len(held) and int(held[-1]) >= need else 0


def _least(first: int, *others: int | None) -> int:
    return min([first, *(other for other in others if other is not None)])


def _slices(domain: PickedDomain | None) -> int | None:
    return None if domain is None else domain.slice


def _beside(domain: PickedDomain | None) -> int | None:
    return None if domain is None else domain.slice_l


def _empty(domain: PickedDomain) -> None:
    domain.pod = domain.pod_l = domain.slice = domain.slice_l = domain.leader = 0
    for child in domain.children or ():
        _empty(child)


def _no_leader(domain: PickedDomain) -> None:
    domain.leader = domain.pod_l = domain.slice_l = 0
    for child in domain.children or ():
        _no_leader(child)


def _entropy(domain: PickedDomain) -> float:
    """Returns the entropy of the pods' distribution over the children: larger is more even.

    The counts are sorted before they are summed, so that equal distributions have exactly equal floats.
    """
    counts = sorted(child.pod for child in domain.children or () if child.pod > 0)
    total = sum(counts)
    return -sum(count / total * log2(count / total) for count in counts) if total else 0.0
