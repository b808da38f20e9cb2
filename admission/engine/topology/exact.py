"""One homogeneous gang to a proved optimum where several domains are needed; where one suffices, Compatible's answer.

Called by place.py for Profile Exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.topology.constraints import Ask
from admission.engine.topology.count import Numbers
from admission.engine.topology.search import Search, Solved
from admission.engine.topology.tree import Tree


def solve(tree: Tree, ask: Ask, numbers: Sequence[Numbers], budget: int) -> Solved:
    """The best domains for the Ask, with a certificate; `budget`: search nodes that may be expanded."""
    return Solved(Search(tree, ask, numbers).run())
