"""Which pods are where, as far as the terms of pods ask: InterPodAffinity of kube-scheduler, for required anti-affinity.

A node is closed to a pod, by a term with topology key K, where another node with the same value of K (or the node itself) has

- a pod that a term of the pod selects;
- a pod with a term that selects the pod.

A pod with required affinity may use the nodes whose domain of each key has a bound pod that all its terms select. Where there
is none, and it is selected itself, the pods of its gang go to one domain together (`gathers`); where such a pod is admitted
and not bound yet, it waits: whichever is bound first decides.

Bound pods count wherever they are, pods that are admitted and not bound yet where their assignment says: on their host, or,
of a wider domain, on each of its nodes, since any of them may get the pod.

What is counted, and when: counts.py.

Called by allocations.py and capacity.py (what changes), by tree.py (which rows a pod may use).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from admission.engine.model import HOSTNAME_LABEL, PodFacts, PodTerm
from admission.engine.topology.neighbours.counts import PodCounts, label_of
from admission.engine.topology.neighbours.tally import DOMAIN, HOST, Place, Tally
from admission.engine.topology.tree.level import Bools
from admission.engine.topology.tree.tree import Tree

APART: Final = "pod anti-affinity"
TOGETHER: Final = "pod affinity"
"""Kinds of terms, as messages name them."""
_NOT_YET: Final = "terms of pods"


class PlacedPods(PodCounts):
    """The pods that count for terms, and what their terms close."""

    def concerns(self, facts: PodFacts | None) -> bool:
        """Reports whether terms decide anything for such a pod."""
        if facts is None:
            return False
        return facts.has_terms or (self.watching and any(self._borne.selecting(facts, self.namespaces)))

    @staticmethod
    def has_terms(facts: PodFacts | None) -> bool:
        """Reports whether such a pod says anything of other pods."""
        return facts is not None and facts.has_terms

    def keys_apart(self, facts: PodFacts | None) -> list[str]:
        """Returns the topology keys by which such pods keep each other away."""
        if facts is None or not facts.apart:
            return []
        return sorted({term.key for term in facts.apart if self.selects(term, facts)})

    def open_rows(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Bools | None:
        """Returns which rows such a pod may use; None: all of them. `empty`: as if no workload were admitted."""
        found: Bools | None = None
        for _, _, rows in self.closing(facts, tree, empty=empty):
            found = ~rows if found is None else found & ~rows
        return found

    def closing(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Iterator[tuple[str, str, Bools]]:
        """Yields the rows that are closed to such a pod, by kind of term and topology key."""
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

    def gathers(self, facts: PodFacts | None, *, empty: bool) -> tuple[str, ...]:
        """The topology keys of which the pods of such a gang go to one domain each, since no pod is there to be near to."""
        if facts is None or not facts.together or not self.selects(facts.together[0], facts):
            return ()
        self.watch()
        if not self.watching:
            return ()
        tallies = [self.ask(term, self._near) for term in facts.together]
        if any(tally.values(empty=empty) or (tally.elsewhere and not empty) for tally in tallies):
            return ()
        return tuple(term.key for term in facts.together)

    def counted(self, term: PodTerm) -> Tally:
        """Returns the pods that the term selects."""
        self.watch()
        return self.ask(term, self._asked)

    def _attracted(self, term: PodTerm, facts: PodFacts, tree: Tree, *, empty: bool) -> Bools:
        """Returns the rows that are near the pods that all terms select."""
        if self.gathers(facts, empty=empty):
            with_key: Bools = tree.matcher.label_ids(term.key, tree.rows.size) >= 0
            return with_key
        rows = self.ask(term, self._near).rows(tree, empty=empty)
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

    def _tallies(self, facts: PodFacts) -> Iterator[Tally]:
        yield from (self.ask(term, self._asked) for term in facts.apart)
        yield from (tally for _, tally in self._borne.selecting(facts, self.namespaces))

    def _anywhere(self, place: Place, key: str) -> Iterator[str]:
        """Yields the values of the label on the nodes of a wide domain."""
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
    """Returns the place of pods that are assigned to a domain and not bound."""
    if levels and levels[-1] == HOSTNAME_LABEL:
        return Place(HOST, "", values[-1:])
    return Place(DOMAIN, flavor, values)
