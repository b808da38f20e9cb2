"""Finds the level that a word names: its node label, or the last word of that."""

from __future__ import annotations

import re
from collections.abc import Sequence

from admission.engine.ledger.ledger import Ledger


def level_named(ledger: Ledger, flavor: str, word: str) -> str | None:
    """Returns the level of the flavor that the word names; None if there is none, or more than one."""
    tree = ledger.capacity.trees.get(flavor)
    return None if tree is None else one_named(tree.shape.levels, word)


def one_named(levels: Sequence[str], word: str) -> str | None:
    """Returns the level of this label, or the only one whose label ends with the word; None if there is none."""
    if word in levels:
        return word
    short = [name for name in levels if re.split(r"[/-]", name)[-1] == word]
    return short[0] if len(short) == 1 else None
