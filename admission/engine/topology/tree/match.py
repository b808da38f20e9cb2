"""Determines the nodes that a pod may use by taints, node selector, node affinity, and the nodes that its volumes allow.

Node properties are numbered: each row has the number of its set of taints, and the number of its value for each label key
that a requirement has named (the first use creates the column). So a requirement is evaluated once per distinct value and
spread over the rows by numpy; without taints and selectors nothing is computed. The tests and their order are placement.md
5.3, 5.15.1 and 5.15.9. Updated by tree.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
from cachetools import LRUCache

from admission.engine.model import (
    RESERVED_EFFECT,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodFacts,
    PreferredTerm,
    Taint,
    Toleration,
)
from admission.engine.topology.tree.level import Bools, Ints, grown

_REPELLING = ("NoSchedule", "NoExecute")
_NAME_FIELD = "metadata.name"
# At most as many digits as an int64 has, after some leading zeros: Python refuses to parse thousands of digits.
_INTEGER = re.compile(r"[+-]?0{0,1000}[0-9]{1,19}")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64 = range(-(2**63), 2**63)
TOLD: Final = 16
"""So many taints are told by name: messages of thousands would be longer than a status may be."""
_TOLERATIONS: Final = 16
"""Distinct tolerations for which the result of each combination of taints is kept."""
_STEP = 1024
"""The rows that `Matcher.prepare` reads in one step, of about a millisecond."""


@dataclass(frozen=True, slots=True)
class Wants:
    """A pod set's requirements on its nodes."""

    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()
    volumes: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    facts: PodFacts | None = None
    """Its pod terms; None if pod terms are not considered."""
    node_holds: tuple[str, ...] | None = ()
    """The holds whose nodes it may use; None for all."""

    @property
    def selects(self) -> bool:
        """Reports whether any requirement depends on node labels."""
        return bool(self.selector) or self.affinity is not None or bool(self.volumes)


@dataclass(frozen=True, slots=True)
class Excluded:
    """The number of rows excluded by each test; a row counts under the first test that it failed."""

    taints: Mapping[str, int]
    selector: int
    affinity: int
    volumes: int = 0
    more_taints: int = 0
    """How many further taints there are, which exclude fewest rows."""
    beyond: int = 0
    """The number of rows that these exclude."""


def taint_text(taint: Taint) -> str:
    """Returns the taint as messages write it: key=value:effect; or the hold of nodes of which it is the mark."""
    if taint.effect == RESERVED_EFFECT:
        return f"{taint.key} {taint.value}"
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Reports whether the toleration covers the taint."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    if not (_CANONICAL.fullmatch(taint.value) and _CANONICAL.fullmatch(toleration.value)):
        return False
    left, right = int(taint.value), int(toleration.value)
    if left not in _INT64 or right not in _INT64:
        return False
    return left < right if toleration.operator == "Lt" else left > right


def untolerated(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], node_holds: Collection[str] | None = ()
) -> Taint | None:
    """Returns the first NoSchedule or NoExecute taint that no toleration covers, or None; likewise the mark of a hold of
    nodes that is not among `node_holds` (None: all of them).
    """
    for taint in taints:
        if taint.effect == RESERVED_EFFECT:
            if node_holds is not None and taint.value not in node_holds:
                return taint
        elif taint.effect in _REPELLING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


class _Blocked:
    """Which combinations of taints keep pods with some tolerations away, and by which taint.

    `tolerant` is True for a combination that does not. `kind` has for each other one the number of its first untolerated taint
    among `texts`, which are sorted.
    """

    def __init__(self, combinations: Iterable[tuple[Taint, ...]], wants: Wants) -> None:
        first = [untolerated(taints, wants.tolerations, wants.node_holds) for taints in combinations]
        texts = ["" if taint is None else taint_text(taint) for taint in first]
        self.texts = sorted(set(texts) - {""})
        numbers = {text: number for number, text in enumerate(self.texts)}
        self.tolerant: Bools = np.array([taint is None for taint in first], dtype=np.bool_)
        self.kind: Ints = np.array([numbers.get(text, len(numbers)) for text in texts], dtype=np.int64)

    def most(self, classes: Ints) -> tuple[dict[str, int], int, int]:
        """Returns how many of the rows of these combinations each taint excludes, of the taints that exclude most; of the
        others their number, and how many rows they exclude.
        """
        counts = np.bincount(self.kind[classes], minlength=len(self.texts) + 1)[:-1]
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        beyond = int(counts[order[TOLD:]].sum())
        return (
            {self.texts[number]: int(counts[number]) for number in order[:TOLD].tolist()},
            max(0, len(order) - TOLD),
            beyond,
        )


class _LabelColumn:
    """The rows' values of one label (or of the node name), as numbers; -1 if the node lacks the label.

    `read` is the number of rows whose nodes have been read since the label was first asked for.
    """

    def __init__(self, value_of: Callable[[Node], str | None], size: int) -> None:
        self._value_of = value_of
        self.read = 0
        self.ids: dict[str, int] = {}
        self.rows: Ints = np.full(max(size, 1), -1, dtype=np.int64)

    def set(self, row: int, node: Node | None) -> None:
        if row >= len(self.rows):
            old = len(self.rows)
            self.rows = grown(self.rows, row + 1).astype(np.int64, copy=False)
            self.rows[old:] = -1
        value = None if node is None else self._value_of(node)
        self.rows[row] = -1 if value is None else self.ids.setdefault(value, len(self.ids))

    def holds(self, requirement: NodeSelectorRequirement, size: int) -> Bools:
        """Returns the mask of rows for which the expression is true."""
        rows = self.rows[:size]
        match requirement.operator:
            case "In":
                return self._among(rows, requirement.values)
            case "NotIn":
                return ~self._among(rows, requirement.values)
            case "Exists":
                return rows >= 0
            case "DoesNotExist":
                return rows < 0
            case "Gt" | "Lt":
                return self._beyond(rows, requirement)
            case _:
                return np.zeros(size, dtype=np.bool_)

    def _among(self, rows: Ints, values: Sequence[str]) -> Bools:
        wanted = [self.ids[value] for value in values if value in self.ids]
        if len(wanted) == 1:
            one: Bools = rows == wanted[0]
            return one
        among: Bools = np.isin(rows, wanted)
        return among

    def _beyond(self, rows: Ints, requirement: NodeSelectorRequirement) -> Bools:
        bound = int64(requirement.values[0]) if len(requirement.values) == 1 else None
        if bound is None:
            return np.zeros(len(rows), dtype=np.bool_)
        numbers = ((value_id, int64(value)) for value, value_id in self.ids.items())
        above = requirement.operator == "Gt"
        good = [i for i, number in numbers if number is not None and (number > bound if above else number < bound)]
        return np.isin(rows, good)


def int64(text: str) -> int | None:
    """Returns the integer that the text denotes; None if it is not an int64."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if value in _INT64 else None


class Matcher:
    """The labels and taints of all rows' nodes. A row without a node matches like a node without labels or taints.

    `changes` counts the calls of `set`, so that callers can cache results.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._nodes: list[Node | None] = []
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._known: LRUCache[tuple[tuple[Toleration, ...], tuple[str, ...] | None], _Blocked] = LRUCache(_TOLERATIONS)
        self._tainted = 0
        self._taint_class: Ints = np.zeros(16, dtype=np.int64)
        self._columns: dict[str, _LabelColumn] = {}
        self._names: _LabelColumn | None = None

    def set(self, row: int, node: Node | None) -> None:
        """Sets the row's node (None: no node)."""
        self.changes += 1
        while row >= len(self._nodes):
            self._nodes.append(None)
        if row >= len(self._taint_class):
            self._taint_class = grown(self._taint_class, row + 1).astype(np.int64, copy=False)
        self._nodes[row] = node
        self._set_taints(row, () if node is None else node.taints)
        for column in self._columns.values():
            column.set(row, node)
        if self._names is not None:
            self._names.set(row, node)

    def _set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        repelling = tuple(taint for taint in taints if taint.effect in (*_REPELLING, RESERVED_EFFECT))
        number = self._taint_ids.setdefault(repelling, len(self._taint_ids))
        self._tainted += (number > 0) - (int(self._taint_class[row]) > 0)
        self._taint_class[row] = number

    def node(self, row: int) -> Node | None:
        """Returns the node whose labels and taints apply to the row, or None."""
        return self._nodes[row] if row < len(self._nodes) else None

    def taints(self) -> list[tuple[Taint, ...]]:
        """Returns each combination of NoSchedule and NoExecute taints once; it may include some of deleted nodes."""
        return [taints for taints in self._taint_ids if taints]

    def feasible(self, wants: Wants, size: int) -> Bools | None:
        """Returns the mask of the first `size` rows that satisfy all requirements on nodes; None for all of them."""
        mask = self._tolerated(wants, size)
        for part in (self._selected(wants, size), self._attracted(wants, size), self._reached(wants, size)):
            if part is not None:
                mask = part if mask is None else mask & part
        return mask

    def selected(self, wants: Wants, size: int) -> Bools | None:
        """Returns the mask of rows that the node selector and required node affinity select; None for all of them."""
        mask, attracted = self._selected(wants, size), self._attracted(wants, size)
        return attracted if mask is None else mask if attracted is None else mask & attracted

    def tolerated(self, wants: Wants, size: int) -> Bools | None:
        """Returns the mask of rows without an untolerated taint; None for all of them."""
        return self._tolerated(wants, size)

    def excluded(self, wants: Wants, size: int, alive: Bools) -> Excluded:
        """Returns how many live rows each test excludes; a row counts under the first test that it fails."""
        left, counts, more, beyond = alive, dict[str, int](), 0, 0
        if self._tainted:
            blocked, classes = self._blocked(wants), self._taint_class[:size]
            counts, more, beyond = blocked.most(classes[left])
            left = left & blocked.tolerant[classes]
        numbers: list[int] = []
        for part in (self._selected(wants, size), self._attracted(wants, size), self._reached(wants, size)):
            numbers.append(0 if part is None else int(np.count_nonzero(left & ~part)))
            left = left if part is None else left & part
        selector, affinity, volumes = numbers
        return Excluded(counts, selector, affinity, volumes, more, beyond)

    def scores(self, wants: Wants, size: int) -> Ints:
        """Returns the sum of the weights of the matching preferred terms, by row."""
        total = np.zeros(size, dtype=np.int64)
        for term in wants.preferred:
            total += term.weight * self._term(term.preference, size)
        return total

    # ---- the tests

    def _blocked(self, wants: Wants) -> _Blocked:
        """Returns which combinations of taints keep these pods away."""
        key = wants.tolerations, wants.node_holds
        known = self._known.get(key)
        if known is None or len(known.kind) < len(self._taint_ids):
            known = self._known[key] = _Blocked(self._taint_ids, wants)
        return known

    def _tolerated(self, wants: Wants, size: int) -> Bools | None:
        if not self._tainted:
            return None
        tolerated: Bools = self._blocked(wants).tolerant[self._taint_class[:size]]
        return tolerated

    def _selected(self, wants: Wants, size: int) -> Bools | None:
        mask: Bools | None = None
        for key, value in wants.selector:
            part = self._column(key).holds(NodeSelectorRequirement(key=key, operator="In", values=(value,)), size)
            mask = part if mask is None else mask & part
        return mask

    def _attracted(self, wants: Wants, size: int) -> Bools | None:
        return None if wants.affinity is None else self._any_term(wants.affinity, size)

    def _reached(self, wants: Wants, size: int) -> Bools | None:
        """Returns the mask of rows that every volume allows; None for all of them."""
        mask: Bools | None = None
        for terms in wants.volumes:
            part = self._any_term(terms, size)
            mask = part if mask is None else mask & part
        return mask

    def _any_term(self, terms: Sequence[NodeSelectorTerm], size: int) -> Bools:
        mask = np.zeros(size, dtype=np.bool_)
        for term in terms:
            mask |= self._term(term, size)
        return mask

    def _term(self, term: NodeSelectorTerm, size: int) -> Bools:
        if not (term.match_expressions or term.match_fields):
            return np.zeros(size, dtype=np.bool_)
        mask = np.ones(size, dtype=np.bool_)
        for requirement in term.match_expressions:
            mask &= self._column(requirement.key).holds(requirement, size)
        for requirement in term.match_fields:
            mask &= self._field(requirement, size)
        return mask

    def _field(self, requirement: NodeSelectorRequirement, size: int) -> Bools:
        if (
            requirement.key != _NAME_FIELD
            or len(requirement.values) != 1
            or requirement.operator not in ("In", "NotIn")
        ):
            return np.zeros(size, dtype=np.bool_)
        if self._names is None:
            self._names = self._made(lambda node: node.name)
        return self._names.holds(requirement, size)

    def with_label(self, key: str, values: Iterable[str], size: int) -> Bools:
        """Returns the mask of rows whose node has one of these values of the label."""
        column = self._column(key)
        wanted = np.zeros(len(column.ids) + 1, dtype=np.bool_)  # the last cell is for rows without the label
        wanted[np.fromiter(map(column.ids.get, values, repeat(-1)), dtype=np.int64)] = True
        wanted[-1] = False
        rows: Bools = wanted[column.rows[:size]]
        return rows

    def label_ids(self, key: str, size: int) -> Ints:
        """Returns a number for each row's value of the label; -1 where its node has none."""
        return self._column(key).rows[:size]

    def prepare(self, key: str) -> Iterator[None]:
        """Reads the label of all nodes in steps; nodes may change between two steps."""
        column = self._begun(key)
        while column.read < len(self._nodes):
            self._read(column, _STEP)
            yield

    def _column(self, key: str) -> _LabelColumn:
        column = self._begun(key)
        if column.read < len(self._nodes):
            self._read(column, len(self._nodes))
        return column

    def _begun(self, key: str) -> _LabelColumn:
        column = self._columns.get(key)
        if column is None or len(column.ids) > 4 * len(self._nodes) + 64:
            column = self._columns[key] = _LabelColumn(lambda node: node.labels.get(key), len(self._nodes))
        return column

    def _made(self, value_of: Callable[[Node], str | None]) -> _LabelColumn:
        column = _LabelColumn(value_of, len(self._nodes))
        self._read(column, len(self._nodes))
        return column

    def _read(self, column: _LabelColumn, most: int) -> None:
        """Reads the label of at most so many further nodes."""
        for row in range(column.read, min(column.read + most, len(self._nodes))):
            column.set(row, self._nodes[row])
            column.read = row + 1
