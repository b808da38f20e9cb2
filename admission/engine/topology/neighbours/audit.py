"""Counts all pods anew for the terms of pods, in parts, and compares with the counts in use.

Between two parts anything may change: every change is applied to both counts, so that they agree at any moment. Called by
Ledger.auditing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admission.engine.topology.neighbours.counts import TermCounts
from admission.engine.topology.neighbours.tally import Tally, TermTable

_STEPS: Final = 16
"""The steps of a count that make one part, some milliseconds long."""
_PART: Final = 1024
"""The pods or places that one part compares."""
_WORDS: Final = ("selected by", "with", "that satisfy", "that are not bound, with")


def wrong_counts(counts: TermCounts) -> Iterator[list[str]]:
    """Yields, part by part, messages for deviations of the counts from the pods.

    Ends early if all pods have to be counted again for another reason.
    """
    if not counts.watching:
        return
    counts.audited = other = counts.beside()
    try:
        for step, _ in enumerate(other.count_all(counts)):
            if step % _STEPS == 0:
                yield []
                if counts.audited is not other:
                    return
        for wrong in _wrong(counts, other):
            yield wrong
            if counts.audited is not other:
                return
    finally:
        if counts.audited is other:
            counts.audited = None


def _wrong(counts: TermCounts, other: TermCounts) -> Iterator[list[str]]:
    known = list(counts.by_facts.keys() | other.by_facts.keys())
    for first in range(0, len(known), _PART):
        part = known[first : first + _PART]
        wrong = any(counts.by_facts.get(facts) != other.by_facts.get(facts) for facts in part)
        yield ["pods counted for terms are not those that are placed"] if wrong else []
    for table, again, words in zip(counts.tables, other.tables, _WORDS, strict=True):
        yield from _wrong_in(table, again, words)


def _wrong_in(table: TermTable, again: TermTable, words: str) -> Iterator[list[str]]:
    """A term of waiting gangs may be asked for or dropped meanwhile, so only terms in both tables are compared there."""
    wrong, places = list[str](), 0
    for term in list(table.tallies.keys() | again.tallies.keys()):
        tally, counted = table.tallies.get(term), again.tallies.get(term)
        if not (table.of_waiting and (tally is None or counted is None)) and _state(tally) != _state(counted):
            wrong.append(f"pods {words} the term {term} are counted wrongly")
        places += 1 + (0 if tally is None else len(tally.at))
        if places >= _PART:
            yield wrong
            wrong, places = [], 0
    yield wrong


def _state(tally: Tally | None) -> object:
    return None if tally is None else (tally.by_value, tally.at, tally.elsewhere)
