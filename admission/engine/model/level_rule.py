"""A placement constraint of one level and its rule: the shares that the level's units may have, and the figures of a share.

A new word of a constraint is a field of LevelConstraint and its violation in LevelRule; the API's PlacementConstraint has the
same field. Pure arithmetic; called by topology/shapes, where shaping.py defines the figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import lcm


class Spreading(StrEnum):
    """How the pods of a domain are distributed to its child domains: onto few of them, or evenly onto many."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class LevelConstraint:
    """A placement constraint of a pod set at one level (sakkara.md)."""

    level: str
    spreading: Spreading = Spreading.PACK
    partitions: int | None = None
    """The exact number of child domains to spread over."""
    minimum: int | None = None
    """The least pods in a used domain."""
    maximum: int | None = None
    """The most pods in a used domain."""
    factor: int | None = None
    """Divides the number of pods in a used domain."""
    hard: bool = False
    """A hard constraint is never violated, others as little as possible."""


@dataclass(frozen=True, kw_only=True)
class LevelRule(LevelConstraint):
    """A level's constraint for a gang. The class has no slots because it caches properties."""

    total: int
    """The number of the gang's pods."""
    slices: int = 1
    """Shares are always multiples of this."""
    exact: bool = False
    """Whether no pod may be outside range and factor, although the constraint is soft."""
    limit: int | None = None
    """The most pods that a unit may have, although the constraint is soft; None for any number."""

    @cached_property
    def packs(self) -> bool:
        """Reports whether the rule prefers few units (pack)."""
        return self.spreading is Spreading.PACK and self.partitions is None

    @property
    def contradictory(self) -> bool:
        """Reports whether no placement can satisfy the rule, because its numbers contradict each other or are below 1."""
        bounds = self.minimum is not None and self.maximum is not None and self.minimum > self.maximum
        some = (self.partitions, self.maximum, self.factor)
        return bounds or any(number is not None and number < 1 for number in some)

    @cached_property
    def even(self) -> bool:
        """Reports whether the shares of one parent may differ by at most one step."""
        return self.hard and not (self.packs and self.bounded)

    @cached_property
    def step(self) -> int:
        """The largest difference between shares of used units under a hard spread or partition: one pod, factor or slice."""
        return lcm(self.slices, self.factor or 1) if self.hard else self.slices

    @cached_property
    def stride(self) -> int:
        """The number that divides all shares if no pod is outside range and factor."""
        return lcm(self.slices, self.factor or 1)

    @cached_property
    def bounded(self) -> bool:
        """Reports whether the rule has a range or factor that a share can violate."""
        return self.minimum is not None or self.maximum is not None or self.factor is not None

    @cached_property
    def free(self) -> bool:
        """Reports whether the rule permits every share: it is soft, without slices and limit."""
        return not self.hard and not self.exact and self.limit is None and self.slices == 1

    def outside(self, share: int) -> int:
        """Returns the pods of a unit with this share that are outside the range, plus those beyond a multiple of the factor."""
        low = self.minimum is not None and share < self.minimum
        high = self.maximum is not None and share > self.maximum
        return (share if low or high else 0) + (share % self.factor if self.factor else 0)

    @cached_property
    def shares_without_violation(self) -> int:
        """The shares with whole slices and no pod outside range and factor, as bits."""
        low, high = max(self.minimum or 1, 1), min(self.total, self.maximum or self.total)
        return _multiples(low, high, self.stride)

    @cached_property
    def allowed(self) -> int:
        """The shares that a used unit may have, as bits."""
        if self.hard or self.exact:
            return self.shares_without_violation
        return _multiples(1, min(self.total, self.limit or self.total), self.slices)

    def alone(self) -> bool:
        """Reports whether one unit may have all pods."""
        one = self.partitions is None or self.partitions == 1 or not self.hard
        return one and bool(self.allowed >> self.total & 1)

    # ---- figures packed into one integer: the first figure in the highest bits

    @cached_property
    def low(self) -> int:
        """The number of bits for the least significant figure summed over the level, and its sign."""
        return (2 * self.total**2).bit_length()

    @cached_property
    def figure_bits(self) -> int:
        """The number of bits for the two less significant figures."""
        most = max(self.total, self.partitions) if self.partitions is not None else 1
        return self.low + (2 * self.total * most).bit_length()

    @cached_property
    def width(self) -> int:
        """The number of bits for all figures of the level."""
        return self.figure_bits + (4 * self.total).bit_length() + 1

    @cached_property
    def _prices(self) -> dict[int, int]:
        return {}

    def price(self, share: int) -> int:
        """Returns the packed contribution of one used unit with this share to the level's figures."""
        price = self._prices.get(share)
        if price is None:
            pairs = share * (share - 1) // 2
            outside = self.outside(share) << self.figure_bits
            price = outside + (1 << self.low) - pairs if self.packs else outside + pairs
            self._prices[share] = price
        return price

    def gap(self, used: int) -> int:
        """Returns by how many units `used` differs from the number of partitions; 0 without partitions."""
        return 0 if self.partitions is None else abs(used - self.partitions)

    def missing(self, used: int) -> int:
        """Returns `gap` as a packed contribution to the figures."""
        return self.gap(used) << self.low

    def unpacked(self, price: int, total: int) -> tuple[int, int, int]:
        """Returns the three figures of the level from the sum of its prices, for one parent that has all of `total` pods."""
        pairs = total * (total - 1) // 2
        if self.packs:
            price += pairs
        outside, rest = divmod(price, 1 << self.figure_bits)
        middle, last = divmod(rest, 1 << self.low)
        return outside, middle, last

    def figures(self, shares: Iterable[Iterable[int]]) -> tuple[int, int, int]:
        """Returns the three figures of the level for a placement, given the shares of the used units of each parent."""
        outside = middle = pairs = 0
        for family in shares:
            used = list(family)
            outside += sum(map(self.outside, used))
            middle += len(used) if self.packs else self.gap(len(used))
            pairs += sum(share * (share - 1) // 2 for share in used)
        return outside, middle, self.total * (self.total - 1) // 2 - pairs if self.packs else pairs

    def text(self) -> str:
        """Returns the requirements of a hard constraint as text for messages."""
        parts = []
        if self.partitions is not None:
            parts.append(f"exactly {self.partitions} partition(s)")
        elif self.even:
            parts.append("all on one" if self.packs else "evenly spread")
        if self.minimum is not None:
            parts.append(f"at least {self.minimum}")
        if self.maximum is not None:
            parts.append(f"at most {self.maximum}")
        if self.factor is not None:
            parts.append(f"multiples of {self.factor}")
        return ", ".join(parts)


def _multiples(low: int, high: int, step: int) -> int:
    """Returns the multiples of `step` from `low` to `high`, as bits."""
    if step == 1:
        return (1 << (high + 1)) - (1 << low) if low <= high else 0
    return sum(1 << share for share in range(-(-low // step) * step, high + 1, step))
