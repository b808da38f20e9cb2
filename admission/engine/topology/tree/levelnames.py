"""Resolves level names: a name is the label key of a level, or the part of the key after the last `/`.

A user may write `rack` for `example.com/rack`, or `hostname` for `kubernetes.io/hostname`; `node` also means the level
of single hosts, as in the examples of sakkara.md. A full key always takes precedence. Names are resolved for each tree,
since one workload may be tried on flavors with different levels. Called by constraints.py for placement constraints
(required and preferred levels are always full keys).
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.model import HOSTNAME_LABEL

NODE = "node"


def resolve(name: str, levels: Sequence[str]) -> int | str:
    """Returns the index of the named level in `levels` (label keys, widest first), or why the name is unknown or ambiguous."""
    if name in levels:
        return levels.index(name)
    named = [level for level in levels if level.rpartition("/")[2] == name]
    if not named and name == NODE:
        named = [level for level in levels if level == HOSTNAME_LABEL]
    if len(named) == 1:
        return levels.index(named[0])
    if named:
        return f"level {name} could be any of: {', '.join(named)}"
    return f"no level {name}: there are {', '.join(levels)}"
