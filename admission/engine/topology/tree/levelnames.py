"""Which level of a topology a name means: its label key, or the part of the key after the last `/`.

A user may write `rack` for `example.com/rack`, or `hostname` for `kubernetes.io/hostname`; `node` also means the level
of single hosts, as in sakkara.md's own examples. A key written in full always means itself. Names are resolved only
when the tree is known: one workload may be tried on flavors with different levels. Pure; called by constraints.py for
placement constraints (required and preferred levels are always written in full).
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.model import HOSTNAME_LABEL

NODE = "node"


def resolve(name: str, levels: Sequence[str]) -> int | str:
    """Returns the position of the level among `levels` (label keys, widest first), or why there is not exactly one."""
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
