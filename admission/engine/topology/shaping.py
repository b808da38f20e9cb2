"""One gang under placement constraints (pack, spread, partition, range, factor) at any levels: sakkara.md.

Called by place.py for requests that carry constraints, whatever the profile.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Numbers
from admission.engine.topology.search import Search, Solved
from admission.engine.topology.tree import Tree


def solve(tree: Tree, ask: Ask, numbers: Sequence[Numbers], budget: int) -> Solved:
    """The domains that violate the Ask's constraints least, with a certificate; `budget`: search nodes."""
    return Solved(Search(tree, ask, numbers).run())
