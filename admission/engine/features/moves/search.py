"""Branch and bound for the cheapest set of movers that makes room for a gang in one domain by leaving it.

A set costs (device-seconds lost, number of moves), compared in this order. The capacity that each mover frees is counted
(topology/evictions/eviction_gains.py); a set that frees enough counts only after all places were found (new_places.py).

Domains are searched in the order of their floor, a lower bound of every set there: the movers that are in every set, because
too little is free even if all others leave, and the cheapest fraction of the others, by cost per unit of capacity, that frees
the rest. Sets that could not be cheaper than the best one are not examined. Of equal sets the first one wins: in the domain of
the first name, and there in the order of cost per unit, then of names.

If the gang consists of slices that must each stay in a part of the domain, such as a rack of a block, room in the domain says
little. Then the floor is by parts, and sets that empty the cheapest parts are tried first (slices.py).

Two negative answers are no proofs: that no places were found for the movers of a set together, since their order matters, and
that the gang was not placed though counting says that it fits. The cost of such a set is then a floor, below which nothing is
proved. The same holds for domains that the budget left.

If no places are found for the movers of a set, a larger one may have them: the gang then takes the place of one mover more, and
leaves its own to another. Such sets are tried last, cheapest first (`_with_more`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush, nsmallest
from itertools import accumulate
from typing import Final

from admission.engine.decision import Certificate, Proof
from admission.engine.features.moves.movers import Mover
from admission.engine.features.moves.new_places import NewPlaces, NoPlace, PlacesOfAll
from admission.engine.features.moves.slices import first_set, lacks_slices, least_loss
from admission.engine.pauses import no_pause
from admission.engine.topology.evictions.eviction_gains import CandidateDomain

MoveCost = tuple[int, int]
"""(device-seconds lost, number of moves)."""
FREE: Final[MoveCost] = (0, 0)
PLACEMENT: Final = 25
"""A placement counts as so many examined sets."""
MOST_FIRST_SETS: Final = 4
"""Sets of a domain that are tried first for a gang of slices (slices.py)."""
MOST_ADDED: Final = 8
"""Movers that are tried in addition to a set whose movers have no places."""


@dataclass(slots=True)
class BestMoves:
    """The best set so far, the budget, the floors of what is not proved, and whether some set lacked room for its movers.

    `failed` has the sets for whose movers no places were found. `pause` is called between two sets.
    """

    budget: int
    cost: MoveCost | None = None
    places: PlacesOfAll | None = None
    expanded: int = 0
    floors: list[MoveCost] = field(default_factory=list)
    crowded: bool = False
    failed: list[tuple[MoveCost, DomainSearch, tuple[Mover, ...]]] = field(default_factory=list)
    pause: Callable[[], None] = no_pause

    def beaten_by(self, cost: MoveCost) -> bool:
        """Reports whether a set of this cost would be better."""
        return self.cost is None or cost < self.cost

    @property
    def spent(self) -> bool:
        """Reports whether the budget is used up."""
        return self.expanded >= self.budget

    def certificate(self) -> Certificate:
        """Returns the certificate for what has been proved so far."""
        if self.cost is None:
            return Certificate(
                Proof.FEASIBLE if self.floors else Proof.INFEASIBLE, (), min(self.floors, default=()), self.expanded
            )
        bound = min((*self.floors, self.cost))
        proof = Proof.OPTIMAL if bound == self.cost else Proof.FEASIBLE
        return Certificate(proof, self.cost, bound, self.expanded)


class DomainSearch:
    """The search in one domain. `movers` are those with capacity there, `exact` and `together` as in EvictionGains.

    `left` has the moves that each ClusterQueue may still make. `floor` is None if no set frees enough. A workload may be
    there twice, to be moved or to be evicted (blockers.py); a set has it once.
    """

    def __init__(
        self, domain: CandidateDomain, movers: Sequence[Mover], left: Mapping[str, int], *, exact: bool, together: bool
    ) -> None:
        self.domain, self._left, self._exact, self._together = domain, dict(left), exact, together
        self._chosen: list[Mover] = []
        self._gone_keys: set[str] = set()
        self.sifted = False
        self._set_line(movers)

    def sift(self, new_places: NewPlaces) -> None:
        """Leaves out the movers that have no other place, which raises the floor."""
        self._set_line([mover for mover in (*self._must, *self._line) if new_places.has_other_place(mover)])
        self.sifted = True

    def run(self, new_places: NewPlaces, best: BestMoves) -> None:
        """Searches for a set better than the best one, and keeps it there."""
        floor = self.floor
        if floor is None:
            return
        if not self._together:
            best.floors.append(floor)
        if lacks_slices(self.domain):
            self._by_slices(new_places, best)
        with self._gone(self._must):
            self._branch(0, _cost(self._must), new_places, best)
        if best.spent:
            best.floors.append(floor)

    def _set_line(self, movers: Iterable[Mover]) -> None:
        """Splits the movers into those of every set and the others, and computes the floor."""
        line = sorted(movers, key=self._by_ratio)
        ways = Counter(mover.key for mover in line)
        self._must = [mover for mover in self._of_every_set(line) if ways[mover.key] == 1]
        self._line = [mover for mover in line if mover not in self._must]
        self._largest = list(accumulate((self._gain(mover) for mover in reversed(self._line)), max))[::-1]
        with self._gone(self._must) as allowed:
            rest = self._bound(0, self.domain.missing) if allowed else None
        self.floor = None if rest is None else _sum(_cost(self._must), rest)
        if self.floor is not None and self.domain.slices is not None and lacks_slices(self.domain):
            least = least_loss(self.domain.slices, line)
            self.floor = None if least is None else max(self.floor, (least, 1))

    def _of_every_set(self, line: Sequence[Mover]) -> list[Mover]:
        """Returns the movers that every set has: without them too little is free, even if all others leave."""
        keys = dict.fromkeys(mover.key for mover in line)
        for key in keys:
            self.domain.evict(key)
        must = set()
        for key in keys:
            self.domain.bring_back(key)
            if self.domain.missing or lacks_slices(self.domain):
                must.add(key)
            self.domain.evict(key)
        for key in keys:
            self.domain.bring_back(key)
        return [mover for mover in line if mover.key in must]

    @contextmanager
    def _gone(self, movers: Sequence[Mover]) -> Iterator[bool]:
        """Counts the movers as gone inside the context; yields whether their queues have moves left for all of them."""
        for mover in movers:
            self._go(mover, -1)
        yield all(left >= 0 for left in self._left.values())
        for mover in reversed(movers):
            self._go(mover, +1)

    # ---- bounds

    def _gain(self, mover: Mover) -> int:
        return self.domain.gain[mover.key]

    def _by_ratio(self, mover: Mover) -> tuple[Fraction, int, str]:
        return Fraction(mover.weight, self._gain(mover)), -self._gain(mover), mover.key

    def _bound(self, start: int, missing: int) -> MoveCost | None:
        """Returns a lower bound of the cost of movers of `_line[start:]` that free so many units; None if all do not."""
        lost, left = 0, missing
        for index in range(start, len(self._line)):
            if left <= 0:
                break
            mover = self._line[index]
            gain = self._gain(mover)
            lost += mover.weight if gain <= left else -(-mover.weight * left // gain)
            left -= gain
        if left > 0:
            return None
        return lost, -(-missing // self._largest[start]) if missing else 0

    # ---- sets

    def _by_slices(self, new_places: NewPlaces, best: BestMoves) -> None:
        """Tries sets that empty the cheapest parts for the gang's slices; a mover without a place stays with its parts."""
        slices, without, movers = self.domain.slices, set[int](), (*self._must, *self._line)
        for _ in range(MOST_FIRST_SETS):
            chosen = first_set(self.domain, movers, without)
            cost = _cost(chosen)
            if slices is None or not chosen or best.spent or not best.beaten_by(cost):
                return
            with self._gone(chosen) as allowed:
                pass
            if not allowed:
                return
            missing = _placed(chosen, cost, new_places, best)
            if missing is None or missing.mover is None:
                return
            best.failed.append((cost, self, chosen))
            without |= slices.gain[missing.mover].keys()

    def _branch(self, start: int, cost: MoveCost, new_places: NewPlaces, best: BestMoves) -> None:
        missing = self.domain.missing
        enough = not missing and not lacks_slices(self.domain)
        if enough and not self._unproved(cost, new_places, best):
            return
        for index in range(start, len(self._line)):
            best.expanded += 1
            best.pause()
            rest = self._bound(index, missing)
            if best.spent or rest is None or not best.beaten_by(_sum(cost, rest)):
                return
            mover = self._line[index]
            if mover.key in self._gone_keys or (
                mover.claim is None and self._left.get(mover.admission.cluster_queue, 1) <= 0
            ):
                continue
            self._go(mover, -1)
            self._branch(index + 1, _sum(cost, (mover.weight, 1)), new_places, best)
            self._go(mover, +1)

    def _go(self, mover: Mover, back: int) -> None:
        """Counts the mover as gone (-1) or back (+1)."""
        queue = mover.admission.cluster_queue
        if queue in self._left and mover.claim is None:
            self._left[queue] += back
        if back < 0:
            self.domain.evict(mover.key)
            self._chosen.append(mover)
            self._gone_keys.add(mover.key)
        else:
            self.domain.bring_back(mover.key)
            self._gone_keys.discard(self._chosen.pop().key)

    def _unproved(self, cost: MoveCost, new_places: NewPlaces, best: BestMoves) -> bool:
        """Tries the chosen set, which frees enough by count. Reports whether a larger set may do though this one does not."""
        if not best.beaten_by(cost):
            return False
        if not self._chosen:
            return True  # the gang was tried without moves, so counting is not exact
        missing = _placed(self._chosen, cost, new_places, best)
        if missing is None:
            return False
        best.failed.append((cost, self, tuple(self._chosen)))
        return missing.mover is None and not self._exact

    def one_more(self, chosen: Sequence[Mover]) -> list[Mover]:
        """Returns the cheapest movers of the domain that may go besides the chosen ones."""
        keys, used = {mover.key for mover in chosen}, Counter(_queue(mover) for mover in chosen)
        others = (
            mover
            for mover in (*self._must, *self._line)
            if mover.key not in keys and used[queue := _queue(mover)] < self._left.get(queue, used[queue] + 1)
        )
        return nsmallest(MOST_ADDED, others, key=lambda mover: (mover.weight, mover.key, mover.claim is None))


def _queue(mover: Mover) -> str:
    """Returns the ClusterQueue whose budget the mover uses; empty if it is evicted."""
    return mover.admission.cluster_queue if mover.claim is None else ""


def _placed(movers: Sequence[Mover], cost: MoveCost, new_places: NewPlaces, best: BestMoves) -> NoPlace | None:
    """Looks for places of this set; None if it is the best one now."""
    before = new_places.placements
    places = new_places.find(movers)
    best.expanded += PLACEMENT * (new_places.placements - before)
    if isinstance(places, PlacesOfAll):
        best.cost, best.places = cost, places
        return None
    best.floors.append(cost)
    best.crowded = best.crowded or places.mover is not None
    return places


def search(searches: Sequence[DomainSearch], new_places: NewPlaces, best: BestMoves) -> None:
    """Searches the domains, lowest floor first, then larger sets; `best` has the result."""
    _smallest(searches, new_places, best)
    _with_more(new_places, best)


def _smallest(searches: Sequence[DomainSearch], new_places: NewPlaces, best: BestMoves) -> None:
    """Searches the domains for sets that free just enough."""
    line = list(searches)
    while line:
        best.pause()
        line = [one for one in line if one.floor is not None and best.beaten_by(one.floor)]
        if not line:
            return
        first = min(line, key=lambda item: (item.floor, item.domain.name))
        if best.spent:
            best.floors += [one.floor for one in line if one.floor is not None]
            return
        if not first.sifted:
            before = new_places.placements
            first.sift(new_places)
            best.expanded += PLACEMENT * (new_places.placements - before)
            continue
        line.remove(first)
        first.run(new_places, best)


def _with_more(new_places: NewPlaces, best: BestMoves) -> None:
    """Tries the sets without places again with one mover more, and so on, cheapest first."""
    line: list[tuple[MoveCost, int, DomainSearch, tuple[Mover, ...]]] = []
    seen: set[tuple[int, frozenset[int]]] = set()

    def grow(cost: MoveCost, domain: DomainSearch, chosen: tuple[Mover, ...]) -> None:
        for more in domain.one_more(chosen):
            larger, total = (*chosen, more), _sum(cost, (more.weight, 1))
            name = (id(domain), frozenset(map(id, larger)))
            if name not in seen and best.beaten_by(total):
                seen.add(name)
                heappush(line, (total, len(seen), domain, larger))

    for each in best.failed:
        grow(*each)
    while line and not best.spent:
        best.pause()
        cost, _, domain, chosen = heappop(line)
        if not best.beaten_by(cost) or _placed(chosen, cost, new_places, best) is None:
            return
        grow(cost, domain, chosen)


def _cost(movers: Sequence[Mover]) -> MoveCost:
    return sum(mover.weight for mover in movers), len(movers)


def _sum(sums: MoveCost, other: MoveCost) -> MoveCost:
    return sums[0] + other[0], sums[1] + other[1]
