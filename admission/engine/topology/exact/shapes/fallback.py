"""The greedy fallback when the budget is spent: it chooses shares child by child, close to the rule's target.

It never violates a hard constraint: the shares that children can take are known as bits (domain_kinds.py), so a share is
chosen only if the rest still fits into the following children. No search is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from admission.engine.model import LevelRule
from admission.engine.topology.exact.shapes.domain_kinds import DomainKind
from admission.engine.topology.exact.shapes.plans import even
from admission.engine.topology.exact.shapes.share_sets import summed


def greedy_shares(kind: DomainKind, order: Sequence[DomainKind], share: int, total: int) -> list[int]:
    """Returns a share for each child in this order. The kind must be able to take `share` of the `total` pods."""
    rule = kind.rule
    if rule.even:
        return _even(kind, order, share)
    caps = [min(child.cap, total) for child in order]
    places, units = _sequence(rule, caps, share)
    for mask in (rule.shares_without_violation, rule.allowed):
        options = [kind.options(order[place], share) & mask | (not order[place].kept) for place in places]
        ahead = _ahead(options, share)
        if ahead[0] >> share & 1:
            break
    shares, left = [0] * len(order), share
    for at, place in enumerate(places):
        wanted = caps[place] if rule.packs else (left // (units - at) if at < units else 0)
        shares[place] = _nearest(min(wanted, left), left, options[at], ahead[at + 1])
        left -= shares[place]
    return shares


def _even(kind: DomainKind, order: Sequence[DomainKind], share: int) -> list[int]:
    """Returns even shares. Children with kept pods get theirs first, among them those that can have only one of the sizes."""
    counts = even(kind.rule, share, kind.parts(share))
    able = [[size for size in counts if kind.may_have(child, size)] for child in order]
    shares = [0] * len(order)
    held = [place for place, child in enumerate(order) if child.kept]
    free = [place for place, child in enumerate(order) if not child.kept]
    last = min(counts)
    for some in (held, free):
        _distribute([place for place in some if len(able[place]) == 1], able, counts, shares)
        if some is held:
            others = sum(last in able[place] for place in free)
            both = [place for place in held if len(able[place]) == 2]
            small = max(0, counts[last] - others, len(both) - (sum(counts.values()) - counts[last]))
            _distribute(both[:small], [[last]] * len(order), counts, shares)
            _distribute(both[small:], [[size for size in counts if size != last]] * len(order), counts, shares)
        _distribute([place for place in some if not shares[place]], able, counts, shares)
    return shares


def _distribute(
    places: Sequence[int], able: Sequence[Sequence[int]], counts: dict[int, int], shares: list[int]
) -> None:
    """Gives each of these children the first remaining size that it can have."""
    for place in places:
        size = next((size for size in able[place] if counts[size]), None)
        if size is not None:
            shares[place] = size
            counts[size] -= 1


def _sequence(rule: LevelRule, caps: Sequence[int], share: int) -> tuple[list[int], int]:
    """Returns the order in which children get shares, and the number of leading children that have a target share.

    These are the children with most capacity; to spread, the smallest of them come first.
    """
    places = [place for place, cap in enumerate(caps) if cap]
    places.sort(key=lambda place: (-caps[place], place))
    if rule.packs:
        return places, len(places)
    units = min(share, len(places), rule.partitions or share)
    return [*places[:units][::-1], *places[units:]], units


def _ahead(options: Sequence[int], share: int) -> list[int]:
    """Returns the sums that the children from each position on can take together, as bits."""
    every = (1 << (share + 1)) - 1
    sums = [1]
    for bits in reversed(options):
        sums.append(summed(sums[-1], bits) & every)
    sums.reverse()
    return sums


def _nearest(wanted: int, left: int, options: int, ahead: int) -> int:
    """Returns the possible share nearest to the target such that the other children can take the rest; the larger in a tie."""
    for away in range(left + 1):
        for size in (wanted + away, wanted - away):
            if 0 <= size <= left and options >> size & 1 and ahead >> (left - size) & 1:
                return size
    return 0
