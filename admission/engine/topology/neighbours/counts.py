"""Where pods are, counted by what terms see of them, and a tally for each term that is asked about. PlacedPods asks it.

Nothing is kept until a pod or a workload with a term is seen (`watch`). The count of all pods that are there then takes a
second at scale, so a controller has it made in steps (`in_steps`): between two of them everything may change, and no term can
be answered until the last one (`waits`). From then on pods are counted by what terms see of them (PodFacts); a term that is
asked about gets a tally, which every change keeps up to date; the least recently asked ones are forgotten beyond `_ASKED`.
Terms that pods bear are counted with the pods that bear them. All of it goes through the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from admission.engine.journal import Journal
from admission.engine.model import HOSTNAME_LABEL, Namespace, Node, PodFacts, PodTerm
from admission.engine.topology.neighbours.tally import HOST, NODE, Place, Tally, TermTable, labels_of
from admission.engine.topology.tree.tree import Tree

_ASKED: Final = 1024
"""Terms of waiting gangs that are kept counted."""
_KEYS: Final = 64
"""Label keys by which pods are found; a term of another key looks through all of them once."""
_STEP: Final = 64
"""Nodes or pods that the first count takes in one step: a millisecond."""

Shift = tuple[PodFacts, Place, int, int]
"""So many pods more at a place, foreign and admitted ones."""
Steps = Callable[[Iterator[None]], None]
"""Takes work that yields where it may be interrupted, and has it done to its end; work that it was given before is dropped."""


class PodCounts:
    """The pods that count for terms. `namespaces`: the labels of each namespace; `watching`: all pods are counted.

    `pods`: what is there now, fixed when it is called. `in_steps`: who does the first count; None: it is made at once.
    """

    def __init__(self, trees: Mapping[str, Tree], nodes: Callable[[], Iterable[Node]], journal: Journal) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.pods: Callable[[], Iterable[Shift]] = tuple
        self.opened: Callable[[], None] = lambda: None
        self.in_steps: Steps | None = None
        self._trees, self._nodes, self._journal = trees, nodes, journal
        self._first: list[PodFacts] = []
        self._borne_by_pods = False
        self._clear()

    def _clear(self) -> None:
        self.watching = False
        self._counting = self._takes = False
        self._changed: set[str] = set()
        self._at: dict[PodFacts, dict[Place, tuple[int, int]]] = {}
        self._by_label: dict[str, dict[str, dict[PodFacts, None]]] = {}
        self._asked, self._borne, self._near = TermTable(), TermTable(), TermTable()
        self._named: dict[str, Node] = {}
        self._on_host: dict[str, dict[str, Node]] = {}

    # ---- the first count

    def watch(self, *, borne: bool = False, asks: Iterable[PodFacts] = ()) -> None:
        """A pod (`borne`) or workload with terms was seen: count from now on. In a trial: until its end.

        `asks`: of the pods that will be asked about first; their terms are counted with the rest.
        """
        self._borne_by_pods |= borne
        if self.watching or self._counting:
            return
        self._first = list(asks)
        if self.in_steps is None:
            self._journal.record(self._clear)
            self._build()
        elif not self._journal.recording:
            self._build()

    def _build(self) -> None:
        """Count, at once or in steps."""
        if self.in_steps is None:
            for _ in self._count_all():
                pass
        else:
            self._clear()
            self._counting = True
            self.in_steps(self._count_all())

    def _count_all(self) -> Iterator[None]:
        """Nodes first, then the pods of one moment; changes after that moment are counted as they come."""
        self._clear()
        self._counting = True
        self._expect()
        for index, node in enumerate(list(self._nodes())):
            if node.name not in self._changed:
                self._know(node.name, None, node)
            if index % _STEP == 0:
                yield
        self._takes, self._changed = True, set()
        for index, shift in enumerate(self.pods()):
            self._shift(*shift)
            if index % _STEP == 0:
                yield
        self._counting, self.watching = False, True
        if self.in_steps is not None:
            self.opened()  # workloads wait for the count

    def _expect(self) -> None:
        """The first terms that are asked about get their tallies while these are empty."""
        for facts in self._first[:_KEYS]:
            for table, terms in (
                (self._asked, [*facts.apart, *(one.term for one in facts.even)]),
                (self._near, facts.together),
            ):
                for term in terms:
                    table.add(term)
                    if pairs := term.pairs():
                        self._by_label.setdefault(pairs[0][0], {})

    def waits(self, facts: PodFacts | None) -> bool:
        """Reports whether terms may decide about such a pod and are still being counted."""
        return self._counting and facts is not None and (facts.has_terms or self._borne_by_pods)

    # ---- what changes

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
        """Counts this many more pods at the place."""
        if facts is None or not self._takes:
            return
        if self._journal.recording:
            self._journal.record(partial(self._unshift, facts, place, foreign, admitted))
        if self._shift(facts, place, foreign, admitted) and self.watching:
            self.opened()

    def _unshift(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> None:
        self._shift(facts, place, -foreign, -admitted)

    def _shift(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> bool:
        """Reports whether a domain may be open now that was closed."""
        if not self._takes:
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
        """Reports whether other domains are near such a pod now."""
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
        if not self._takes:
            if self._counting:
                self._changed.add(name)
                self._know(name, old, new)
            return
        hosts = {node.labels[HOSTNAME_LABEL] for node in (old, new) if node and HOSTNAME_LABEL in node.labels}
        places = [on_node(name), *(Place(HOST, "", (host,)) for host in sorted(hosts))]
        before = [self._node(place) for place in places]
        self._know(name, old, new)
        moved = False
        for tally in (tally for table in (self._asked, self._borne, self._near) for tally in table.tallies.values()):
            for place, was in zip(places, before, strict=True):
                if place in tally.at:
                    tally.move(place, label_of(was, tally.key), self._value(place, tally.key))
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
        """Returns the node of the place; none of a wide domain, and none for a pod that cannot be bound there any more."""
        if place.kind == NODE:
            return self._named.get(place.key[0])
        some = self._on_host.get(place.key[0], {}) if place.kind == HOST else {}
        return next((some[name] for name in sorted(some) if some[name].usable), None)

    def _value(self, place: Place, key: str) -> str | None:
        return label_of(self._node(place), key)

    # ---- one term

    def selects(self, term: PodTerm, facts: PodFacts) -> bool:
        """Reports whether the term selects such a pod."""
        own = labels_of(facts.namespace, self.namespaces)
        return term.looks_into(facts.namespace, own) and term.selects(dict(facts.labels))

    def ask(self, term: PodTerm, table: TermTable) -> Tally:
        """Returns the pods that the term selects; in the table of affinity bound ones."""
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
        """Reports whether pods are found by this label, from now on."""
        if key not in self._by_label and len(self._by_label) < _KEYS:
            values: dict[str, dict[PodFacts, None]] = {}
            for facts in self._at:
                if (value := dict(facts.labels).get(key)) is not None:
                    values.setdefault(value, {})[facts] = None
            self._by_label[key] = values
        return key in self._by_label

    def inputs(self) -> Iterator[Namespace]:
        """Yields the namespaces, once their labels may matter."""
        if self.watching:
            yield from (Namespace(name, labels) for name, labels in sorted(self.namespaces.items()))

    # ---- checks

    def differences(self) -> Iterator[str]:
        """Yields where the counts disagree with the pods."""
        if not self.watching:
            return
        wanted = PodCounts(self._trees, self._nodes, Journal())
        wanted.namespaces, wanted.pods = self.namespaces, self.pods
        wanted.watch()
        if wanted._at != self._at:
            yield "pods counted for terms are not those that are placed"
        for term, tally in self._borne.tallies.items():
            other = wanted._borne.tallies.get(term)
            if other is None or other.by_value != tally.by_value or other.at != tally.at:
                yield f"pods that bear the term {term} are counted wrongly"
        for term, tally in self._asked.tallies.items():
            other = wanted.ask(term, wanted._asked)
            if other.by_value != tally.by_value or other.at != tally.at:
                yield f"pods that the term {term} selects are counted wrongly"
        for term, tally in self._near.tallies.items():
            other = wanted.ask(term, wanted._near)
            if (other.by_value, other.at, other.elsewhere) != (tally.by_value, tally.at, tally.elsewhere):
                yield f"pods that the term {term} wants to be near are counted wrongly"


def label_of(node: Node | None, key: str) -> str | None:
    """Returns the node's label."""
    return None if node is None else node.labels.get(key)


def on_node(name: str) -> Place:
    """Returns the place of a bound pod."""
    return Place(NODE, "", (name,))
