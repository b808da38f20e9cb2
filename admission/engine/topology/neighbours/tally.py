"""Counts the pods that one term selects by their place and by the value of the term's topology key.

Every count is a pair: pods of no admitted workload, and pods of admitted workloads. Called by counts.py and placed.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

import numpy as np

from admission.engine.model import PodFacts, PodTerm
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree

K = TypeVar("K")


NODE: Final = "node"
HOST: Final = "host"
DOMAIN: Final = "domain"
"""Kinds of places."""


class Place(NamedTuple):
    """The place of pods: a node by name, a host by hostname, or a wider domain of a flavor.

    Bound pods are on nodes; admitted pods that are not bound yet are on the host or in the domain of their assignment.
    """

    kind: str
    flavor: str
    key: tuple[str, ...]


class Tally:
    """The pods that one term selects, counted by place (`at`) and by the place's value of the topology key (`by_value`).

    `elsewhere` counts pods that an affinity term ignores because they are not bound. `wide` counts places that are wider
    domains than a host. `changes` increases when a value gets its first pod or loses its last, among all pods or among those
    of no admitted workload.
    """

    __slots__ = (
        "_by_row",
        "_known",
        "_known_by_row",
        "_rows",
        "_version",
        "at",
        "by_value",
        "changes",
        "elsewhere",
        "key",
        "wide",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.wide = 0
        self.elsewhere = 0
        self.changes = 0
        self._version = 0
        self._known: object = None
        self._known_by_row: object = None
        self._by_row: Ints = np.zeros(0, dtype=np.int64)
        self._rows: Bools | None = None
        self.at: dict[Place, tuple[int, int]] = {}
        self.by_value: dict[str, tuple[int, int]] = {}

    def shift(self, place: Place, value: str | None, foreign: int, admitted: int) -> bool:
        """Adds pods at the place, whose node has this value of the key. Reports whether a domain lost its last pod."""
        self._version += 1
        step = _add(self.at, place, foreign, admitted)
        if place.kind == DOMAIN:
            self.wide += step
        else:
            step = self._moved(value, foreign, admitted)
        return step < 0

    def move(self, place: Place, old: str | None, new: str | None) -> None:
        """Handles a place whose node got another value of the key."""
        foreign, admitted = self.at.get(place, (0, 0))
        self._moved(old, -foreign, -admitted)
        self._moved(new, foreign, admitted)

    def _moved(self, value: str | None, foreign: int, admitted: int) -> int:
        if value is None:
            return 0
        before = self.by_value.get(value, (0, 0))[0]
        step = _add(self.by_value, value, foreign, admitted)
        self.changes += step != 0 or (before == 0) != (before + foreign == 0)
        return step

    def rows(self, tree: Tree, *, empty: bool) -> Bools | None:
        """Returns the mask of rows whose node has a value with a pod; None if there is none. Ignores wide domains."""
        known = (tree, tree.matcher.changes, self.changes, empty)
        if known != self._known:
            values = self.values(empty=empty)
            self._rows = tree.matcher.with_label(self.key, values, tree.rows.size) if values else None
            self._known = known
        return self._rows

    def by_row(self, tree: Tree, *, empty: bool) -> Ints:
        """Returns the number of pods by row. Pods of a wide domain count on its first row."""
        known = (tree, tree.matcher.changes, self._version, empty)
        if known != self._known_by_row:
            counts = np.zeros(tree.rows.size, dtype=np.int64)
            for place, (foreign, admitted) in self.at.items():
                row = _row(tree, place)
                if row is not None:
                    counts[row] += foreign if empty else foreign + admitted
            self._by_row, self._known_by_row = counts, known
        return self._by_row

    def values(self, *, empty: bool) -> Collection[str]:
        """Returns the values of the key that have a pod; `empty`: as if no workload were admitted."""
        if not empty:
            return self.by_value.keys()
        return [value for value, (foreign, _) in self.by_value.items() if foreign]

    def domains(self, *, empty: bool) -> list[Place]:
        """Returns the wide domains with a pod that is not bound yet; none if `empty`."""
        return [place for place in self.at if place.kind == DOMAIN] if self.wide and not empty else []


def _row(tree: Tree, place: Place) -> int | None:
    match place.kind:
        case "node":
            return tree.row_of_node.get(place.key[0])
        case "host":
            return tree.row_of_host.get(place.key[0])
        case _:
            domain = tree.domain_row(place.key)
            return None if domain is None else tree.rows_of_domain(domain)[0]


def _add(counts: dict[K, tuple[int, int]], key: K, foreign: int, admitted: int) -> int:
    """Adds to the count of the key. Returns 1 if the key is new, -1 if its count became zero, else 0."""
    have = counts.get(key, (0, 0))
    total = (have[0] + foreign, have[1] + admitted)
    if total == (0, 0):
        return 0 if counts.pop(key, None) is None else -1
    counts[key] = total
    return int(have == (0, 0))


_EVERYWHERE: Final = ""
"""The scope of terms that may select pods of several namespaces. No namespace has this name."""


class TermTable:
    """Terms with their tallies, indexed by the namespace and labels of the pods that they may select.

    The index begins with the namespace, so that a tenant with very many terms for its own pods does not slow down others.
    `of_waiting`: the terms are those of waiting gangs, with a tally from their first use until they are dropped; else they are
    those of counted pods.
    """

    def __init__(self, *, of_waiting: bool = False) -> None:
        self.of_waiting = of_waiting
        self.tallies: dict[PodTerm, Tally] = {}
        self._by_pair: dict[tuple[str, str, str], dict[PodTerm, None]] = {}
        self._wide: dict[str, dict[PodTerm, None]] = {}

    def add(self, term: PodTerm) -> Tally:
        """Returns the tally of the term; an empty tally for a new term."""
        tally = self.tallies.get(term)
        if tally is None:
            tally = self.tallies[term] = Tally(term.key)
            pairs, scope = term.pairs(), _scope(term)
            if pairs is None:
                self._wide.setdefault(scope, {})[term] = None
            for pair in pairs or ():
                self._by_pair.setdefault((scope, *pair), {})[term] = None
        return tally

    def drop(self, term: PodTerm) -> None:
        """Removes the term and its tally."""
        if self.tallies.pop(term, None) is None:
            return
        pairs, scope = term.pairs(), _scope(term)
        if pairs is None:
            _forget(self._wide, scope, term)
        for pair in pairs or ():
            _forget(self._by_pair, (scope, *pair), term)

    def selecting(
        self, facts: PodFacts, namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterator[tuple[PodTerm, Tally]]:
        """Yields the terms that select the pod, with their tallies. `namespaces` has the labels of each namespace."""
        if not self.tallies:
            return
        labels, own = dict(facts.labels), labels_of(facts.namespace, namespaces)
        for term in list(self._possible(facts)):
            if term.looks_into(facts.namespace, own) and term.selects(labels):
                yield term, self.tallies[term]

    def _possible(self, facts: PodFacts) -> Iterator[PodTerm]:
        for scope in (_EVERYWHERE, facts.namespace):
            yield from self._wide.get(scope, ())
            for pair in facts.labels:
                yield from self._by_pair.get((scope, *pair), ())


def _scope(term: PodTerm) -> str:
    """Returns the single namespace whose pods the term may select, else `_EVERYWHERE`."""
    return term.namespaces[0] if term.by_labels is None and len(term.namespaces) == 1 else _EVERYWHERE


def _forget(index: dict[K, dict[PodTerm, None]], key: K, term: PodTerm) -> None:
    index[key].pop(term)
    if not index[key]:
        del index[key]


def labels_of(namespace: str, namespaces: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Returns the labels of a namespace; for an unknown one, the label that the API server sets on every namespace."""
    return namespaces.get(namespace) or {"kubernetes.io/metadata.name": namespace}
