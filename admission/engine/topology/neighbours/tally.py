"""Where the pods of one term are: counted by place, and by the value of the term's topology key.

Every count is a pair: pods that belong to no admitted workload, and those that do. Called by placed.py.
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
"""What is known of where a pod is."""


class Place(NamedTuple):
    """Where pods are: on the node of this name; on one with this hostname; or somewhere in a flavor's domain.

    Bound pods are on nodes, those that are not bound yet where their assignment says.
    """

    kind: str
    flavor: str
    key: tuple[str, ...]


class Tally:
    """The pods of one term. `at` by place; `by_value` by the value of the topology key, where the place says it.

    `elsewhere`: pods that are left out since they are not bound. `wide`: how many places are wide domains; `changes`: how often
    a value came or went, all pods counted or only foreign ones.
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
        """Counts this many more pods at the place, whose node has this value. Reports whether a domain has lost its
        last one."""
        self._version += 1
        step = _add(self.at, place, foreign, admitted)
        if place.kind == DOMAIN:
            self.wide += step
        else:
            step = self._moved(value, foreign, admitted)
        return step < 0

    def move(self, place: Place, old: str | None, new: str | None) -> None:
        """The node of the place has another value."""
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
        """Returns the rows whose node has one of the values; None: none has. The wide domains are left out."""
        known = (tree, tree.matcher.changes, self.changes, empty)
        if known != self._known:
            values = self.values(empty=empty)
            self._rows = tree.matcher.with_label(self.key, values, tree.rows.size) if values else None
            self._known = known
        return self._rows

    def by_row(self, tree: Tree, *, empty: bool) -> Ints:
        """Returns how many of the pods are on each row's node; those of a wide domain are counted on its first row."""
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
        """Returns the values with a pod; `empty`: as if no workload were admitted."""
        if not empty:
            return self.by_value.keys()
        return [value for value, (foreign, _) in self.by_value.items() if foreign]

    def domains(self, *, empty: bool) -> list[Place]:
        """Returns the wide domains with a pod that is on no node yet."""
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
    """1 where there was nothing before, -1 where nothing is left, else 0."""
    have = counts.get(key, (0, 0))
    total = (have[0] + foreign, have[1] + admitted)
    if total == (0, 0):
        return 0 if counts.pop(key, None) is None else -1
    counts[key] = total
    return int(have == (0, 0))


_EVERYWHERE: Final = ""
"""The scope of terms that look into more than one namespace. No namespace has this name."""


class TermTable:
    """Terms with their tallies, found by the namespace and the labels of a pod that they may select.

    By namespace first: a tenant who bears very many terms for its own pods delays no question about those of others.
    """

    def __init__(self) -> None:
        self.tallies: dict[PodTerm, Tally] = {}
        self._by_pair: dict[tuple[str, str, str], dict[PodTerm, None]] = {}
        self._wide: dict[str, dict[PodTerm, None]] = {}

    def add(self, term: PodTerm) -> Tally:
        """Returns its tally, empty for a new one."""
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
        """Forget it."""
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
        """Yields the terms that select the pod; `namespaces`: the labels of each."""
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
    """Returns the only namespace that the term looks into, else `_EVERYWHERE`."""
    return term.namespaces[0] if term.by_labels is None and len(term.namespaces) == 1 else _EVERYWHERE


def _forget(index: dict[K, dict[PodTerm, None]], key: K, term: PodTerm) -> None:
    index[key].pop(term)
    if not index[key]:
        del index[key]


def labels_of(namespace: str, namespaces: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Returns a namespace's labels; of one that is not known, the one that the API server gives each."""
    return namespaces.get(namespace) or {"kubernetes.io/metadata.name": namespace}
