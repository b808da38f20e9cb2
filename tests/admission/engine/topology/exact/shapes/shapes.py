"""Small trees and gangs under constraints, and the best placement by trying all: the reference for the shaping solver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from admission.engine.decision import Certificate, PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Counting,
    LevelConstraint,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    SliceLayer,
    Spreading,
    TopologyRequest,
)
from tests.admission.engine.topology.vectors import FLAVOR, LEVELS, ONE_CPU, SHORT, ledger, node

Path = tuple[str, ...]
Capacities = Mapping[Path, int]
"""Pods that fit, by (block, rack, host)."""
Shares = dict[Path, int]

PACK, SPREAD = Spreading.PACK, Spreading.SPREAD


def cluster(capacities: Capacities, *, budget: int = 20_000, names: Sequence[Path] | None = None) -> Ledger:
    """A ledger with these hosts, put in the order of `names`."""
    hosts = [host(path, capacities[path]) for path in names or capacities]
    return ledger(PlacementOptions(counting=Counting.NODES, exact_budget=budget), hosts)


def host(path: Path, capacity: int) -> Node:
    """A node that holds so many pods of one CPU."""
    return node("-".join(path), dict(zip(LEVELS, path, strict=False)) | {LEVELS[-1]: "-".join(path)}, capacity)


def asked(bound: str, constraints: Sequence[LevelConstraint], slices: tuple[SliceLayer, ...] = ()) -> TopologyRequest:
    """`required rack`, `preferred host`, `unconstrained`."""
    word, _, level = bound.partition(" ")
    key = SHORT.get(level)
    return TopologyRequest(
        required=key if word == "required" else None,
        preferred=key if word == "preferred" else None,
        unconstrained=True if word == "unconstrained" else None,
        constraints=tuple(constraints),
        slices=slices,
    )


def place(book: Ledger, topology: TopologyRequest, count: int) -> PlacementResult:
    """One gang of pods of one CPU, named main."""
    return book.placement.place([PlacementRequest(PodSet("main", count, ONE_CPU, topology=topology), FLAVOR, count)])


def shares_of(result: PlacementResult) -> Shares:
    """By path."""
    return {tuple(d.values[0].split("-")): d.count for d in result.assignments["main"].domains}


def proved(result: PlacementResult) -> Certificate:
    """What was proved of the gang."""
    return result.certificates["main"]


# ---- the reference: every way to share out, judged by the rules as they are written


def cost_of(capacities: Capacities, rules: Mapping[int, LevelConstraint], shares: Shares) -> tuple[int, ...]:
    """Three figures a level, then the stranded slots."""
    figures: list[int] = []
    total = sum(shares.values())
    for level in range(len(LEVELS)):
        rule = rules.get(level, LevelConstraint(""))
        packs = rule.spreading is PACK and rule.partitions is None
        outside = middle = pairs = 0
        for family in families(shares, level):
            outside += sum(_outside(rule, share) for share in family)
            pairs += sum(share * (share - 1) // 2 for share in family)
            middle += len(family) if packs else abs(len(family) - rule.partitions) if rule.partitions else 0
        figures += [outside, middle, total * (total - 1) // 2 - pairs if packs else pairs]
    return (*figures, sum(capacities[path] for path in shares) - total)


def families(shares: Shares, level: int) -> list[list[int]]:
    """The shares of the level's used units, by parent."""
    units: dict[Path, int] = {}
    for path, share in shares.items():
        units[path[: level + 1]] = units.get(path[: level + 1], 0) + share
    found: dict[Path, list[int]] = {}
    for unit, share in units.items():
        found.setdefault(unit[:-1], []).append(share)
    return list(found.values())


def _outside(rule: LevelConstraint, share: int) -> int:
    out = 0
    if (rule.minimum is not None and share < rule.minimum) or (rule.maximum is not None and share > rule.maximum):
        out = share
    return out + (share % rule.factor if rule.factor else 0)


def satisfies_hard_constraints(
    rules: Mapping[int, LevelConstraint], shares: Shares, sizes: Mapping[int, int] | None = None
) -> bool:
    """Whether every hard constraint holds, and every slice is whole."""
    for level in range(len(LEVELS)):
        rule, size = rules.get(level, LevelConstraint("")), (sizes or {}).get(level, 1)
        for family in families(shares, level):
            if any(share % size for share in family):
                return False
            if rule.hard and not _holds(rule, family, size):
                return False
    return True


def _holds(rule: LevelConstraint, family: list[int], size: int) -> bool:
    if any(_outside(rule, share) for share in family):
        return False
    if rule.partitions is None and rule.spreading is PACK:
        return len(family) == 1 or rule.minimum is not None or rule.maximum is not None or rule.factor is not None
    step = next(step for step in range(size, 10**6, size) if step % (rule.factor or 1) == 0)
    return max(family) - min(family) <= step and rule.partitions in (None, len(family))


def everything(capacities: Capacities, count: int) -> Iterator[Shares]:
    """All ways to place so many pods."""
    paths = sorted(capacities)
    for parts in product(*(range(min(capacities[path], count) + 1) for path in paths)):
        if sum(parts) == count:
            yield {path: part for path, part in zip(paths, parts, strict=True) if part}


def best(
    capacities: Capacities,
    bound: str,
    rules: Mapping[int, LevelConstraint],
    count: int,
    sizes: Mapping[int, int] | None = None,
    kept: Shares | None = None,
) -> tuple[int, ...] | None:
    """The least cost, None where nothing is allowed. `kept`: at least these stay where they are."""
    word, _, level = bound.partition(" ")
    at = LEVELS.index(SHORT[level]) if level else -1
    allowed = [
        shares
        for shares in everything(capacities, count)
        if satisfies_hard_constraints(rules, shares, sizes)
        and all(shares.get(path, 0) >= some for path, some in (kept or {}).items())
    ]
    for depth in (at,) if word == "required" else range(at, -2, -1):
        inside = [shares for shares in allowed if len({path[: depth + 1] for path in shares}) == 1]
        if inside:
            first = bounded_first(rules, depth)
            if first is not None:
                inside = [shares for shares in inside if not outside(rules, first, shares)] or lowest(
                    rules, first, inside
                )
            return min(cost_of(capacities, rules, shares) for shares in inside)
    return None


def bounded_first(rules: Mapping[int, LevelConstraint], depth: int) -> int | None:
    """The level whose range and factor go before the levels without a constraint between it and the domain that holds all."""
    first = min((level for level in rules if level > depth), default=None)
    if first is None or first == depth + 1 or rules[first].hard:
        return None
    return first


def lowest(rules: Mapping[int, LevelConstraint], level: int, every: list[Shares]) -> list[Shares]:
    """Those whose largest share at the level exceeds its maximum by least; all if it has none."""
    maximum = rules[level].maximum
    if maximum is None:
        return every
    largest = [max(maximum, *(max(family) for family in families(shares, level))) for shares in every]
    return [shares for shares, most in zip(every, largest, strict=True) if most == min(largest)]


def outside(rules: Mapping[int, LevelConstraint], level: int, shares: Shares) -> int:
    """The pods outside the level's range and factor."""
    return sum(_outside(rules[level], share) for family in families(shares, level) for share in family)


def softened(constraint: LevelConstraint) -> LevelConstraint:
    """The same as a wish."""
    return replace(constraint, hard=False)
