"""The sets of candidates that make room in one domain, the cheapest of them. Called by cheapest.py, whose terms it uses.

`floor` is what none of them can cost less than. `greedy` finds one quickly: whom the floor must touch anyway, those that
give most first, and then without those that are not needed after all. `run` goes through all that could be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from admission.engine.model import FlavorResource
from admission.engine.preemption.attempt import Attempt
from admission.engine.preemption.bounds import IMPOSSIBLE, Largest, Smallest
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.cost import FREE, Cost, with_one
from admission.engine.topology.relief import Site

_DEEPEST = 400
_MOST = 64


class Dive:
    """One domain's search. `site` None: nothing is known of the room, or none is asked for. `members` in the peer's order.

    `outsiders`: some of the members take no room in the domain but give quota, and at least one of those is to go.
    """

    def __init__(
        self,
        attempt: Attempt,
        site: Site | None,
        members: Sequence[Candidate],
        top_by_quota: int,
        *,
        outsiders: bool = False,
    ) -> None:
        self._attempt, self._site, self._members = attempt, site, members
        self._gains = [0 if site is None else site.gain.get(c.key, 0) for c in members]
        self._priorities = [c.workload.priority for c in members]
        self._lost = [attempt.lost[c.key] for c in members]
        self._chosen: list[Candidate] = []
        self.cut = False
        self.floor, self.possible = self._lowest(top_by_quota, outsiders)

    # ---- the floor

    def _lowest(self, top_by_quota: int, outsiders: bool) -> tuple[Cost, bool]:
        lacks = 0 if self._site is None else self._site.lacks
        for_room = _fewest(self._gains, lacks)
        for_quota = max((_fewest(self._amounts(fr), lack) for fr, lack in self._attempt.hole.quota_lacks()), default=0)
        need = max(for_room + outsiders, for_quota)
        if need >= IMPOSSIBLE:
            return FREE, False
        if not need:
            return FREE, True
        top = max(top_by_quota, self._top_by_room(lacks), min(self._priorities))
        below = sum(gain for gain, priority in zip(self._gains, self._priorities, strict=True) if priority < top)
        at_top = [gain for gain, priority in zip(self._gains, self._priorities, strict=True) if priority == top]
        important = max(1, min(_fewest(at_top, lacks - below), len(at_top)))
        return Cost(
            top, important, need, sum(nsmallest(need, self._priorities)), sum(nsmallest(need, self._lost))
        ), True

    def _top_by_room(self, lacks: int) -> int:
        """The lowest priority so that room could do if all up to it went."""
        top = FREE.top
        for priority, gain in sorted(zip(self._priorities, self._gains, strict=True)):
            if lacks <= 0:
                break
            top = priority
            lacks -= gain
        return top

    def _amounts(self, fr: FlavorResource) -> list[int]:
        return [c.usage.get(fr, 0) for c in self._members]

    # ---- a first set

    def greedy(self) -> None:
        """One set that is minimal, if one is found."""
        best = self._attempt.best
        if best.spent or (self._site is None and self._attempt.asks_for_room):
            return
        chosen = self._gathered()
        for candidate in sorted(chosen, key=self._dear, reverse=True):
            self._attempt.hole.put_back(candidate)
            if self._short():
                self._attempt.hole.take(candidate)
            else:
                chosen.remove(candidate)
        cost = self._cost(chosen)
        if not self._short() and best.beaten_by(cost) and self._lawful(chosen):
            self._attempt.accept(cost, chosen)
        for candidate in chosen:
            self._attempt.hole.put_back(candidate)

    def _gathered(self) -> list[Candidate]:
        chosen: list[Candidate] = []
        for candidate in self._by_worth():
            lacks = self._attempt.hole.quota_lacks()
            room = self._site is not None and self._site.lacks > 0
            if not (lacks or room):
                break
            self._attempt.best.expanded += 1
            gives = room and self._site is not None and candidate.key in self._site.gain
            if (gives or any(candidate.usage.get(fr, 0) for fr, _ in lacks)) and self._attempt.may_go(candidate):
                self._attempt.hole.take(candidate)
                chosen.append(candidate)
        return chosen

    def _by_worth(self) -> list[Candidate]:
        """Who must be touched anyway before who is more important; then those that give most room, then the cheap."""
        gain = {} if self._site is None else self._site.gain
        top = self.floor.top
        return sorted(self._members, key=lambda c: (c.workload.priority >= top, -gain.get(c.key, 0), self._dear(c)))

    def _dear(self, candidate: Candidate) -> tuple[int, int, str]:
        return candidate.workload.priority, self._attempt.lost[candidate.key], candidate.key

    def _lawful(self, chosen: Sequence[Candidate]) -> bool:
        """Whether they may go in the peer's order; they are out, and are again afterwards."""
        for candidate in chosen:
            self._attempt.hole.put_back(candidate)
        lawful = self._attempt.lawful(chosen)
        for candidate in chosen:
            self._attempt.hole.take(candidate)
        return lawful

    def _cost(self, chosen: Sequence[Candidate]) -> Cost:
        cost = FREE
        for candidate in chosen:
            cost = with_one(cost, candidate.workload.priority, self._attempt.lost[candidate.key])
        return cost

    # ---- all sets

    def run(self) -> None:
        """Every set that could beat the best; `cut` tells whether the budget ended it."""
        best = self._attempt.best
        if best.spent or not best.beaten_by(self.floor):
            self.cut = best.spent and best.beaten_by(self.floor)
            return
        most = min(len(self._members), _MOST if best.cost is None else best.cost.gangs + 1)
        self._room = Largest(self._gains, most)
        self._quota = {fr: Largest(self._amounts(fr), most) for fr, _ in self._attempt.hole.quota_lacks()}
        self._low_priorities, self._low_lost = Smallest(self._priorities, most), Smallest(self._lost, most)
        self._go_on(0, FREE)

    def _go_on(self, start: int, cost: Cost) -> None:
        best = self._attempt.best
        if len(self._chosen) > _DEEPEST:
            self.cut = True
            return
        lacks = [(self._quota[fr], lack) for fr, lack in self._attempt.hole.quota_lacks()]
        if self._site is not None and self._site.lacks:
            lacks.append((self._room, self._site.lacks))
        if not lacks and (not best.beaten_by(cost) or self._attempt.accept(cost, self._chosen)):
            return
        for index in range(start, len(self._members)):
            best.expanded += 1
            if best.spent:
                self.cut = True
            if self.cut:
                return
            need = max((largest.needed(index, lack) for largest, lack in lacks), default=1)
            if need >= IMPOSSIBLE or not best.beaten_by(self._with_more(cost, index, need)):
                return
            child = with_one(cost, self._priorities[index], self._lost[index])
            candidate = self._members[index]
            if best.beaten_by(child) and self._attempt.may_go(candidate):
                self._attempt.hole.take(candidate)
                self._chosen.append(candidate)
                self._go_on(index + 1, child)
                self._chosen.pop()
                self._attempt.hole.put_back(candidate)

    def _with_more(self, cost: Cost, start: int, need: int) -> Cost:
        """What the cost becomes at least with so many more of those from `start` on."""
        top = max(cost.top, self.floor.top, self._low_priorities.least(start))
        important = cost.important if cost.top == top else 0
        if top == self.floor.top:
            important = max(important, self.floor.important)
        return Cost(
            top,
            max(important, 1),
            cost.gangs + need,
            cost.priorities + self._low_priorities.sum_of(start, need),
            cost.lost + self._low_lost.sum_of(start, need),
        )

    def _short(self) -> bool:
        return (self._site is not None and self._site.lacks > 0) or not self._attempt.hole.quota_fits()


def _fewest(amounts: Sequence[int], lack: int) -> int:
    """The fewest of the amounts that add up to the lack; IMPOSSIBLE if all do not."""
    for number, amount in enumerate((0, *sorted(amounts, reverse=True))):
        lack -= amount
        if lack <= 0:
            return number
    return IMPOSSIBLE
