"""Kueue's search for one request on one tree: it finds the level, then descends to the lowest domains (placement.md 5.7, 5.8).

Plain requests (without leader and affinity) use arrays and read few domains (select.py). Other requests, and all levels
below the slice level, pick domain by domain (pick.py). The outcome is the chosen lowest domains with their pods, or a
NoFit. Called by place_group.py and exact/optimum/exact.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.decision import Certificate
from admission.engine.topology.compatible import balanced
from admission.engine.topology.compatible.pick import PickedDomain, PickOrder, prioritize_leader
from admission.engine.topology.compatible.select import CandidateSet, Selection, take, tightest
from admission.engine.topology.constraints import ResolvedRequest
from admission.engine.topology.count import Numbers
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class NoFit:
    """A failure at a level."""

    level: int
    fit: int
    """How many slices fit at this level."""
    total: int
    """How many slices must fit."""
    reason: str = ""
    """The cause if it is not lack of capacity."""


@dataclass(frozen=True, slots=True)
class NoDomains:
    """A failure: the level has no domains."""

    level: int


@dataclass(frozen=True, slots=True)
class Found:
    """A placement: slots of lowest domains, ascending by values, with the worker pods and leader pods of each."""

    ids: Ints
    pods: Ints
    leaders: Ints


@dataclass(frozen=True, slots=True)
class Picked:
    """Domains of one level that hold all slices and leaders."""

    level: int
    domains: list[PickedDomain]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Domains of one level that hold all slices of a plain request, as arrays."""

    level: int
    taken: Selection


Outcome = Found | NoFit | NoDomains


@dataclass(frozen=True, slots=True)
class Solved:
    """An outcome and its certificate, which is None for Kueue's algorithm."""

    outcome: Outcome
    certificate: Certificate | None = None


class Search:
    """The search for one resolved request, given the counts of every level."""

    def __init__(self, tree: Tree, resolved: ResolvedRequest, numbers: Sequence[Numbers]) -> None:
        self._tree = tree
        self._resolved = resolved
        self._numbers = numbers
        by_affinity = resolved.by_affinity and bool(resolved.wants.preferred)
        self._profile = PickOrder(least=resolved.least, by_affinity=by_affinity)
        self._plain = not resolved.leaders and not by_affinity
        self._last = tree.depth - 1

    def run(self) -> Outcome:
        """Returns the lowest domains with their pods, or the failure."""
        if self._resolved.balanced and self._resolved.need > 0:
            balanced = self._balanced()
            if balanced is not None:
                return balanced
        if self._plain:
            chosen = self._find_plain(self._resolved.level)
            return self._descend_plain(chosen) if isinstance(chosen, Chosen) else chosen
        picked = self._find(self._resolved.level)
        return self._descend(picked) if isinstance(picked, Picked) else picked

    # ---- plain: arrays

    def _field(self, level: int, ids: Ints, *, whole: bool = False) -> CandidateSet:
        """Returns the domains with these slots as candidates. `whole`: the slots are all of the level, ascending."""
        numbers, label = self._numbers[level], self._tree.levels[level].label
        if whole and len(ids) == self._tree.levels[level].size:
            return CandidateSet(ids, numbers.slice, numbers.pod, label)
        slices = numbers.slice[ids]
        pods = slices if numbers.pod is numbers.slice else numbers.pod[ids]
        return CandidateSet(ids, slices, pods, label[ids])

    def _find_plain(self, level: int) -> Chosen | NoFit | NoDomains:
        resolved = self._resolved
        field = self._field(level, self._tree.levels[level].ids(), whole=True)
        if not len(field):
            return NoDomains(level)
        one = tightest(field, resolved.need)
        if one is not None:
            return Chosen(level, Selection(field.ids[one : one + 1], np.array([resolved.need])))
        if resolved.required:
            return NoFit(level, self._best_single(field), resolved.need)
        if level > 0 and not resolved.unconstrained:
            return self._find_plain(level - 1)
        taken = take(field, resolved.need, least=resolved.least)
        return NoFit(level, taken, resolved.need) if isinstance(taken, int) else Chosen(level, taken)

    def _best_single(self, field: CandidateSet) -> int:
        most = int(field.slices.max())
        return int(field.pods[field.slices == most].max()) if self._resolved.least else most

    def _descend_plain(self, chosen: Chosen) -> Outcome:
        level, taken, resolved = chosen.level, chosen.taken, self._resolved
        while level < resolved.slice_level:
            field = self._field(level + 1, self._tree.levels[level].children_of(taken.ids))
            below = take(field, resolved.need, least=resolved.least)
            if isinstance(below, int):
                return self._nothing()
            level, taken = level + 1, below
        return self.spread(taken)

    def spread(self, taken: Selection) -> Found:
        """Returns the lowest domains, given domains of the slice level with the number of slices in each."""
        level = self._resolved.slice_level
        if level < self._last:
            return self._finish(self._below_slices(level, self._domains_of(level, taken)))
        return self._ordered(taken.ids, taken.slices * self._resolved.slice_size, np.zeros_like(taken.ids))

    def _domains_of(self, level: int, taken: Selection) -> list[PickedDomain]:
        domains = self._domains(level, taken.ids)
        for domain, slices in zip(domains, taken.slices.tolist(), strict=True):
            domain.slice, domain.pod, domain.leader = slices, slices * self._resolved.slice_size, 0
        return domains

    # ---- domain by domain

    def _domains(self, level: int, ids: Ints) -> list[PickedDomain]:
        numbers, label = self._numbers[level], self._tree.levels[level].label
        none = np.zeros(len(ids), dtype=np.int64)
        columns = (
            ids,
            label[ids],
            numbers.pod[ids],
            numbers.pod_l[ids],
            numbers.slice[ids],
            numbers.slice_l[ids],
            none if numbers.leader is None else numbers.leader[ids],
            none if numbers.affinity is None else numbers.affinity[ids],
        )
        return list(map(PickedDomain, *(column.tolist() for column in columns)))

    def _children(self, level: int, domains: Sequence[PickedDomain]) -> list[PickedDomain]:
        if domains and domains[0].children is not None:
            return [child for domain in domains for child in domain.children or ()]
        ids = self._tree.levels[level].children_of(np.array([domain.id for domain in domains], dtype=np.int64))
        return self._domains(level + 1, ids)

    def _find(self, level: int) -> Picked | NoFit | NoDomains:
        resolved, profile = self._resolved, self._profile
        domains = profile.with_leader(self._domains(level, self._tree.levels[level].ids()))
        if not domains:
            return NoDomains(level)
        if resolved.least:
            return self._find_least(level, domains)
        top = domains[0]
        if _holds(top, resolved.need, resolved.leaders):
            return Picked(level, [profile.tightest(domains, resolved.need, resolved.leaders, slices=True)])
        if resolved.required:
            return self._required_by_affinity(level, domains)
        if level > 0 and not resolved.unconstrained:
            return self._find(level - 1)
        return self._several(level, domains)

    def _find_least(self, level: int, domains: list[PickedDomain]) -> Picked | NoFit | NoDomains:
        resolved = self._resolved
        for domain in domains:
            if (
                domain.leader >= resolved.leaders
                and (domain.slice_l if resolved.leaders else domain.slice) >= resolved.need
            ):
                return Picked(level, [domain])
        if resolved.required:
            return NoFit(level, domains[-1].pod, resolved.need)
        if _holds(domains[0], resolved.need, resolved.leaders):
            return Picked(level, [domains[0]])
        if level > 0 and not resolved.unconstrained:
            return self._find(level - 1)
        return self._several(level, domains)

    def _required_by_affinity(self, level: int, domains: list[PickedDomain]) -> Picked | NoFit:
        """Returns one domain that holds the request, or a NoFit.

        With affinity the first domain need not be the largest, so a later domain may still hold the request.
        """
        resolved = self._resolved
        if self._profile.by_affinity:
            for index, domain in enumerate(domains):
                if _holds(domain, resolved.need, resolved.leaders):
                    tightest = self._profile.tightest(domains[index:], resolved.need, resolved.leaders, slices=True)
                    return Picked(level, [tightest])
        return NoFit(level, domains[0].slice, resolved.need)

    def _several(self, level: int, domains: list[PickedDomain]) -> Picked | NoFit:
        """Returns several domains of the level that hold the request together: first those with leaders, then the others."""
        resolved, profile, out = self._resolved, self._profile, list[PickedDomain]()
        domains = prioritize_leader(domains, resolved.count, resolved.leaders, resolved.slice_size, slices=True)
        at, rest, leaders = 0, resolved.need, resolved.leaders
        while leaders > 0 and at < len(domains) and domains[at].leader > 0:
            domain = domains[at]
            if not resolved.least and domain.slice_l >= rest:
                domain = profile.tightest(domains[at:], rest, leaders, slices=True)
            out.append(domain)
            leaders, rest, at = leaders - domain.leader, rest - domain.slice_l, at + 1
        if leaders > 0:
            return NoFit(level, resolved.leaders - leaders, resolved.need)
        domains = profile.plain(domains[at:])
        for index, domain in enumerate(domains):
            if rest <= 0:
                break
            if not resolved.least and domain.slice >= rest:
                domain = profile.tightest(domains[index:], rest, 0, slices=True)
            out.append(domain)
            rest -= domain.slice
        return NoFit(level, resolved.need - rest, resolved.need) if rest > 0 else Picked(level, out)

    # ---- the descent

    def _descend(self, picked: Picked, *, is_balanced: bool = False) -> Found:
        resolved, profile, level = self._resolved, self._profile, picked.level
        domains = profile.minimize(picked.domains, resolved.count, resolved.leaders, resolved.slice_size, slices=True)
        while level < resolved.slice_level and not is_balanced:
            children = profile.plain(self._children(level, domains))
            domains = profile.minimize(children, resolved.count, resolved.leaders, resolved.slice_size, slices=True)
            level += 1
        return self._finish(self._below_slices(level, domains))

    def _below_slices(self, level: int, domains: list[PickedDomain]) -> list[PickedDomain]:
        """Returns the lowest domains: in each domain separately, the children that hold its pods."""
        resolved = self._resolved
        while level < self._last:
            size = resolved.slice_size if level < resolved.slice_level else resolved.inner.get(level + 1, 1)
            domains = [child for domain in domains for child in self._inside(level, domain, size)]
            level += 1
        return domains

    def _inside(self, level: int, domain: PickedDomain, size: int) -> list[PickedDomain]:
        children = self._profile.plain(self._children(level, [domain]))
        if size > 1:
            for child in children:
                child.slice, child.slice_l = child.pod // size, child.pod_l // size
        return self._profile.minimize(children, domain.pod, domain.leader, size, slices=size > 1)

    def _finish(self, domains: Sequence[PickedDomain]) -> Found:
        columns = (
            [domain.id for domain in domains],
            [domain.pod for domain in domains],
            [domain.leader for domain in domains],
        )
        ids, pods, leaders = (np.array(column, dtype=np.int64) for column in columns)
        return self._ordered(ids, pods, leaders)

    def _ordered(self, ids: Ints, pods: Ints, leaders: Ints) -> Found:
        kept = np.flatnonzero((pods > 0) | (leaders > 0))
        order = kept[np.argsort(self._tree.levels[-1].label[ids[kept]])]
        return Found(ids[order], pods[order], leaders[order])

    def _nothing(self) -> Found:
        none = np.zeros(0, dtype=np.int64)
        return Found(none, none, none)

    # ---- balanced

    def _balanced(self) -> Found | None:
        """Returns the balanced placement; None if there is none, so that BestFit is tried next."""
        start = balanced.Balance(self._tree, self._resolved, self._numbers, self._profile, self._clones).find()
        if start is None:
            return None
        placed = self._descend(Picked(start.level, start.domains), is_balanced=True)
        whole = int(placed.pods.sum()) >= self._resolved.need * self._resolved.slice_size
        return placed if whole else None

    def _clones(self, level: int, slots: Iterable[int]) -> list[PickedDomain]:
        """Returns copies of domains with their subtrees."""
        domains = self._domains(level, np.fromiter(slots, dtype=np.int64))
        if level < self._last:
            for domain in domains:
                domain.children = self._clones(level + 1, self._tree.levels[level].children[domain.id])
        return domains


def _holds(domain: PickedDomain, need: int, leaders: int) -> bool:
    return domain.slice_l >= need and domain.leader >= leaders
