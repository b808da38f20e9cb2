"""Counts all pods by their place and by what terms can select (PodFacts), with a tally for each term in use.

Nothing is counted until a pod or workload with a term appears (`watch`). The first count of all pods takes about a second
in a large cluster, so the controller has it done in steps (`in_steps`): between two steps anything may change, and no term
can be evaluated before the last step (`waits`). From then on every change updates the counts, and those of an audit (audit.py).
A term that a waiting gang has gets a tally on first use; beyond `_TALLIES` terms the least recently used tally is dropped.
Terms of existing pods have tallies of the pods that have the term. All changes go through the journal. Extended by PlacedPods
(placed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from admission.engine.journal import Journal
from admission.engine.model import HOSTNAME_LABEL, Namespace, Node, PodFacts, PodTerm
from admission.engine.topology.neighbours.tally import HOST, NODE, Place, Tally, TermTable, labels_of
from admission.engine.topology.tree.tree import Tree

_TALLIES: Final = 1024
"""The number of terms of waiting gangs that keep a tally."""
_KEYS: Final = 64
"""The number of label keys by which pods are indexed; a term with another key scans all pods once."""
_STEP: Final = 64
"""The number of nodes or pods that the first count handles in one step of about a millisecond."""

Shift = tuple[PodFacts, Place, int, int]
"""(facts, place, foreign pods, pods of admitted workloads): pods to add at a place."""
Steps = Callable[[Iterator[None]], None]
"""Runs an iterator to its end, with pauses between its steps. An iterator that was passed before is abandoned."""


class PodSource(Protocol):
    """All pods that terms may select. Implemented by allocations.py."""

    def bound(self) -> Iterable[Shift]:
        """Returns the bound pods as of the call."""

    def admitted(self) -> list[str]:
        """Returns the keys of the admitted workloads."""

    def unbound(self, workload: str) -> list[Shift]:
        """Returns the workload's pods that are not bound yet; none if it is not admitted."""


class TermCounts:
    """The counts of all pods, by place and by term.

    `namespaces` has the labels of each namespace. `watching` is True once all pods are counted, `counting` during the first
    count, and `takes` while changes of pods must be reported (`shift`). `source` has all pods. `opened` is called when a node
    may have become usable. `in_steps` runs the first count; None: at once. `by_facts` counts pods by what terms can select and
    by place, `tables` by term. `audited` is a second count of the same pods, which gets every change too.
    """

    def __init__(self, trees: Mapping[str, Tree], nodes: Callable[[], Iterable[Node]], journal: Journal) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.source: PodSource | None = None
        self.opened: Callable[[], None] = lambda: None
        self.in_steps: Steps | None = None
        self._trees, self._nodes, self._journal = trees, nodes, journal
        self._first: list[PodFacts] = []
        self._borne_by_pods = False
        self._clear()

    def _clear(self) -> None:
        self.watching = False
        self.counting = self.takes = False
        self.audited: TermCounts | None = None
        self._changed: set[str] = set()
        self._uncounted: set[str] = set()
        self.by_facts: dict[PodFacts, dict[Place, tuple[int, int]]] = {}
        self._by_label: dict[str, dict[str, dict[PodFacts, None]]] = {}
        self._of_waiting, self._near = TermTable(of_waiting=True), TermTable(of_waiting=True)
        self._borne, self._gathering = TermTable(), TermTable()
        self.tables = self._of_waiting, self._borne, self._near, self._gathering
        self._named: dict[str, Node] = {}
        self._on_host: dict[str, dict[str, Node]] = {}

    # ---- the first count

    def watch(self, *, borne: bool = False, placed_next: Iterable[PodFacts] = ()) -> None:
        """Starts to count, since a pod (`borne`) or workload with terms exists.

        Inside a trial, an immediate count lasts until the trial ends, and a count in steps is not started.
        The terms of `placed_next`, the pods to be placed next, get their tallies during the first count.
        """
        self._borne_by_pods |= borne
        if self.watching or self.counting:
            return
        self._first = list(placed_next)
        if self.in_steps is None:
            self._journal.record(self._clear)
            self._build()
        elif not self._journal.recording:
            self._build()

    def _build(self) -> None:
        """Counts all pods, at once or in steps."""
        if self.in_steps is None:
            for _ in self.count_all():
                pass
        else:
            self._clear()
            self.counting = True
            self.in_steps(self.count_all())

    def count_all(self, like: TermCounts | None = None) -> Iterator[None]:
        """Counts nodes, then the bound pods as of one moment, then the other pods of each workload as of its turn.

        Later changes are applied as they arrive. The terms of waiting gangs in `like` get their tallies too.
        """
        self._clear()
        self.counting = True
        self._expect()
        if like is not None:
            for table, given in ((self._of_waiting, like._of_waiting), (self._near, like._near)):
                for term in given.tallies:
                    table.add(term)
        for index, node in enumerate(self._nodes()):
            if node.name not in self._changed:
                self._know(node.name, None, node)
            if index % _STEP == 0:
                yield
        self.takes, self._changed = True, set()
        if self.source is not None:
            yield from self._count_pods(self.source)
        yield from self._prepare()
        self.counting, self.watching = False, True
        if self.in_steps is not None:
            self.opened()  # workloads with terms have waited for the end of the count

    def _count_pods(self, source: PodSource) -> Iterator[None]:
        workloads, number = source.admitted(), 0
        self._uncounted = set(workloads)
        for index, shift in enumerate(source.bound()):
            self._shift(*shift)
            if index % _STEP == 0:
                yield
        for workload in workloads:
            self._uncounted.discard(workload)
            for shift in source.unbound(workload):
                self._shift(*shift)
                number += 1
            if number >= _STEP:
                number = 0
                yield

    def _prepare(self) -> Iterator[None]:
        """Reads the labels of all nodes that the terms name, which the first placement would do at once."""
        for key in sorted({tally.key for table in self.tables for tally in table.tallies.values()}):
            for tree in list(self._trees.values()):
                yield from tree.matcher.prepare(key)

    def _expect(self) -> None:
        """Creates the tallies of the first terms before pods are counted, so that they need no scan later."""
        for facts in self._first[:_KEYS]:
            for table, terms in (
                (self._of_waiting, [*facts.apart, *(one.term for one in facts.even)]),
                (self._near, facts.together),
            ):
                for term in terms:
                    table.add(term)
                    if pairs := term.pairs():
                        self._by_label.setdefault(pairs[0][0], {})

    def waits(self, facts: PodFacts | None) -> bool:
        """Reports whether such a pod must wait for the first count, because pod terms may restrict it."""
        return self.counting and facts is not None and (facts.has_terms or self._borne_by_pods)

    # ---- what changes

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Sets the labels of a namespace (None: it was deleted)."""
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
        """Counts all pods again if a term selects namespaces by label and this namespace has pods."""
        if any(facts.namespace == namespace for facts in self.by_facts) and any(
            term.by_labels for table in self.tables for term in table.tallies
        ):
            self._build()

    def shift(self, facts: PodFacts | None, place: Place, foreign: int, admitted: int, workload: str = "") -> None:
        """Adds pods at the place (negative: remove): pods of no admitted workload, and pods of admitted workloads.

        `workload` is the key of the admitted workload whose pods they are, if they are not bound.
        """
        if facts is None or not self.takes:
            return
        if self._journal.recording:
            self._journal.record(partial(self._undo, facts, place, foreign, admitted, workload))
        if self._apply(facts, place, foreign, admitted, workload) and self.watching:
            self.opened()

    def _undo(self, facts: PodFacts, place: Place, foreign: int, admitted: int, workload: str) -> None:
        self._apply(facts, place, -foreign, -admitted, workload)

    def _apply(self, facts: PodFacts, place: Place, foreign: int, admitted: int, workload: str) -> bool:
        """Applies the change here and to an audit, except to a count in which the workload's turn comes later."""
        if self.audited is not None:
            self.audited._apply(facts, place, foreign, admitted, workload)
        return workload not in self._uncounted and self._shift(facts, place, foreign, admitted)

    def _shift(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> bool:
        """Applies the change. Reports whether a domain that a term excluded may be usable now."""
        if not self.takes:
            return False
        self._count(facts, place, foreign, admitted)
        tallies = [tally for _, tally in self._of_waiting.selecting(facts, self.namespaces)]
        borne = set(_borne(facts, place))
        tallies += map(self._borne.add, borne)
        left = [tally.shift(place, self._value(place, tally.key), foreign, admitted) for tally in tallies]
        left += [
            self._shift_near(tally, place, foreign, admitted)
            for _, tally in self._near.selecting(facts, self.namespaces)
        ]
        left += self._shift_gathering(facts, place, foreign, admitted)
        for term in borne:
            if not self._borne.tallies[term].at:
                self._borne.drop(term)
        return any(left)

    def _shift_gathering(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> list[bool]:
        """Applies the change to the tallies of pods with affinity terms that are not bound yet. Reports as `Tally.shift`."""
        if place.kind == NODE:
            return []
        left = []
        for term in facts.together:
            tally = self._gathering.add(term)
            left.append(tally.shift(place, self._value(place, tally.key), foreign, admitted))
            if not tally.at:
                self._gathering.drop(term)
        return left

    def _shift_near(self, tally: Tally, place: Place, foreign: int, admitted: int) -> bool:
        """Applies the change to the tally of an affinity term. Reports whether the domains that satisfy the term changed."""
        if place.kind != NODE:
            tally.elsewhere += foreign + admitted
            return not tally.elsewhere
        before = tally.changes
        tally.shift(place, self._value(place, tally.key), foreign, admitted)
        return tally.changes != before

    def _count(self, facts: PodFacts, place: Place, foreign: int, admitted: int) -> None:
        known = facts in self.by_facts
        places = self.by_facts.setdefault(facts, {})
        have = places.get(place, (0, 0))
        total = (have[0] + foreign, have[1] + admitted)
        if total == (0, 0):
            places.pop(place, None)
        else:
            places[place] = total
        if not places:
            del self.by_facts[facts]
        if known != bool(places):
            self._index(facts, bool(places))

    def _index(self, facts: PodFacts, here: bool) -> None:
        labels = dict(facts.labels)
        for key in self._by_label.keys() & labels.keys():
            if here:
                self._by_label[key].setdefault(labels[key], {})[facts] = None
            else:
                indexed = self._by_label[key].get(labels[key], {})
                indexed.pop(facts, None)
                if not indexed:
                    self._by_label[key].pop(labels[key], None)

    def node_set(self, name: str, old: Node | None, new: Node | None) -> None:
        """Handles a node that was added, removed or relabelled: its pods move to other domains."""
        if self.audited is not None:
            self.audited.node_set(name, old, new)
        if not self.takes:
            if self.counting:
                self._changed.add(name)
                self._know(name, old, new)
            return
        hosts = {node.labels[HOSTNAME_LABEL] for node in (old, new) if node and HOSTNAME_LABEL in node.labels}
        places = [on_node(name), *(Place(HOST, "", (host,)) for host in sorted(hosts))]
        before = [self._node(place) for place in places]
        self._know(name, old, new)
        moved = False
        for tally in (tally for table in self.tables for tally in table.tallies.values()):
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
        """Returns the node of the place, or None for a wide domain and for a hostname without a usable node."""
        if place.kind == NODE:
            return self._named.get(place.key[0])
        some = self._on_host.get(place.key[0], {}) if place.kind == HOST else {}
        return next((some[name] for name in sorted(some) if some[name].usable), None)

    def _value(self, place: Place, key: str) -> str | None:
        return label_of(self._node(place), key)

    def beside(self) -> TermCounts:
        """Returns a count of the same pods that has not begun."""
        other = TermCounts(self._trees, self._nodes, Journal())
        other.namespaces, other.source = self.namespaces, self.source
        return other

    # ---- one term

    def selects(self, term: PodTerm, facts: PodFacts) -> bool:
        """Reports whether the term selects such a pod."""
        own = labels_of(facts.namespace, self.namespaces)
        return term.looks_into(facts.namespace, own) and term.selects(dict(facts.labels))

    def tally_of(self, term: PodTerm, table: TermTable) -> Tally:
        """Returns the tally of the pods that the term selects, created on first use. For affinity it counts bound pods only."""
        tally = table.tallies.pop(term, None)
        if tally is not None:
            table.tallies[term] = tally  # moves to the end: the order is that of the last use
            return tally
        tally = table.add(term)
        for facts in self._possible(term):
            if self.selects(term, facts):
                for place, (foreign, admitted) in self.by_facts[facts].items():
                    if table is self._near:
                        self._shift_near(tally, place, foreign, admitted)
                    else:
                        tally.shift(place, self._value(place, term.key), foreign, admitted)
        if len(table.tallies) > _TALLIES:
            table.drop(next(iter(table.tallies)))
        return tally

    def _possible(self, term: PodTerm) -> Iterable[PodFacts]:
        pairs = term.pairs()
        if pairs is None or not (pairs and self._found_by(pairs[0][0])):
            return list(self.by_facts) if pairs is None or pairs else []
        return [facts for key, value in pairs for facts in self._by_label[key].get(value, ())]

    def _found_by(self, key: str) -> bool:
        """Reports whether pods are indexed by this label key, and creates the index if the limit permits."""
        if key not in self._by_label and len(self._by_label) < _KEYS:
            values: dict[str, dict[PodFacts, None]] = {}
            for facts in self.by_facts:
                if (value := dict(facts.labels).get(key)) is not None:
                    values.setdefault(value, {})[facts] = None
            self._by_label[key] = values
        return key in self._by_label

    def inputs(self) -> Iterator[Namespace]:
        """Yields the namespaces and their labels for a snapshot, if pods are counted."""
        if self.watching:
            yield from (Namespace(name, labels) for name, labels in sorted(self.namespaces.items()))


def label_of(node: Node | None, key: str) -> str | None:
    """Returns the node's value of the label, or None."""
    return None if node is None else node.labels.get(key)


def _borne(facts: PodFacts, place: Place) -> Iterator[PodTerm]:
    """Yields the terms by which pods at the place keep others away.

    A pod that waits for its host with a spread constraint of `min_domains` above 1 keeps the pods that the constraint selects
    off that host until it is bound: kube-scheduler takes 0 as the smallest count for it (even.py), and would refuse it.
    """
    yield from facts.apart
    if place.kind == HOST:
        yield from (replace(one.term, key=HOSTNAME_LABEL) for one in facts.even if one.min_domains > 1)


def on_node(name: str) -> Place:
    """Returns the place of a bound pod."""
    return Place(NODE, "", (name,))
