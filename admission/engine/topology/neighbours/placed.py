"""Which pods are where, as far as the terms of pods ask: InterPodAffinity of kube-scheduler, for required anti-affinity.

A node is closed to a pod, by a term with topology key K, where another node with the same value of K (or the node itself) has

- a pod that a term of the pod selects;
- a pod with a term that selects the pod.

A pod with required affinity may use the nodes whose domain of each key has a bound pod that all its terms select. Where there
is none, and it is selected itself, the pods of its gang go to one domain together (`gathers`); where such a pod is admitted
and not bound yet, it waits: whichever is bound first decides.

Bound pods count wherever they are, pods that are admitted and not bound yet where their assignment says: on their host, or,
of a wider domain, on each of its nodes, since any of them may get the pod.

Nothing is kept until a pod or a workload with a term is seen (`watch`). From then on pods are counted by what terms see of them
(PodFacts); a term that is asked about gets a tally, which every change keeps up to date; the least recently asked ones are
forgotten beyond `_ASKED`. Terms that pods bear are counted with the pods that bear them. All of it goes through the journal.

Called by allocations.py and capacity.py (what changes), by tree.py (which rows a pod may use).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from admission.engine.journal import Journal
from admission.engine.model import HOSTNAME_LABEL, Namespace, Node, PodFacts, PodTerm
from admission.engine.topology.neighbours.tally import DOMAIN, HOST, NODE, Place, Tally, TermTable, labels_of
from admission.engine.topology.tree.level import Bools
from admission.engine.topology.tree.tree import Tree

_ASKED: Final = 1024
"""Terms of waiting gangs that are kept counted."""
_KEYS: Final = 64
"""Label keys by which pods are found; a term of another key looks through all of them once."""

APART: Final = "pod anti-affinity"
TOGETHER: Final = "pod affinity"
"""Kinds of terms, as messages name them."""

Shift = tuple[PodFacts, Place, int, int]
"""So many pods more at a place, foreign and admitted ones."""


class PlacedPods:
    """The pods that count for terms. `namespaces`: the labels of each namespace."""

    def __init__(self, trees: Mapping[str, Tree], nodes: Callable[[], Iterable[Node]], journal: Journal) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.pods: Callable[[], Iterable[Shift]] = tuple
        self.opened: Callable[[], None] = lambda: None
        self._trees, self._nodes, self._journal = trees, nodes, journal
        self._clear()

    def _clear(self) -> None:
        self.watching = False
        self._at: dict[PodFacts, dict[Place, tuple[int, int]]] = {}
        self._by_label: dict[str, dict[str, dict[PodFacts, None]]] = {}
        self._asked, self._borne, self._near = TermTable(), TermTable(), TermTable()
        self._named: dict[str, Node] = {}
        self._on_host: dict[str, dict[str, Node]] = {}

    # ---- what changes

    def watch(self) -> None:
        """A pod or workload with terms was seen: count from now on. In a trial: until its end."""
        if self.watching:
            return
        self._journal.record(self._clear)
        self._build()

    def _build(self) -> None:
        self._clear()
        self.watching = True
        for node in self._nodes():
            self._know(node.name, None, node)
        for shift in self.pods():
            self._shift(*shift)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """The namespace's labels (None: it is gone)."""
        if self.namespaces.get(name) == labels:
            return
        self._journal.record(partial(self._recount, name))
        if labels is None:
            self._journal.drop(self.namespaces, name)
        else:
            self._journal.put(self.namespaces, name, labels)
        self._recount(name)
        self.opened()

    def _recount(self, namespace: str) -> None:
        """Count anew where a term selects namespaces by their labels and this one has pods."""
        if any(facts.namespace == namespace for facts in self._at) and any(
            term.by_labels for table in (self._asked, self._borne, self._near) for term in table.tallies
        ):
            self._build()

    def shift(self, facts: PodFacts | None, place: Place, foreign: int, admitted: int) -> None:
        """So many more pods at the place."""
        if facts is None or not self.watching:
            return
        if self._journal.recording:
            self._journal.record(partial(self._unshift, facts, place, foreign, admitted))
        if self._shift(facts, place, foreign, admitted):
            self.opened()

    def _unshift(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> None:
        self._shift(facts, place, -foreign, -admitted)

    def _shift(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> bool:
        """Whether a domain may be open now that was closed."""
        if not self.watching:
            return False
        self._count(facts, place, foreign, admitted)
        tallies = [tally for _, tally in self._asked.selecting(facts, self.namespaces)]
        borne = set(facts.apart)
        tallies += map(self._borne.add, borne)
        left = [tally.shift(place, self._value(place, tally.key), foreign, admitted) for tally in tallies]
        left += [
            self._shift_near(tally, place, foreign, admitted)
            for _, tally in self._near.selecting(facts, self.namespaces)
        ]
        for term in borne:
            if not self._borne.tallies[term].at:
                self._borne.drop(term)
        return any(left)

    def _shift_near(self, tally: Tally, place: Place, foreign: int, admitted: int) -> bool:
        """Whether other domains are near such a pod now."""
        if place.kind != NODE:
            tally.elsewhere += foreign + admitted
            return not tally.elsewhere
        before = tally.changes
        tally.shift(place, self._value(place, tally.key), foreign, admitted)
        return tally.changes != before

    def _count(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> None:
        known = facts in self._at
        places = self._at.setdefault(facts, {})
        have = places.get(place, (0, 0))
        total = (have[0] + foreign, have[1] + admitted)
        if total == (0, 0):
            places.pop(place, None)
        else:
            places[place] = total
        if not places:
            del self._at[facts]
        if known != bool(places):
            self._index(facts, bool(places))

    def _index(self, facts: PodFacts, here: bool) -> None:
        labels = dict(facts.labels)
        for key in self._by_label.keys() & labels.keys():
            if here:
                self._by_label[key].setdefault(labels[key], {})[facts] = None
            else:
                found = self._by_label[key].get(labels[key], {})
                found.pop(facts, None)
                if not found:
                    self._by_label[key].pop(labels[key], None)

    def node_set(self, name: str, old: Node | None, new: Node | None) -> None:
        """A node came, went, or has other labels: its pods are in other domains."""
        if not self.watching:
            return
        hosts = {node.labels[HOSTNAME_LABEL] for node in (old, new) if node and HOSTNAME_LABEL in node.labels}
        places = [on_node(name), *(Place(HOST, "", (host,)) for host in sorted(hosts))]
        before = [self._node(place) for place in places]
        self._know(name, old, new)
        moved = False
        for tally in (tally for table in (self._asked, self._borne, self._near) for tally in table.tallies.values()):
            for place, was in zip(places, before, strict=True):
                if place in tally.at:
                    tally.move(place, _label(was, tally.key), self._value(place, tally.key))
                    moved = True
        if moved:
            self.opened()

    def _know(self, name: str, old: Node | None, new: Node | None) -> None:
        if old is not None:
            self._named.pop(name, None)
            self._on_host.get(old.labels.get(HOSTNAME_LABEL, ""), {}).pop(name, None)
        if new is not None:
            self._named[name] = new
            self._on_host.setdefault(new.labels.get(HOSTNAME_LABEL, ""), {})[name] = new

    def _node(self, place: Place) -> Node | None:
        """The node of the place; none of a wide domain, and none for a pod that cannot be bound there any more."""
        if place.kind == NODE:
            return self._named.get(place.key[0])
        some = self._on_host.get(place.key[0], {}) if place.kind == HOST else {}
        return next((some[name] for name in sorted(some) if some[name].usable), None)

    def _value(self, place: Place, key: str) -> str | None:
        return _label(self._node(place), key)

    # ---- questions

    def concerns(self, facts: PodFacts | None) -> bool:
        """Whether terms decide anything for such a pod."""
        if facts is None:
            return False
        return facts.has_terms or (self.watching and any(self._borne.selecting(facts, self.namespaces)))

    @staticmethod
    def has_terms(facts: PodFacts | None) -> bool:
        """Whether such a pod says anything of other pods."""
        return facts is not None and facts.has_terms

    def keys_apart(self, facts: PodFacts | None) -> list[str]:
        """The topology keys by which such pods keep each other away."""
        if facts is None or not facts.apart:
            return []
        return sorted({term.key for term in facts.apart if self.selects(term, facts)})

    def selects(self, term: PodTerm, facts: PodFacts) -> bool:
        """Whether the term selects such a pod."""
        own = labels_of(facts.namespace, self.namespaces)
        return term.looks_into(facts.namespace, own) and term.selects(dict(facts.labels))

    def open_rows(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Bools | None:
        """Which rows such a pod may use; None: all of them. `empty`: as if no workload were admitted."""
        found: Bools | None = None
        for _, _, rows in self.closing(facts, tree, empty=empty):
            found = ~rows if found is None else found & ~rows
        return found

    def closing(self, facts: PodFacts | None, tree: Tree, *, empty: bool) -> Iterator[tuple[str, str, Bools]]:
        """The rows that are closed to such a pod, by kind of term and topology key."""
        if facts is None or not (self.watching or facts.has_terms) or not tree.by_node:
            return
        self.watch()
        yield from ((APART, key, rows) for key, rows in self._kept_away(facts, tree, empty=empty))
        yield from ((TOGETHER, term.key, ~self._attracted(term, facts, tree, empty=empty)) for term in facts.together)

    def gathers(self, facts: PodFacts | None, *, empty: bool) -> tuple[str, ...]:
        """The topology keys of which the pods of such a gang go to one domain each, since no pod is there to be near to."""
        if facts is None or not facts.together or not self.selects(facts.together[0], facts):
            return ()
        self.watch()
        tallies = [self._ask(term, self._near) for term in facts.together]
        if any(tally.values(empty=empty) or (tally.elsewhere and not empty) for tally in tallies):
            return ()
        return tuple(term.key for term in facts.together)

    def _attracted(self, term: PodTerm, facts: PodFacts, tree: Tree, *, empty: bool) -> Bools:
        """The rows that are near the pods that all terms select."""
        if self.gathers(facts, empty=empty):
            with_key: Bools = tree.matcher.label_ids(term.key, tree.rows.size) >= 0
            return with_key
        rows = self._ask(term, self._near).rows(tree, empty=empty)
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
        yield from (self._ask(term, self._asked) for term in facts.apart)
        yield from (tally for _, tally in self._borne.selecting(facts, self.namespaces))

    def _ask(self, term: PodTerm, table: TermTable) -> Tally:
        """The pods that the term selects; in the table of affinity bound ones."""
        tally = table.tallies.pop(term, None)
        if tally is not None:
            table.tallies[term] = tally  # the last one asked about
            return tally
        tally = table.add(term)
        for facts in self._possible(term):
            if self.selects(term, facts):
                for place, (foreign, admitted) in self._at[facts].items():
                    if table is self._near:
                        self._shift_near(tally, place, foreign, admitted)
                    else:
                        tally.shift(place, self._value(place, term.key), foreign, admitted)
        if len(table.tallies) > _ASKED:
            table.drop(next(iter(table.tallies)))
        return tally

    def _possible(self, term: PodTerm) -> Iterable[PodFacts]:
        pairs = term.pairs()
        if pairs is None or not (pairs and self._found_by(pairs[0][0])):
            return list(self._at) if pairs is None or pairs else []
        return [facts for key, value in pairs for facts in self._by_label[key].get(value, ())]

    def _found_by(self, key: str) -> bool:
        """Whether pods are found by this label, from now on."""
        if key not in self._by_label and len(self._by_label) < _KEYS:
            values: dict[str, dict[PodFacts, None]] = {}
            for facts in self._at:
                if (value := dict(facts.labels).get(key)) is not None:
                    values.setdefault(value, {})[facts] = None
            self._by_label[key] = values
        return key in self._by_label

    def _anywhere(self, place: Place, key: str) -> Iterator[str]:
        """The values of the label on the nodes of a wide domain."""
        tree = self._trees.get(place.flavor)
        slot = None if tree is None else tree.domain_row(place.key)
        if tree is None or slot is None:
            return
        if key in tree.shape.levels:
            yield place.key[tree.shape.levels.index(key)]
            return
        for row in tree.rows_of_domain(slot):
            yield from (value for name in tree.members(row) if (value := _label(self._named.get(name), key)))

    def inputs(self) -> Iterator[Namespace]:
        """The namespaces, once their labels may matter."""
        if self.watching:
            yield from (Namespace(name, labels) for name, labels in sorted(self.namespaces.items()))

    # ---- checks

    def differences(self) -> Iterator[str]:
        """Where the counts disagree with the pods."""
        if not self.watching:
            return
        wanted = PlacedPods(self._trees, self._nodes, Journal())
        wanted.namespaces, wanted.pods = self.namespaces, self.pods
        wanted.watch()
        if wanted._at != self._at:
            yield "pods counted for terms are not those that are placed"
        for term, tally in self._borne.tallies.items():
            other = wanted._borne.tallies.get(term)
            if other is None or other.by_value != tally.by_value or other.at != tally.at:
                yield f"pods that bear the term {term} are counted wrongly"
        for term, tally in self._asked.tallies.items():
            other = wanted._ask(term, wanted._asked)
            if other.by_value != tally.by_value or other.at != tally.at:
                yield f"pods that the term {term} selects are counted wrongly"
        for term, tally in self._near.tallies.items():
            other = wanted._ask(term, wanted._near)
            if (other.by_value, other.at, other.elsewhere) != (tally.by_value, tally.at, tally.elsewhere):
                yield f"pods that the term {term} wants to be near are counted wrongly"


def _label(node: Node | None, key: str) -> str | None:
    return None if node is None else node.labels.get(key)


def on_node(name: str) -> Place:
    """The place of a bound pod."""
    return Place(NODE, "", (name,))


def of_domain(flavor: str, levels: tuple[str, ...], values: tuple[str, ...]) -> Place:
    """The place of pods that are assigned to a domain and not bound."""
    if levels and levels[-1] == HOSTNAME_LABEL:
        return Place(HOST, "", values[-1:])
    return Place(DOMAIN, flavor, values)
