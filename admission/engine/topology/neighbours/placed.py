"""Determines which nodes pod terms permit: kube-scheduler's InterPodAffinity filter for required terms.

By an anti-affinity term with topology key K, a pod may not use a node if any node with the same value of K has

- a pod that the term selects, if it is a term of the pod;
- a pod that has the term, if the term selects the pod.

A pod with required affinity may use a node if, for each of its terms, the node's domain has a bound pod that all terms of
the pod select. If there is no such pod and the terms select the pod itself, all pods of its gang are placed in one domain
(`gathers`). If such a pod is admitted but not bound yet, the gang waits, since the pod that is bound first determines the
domain. For the same reason no pod that its terms select is placed elsewhere until one of the gang's pods is bound.

Bound pods count on their nodes. Pods that are admitted but not bound yet count on the host of their assignment or, if it
names a wider domain, on every node of that domain, since each of these nodes may get the pod.

allocations.py and capacity.py report changes; tree.py asks which rows a pod may use. counts.py does the counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from admission.engine.model import HOSTNAME_LABEL, PodFacts, PodTerm
from admission.engine.topology.neighbours.counts import TermCounts, label_of
from admission.engine.topology.neighbours.tally import DOMAIN, HOST, Place, Tally
from admission.engine.topology.tree.level import Bools
from admission.engine.topology.tree.tree import Tree

APART: Final = "pod anti-affinity"
TOGETHER: Final = "pod affinity"
"""The kinds of terms, as messages name them."""
_NOT_YET: Final = "terms of pods"


class PlacedPods(TermCounts):
    """The counted pods, with the rows that pod terms exclude."""

    def concerns(self, facts: PodFacts | None) -> bool:
        """Reports whether pod terms may restrict such a pod: its own, or terms of existing pods that select it."""
        if facts is None:
            return False
        if facts.has_terms or not self.watching:
            return facts.has_terms
        return any(any(table.selecting(facts, self.namespaces)) for table in (self._borne, self._gathering))

    @staticmethod
    def has_terms(facts: PodFacts | None) -> bool:
        """Reports whether such a pod has terms about other pods."""
        return facts is not None and facts.has_terms

    def keys_apart(self, facts: PodFacts | None) -> list[str]:
        """Returns the topology keys by which the anti-affinity of such pods separates them from each other, sorted."""
        if facts is None or not facts.apart:
            return []
        return sorted({term.key for term in facts.apart if self.selects(term, facts)})

    def open_rows(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Bools | None:
        """Returns the mask of rows that such a pod may use; None for all. `empty`: as if no workload were admitted."""
        permitted: Bools | None = None
        for _, _, rows in self.closing(facts, tree, empty=empty):
            permitted = ~rows if permitted is None else permitted & ~rows
        return permitted

    def closing(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Iterator[tuple[str, str, Bools]]:
        """Yields (kind of term, topology key, mask of rows that the term excludes) for such a pod.

        During the first count of pods, all rows are excluded.
        """
        if facts is None or not tree.by_node:
            return
        if facts.has_terms:
            self.watch()
        if self.waits(facts):
            yield _NOT_YET, "not counted yet", np.ones(tree.rows.size, dtype=np.bool_)
        if not self.watching:
            return
        yield from ((APART, key, rows) for key, rows in self._kept_away(facts, tree, empty=empty))
        yield from ((TOGETHER, term.key, ~self._attracted(term, facts, tree, empty=empty)) for term in facts.together)
        if not empty:
            yield from ((TOGETHER, key, rows) for key, rows in self._away_from_gathering(facts, tree))

    def gathers(self, facts: PodFacts | None, *, empty: bool) -> tuple[str, ...]:
        """Returns the topology keys of which one domain each must hold all pods of such a gang.

        This applies to affinity terms that select the gang's own pods while no other pod satisfies them; else it is empty.
        """
        if facts is None or not facts.together or not self.selects(facts.together[0], facts):
            return ()
        self.watch()
        if not self.watching:
            return ()
        tallies = [self.tally_of(term, self._near) for term in facts.together]
        if any(tally.values(empty=empty) or (tally.elsewhere and not empty) for tally in tallies):
            return ()
        return tuple(term.key for term in facts.together)

    def counted(self, term: PodTerm) -> Tally:
        """Returns the tally of the pods that the term selects."""
        self.watch()
        return self.tally_of(term, self._of_waiting)

    def _attracted(self, term: PodTerm, facts: PodFacts, tree: Tree, *, empty: bool) -> Bools:
        """Returns the mask of rows that satisfy the affinity term."""
        if self.gathers(facts, empty=empty):
            with_key: Bools = tree.matcher.label_ids(term.key, tree.rows.size) >= 0
            return with_key
        rows = self.tally_of(term, self._near).rows(tree, empty=empty)
        return np.zeros(tree.rows.size, dtype=np.bool_) if rows is None else rows

    def _kept_away(self, facts: PodFacts, tree: Tree, *, empty: bool) -> Iterator[tuple[str, Bools]]:
        closed: dict[str, Bools] = {}
        for tally in self._tallies(facts):
            wide = {value for place in tally.domains(empty=empty) for value in self._anywhere(place, tally.key)}
            near = tree.matcher.with_label(tally.key, wide, tree.rows.size) if wide else None
            for rows in (tally.rows(tree, empty=empty), near):
                if rows is not None:
                    closed[tally.key] = closed[tally.key] | rows if tally.key in closed else rows
        yield from sorted(closed.items())

    def _away_from_gathering(self, facts: PodFacts, tree: Tree) -> Iterator[tuple[str, Bools]]:
        """Yields (topology key, mask of rows outside the domain of a gang that gathers there) for a pod that its terms select.

        If such a pod were bound elsewhere before the first pod of the gang, the gang's pods would have to follow it.
        """
        for term, tally in list(self._gathering.selecting(facts, self.namespaces)):
            if not self.tally_of(term, self._near).values(empty=False):
                there = {
                    *tally.by_value,
                    *(value for place in tally.domains(empty=False) for value in self._anywhere(place, term.key)),
                }
                yield term.key, ~tree.matcher.with_label(term.key, there, tree.rows.size)

    def _tallies(self, facts: PodFacts) -> Iterator[Tally]:
        yield from (self.tally_of(term, self._of_waiting) for term in facts.apart)
        yield from (tally for _, tally in self._borne.selecting(facts, self.namespaces))

    def _anywhere(self, place: Place, key: str) -> Iterator[str]:
        """Yields the values of the label `key` on the nodes of a wide domain."""
        tree = self._trees.get(place.flavor)
        slot = None if tree is None else tree.domain_row(place.key)
        if tree is None or slot is None:
            return
        if key in tree.shape.levels:
            yield place.key[tree.shape.levels.index(key)]
            return
        for row in tree.rows_of_domain(slot):
            yield from (value for name in tree.members(row) if (value := label_of(self._named.get(name), key)))


def of_domain(flavor: str, levels: tuple[str, ...], values: tuple[str, ...]) -> Place:
    """Returns the place of pods that are assigned to a domain but not bound yet."""
    if levels and levels[-1] == HOSTNAME_LABEL:
        return Place(HOST, "", values[-1:])
    return Place(DOMAIN, flavor, values)
