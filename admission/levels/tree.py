"""A plan's tree as text: the levels with their numbers of domains, and the domains with their nodes, in bounds. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from admission.levels.level_plan import Plan, PlannedFlavor
from admission.levels.oddities import LabelledNode

_UNKNOWN: Final = "no labels of a known source: name those of your levels, widest first (--level KEY --level KEY)"


def lines(plan: Plan, most: int = 60) -> list[str]:
    """Returns the text, at most `most` lines per flavor."""
    lines = [f"labels of {plan.source}" if plan.source else _UNKNOWN]
    for flavor in plan.flavors:
        nodes = _filled(flavor, plan)
        lines.append(f"ResourceFlavor {flavor.name} ({flavor.key}={flavor.value}), Topology {flavor.topology}:")
        lines += [f"  {_count(nodes, flavor.levels, at)}" for at in range(len(flavor.levels))]
        drawn = list(_drawn(nodes, flavor.levels[:-1], "  "))
        lines += drawn[:most]
        if len(drawn) > most:
            lines.append(f"  ... and {len(drawn) - most} more lines")
    return lines


def _filled(flavor: PlannedFlavor, plan: Plan) -> list[LabelledNode]:
    """Returns the nodes with the labels that the plan gives them."""
    given: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for label in plan.labels:
        given[label.node][label.key] = label.value
    return [LabelledNode(node.name, {**node.labels, **given.get(node.name, {})}) for node in flavor.nodes]


def _count(nodes: Sequence[LabelledNode], levels: Sequence[str], at: int) -> str:
    domains = {tuple(node.labels.get(key, "") for key in levels[: at + 1]) for node in nodes}
    return f"level {at + 1} {levels[at]}: {len(domains)} {'domain' if len(domains) == 1 else 'domains'}"


def _drawn(nodes: Sequence[LabelledNode], levels: Sequence[str], indent: str) -> Iterator[str]:
    """Yields the domains of each level and their numbers of nodes."""
    if not levels:
        return
    below: defaultdict[str, list[LabelledNode]] = defaultdict(list)
    for node in nodes:
        below[node.labels.get(levels[0]) or "(no label)"].append(node)
    for value, some in sorted(below.items()):
        yield f"{indent}{value}: {len(some)} {'node' if len(some) == 1 else 'nodes'}"
        yield from _drawn(some, levels[1:], f"{indent}  ")
