"""The nodes that reach volumes, as selectors. Pure.

binding.py and shared.py use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from admission.engine.model import NodeSelectorRequirement, NodeSelectorTerm
from admission.engine.reasons import Reason
from api.pod.volumes import StorageClass, Volume

Selector = tuple[NodeSelectorTerm, ...]
"""Node selector terms, ORed, as in a pod's required node affinity."""

_MOST_TERMS: Final = 64
"""The maximum number of terms of a selector; dropping the rest may refuse a node, but never accepts one wrongly."""


class CannotBind(Exception):
    """No pod that uses the claim can be bound now; holds reason and message of the wait."""

    def __init__(self, message: str, reason: Reason = Reason.WAITING_FOR_OBJECTS) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class BoundTo:
    """The nodes that reach the claim's volume."""

    selectors: tuple[Selector, ...] = ()
    """All must match."""
    driver: str = ""
    """Attaches the volume; empty if unknown."""
    gathered: tuple[str, ...] = ()
    """Topology keys of which one domain each must hold all pods."""


def one_of(reached: Sequence[Selector | None], driver: str) -> BoundTo:
    """Returns the nodes that at least one of the selectors allows."""
    if any(each is None for each in reached):
        return BoundTo((), driver)
    return BoundTo((merged(term for each in reached for term in each or ()),), driver)


def reached_by(reached: Sequence[Selector | None], least: int) -> Selector | None:
    """Returns the nodes that at least `least` volumes reach, whichever volumes others take first; None if there are none.

    Counted are volumes that name values of one label, the same for all, and those that every node reaches.
    """
    everywhere = sum(each is None for each in reached)
    named = [values for each in reached if each is not None and (values := _values(each)) is not None]
    keys = {key for key, _ in named}
    if len(named) + everywhere < len(reached) or len(keys) != 1:
        return None
    counts = Counter(value for _, values in named for value in values)
    enough = tuple(sorted(value for value, count in counts.items() if count + everywhere >= least))
    one = NodeSelectorRequirement(key=keys.pop(), operator="In", values=enough)
    return (NodeSelectorTerm(match_expressions=(one,)),) if enough else None


def _values(selector: Selector) -> tuple[str, frozenset[str]] | None:
    """Returns key and values of a selector that lists values of one label, else None."""
    terms = merged(selector)
    one = terms[0].match_expressions[0] if len(terms) == 1 and len(terms[0].match_expressions) == 1 else None
    if one is None or one.operator != "In" or terms[0].match_fields:
        return None
    return one.key, frozenset(one.values)


def selectors(terms: Selector | None) -> tuple[Selector, ...]:
    return () if terms is None else (terms,)


def reach(volume: Volume) -> Selector | None:
    """Returns the nodes that reach the volume; None for all."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return required.node_selector_terms[:_MOST_TERMS] if required else None


def zone(volume: Volume) -> Selector | None:
    """Returns the nodes with the volume's zone labels, and those without any such labels; None for all."""
    zones = volume.zones
    if not zones:
        return None
    alike = tuple(NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in zones.items())
    without = tuple(NodeSelectorRequirement(key=key, operator="DoesNotExist") for key in zones)
    return NodeSelectorTerm(match_expressions=alike), NodeSelectorTerm(match_expressions=without)


def allowed(storage_class: StorageClass) -> Selector | None:
    """Returns the nodes for which the class provisions volumes; None for all."""
    terms = tuple(
        NodeSelectorTerm(
            match_expressions=tuple(
                NodeSelectorRequirement(key=each.key, operator="In", values=each.values)
                for each in term.match_label_expressions
            )
        )
        for term in storage_class.allowed_topologies[:_MOST_TERMS]
    )
    return terms or None


def both(first: Selector | None, second: Selector | None) -> Selector | None:
    """Returns the nodes that both selectors allow; None for all."""
    if first is None or second is None:
        return second if first is None else first
    pairs = ((a, b) for a in first for b in second)
    terms = (
        NodeSelectorTerm(
            match_expressions=(*a.match_expressions, *b.match_expressions),
            match_fields=(*a.match_fields, *b.match_fields),
        )
        for a, b in pairs
    )
    return tuple(islice(terms, _MOST_TERMS))


def named_node(name: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)),))


def merged(terms: Iterable[NodeSelectorTerm]) -> Selector:
    """Returns an equivalent selector with fewer terms: terms that only list values of one label are merged."""
    values, others = dict[str, dict[str, None]](), dict[NodeSelectorTerm, None]()
    for term in terms:
        one = term.match_expressions[0] if len(term.match_expressions) == 1 and not term.match_fields else None
        if one is not None and one.operator == "In":
            values.setdefault(one.key, {}).update(dict.fromkeys(one.values))
        else:
            others[term] = None
    made = (
        NodeSelectorTerm(
            match_expressions=(NodeSelectorRequirement(key=key, operator="In", values=tuple(sorted(each))),)
        )
        for key, each in sorted(values.items())
    )
    return (*made, *others)[:_MOST_TERMS]
